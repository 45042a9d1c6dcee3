"""Conversations as tokens and a loss mask, against renderings that are written here."""

import csv
import json
import pathlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import tokenizers

import recordmill
from recordmill.pipelines.cli import main
from tests.image_runs import Made, run
from tests.image_runs import make as make_any
from tests.text_models import MESSAGES, save_bpe, save_sentencepiece

pytestmark = pytest.mark.usefixtures("encoders")

Message = dict[str, Any]
Piece = tuple[str, bool, bool]  # text, whether it is a special token, whether it is learned
CHATML = ["<|im_start|>", "<|im_end|>"]
LLAMA3 = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]


def conversations() -> dict[str, list[Message]]:
    """{key: messages}, of one to four turns of very different lengths, some with a system."""
    found = {}
    texts = iter(MESSAGES)
    for number in range(90):
        messages = []
        if number % 3 == 0:
            messages.append({"role": "system", "content": f"Be  brief: {number}.\n"})
        for turn in range(1 + number % 3):
            messages.append({"role": "user", "content": f"{next(texts)} é日本\n"})
            text = next(texts)
            messages.append({"role": "assistant", "content": text * (1 + number % 7 * turn)})
        if number % 5 == 0:
            messages.append({"role": "user", "content": "bye"})
        found[f"k{number}"] = messages
    return found


def chatml(messages: list[Message]) -> Iterator[Piece]:
    for message in messages:
        learned = message["role"] == "assistant"
        yield "<|im_start|>", True, False
        yield message["role"] + "\n", False, False
        yield message["content"], False, learned
        yield "<|im_end|>", True, learned
        yield "\n", False, False


def llama3(messages: list[Message]) -> Iterator[Piece]:
    yield "<|begin_of_text|>", True, False
    for message in messages:
        learned = message["role"] == "assistant"
        yield "<|start_header_id|>", True, False
        yield message["role"], False, False
        yield "<|end_header_id|>", True, False
        yield "\n\n", False, False
        yield message["content"].strip(), False, learned
        yield "<|eot_id|>", True, learned


Encode = Callable[[str, bool], list[int]]  # of a text, and whether it is a special token


def encoded(pieces: Iterator[Piece], encode: Encode) -> tuple[list[int], list[int]]:
    """The ids, and the loss mask."""
    ids, mask = [], []
    for text, special, learned in pieces:
        some = encode(text, special)
        ids += some
        mask += [int(learned)] * len(some)
    return ids, mask


def write(path: pathlib.Path, rows: dict[str, Any], column: str = "messages") -> pathlib.Path:
    lines = (json.dumps({"id": key, column: value}) for key, value in rows.items())
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> pathlib.Path:
    return write(tmp_path_factory.mktemp("chat") / "chat.jsonl", conversations())


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> pathlib.Path:
    """A BPE of bytes with the special tokens of both templates, and a begin token of its own."""
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=["<|pad|>", "[PAD]", *CHATML, *LLAMA3],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    model.train_from_iterator(MESSAGES, trainer)
    begin = "<|begin_of_text|>"
    model.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{begin} $A", special_tokens=[(begin, model.token_to_id(begin))]
    )
    path = tmp_path_factory.mktemp("models") / "tokenizer.json"
    model.save(str(path))
    return path


def from_file(path: pathlib.Path) -> Encode:
    model = tokenizers.Tokenizer.from_file(str(path))

    def encode(text: str, special: bool) -> list[int]:
        ids = model.encode(text, add_special_tokens=False).ids
        assert not special or len(ids) == 1
        return ids

    return encode


def of_bytes(special: list[str]) -> Encode:
    return lambda text, is_special: (
        [1 + special.index(text)] if is_special else [1 + len(special) + b for b in text.encode()]
    )


def arguments(source: pathlib.Path, *options: object) -> tuple[object, ...]:
    return ("--input", source, "--key-column", "id", "--chat-column", "messages", *options)


def make(folder: pathlib.Path, *options: object) -> Made:
    made = make_any(folder, *options, command="text")
    assert main(["verify", "--dataset", str(folder), "--deep", "--quiet"]) == 0
    return made


