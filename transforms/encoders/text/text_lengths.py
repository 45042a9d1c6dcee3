"""Check that leaves out texts that are too short or too long, before planning."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.tfrecord.flat_arrays import Ints
from recordmill.transforms.encoders.tokenization.chat_tokens import Turns
from recordmill.transforms.encoders.tokenization.text_options import TextOptions
from recordmill.transforms.encoders.tokenization.tokenizers import tokenize
from recordmill.transforms.encoders.tokenization.vocabulary import all_texts, text_columns
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import RowOutcome
from recordmill.transforms.model.ragged import string_array, string_bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextCheck:
    """Check of the lengths of texts.

    Lengths of conversations are those of their rendered texts.

    Args:
      options: Options of the encoder, with limits of length.
    """

    options: TextOptions

    def check(self, rows: pa.RecordBatch) -> RowOutcome:
        """Leave out texts beyond a limit, and name the first such limit.

        Limits of characters come before limits of tokens. Each text of a row has to be within them.
        """
        options = self.options
        columns = len(text_columns(options))
        reasons = np.full(len(rows), -1)
        names: list[str] = []
        for unit in ("chars", "tokens"):
            least, most = getattr(options, f"min_{unit}"), getattr(options, f"max_{unit}")
            if least is None and most is None:
                continue
            lengths = _lengths(rows, unit, options).reshape(columns, len(rows))
            for name, limit, beyond in (
                (f"min-{unit}", least, (lengths < (least or 0)).any(axis=0)),
                (f"max-{unit}", most, (lengths > (most or 0)).any(axis=0)),
            ):
                if limit is not None:
                    reasons[(reasons < 0) & beyond] = len(names)
                    names.append(name)
        left_out = np.flatnonzero(reasons >= 0)
        keys = rows[batch.KEY].take(pa.array(left_out)).to_pylist()
        options_by_row = [names[reason] for reason in reasons[left_out].tolist()]
        return RowOutcome(
            kept=np.flatnonzero(reasons < 0),
            filtered=list(zip(keys, options_by_row, strict=True)),
        )


def _lengths(rows: pa.RecordBatch, unit: str, options: TextOptions) -> Ints:
    """Return the number of code points or tokens of each text, one column after another."""
    if options.template is None:
        return _lengths_of_texts(all_texts(rows, options), unit, options)
    turns = Turns.of(rows, options)
    plain = string_array([part.text for part in options.template.fixed])
    sizes = _lengths_of_texts(plain, unit, options).tolist()
    if unit == "tokens":
        is_token = [part.kind == "token" for part in options.template.fixed]
        sizes = [1 if one else size for one, size in zip(is_token, sizes, strict=True)]
    by_part = dict(zip(options.template.fixed, sizes, strict=True))
    return turns.sizes(
        options.template,
        _lengths_of_texts(turns.contents, unit, options),
        lambda part: by_part[part._replace(learned=False)],
    )


def _lengths_of_texts(texts: pa.StringArray, unit: str, options: TextOptions) -> Ints:
    if unit == "chars":
        return np.asarray(pc.utf8_length(texts)).astype(np.int64)
    if options.splitter == "bytes":
        return np.diff(string_bytes(texts)[1])
    assert options.splitter is not None  # checked by TextOptions
    return tokenize(texts, options.splitter).counts
