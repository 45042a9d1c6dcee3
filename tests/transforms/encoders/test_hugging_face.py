"""Tokens that are made of pieces, against those that the library makes of whole texts."""

import functools
import itertools

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers, processors, trainers

from recordmill.transforms.encoders.tokenization import hugging_face
from recordmill.transforms.encoders.tokenization.hugging_face import HuggingFace
from recordmill.transforms.encoders.tokenization.text_pieces import pieces, splits_at_spaces
from tests.text_models import MESSAGES
from tests.texts import SAMPLES, listed, strings

GPT_4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = ["[UNK]", "[CLS]", "[SEP]"]
# What could tempt a cut to be in the wrong place.
PARTS = [
    *" \t\n\r\v\f\0", "  ", "   ", "\x1c", "\x85", "\xa0", "\u2003", "\u3000", "\u200b", "\ufeff",
    "a", "B", "the", "'s", "'", "1", "12345", "!", "...", "_", "\u0301", "é", "\u00a8", "\u00b4",
    "中", "\u0440", "Σ", "ς", "İ", "😀", "ﷺ", "—", "<mask>", "<|end|>", "[SEP]",
]  # fmt: skip
TEXTS = st.lists(
    st.lists(st.sampled_from(PARTS) | st.characters(exclude_categories=["Cs"]), max_size=12).map(
        "".join
    )
)


def _added() -> list[AddedToken]:
    return [AddedToken("<mask>", lstrip=True), AddedToken("<|end|>", special=True)]


def _split(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def _bpe(split: pre_tokenizers.PreTokenizer, *, bytes_: bool = True) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token=None if bytes_ else "[UNK]"))
    tokenizer.pre_tokenizer = split
    alphabet = pre_tokenizers.ByteLevel.alphabet() if bytes_ else []
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(MESSAGES[:1000], trainer)
    tokenizer.add_tokens(_added())
    return tokenizer


def _like_bert() -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=500, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(MESSAGES[:1000], trainer)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return tokenizer


def _like_roberta() -> tokenizers.Tokenizer:
    tokenizer = _bpe(pre_tokenizers.ByteLevel(add_prefix_space=True))
    tokenizer.post_processor = processors.RobertaProcessing(("[SEP]", 2), ("[CLS]", 1))
    return tokenizer


def _of_words() -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.NFC()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(), pre_tokenizers.Punctuation()]
    )
    tokenizer.train_from_iterator(
        MESSAGES[:1000], trainers.WordLevelTrainer(special_tokens=SPECIAL, show_progress=False)
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] [CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return tokenizer


BY_PIECE = {
    "words of BPE": lambda: _bpe(pre_tokenizers.Whitespace(), bytes_=False),
    "GPT-2": lambda: _bpe(pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "RoBERTa": _like_roberta,
    "Llama 3": lambda: _bpe(_split(GPT_4)),
    "Qwen 2": lambda: _bpe(_split(GPT_4.replace("{1,3}", ""))),
    "BERT": _like_bert,
    "words": _of_words,
}
made = functools.lru_cache(lambda name: BY_PIECE[name]())


def by_the_library(tokenizer, texts, *, max_length, edges):
    if max_length is None:
        tokenizer.no_truncation()
    else:
        tokenizer.enable_truncation(max_length)
    return [tokenizer.encode(text, add_special_tokens=edges).ids for text in texts]


def by_ours(encoder, texts, *, max_length):
    ids, edges = encoder.encode(strings(texts), max_length=max_length)
    return [ids[start:stop].tolist() for start, stop in itertools.pairwise(edges)]


@pytest.mark.parametrize("edges", [True, False])
@pytest.mark.parametrize("name", BY_PIECE)
@given(batches=st.lists(TEXTS, min_size=1, max_size=3), max_length=st.none() | st.integers(4, 12))
@example(batches=[SAMPLES, SAMPLES[::-1]], max_length=None)
@example(batches=[MESSAGES[:400], ["a <mask> b", " a", "a b ", "", "a  b c\u00a0 d"]], max_length=9)
def test_pieces_have_the_ids_of_whole_texts(name, edges, batches, max_length):
    tokenizer = made(name)
    encoder = HuggingFace(tokenizer, edges=edges)
    assert splits_at_spaces(tokenizer)
    for texts in batches:
        ours = by_ours(encoder, texts, max_length=max_length)
        assert ours == by_the_library(tokenizer, texts, max_length=max_length, edges=edges)


@pytest.mark.parametrize("name", BY_PIECE)
def test_all_messages_have_the_ids_of_the_library(name):
    tokenizer = made(name)
    ours = by_ours(HuggingFace(tokenizer, edges=True), MESSAGES, max_length=None)
    assert ours == by_the_library(tokenizer, MESSAGES, max_length=None, edges=True)


def test_what_is_forgotten_is_made_again(monkeypatch):
    monkeypatch.setattr(hugging_face, "_CACHED_PIECES", 5)
    tokenizer = made("GPT-2")
    encoder = HuggingFace(tokenizer, edges=False)
    for start in range(0, 60, 20):
        texts = MESSAGES[start : start + 20]
        ours = by_ours(encoder, texts, max_length=None)
        assert ours == by_the_library(tokenizer, texts, max_length=None, edges=False)


def _metaspace(tokenizer):
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()


def _no_pattern(tokenizer):
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(use_regex=False)


def _other_pattern(tokenizer):
    tokenizer.pre_tokenizer = _split(r"\S+ \S+")


def _nothing(tokenizer):
    tokenizer.pre_tokenizer = None


def _replacing(tokenizer):
    tokenizer.normalizer = normalizers.Replace("a", "a ")


def _eats_spaces(tokenizer):
    tokenizer.add_tokens([AddedToken("<eats>", rstrip=True)])


def _has_a_space(tokenizer):
    tokenizer.add_tokens([AddedToken("how are")])


@pytest.mark.parametrize(
    "change",
    [_metaspace, _no_pattern, _other_pattern, _nothing, _replacing, _eats_spaces, _has_a_space],
)
def test_texts_stay_whole_where_words_hang_together(change):
    tokenizer = _bpe(pre_tokenizers.ByteLevel(add_prefix_space=False))
    change(tokenizer)
    assert not splits_at_spaces(tokenizer)
    texts = ["how are you", "<eats> a b", "a a  a", *SAMPLES]
    ours = by_ours(HuggingFace(tokenizer, edges=False), texts, max_length=None)
    assert ours == by_the_library(tokenizer, texts, max_length=None, edges=False)


def test_pieces():
    texts = ["", "one two  three four", " a b ", "no\u00a0 break p\u0440 r", "x \t y"]
    assert listed(pieces(strings(texts))) == [
        [""],
        ["one", " two  three", " four"],
        [" a", " b "],
        ["no\u00a0 break", " p\u0440 r"],
        ["x \t y"],
    ]