def examples(made: Made) -> dict[str, dict[str, Any]]:
    return {
        key: example
        for split in made.manifest.splits
        for (key, _), example in made.examples(split).items()
    }


@pytest.mark.parametrize("template", [chatml, llama3])
def test_tokens_of_a_file_are_those_of_each_part(template, source, tokenizer, tmp_path):
    options = ("--tokenizer", tokenizer, "--chat-template", template.__name__)
    made = make(tmp_path / "out", *arguments(source, *options, "--features", "text,tokens"))
    encode = from_file(tokenizer)
    found = examples(made)
    assert found.keys() == conversations().keys()
    for key, messages in conversations().items():
        ids, mask = encoded(template(messages), encode)
        assert found[key]["tokens"] == ids
        assert found[key]["tokens/loss_mask"] == mask
        text = "".join(text for text, _, _ in template(messages))
        assert found[key]["text"] == [text.encode()]
        assert encode(text, False) == ids  # no content begins with a line break
    assert {one for example in found.values() for one in example["tokens/loss_mask"]} == {0, 1}


def test_the_loss_mask_is_cut_and_padded_with_the_tokens(source, tokenizer, tmp_path):
    length = 120
    made = make(
        tmp_path / "out", *arguments(source, "--tokenizer", tokenizer, "--max-length", length)
    )
    encode = from_file(tokenizer)
    sizes = set()
    padding = tokenizers.Tokenizer.from_file(str(tokenizer)).token_to_id("[PAD]")
    for key, example in examples(made).items():
        ids, mask = encoded(chatml(conversations()[key]), encode)
        sizes.add(len(ids) > length)
        rest = length - len(ids[:length])
        assert example["tokens"] == ids[:length] + [padding] * rest
        assert example["tokens/loss_mask"] == mask[:length] + [0] * rest
        assert example["tokens/mask"] == [1] * (length - rest) + [0] * rest
        assert example["tokens/length"] == [length - rest]
    assert sizes == {True, False}


@pytest.mark.parametrize("end", [None, "<|end|>"])
def test_the_loss_mask_is_packed_beside_the_tokens(end, source, tmp_path):
    length = 256
    special = [*CHATML, *([] if end is None else [end])]
    options = ["--tokenizer", "bytes", "--pack", length]
    if end is not None:
        options += ["--special-tokens", end, "--end-token", end]
    made = make(tmp_path / "out", *arguments(source, *options))
    encode = of_bytes(special)
    wanted, tokens, masks = {}, Counter(), Counter()
    for key, messages in conversations().items():
        ids, mask = encoded(chatml(messages), encode)
        if end is not None:
            ids, mask = [*ids, encode(end, True)[0]], [*mask, 0]
        wanted[key] = list(zip(ids, mask, strict=True))
        tokens[True] += len(ids)
        masks[True] += sum(mask)
    ends: dict[str, int] = {}
    for split in made.manifest.splits:
        for (name, _), example in made.examples(split).items():
            key, _, start = name.rpartition("@")
            found = list(zip(example["tokens"], example["tokens/loss_mask"], strict=True))
            segments = np.array(example["tokens/segments"])
            tokens[False] += int((segments > 0).sum())
            masks[False] += sum(example["tokens/loss_mask"])
            assert not any(mask for (_, mask), one in zip(found, segments, strict=True) if not one)
            first = found[: int((segments == 1).sum())]
            assert first == wanted[key][int(start) : int(start) + len(first)]
            ends[key] = max(ends.get(key, 0), int(start) + len(first))
            assert set(example["tokens/positions"]) >= set(range(len(first)))
    assert tokens[True] == tokens[False]
    assert masks[True] == masks[False] > 0
    assert any(0 < end < len(wanted[key]) for key, end in ends.items()) or len(ends) > 3


