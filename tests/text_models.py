"""Tokenizers trained on the messages, as their libraries store them."""

import pathlib

import sentencepiece
import tokenizers

from tests.texts import sms

MESSAGES = [text for _, text in sms()]


def save_bpe(folder: pathlib.Path) -> pathlib.Path:
    """A BPE whose file also truncates and pads."""
    model = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="[UNK]"))
    model.normalizer = tokenizers.normalizers.NFKC()
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]"]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=2000, special_tokens=special, show_progress=False
    )
    model.train_from_iterator(MESSAGES, trainer)
    model.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    model.enable_truncation(5)
    model.enable_padding(length=7, pad_id=3, pad_token="[PAD]")
    path = folder / "tokenizer.json"
    model.save(str(path))
    return path


def save_byte_bpe(folder: pathlib.Path) -> pathlib.Path:
    """A BPE of bytes, in which a space belongs to the word behind it, as of language models."""
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    model.train_from_iterator(MESSAGES, trainer)
    path = folder / "bytes.json"
    model.save(str(path))
    return path


def save_sentencepiece(folder: pathlib.Path) -> pathlib.Path:
    """A unigram model of SentencePiece."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(MESSAGES),
        model_prefix=str(folder / "sms"),
        vocab_size=1500,
        pad_id=3,
        num_threads=1,
        minloglevel=2,
    )
    return folder / "sms.model"
