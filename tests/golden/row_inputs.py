"""Tables, texts and series of the golden matrix, in every format of rows."""

from __future__ import annotations

import datetime
import gzip
import io
import json
import lzma
import pathlib
import zipfile
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

from tests.golden.inputs import lines_of, makes, put
from tests.paths import AIR, SMS

_START = datetime.datetime(2026, 1, 1)


def _people(rows: int = 60) -> list[list[object]]:
    """name, age, height, born, member, team, ward, fold, weight; some without a value."""
    found: list[list[object]] = [
        ["name", "age", "height", "born", "member", "team", "ward", "fold", "weight"]
    ]
    for n in range(rows):
        name = "" if n % 5 == 0 else f"né{n % 9}"
        age = "" if n % 7 == 0 else n % 60
        team = ("red", "blue", "green", "red", "red")[n % 5]
        fold = ("train", "train", "test", "valid")[n % 4]
        born = f"2024-01-{n % 28 + 1:02}"
        found.append(
            [
                name,
                age,
                n / 8,
                born,
                ("true", "false")[n % 3 == 0],
                team,
                f"w{n // 4}",
                fold,
                n % 3 + 1,
            ]
        )
    return found


@makes(
    "team.csv team.tsv team.csv.gz team.jsonl team.parquet team.arrow team.avro teams "
    "semicolon.csv latin.csv utf16.csv bom.csv crlf.csv headless.csv preamble.csv"
)
def _formats(root: pathlib.Path) -> None:
    """The same rows in each format and spelling."""
    import fastavro

    header, *rows = _people()
    text = lines_of(header, *rows)
    put(root / "team.csv", text)
    put(root / "team.csv.gz", gzip.compress(text.encode(), mtime=0))
    put(root / "team.tsv", text.replace(",", "\t"))
    put(root / "crlf.csv", text.replace("\n", "\r\n"))
    put(root / "bom.csv", b"\xef\xbb\xbf" + text.encode())
    put(root / "latin.csv", text.encode("latin-1"))
    put(root / "utf16.csv", text.encode("utf-16"))
    put(root / "semicolon.csv", text.replace(".", "§").replace(",", ";").replace("§", ","))
    put(root / "headless.csv", text.partition("\n")[2])
    put(root / "preamble.csv", f"# exported\nteam report\n{text}")
    for number in range(3):
        put(root / f"teams/{number}.csv", lines_of(header, *rows[number::3]))
    put(root / "teams/_SUCCESS", "")
    values = [
        [
            row[0] or None,
            row[1] if row[1] != "" else None,
            row[2],
            row[3],
            row[4] == "true",
            *row[5:],
        ]
        for row in rows
    ]
    objects = [dict(zip(header, row, strict=True)) for row in values]
    put(root / "team.jsonl", "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in objects))
    columns = {name: [row[n] for row in values] for n, name in enumerate(header)}
    columns["born"] = [datetime.date.fromisoformat(str(one)) for one in columns["born"]]
    table = pa.table(columns)
    pq.write_table(table, root / "team.parquet", row_group_size=20)
    pyarrow.feather.write_feather(table, str(root / "team.arrow"), chunksize=20)
    types = {"age": ["null", "long"], "name": ["null", "string"], "height": "double",
             "member": "boolean", "weight": "long"}  # fmt: skip
    fields = [{"name": name, "type": types.get(str(name), "string")} for name in header]
    schema = {"type": "record", "name": "row", "fields": fields}
    with (root / "team.avro").open("wb") as sink:
        fastavro.writer(sink, schema, objects, sync_marker=b"s" * 16)


@makes("people.csv adult.csv")
def _adults(root: pathlib.Path) -> None:
    jobs = ("clerk", "cook", "pilot")
    rows = [
        (20 + n % 50, n % 41, "office" if n % 3 else "?", jobs[n % 3], f" {n % 4 == 0}")
        for n in range(120)
    ]
    put(root / "people.csv", lines_of("age,hours,work,job,income", *rows))
    put(root / "adult.csv", lines_of("age,hours,workclass,occupation,income", *rows))


@makes("may.csv june.csv air.csv air.pbtxt")
def _months(root: pathlib.Path) -> None:
    for name, shift in (("may", 0), ("june", 3)):
        rows = [
            (f"{n * 7 % 50 + shift}.5", ("Rome", "Oslo", "Bern")[n % 3], n % 9) for n in range(60)
        ]
        put(root / f"{name}.csv", lines_of("income,city,visits", *rows))
    lines = AIR.read_text().splitlines()[:80]
    cells = [line.replace(",", ".").split(";")[2:9] for line in lines]
    put(root / "air.csv", lines_of(*cells))
    types = ["FLOAT" if any("." in row[n] for row in cells[1:]) else "INT" for n in range(7)]
    features = zip(cells[0], types, strict=True)
    put(root / "air.pbtxt", "".join(f'feature {{ name: "{n}" type: {t} }}\n' for n, t in features))


@makes(
    "odd-values.csv quotes.csv open-quotes.csv ragged.csv ids.csv dates.csv spellings.csv "
    "repeated.csv conflicts.csv labels-alike.csv multi.csv multi.jsonl headers-in-rows.csv "
    "thousands.csv upper-columns"
)
def _odd_rows(root: pathlib.Path) -> None:
    put(root / "odd-values.csv", lines_of(
        "x,y,z,label", *((n, n / 3, "1e400" if n == 7 else n, "ab"[n % 2]) for n in range(20)),
        ("NA", "nan", "inf", "a"), ("?", "-", 3, "b"), (" 5 ", "", 4, "NA"), ("07", "1,5", 5, "b"),
    ))  # fmt: skip
    rows = "".join(f'{n},"say ""{n}"", again",{"ab"[n % 2]}\n' for n in range(12))
    put(root / "quotes.csv", f'x,text,label\n{rows}99,"two\nlines",a\n98,5" pipe,b\n')
    few = "".join(f"text {n},{'ab'[n % 2]}\n" for n in range(9))
    put(root / "open-quotes.csv", f'text,label\n{few}"two, a\nlines",b\n"three\nlines",a\n')
    put(root / "ragged.csv", "x,y,label\n1,2,a\n3,4\n5,6,7,b\n\n8,9,b\n10,11,a\n")
    put(
        root / "ids.csv",
        lines_of("id,x,label", *((f"{n:04}", n % 7, "ab"[n % 2]) for n in range(30))),
    )
    put(root / "dates.csv", lines_of("day,at,label", *(
        (f"{n + 1:02}/{n % 12 + 1:02}/2026", f"2026-01-{n + 1:02} {n % 24:02}:30:00", "ab"[n % 2])
        for n in range(24)
    )))  # fmt: skip
    names = ("Yes", "yes", " yes", "No", "no", "N/A", "0", "1", "1.0", "true", "True")
    put(root / "spellings.csv", lines_of("x,label", *((n, names[n % 11]) for n in range(44))))
    put(
        root / "labels-alike.csv",
        lines_of("x,label", *((n, ("café", "cafe\u0301", "tea")[n % 3]) for n in range(30))),
    )
    put(
        root / "repeated.csv",
        lines_of("x,y,label", *((n % 10, n % 5, "ab"[n % 5 == 0]) for n in range(40))),
    )
    put(
        root / "conflicts.csv",
        lines_of(
            "id,x,label",
            *((f"k{n % 12 if n < 20 else n}", n % 10, "ab"[n % 3 == 0]) for n in range(30)),
        ),
    )
    tags = [
        ";".join(t for k, t in enumerate(("red", "round", "soft")) if n % (k + 2) == 0)
        for n in range(30)
    ]
    put(
        root / "multi.csv",
        lines_of("text,tags", *((f"thing {n}", tag) for n, tag in enumerate(tags))),
    )
    objects = [
        {"text": f"thing {n}", "label": t.split(";") if t else [], "from": {"day": n % 5}}
        for n, t in enumerate(tags)
    ]
    put(root / "multi.jsonl", "".join(f"{json.dumps(one)}\n" for one in objects))
    put(root / "headers-in-rows.csv", "x,label\n1,a\n2,b\nx,label\n3,a\n4,b\n")
    put(
        root / "thousands.csv",
        lines_of("price,label", *((f"{n}.000", "ab"[n % 2]) for n in range(1, 20))),
    )
    put(root / "upper-columns/columns-0.csv", "Text,label\nx,a\ny,b\n")
    put(root / "upper-columns/columns-1.csv", "text,label\nx,a\ny,b\n")


@makes(
    "rare.csv blank-groups.csv unnamed.csv large.csv commented.csv escaped.csv repeated-times.csv "
    "shared some-short"
)
def _noted(root: pathlib.Path) -> None:
    """Rows of which a note says something, or that an option of CSV reads."""
    rare = [(f"text {n}", "a" if n else "b") for n in range(50)]
    put(root / "rare.csv", lines_of("text,label", *rare))
    owners = ("Ann", "ann ", "", "Bob", " ")
    groups = [(f"text {n}", n, owners[n % 5], "ab"[n % 2]) for n in range(40)]
    put(root / "blank-groups.csv", lines_of("text,x,owner,label", *groups))
    put(root / "unnamed.csv", lines_of(",x,label", *((n, n / 2, "ab"[n % 2]) for n in range(20))))
    large = [(f"{16777216 + n}.5", "ab"[n % 2]) for n in range(20)]
    put(root / "large.csv", lines_of("x,label", *large))
    put(root / "commented.csv", "# a comment\nx,label\n1,a\n#2,b\n3,b\n4,a\n")
    put(root / "escaped.csv", 'x,text,label\n1,"say \\"no\\"",a\n2,plain,b\n3,a\\,b,a\n')
    times = [(f"{t}", n % 5) for n, t in enumerate(_minutes(60)) for _ in range(1 + (n % 20 == 0))]
    put(root / "repeated-times.csv", lines_of("time,x", *times))
    same = lines_of("time,x", *((f"{t}", n * n % 17) for n, t in enumerate(_minutes(40))))
    for name in "abcdef":
        put(root / f"shared/{name}.csv", same)
    for number in range(12):
        rows = [(f"{t}", n) for n, t in enumerate(_minutes(5 * number + 2))]
        put(root / f"some-short/{number}.csv", lines_of("time,x", *rows))


# Texts


def _messages(count: int = 60) -> list[tuple[str, str]]:
    lines = SMS.read_text(encoding="utf-8").split("\n")[1 : count + 1]
    return [tuple(line.split("\t", 1)) for line in lines]  # type: ignore[misc]


@makes(
    "reviews odd-reviews lines reviews-listed.csv reviews-by-id.csv reviews.csv spam.tsv spam.csv "
    "articles.csv qa.jsonl corpus.jsonl pairs.csv windows-1252.csv odd-texts.jsonl annotated-texts"
)
def _texts(root: pathlib.Path) -> None:
    messages = _messages()
    for n, (label, text) in enumerate(messages[:24]):
        for folder in ("reviews", "odd-reviews"):
            put(root / f"{folder}/{label}/{n:02}.txt", text)
        put(root / f"annotated-texts/texts/{n:02}.txt", text)
        put(root / f"annotated-texts/annotations/{n:02}.ann", f"T1\tspan 0 3\t{text[:3]}")
    put(root / "odd-reviews/ham/empty.txt", " \n")
    put(root / "odd-reviews/ham/latin.txt", b"caf\xe9")
    listed = [(f"{label}/{n:02}", label, n / 2) for n, (label, _) in enumerate(messages[:24])]
    put(root / "reviews-by-id.csv", lines_of("id,label,score", *listed))
    odd = [("ham/latin.txt", "ham", 1), ("ham/gone.txt", "ham", 2)]
    odd = [*((f"{name}.txt", *rest) for name, *rest in listed), *odd]
    files = [(f"odd-reviews/{name}", *rest) for name, *rest in odd]
    put(root / "reviews-listed.csv", lines_of("filename,label,score", *files))
    rows = [("bad" if n % 3 else "good", f"review {n} is {n % 7}") for n in range(90)]
    put(root / "reviews.csv", lines_of("label,text", *rows))
    put(
        root / "spam.tsv",
        "".join(f"{label}\t{text}\n" for label, text in (("label", "text"), *messages)),
    )
    people = [
        (label, text, f"user {n // 4}", n % 4 + 1) for n, (label, text) in enumerate(messages)
    ]
    put(root / "spam.csv", lines_of("label,text,sender,weight", *people))
    base = " ".join(text for _, text in messages[:6]).split()
    articles = []
    for n in range(24):
        words = base[n % 4 * 9 :]
        articles.append(("ab"[n % 2], " ".join(words[: 60 - n % 3] + ["end"] * (n % 5 == 0))))
    put(root / "articles.csv", lines_of("label,text", *articles))
    qa = [
        {"question": f"what is {n}?", "answer": text, "label": "ab"[n % 2]}
        for n, (_, text) in enumerate(messages[:30])
    ]
    put(root / "qa.jsonl", "".join(f"{json.dumps(one)}\n" for one in qa))
    put(root / "corpus.jsonl", "".join(f"{json.dumps({'body': text})}\n" for _, text in messages))
    put(
        root / "pairs.csv",
        lines_of(
            "label,first,second", *((a, t[: len(t) // 2], t[len(t) // 2 :]) for a, t in messages)
        ),
    )
    put(
        root / "windows-1252.csv",
        lines_of("label,text", *(("ab"[n % 2], f"“café” {n}") for n in range(20))).encode("cp1252"),
    )
    put(root / "lines/a.txt", "".join(f"{text}\n" for _, text in messages[:20]) + "\n")
    odd = [
        '{"text": "fine", "label": "a"}', '{"text": "", "label": "a"}',
        '{"text": null, "label": "b"}', "not json", '{"text": "no label"}',
        '{"text": 5, "label": "b"}', '{"text": "lone \\ud800", "label": "b"}',
        '{"text": "tab\\t", "label": "b", "more": [1, 2]}', "[1, 2]", "",
    ]  # fmt: skip
    put(
        root / "odd-texts.jsonl",
        "\n".join([*odd, *(f'{{"text": "t {n}", "label": "a"}}' for n in range(9))]),
    )


@makes("chat.jsonl gpt.parquet odd-chats.jsonl")
def _chats(root: pathlib.Path) -> None:
    texts = [text for _, text in _messages()]
    chats = []
    for n in range(0, len(texts) - 4, 2):
        roles = ["system"] * (n % 3 == 0) + ["user", "assistant"] * (1 + n % 4 // 2)
        turns = zip(roles, texts[n:], strict=False)
        chats.append([{"role": role, "content": text} for role, text in turns])
    put(root / "chat.jsonl", "".join(f"{json.dumps({'messages': chat})}\n" for chat in chats))
    names = {"system": "system", "user": "human", "assistant": "gpt"}
    gpt = [[{"from": names[m["role"]], "value": m["content"]} for m in chat] for chat in chats]
    table = pa.table({"conversations": gpt, "source": ["ab"[n % 2] for n in range(len(gpt))]})
    pq.write_table(table, root / "gpt.parquet")
    said = {"role": "assistant", "content": "yes"}
    odd: list[object] = [
        None, [], "text", [{"role": "user", "content": "a"}], [{**said, "role": "tool"}], [said],
        [{**said, "content": None, "tool_calls": [{"id": 1}]}], [{**said, "content": " "}],
        [{**said, "content": [{"type": "image"}]}], [said, {**said, "role": "system"}],
        [{**said, "content": "a<|im_end|>"}], [{**said, "weight": 0}],
        [{**said, "content": [{"type": "text", "text": "ye"}, "s"]}], [{"role": "bot"}],
    ]  # fmt: skip
    put(
        root / "odd-chats.jsonl",
        "".join(f"{json.dumps({'messages': one})}\n" for one in [*odd, *chats[:6]]),
    )


@makes("languages")
def _languages(root: pathlib.Path) -> None:
    for number, (label, text) in enumerate(_messages(24)):
        path = root / f"languages/{('de', 'en', 'fr')[number % 3]}/s{number % 5}_{number}.tsv"
        put(path, f"sentence\tlabel\n{text}\t{label}\n")


@makes("tokenizer.json bytes.json chat.json glove.6B.100d.txt sms.model")
def _models(root: pathlib.Path) -> None:
    import tokenizers

    from tests.text_models import save_byte_bpe, save_sentencepiece

    words = sorted({word for _, text in _messages() for word in text.split()})
    known = {word: n for n, word in enumerate(["[UNK]", "[CLS]", "[SEP]", *words])}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="[UNK]"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    model.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    model.save(str(root / "tokenizer.json"))
    save_byte_bpe(root)
    chat = tokenizers.Tokenizer.from_file(str(root / "bytes.json"))
    chat.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    chat.save(str(root / "chat.json"))
    save_sentencepiece(root)
    vectors = [
        f"{word} {n}.5 -{n}.25 0.125\n"
        for n, word in enumerate(("you", "to", "i", "free", "now", "call"))
    ]
    put(root / "glove.6B.100d.txt", "".join(vectors))


# Series


def _minutes(count: int, *, step: int = 60) -> list[datetime.datetime]:
    return [_START + datetime.timedelta(seconds=step * n) for n in range(count)]


@makes("plant plant-dates plant-machines data labels hours.csv gaps.csv")
def _series(root: pathlib.Path) -> None:
    for number, name in enumerate(("one", "two", "three", "four", "five", "six", "seven")):
        times = _minutes(120, step=3600)
        rows = [(f"{t:%Y-%m-%d}", f"{t:%H:%M}", (n + number) % 7) for n, t in enumerate(times)]
        put(root / f"plant/{name}.csv", lines_of("date,time,heat", *rows))
        dated = [
            (f"{t:%d/%m/%Y}", f"{t:%H:%M}", n % 7, n % 5 + number, "fault" if n % 20 > 16 else "ok")
            for n, t in enumerate(times)
        ]
        put(root / f"plant-dates/{name}.csv", lines_of("Date,Time,heat,pressure,state", *dated))
        machines = [
            (t.isoformat(), f"m{k}{number}", n % 9, n % 7 + k, f"hall {k}")
            for n, t in enumerate(times)
            for k in (0, 1)
        ]
        put(
            root / f"plant-machines/{name}.csv", lines_of("time,machine,load,heat,place", *machines)
        )
        sampled = [(f"{t}", n % 11 / 2) for n, t in enumerate(_minutes(200))]
        put(root / f"data/real/{name}.csv", lines_of("timestamp,value", *sampled))
    times = _minutes(200)
    spans = {"real/one.csv": [[f"{times[20]}.000000", f"{times[40]}.000000"]], "real/two.csv": []}
    put(root / "labels/combined_windows.json", json.dumps(spans))
    rows = ["time,benzene,heat,humidity,air"]
    for line in AIR.read_text().splitlines()[1:201]:
        cells = [one.replace(",", ".") for one in line.split(";")]
        day, month, year = cells[0].split("/")
        at = f"{year}-{month}-{day} {cells[1].replace('.', ':')}"
        rows.append(
            ",".join(
                [at, cells[5], cells[12], cells[13], "bad" if float(cells[5]) > 10 else "good"]
            )
        )
    put(root / "hours.csv", "\n".join(rows) + "\n")
    holes = [
        (f"{t}", n % 7 if n % 40 < 33 else "", f"s{n // 60}")
        for n, t in enumerate(_minutes(240))
        if n % 50 < 44
    ]
    put(root / "gaps.csv", lines_of("time,x,series", *holes))


def _spelled(times: Sequence[datetime.datetime]) -> dict[str, list[object]]:
    seconds = [int(t.replace(tzinfo=datetime.UTC).timestamp()) for t in times]
    return {
        "iso": [t.isoformat() for t in times],
        "zone": [f"{t.isoformat()}+02:00" for t in times],
        "us": [f"{t:%m/%d/%Y %I:%M %p}" for t in times],
        "german": [f"{t:%d.%m.%Y %H:%M}" for t in times],
        "seconds": list(seconds),
        "millis": [1000 * s for s in seconds],
        "nanos": [1_000_000_000 * s for s in seconds],
        "excel": [f"{46023 + n / 1440:.8f}" for n in range(len(times))],
        "small": list(range(len(times))),
        "mixed": [f"{t.isoformat()}{'Z' if n % 2 else ''}" for n, t in enumerate(times)],
    }


@makes("times stamps.parquet days.csv")
def _times(root: pathlib.Path) -> None:
    times = _minutes(60)
    for name, spelled in _spelled(times).items():
        put(
            root / f"times/{name}.csv",
            lines_of("time,x", *((t, n % 9) for n, t in enumerate(spelled))),
        )
    stamps = pa.array(times, pa.timestamp("us", "Europe/Berlin"))
    pq.write_table(pa.table({"time": stamps, "x": np.arange(60) % 7}), root / "stamps.parquet")
    days = [
        (f"{_START + datetime.timedelta(days=n):%Y-%m-%d}", f"{n % 9}", f"d{n % 3}")
        for n in range(90)
    ]
    put(root / "days.csv", lines_of("day,x,device", *days))


@makes("comments.csv onehot.jsonl")
def _flags(root: pathlib.Path) -> None:
    """A column of 0 and 1 for each class; one has other values, and rows without any."""
    header = ["text", "toxic", "insult", "is_threat"]
    rows = [[f"a comment {n}", n % 2, int(n % 3 == 0), int(n % 7 == 0)] for n in range(40)]
    rows += [["no values", "", "", ""], ["another", 2, 0, 0], ["spelled", "True", "0.0", ""]]
    put(root / "comments.csv", lines_of(header, *rows))
    hot = [{"x": n / 8, "cat": n % 3 == 0, "dog": n % 3 == 1, "ant": n % 3 == 2} for n in range(30)]
    put(root / "onehot.jsonl", "\n".join(map(json.dumps, hot)) + "\n")


@makes("logger.dat spaces.txt packed.zip packed.csv.xz")
def _layouts(root: pathlib.Path) -> None:
    """The same rows as a logger writes them, with runs of spaces, and in a zip and xz."""
    header, *rows = [["id", "x", "label"], *([n, n / 8, "ab"[n % 2]] for n in range(30))]
    top, units, kinds = ["TOA5", "CR1000"], ["", "m/s", ""], ["Smp", "Avg", "Smp"]
    put(root / "logger.dat", lines_of(top, header, units, kinds, *rows))
    put(root / "spaces.txt", "".join("   ".join(map(str, one)) + "\n" for one in rows))
    text = lines_of(header, *rows).encode()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(zipfile.ZipInfo("folder/rows.csv"), text)
    put(root / "packed.zip", stream.getvalue())
    put(root / "packed.csv.xz", lzma.compress(text))


@makes("days-of-others.csv")
def _days(root: pathlib.Path) -> None:
    """Dates and times as in Germany and in the United States; one day does not exist."""
    times = [_START + datetime.timedelta(hours=17 * n) for n in range(40)]
    rows = [(f"{t:%d.%m.%Y}", f"{t:%m/%d/%Y %I:%M %p}", "ab"[n % 2]) for n, t in enumerate(times)]
    rows += [("30.02.2026", rows[0][1], "a"), ("", "", "b")]
    put(root / "days-of-others.csv", lines_of("day,time,label", *rows))