def test_packed_texts_are_those_of_a_loop(source, tmp_path):
    options = ("--tokenizer", "bytes", "--pack", 100, "--splits", "train=1")
    made = make(tmp_path / "out", *arguments(source, *options))
    single = make(
        tmp_path / "single", *arguments(source, "--tokenizer", "bytes", "--splits", "train=1")
    )
    joined = [
        list(zip(example["tokens"], example["tokens/loss_mask"], strict=True))
        for example in single.examples().values()
    ]
    flat = [pair for one in joined for pair in one]
    packed = [
        pair
        for example in made.examples().values()
        for pair in zip(example["tokens"], example["tokens/loss_mask"], strict=True)
    ]
    assert packed[: len(flat)] == flat
    assert set(packed[len(flat) :]) <= {(0, 0)}


def sharegpt(messages: list[Message]) -> list[Message]:
    names = {"system": "system", "user": "human", "assistant": "gpt"}
    return [{"from": names[one["role"]], "value": one["content"]} for one in messages]


def parts(messages: list[Message]) -> list[Message]:
    return [
        {**one, "content": [{"type": "text", "text": one["content"][:3]},
                            {"type": "text", "text": one["content"][3:]}]}
        for one in messages
    ]  # fmt: skip


def test_all_forms_of_conversations_give_the_same_records(source, tmp_path):
    rows = conversations()
    table = {"id": [*rows], "messages": [*rows.values()]}
    pyarrow.parquet.write_table(pa.table(table), tmp_path / "chat.parquet")
    texts = {"id": [*rows], "messages": [json.dumps(one) for one in rows.values()]}
    pyarrow.parquet.write_table(pa.table(texts), tmp_path / "texts.parquet")
    struct = {"id": [*rows], "messages": [parts(one) for one in rows.values()]}
    pyarrow.parquet.write_table(pa.table(struct), tmp_path / "parts.parquet")
    with (tmp_path / "chat.csv").open("w", newline="", encoding="utf-8") as sink:
        csv.writer(sink).writerows([["id", "messages"], *zip(*texts.values(), strict=True)])
    write(tmp_path / "gpt.jsonl", {key: sharegpt(one) for key, one in rows.items()})
    mixed = {
        key: parts(one) if number % 2 else [*sharegpt(one[:1]), *one[1:]]
        for number, (key, one) in enumerate(rows.items())
    }
    write(tmp_path / "mixed.jsonl", mixed)
    digests = {}
    for path in (source, *sorted(path for path in tmp_path.iterdir() if path.is_file())):
        made = make(tmp_path / f"{path.name}-out", *arguments(path, "--tokenizer", "bytes"))
        digests[path.name] = made.manifest.digest
    assert len(digests) == 7
    assert len({*digests.values()}) == 1, digests


def test_keys_and_splits_do_not_depend_on_the_template_or_the_file(source, tmp_path):
    table = pa.table({"messages": [*conversations().values()]})
    pyarrow.parquet.write_table(table, tmp_path / "chat.parquet")
    keys = []
    for number, path in enumerate((source, source, tmp_path / "chat.parquet")):
        made = make(
            tmp_path / f"out{number}",
            *("--input", path, "--chat-column", "messages", "--tokenizer", "bytes"),
            *("--chat-template", ("chatml", "llama3", "llama3")[number]),
            *(() if number == 2 else ("--drop-columns", "id")),
        )
        keys.append({split: made.keys(split) for split in made.manifest.splits})
    assert keys[0] == keys[1] == keys[2]
    assert len({*keys[0]["train"]}) > 60


