"""Ids of texts, pairs and conversations, by any tokenizer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from recordmill.transforms.encoders.tokenization.chat_tokens import Rendered, Turns
from recordmill.transforms.encoders.tokenization.pairs import Joined, PairTemplate, Tokens
from recordmill.transforms.encoders.tokenization.subwords import has_subwords, load_subwords
from recordmill.transforms.encoders.tokenization.text_options import (
    BEGIN,
    SEPARATOR,
    SUBWORDS,
    TextOptions,
)
from recordmill.transforms.encoders.tokenization.tokenizers import tokenize
from recordmill.transforms.encoders.tokenization.vocabulary import TOKENS_FILE, load_vocabulary
from recordmill.transforms.model.data_type import Artifact
from recordmill.transforms.model.ragged import DictionaryStrings, string_array, string_bytes

_PADDING = 0  # unless a tokenizer file has its own id of padding
_BYTES = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenIds:
    """Ids of tokens.

    Args:
      options: Options of texts, with a tokenizer.
      artifacts: Learned vocabularies and tokenizer files.
    """

    options: TextOptions
    artifacts: Mapping[str, Artifact]

    @property
    def lines(self) -> int | None:
        """Number of lines of the vocabulary; None if not known."""
        if TOKENS_FILE not in self.artifacts:
            return None
        return len(load_vocabulary(self.artifacts).lines)

    @property
    def size(self) -> int | None:
        """Number of ids; None if not known."""
        options = self.options
        if options.splitter == "bytes":
            return 1 + len(options.reserved_tokens) + _BYTES
        if options.learns:
            lines = self.lines
            return None if lines is None else 1 + options.oov_buckets + lines
        known = has_subwords(self.artifacts)
        return load_subwords(options, self.artifacts).size if known else None

    @property
    def padding(self) -> int:
        """The id of padding."""
        if self.options.splitter in SUBWORDS:
            return load_subwords(self.options, self.artifacts).padding
        return _PADDING

    def of_token(self, token: str) -> int:
        """Return the id of a special token, which `TextOptions` or the tokenizer file has."""
        options = self.options
        if options.splitter in SUBWORDS:
            found = load_subwords(options, self.artifacts).id_of(token)
            assert found is not None  # check_tokenizer_file rejects other tokens
            return found
        others = options.oov_buckets if options.learns else 0
        return 1 + others + options.reserved_tokens.index(token)

    def of_texts(
        self,
        texts: pa.StringArray,
        tokens: DictionaryStrings | None = None,
        *,
        max_length: int | None = None,
    ) -> Tokens:
        """Return the ids of texts.

        Args:
          texts: string[n].
          tokens: The texts, split by a built-in tokenizer, if they are split already.
          max_length: Ids of a text at most, if a tokenizer file has an end token.
        """
        options = self.options
        if options.learns:
            assert options.splitter is not None
            tokens = tokenize(texts, options.splitter) if tokens is None else tokens
            known = load_vocabulary(self.artifacts)
            ids = known.ids(tokens.distinct, oov_buckets=options.oov_buckets)
            return Tokens(ids[tokens.codes], tokens.offsets)
        if options.splitter == "bytes":
            data, edges = string_bytes(texts)
            return Tokens(data.astype(np.int64) + (1 + len(options.reserved_tokens)), edges)
        subwords = load_subwords(options, self.artifacts)
        return Tokens(*subwords.encode(texts, max_length=max_length))

    def of_pairs(self, first: pa.StringArray, second: pa.StringArray) -> Joined:
        """Return the ids of joined texts, of `max_length` of the options at most."""
        length = self.options.max_length
        if self.options.splitter in SUBWORDS:
            subwords = load_subwords(self.options, self.artifacts)
            return subwords.encode_pairs(first, second, max_length=length)
        template = PairTemplate.of(self.of_token(BEGIN), self.of_token(SEPARATOR))
        return template.join(self.of_texts(first), self.of_texts(second), max_length=length)

    def of_conversations(self, turns: Turns) -> Rendered:
        """Return the ids of conversations, and their loss mask."""
        template = self.options.template
        assert template is not None
        texts = string_array([part.text for part in template.fixed])
        ids, edges = self.of_texts(texts)
        fixed = [
            np.array([self.of_token(part.text)])
            if part.kind == "token"
            else ids[edges[place] : edges[place + 1]]
            for place, part in enumerate(template.fixed)
        ]
        return turns.render(template, self.of_texts(turns.contents), fixed)