def test_a_vocabulary_is_learned_from_the_texts_of_train(source, tmp_path):
    made = make(tmp_path / "out", *arguments(source, "--tokenizer", "whitespace"))
    lines = (made.folder / "vocabulary/tokens.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert lines[:2] == CHATML
    counts = Counter(
        token
        for key in made.keys("train")
        for text, special, _ in chatml(conversations()[key])
        for token in ([] if special else re.split("[ \t\n\v\f\r]+", text))
        if token
    )
    assert lines[2:] == sorted(counts, key=lambda token: (-counts[token], token.encode()))
    ids = {line: 2 + number for number, line in enumerate(lines)}

    def encode(text: str, special: bool) -> list[int]:
        return [ids[text]] if special else [ids.get(t, 1) for t in text.split()]

    for key, example in examples(made).items():
        ids_of_key, mask = encoded(chatml(conversations()[key]), encode)
        assert (example["tokens"], example["tokens/loss_mask"]) == (ids_of_key, mask)
    again = ("--learned-from", made.folder, "--tokenizer", "whitespace", "--max-unknown", 0.9)
    same = make(tmp_path / "again", *arguments(source, *again))
    assert same.manifest.files == made.manifest.files


def test_another_template_is_not_learned_from(source, tmp_path, capsys):
    made = make(tmp_path / "out", *arguments(source, "--tokenizer", "chars"))
    again = ("--learned-from", made.folder, "--tokenizer", "chars", "--chat-template", "llama3")
    assert run("text", *arguments(source, *again, "--output", tmp_path / "no")) == 2
    assert "chat-template is llama3, and was chatml" in " ".join(capsys.readouterr().err.split())
    assert main(["export-transform", "--dataset", str(made.folder), "--output", "model"]) == 2
    assert "conversations (--chat-column)" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("unit", ["chars", "tokens"])
def test_limits_apply_to_rendered_conversations(unit, source, tmp_path):
    limits = ("--tokenizer", "bytes", f"--min-{unit}", 300, f"--max-{unit}", 900)
    made = make(tmp_path / "out", *arguments(source, *limits, "--chat-template", "llama3"))
    encode = of_bytes(LLAMA3)
    sizes = {
        key: len(encoded(llama3(one), encode)[0])
        if unit == "tokens"
        else sum(len(text) for text, _, _ in llama3(one))
        for key, one in conversations().items()
    }
    assert examples(made).keys() == {key for key, size in sizes.items() if 300 <= size <= 900}
    assert min(sizes.values()) < 300
    assert max(sizes.values()) > 900


def test_equal_conversations_are_duplicates_whatever_their_case(tmp_path):
    rows = dict([*conversations().items()][:20])
    loud = [{**one, "content": one["content"].upper()} for one in rows["k1"]]
    turned = [{**one, "role": "assistant"} for one in rows["k2"]]
    rows |= {"z1": loud, "z2": turned}
    path = write(tmp_path / "chat.jsonl", rows)
    made = make(tmp_path / "out", *arguments(path, "--tokenizer", "bytes", "--dedup", "drop"))
    assert rows.keys() - examples(made).keys() == {"z1"}


def test_near_duplicates_stay_in_one_split(tmp_path):
    rows = {}
    for key, messages in conversations().items():
        if sum(len(one["content"]) for one in messages) > 500:
            last = {**messages[-1], "content": f"{messages[-1]['content']} So."}
            rows |= {key: messages, f"{key}+": [*messages[:-1], last]}
    path = write(tmp_path / "chat.jsonl", rows)
    options = ("--tokenizer", "bytes", "--near-duplicates", "drop")
    made = make(tmp_path / "out", *arguments(path, *options))
    assert len(rows) > 20
    assert {key.rstrip("+") for key in rows} == {key.rstrip("+") for key in examples(made)}
    assert len(examples(made)) < 0.7 * len(rows)


def test_a_message_of_the_assistant_may_have_no_weight(tmp_path):
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "bc", "weight": 0},
        {"role": "assistant", "content": "de", "weight": 1},
    ]
    path = write(tmp_path / "chat.jsonl", {"k": messages, "m": messages[:1] + messages[2:]})
    made = make(tmp_path / "out", *arguments(path, "--tokenizer", "bytes"))
    encode = of_bytes(CHATML)
    pieces = [
        (text, special, learned and text != "bc") for text, special, learned in chatml(messages)
    ]
    pieces[8] = ("<|im_end|>", True, False)
    assert examples(made)["k"]["tokens/loss_mask"] == encoded(iter(pieces), encode)[1]


def test_an_empty_system_message_is_none(tmp_path):
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    blank = [{"role": "system", "content": " \n"}, *messages]
    path = write(tmp_path / "chat.jsonl", {"k": blank, "m": messages})
    made = make(tmp_path / "out", *arguments(path, "--tokenizer", "bytes"))
    assert examples(made)["k"] == examples(made)["m"]


def test_the_loader_gives_a_loss_mask_of_one_shape(source, tmp_path):
    options = ("--tokenizer", "bytes", "--rename", "tokens/loss_mask=loss_mask")
    made = make(tmp_path / "out", *arguments(source, *options, "--pack", 64))
    batch = next(iter(recordmill.load(str(made.folder), "train", batch_size=8)))
    assert batch["tokens"].shape == batch["loss_mask"].shape == (8, 64)
    assert {*np.unique(batch["loss_mask"])} == {0, 1}


ASKED = {"role": "user", "content": "a"}
TOLD = {"role": "assistant", "content": "b"}


REJECTS: list[tuple[Any, str]] = [
    (None, "a conversation without messages"),
    ([], "a conversation without messages"),
    ("hello", "expected a list of messages, got a text that is not JSON"),
    ({"role": "user"}, "expected a list of messages, got {'role': 'user'}"),
    (["a"], "message 1: expected role and content, got 'a'"),
    ([{"content": "a"}], "message 1: expected role and content, or from and value; it has neither"
     " role nor from"),
    ([ASKED], "expected a message of the assistant, without weight 0, to train on"),
    ([ASKED, {**TOLD, "weight": 0}],
     "expected a message of the assistant, without weight 0, to train on"),
    ([ASKED, {**TOLD, "weight": 0.5}], "message 2: expected weight 0 or 1, got 0.5"),
    ([ASKED, {**TOLD, "role": "bot"}], "message 2: unknown role 'bot': expected system, user,"
     " human, assistant, gpt"),
    ([ASKED, {**TOLD, "role": 3}], "message 2: unknown role 3: expected system, user, human,"
     " assistant, gpt"),
    ([ASKED, {**TOLD, "role": "tool"}], "message 2 has the role 'tool': tool calls are not"
     " supported"),
    ([ASKED, {"role": "assistant", "content": None, "tool_calls": [{"id": "x"}]}],
     "message 2 has tool_calls: expected only text"),
    ([ASKED, {**TOLD, "content": [{"type": "image_url", "image_url": "x"}]}],
     "message 2 has a part of type 'image_url': expected only text"),
    ([ASKED, {**TOLD, "content": 7}], "message 2: expected a text as content, got 7"),
    ([ASKED, {**TOLD, "content": " "}], "message 2, of the assistant, is empty"),
    ([{**ASKED, "content": None}, TOLD], "message 1, of the user, is empty"),
    ([ASKED, {"role": "system", "content": "x"}, TOLD], "message 2 is a system message: expected"
     " it only as the first message"),
    ([{"role": "system", "content": "x"}] * 2 + [ASKED, TOLD], "message 2 is a system message:"
     " expected it only as the first message"),
    ([ASKED, {**TOLD, "content": "x<|im_end|>"}],
     "message 2 contains <|im_end|>, a special token of the template"),
    ([ASKED, {**TOLD, "content": "\uff1c\uff5cim_end\uff5c\uff1e"}],
     "message 2 contains <|im_end|>, a special token of the template"),
]  # fmt: skip


@pytest.mark.parametrize("form", ["lists", "texts"])
def test_invalid_conversations_are_rejected(form, tmp_path):
    rows = {f"k{number}": value for number, (value, _) in enumerate(REJECTS)}
    if form == "texts":
        rows = {
            key: value if isinstance(value, str) or value is None else json.dumps(value)
            for key, value in rows.items()
        }
    path = write(tmp_path / "chat.jsonl", {**rows, "good": [ASKED, TOLD]})
    made = make(
        tmp_path / "out",
        *arguments(path, "--tokenizer", "bytes", "--max-reject-fraction", 1),
    )
    assert [*examples(made)] == ["good"]
    found = {}
    for line in (made.folder / "rejects.jsonl").read_text(encoding="utf-8").splitlines():
        reject = json.loads(line)
        found[reject["key"]] = (reject["reason"], reject["detail"])
    empty = ("without messages", "is empty")
    assert found == {
        f"k{number}": (
            "empty" if why.endswith(empty) else "bad_value",
            f"row {number + 1}: column 'messages': {why}",
        )
        for number, (_, why) in enumerate(REJECTS)
    }


def test_conversations_that_are_no_text_are_rejected(tmp_path):
    bad = pa.array([b"a", b"\xff", b"c", b"d"]).view(pa.string())
    roles = pa.array(["user", "assistant"] * 2)
    structs = pa.StructArray.from_arrays([roles, bad], ["role", "content"])
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 4], pa.int32()), structs)
    pyarrow.parquet.write_table(
        pa.table({"id": ["x", "y"], "messages": lists}), tmp_path / "a.parquet"
    )
    more = arguments(tmp_path / "a.parquet", "--tokenizer", "bytes", "--max-reject-fraction", 1)
    made = make(tmp_path / "out", *more, "--splits", "train=1")
    assert (*examples(made), made.rejects) == ("y", {"x": "bad_value"})
    surrogate = (
        '{"id": "x", "messages": "[{\\"role\\": \\"user\\", \\"content\\": \\"\\\\ud800\\"}]"}'
    )
    (tmp_path / "b.jsonl").write_text(
        f"{surrogate}\n{json.dumps({'id': 'y', 'messages': [ASKED, TOLD]})}\n"
    )
    more = arguments(tmp_path / "b.jsonl", "--tokenizer", "bytes", "--max-reject-fraction", 1)
    made = make(tmp_path / "other", *more, "--splits", "train=1")
    assert (*examples(made), made.rejects) == ("y", {"x": "bad_value"})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "--chat-column messages: requires --tokenizer"),
        (("--features", "text"), "--chat-column messages: requires --tokenizer"),
        (("--tokenizer", "bpe"), "not available with a SentencePiece model"),
        (("--tokenizer", "bytes", "--chunk", 9), "cannot be combined with --chunk"),
        (("--tokenizer", "words", "--features", "tokens,bow"), "combined with --features"),
        (("--tokenizer", "bytes", "--text-column", "id"), "cannot be combined with --text-column"),
        (("--tokenizer", "bytes", "--chat-template", "alpaca"), "chatml, llama3"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_is_an_error(options, words, source, tmp_path, capsys):
    assert run("text", *arguments(source, *options, "--output", tmp_path / "out")) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_tokenizer_files_without_the_tokens_are_an_error(source, tmp_path, capsys):
    for path, words in (
        (
            save_bpe(tmp_path),
            "chatml: the tokenizer file has no token <|im_start|>: use another",
        ),
        (save_sentencepiece(tmp_path), "not available with a SentencePiece model"),
    ):
        argv = arguments(source, "--tokenizer", path, "--output", tmp_path / "out")
        assert run("text", *argv) == 2
        assert words in " ".join(capsys.readouterr().err.split())


def test_a_template_that_a_tokenizer_file_fits_is_advised(source, tmp_path, capsys):
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a"))
    model.add_special_tokens(LLAMA3)
    model.save(str(tmp_path / "llama.json"))
    options = ("--tokenizer", tmp_path / "llama.json", "--output", tmp_path / "out")
    assert run("text", *arguments(source, *options)) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "no token <|im_start|>: use --chat-template llama3, or add the token" in message
    assert run("text", *arguments(source, *options, "--chat-template", "llama3")) == 0


@pytest.mark.parametrize("more", [{}, {"score": 1, "where": "web"}])
@pytest.mark.parametrize("name", ["messages", "conversations"])
@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_a_column_of_conversations_is_named_in_the_advice(ending, name, more, tmp_path, capsys):
    rows = [{name: one, **more} for one in conversations().values()]
    path = tmp_path / f"chat.{ending}"
    if ending == "jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        pyarrow.parquet.write_table(pa.Table.from_pylist(rows), path)
    argv = ("--input", path, "--tokenizer", "bytes", "--output", tmp_path / "out")
    assert run("text", *argv) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert f"--chat-column {name}" in message
    assert run("text", *argv, "--chat-column", name) == 0
