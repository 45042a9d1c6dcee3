"""Rendering of conversations by a chat template: their tokens, and the loss mask.

Every part of a turn is encoded on its own, so no token spans two parts, and the loss mask is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.tfrecord.flat_arrays import Ints, offsets_of
from recordmill.transforms.encoders.tokenization.pairs import Tokens
from recordmill.transforms.encoders.tokenization.text_options import TextOptions
from recordmill.transforms.encoders.tokenization.tokenizers import normalize
from recordmill.transforms.model.chat import TURNS, ChatTemplate, Part
from recordmill.transforms.model.ragged import (
    flat_strings,
    picked,
    stretches,
    string_array,
    string_bytes,
)

_TEXT = "text"  # column of the transcripts


class Rendered(NamedTuple):
    """Ids of conversations, the offsets of conversations in them, and the loss mask.

    ids, learned: int64[...]. learned: the loss mask, 1 for tokens that count, otherwise 0.
    offsets: int64[n + 1].
    """

    ids: Ints
    offsets: Ints
    learned: Ints


class Turns(NamedTuple):
    """Turns of conversations.

    contents: string[turns], normalized. roles: int64[turns]. learned: bool[turns]. offsets: int64[n
        + 1], the turns of each conversation.
    """

    contents: pa.StringArray
    roles: Ints
    learned: npt.NDArray[np.bool_]
    offsets: Ints

    @classmethod
    def of(cls, rows: pa.RecordBatch, options: TextOptions) -> Turns:
        """Return the turns of rows with the columns `text` and `__turns__`."""
        data, edges = string_bytes(rows[_TEXT])
        turns = pc.list_flatten(rows[TURNS])
        starts, ends, roles, learned = (
            np.asarray(pc.struct_field(turns, [place])) for place in range(4)
        )
        counts = np.asarray(pc.list_value_length(rows[TURNS])).astype(np.int64)
        sizes = (ends - starts).astype(np.int64)
        places = stretches(starts + np.repeat(edges[:-1], counts), sizes)
        contents = normalize(
            flat_strings(data[places].tobytes(), offsets_of(sizes)), options.unicode
        )
        if options.template is not None and options.template.trims:
            contents = string_array([text.strip() for text in contents.to_pylist()])
        return cls(contents, roles.astype(np.int64), learned.astype(np.bool_), offsets_of(counts))

    def plain_texts(self, template: ChatTemplate) -> pa.StringArray:
        """Return all texts between special tokens: contents, and fixed texts, with repeats."""
        texts = [string_array([part.text for part in turn if part.kind == "text"])
                 for turn in template.turns]  # fmt: skip
        first, width = pa.concat_arrays(texts), len(texts[0])
        places = self.roles[:, None] * width + np.arange(width)
        return pa.concat_arrays([self.contents, first.take(pa.array(places.ravel()))])

    def sizes(self, template: ChatTemplate, contents: Ints, size_of: Callable[[Part], int]) -> Ints:
        """Return the size of each rendered conversation, int64[n], in any unit.

        contents: int64[turns], sizes of contents. size_of: returns that of another part.
        """
        by_role = np.array(
            [sum(size_of(p) for p in turn if p.kind != "content") for turn in template.turns]
        )
        ends = np.append(0, np.cumsum(contents + by_role[self.roles]))
        return np.diff(ends[self.offsets]) + sum(map(size_of, template.begin))

    def render(self, template: ChatTemplate, contents: Tokens, fixed: Sequence[Ints]) -> Rendered:
        """Return the values of conversations, such as ids or bytes.

        contents: values of `contents`. fixed: values of each of `template.fixed`.
        """
        count = len(self.roles)
        numbers = {part: count + place for place, part in enumerate(template.fixed)}
        sizes = np.array([len(one) for one in fixed], np.int64)
        pool = np.concatenate([contents.ids, *fixed])
        edges = np.append(contents.offsets, contents.offsets[-1] + np.cumsum(sizes))
        of_role = np.array(
            [[numbers.get(p._replace(learned=False), -1) for p in turn] for turn in template.turns]
        )
        pieces = of_role[self.roles]
        pieces = np.where(pieces < 0, np.arange(count)[:, None], pieces)
        learned = np.array([[part.learned for part in turn] for turn in template.turns])
        learned = learned[self.roles] & self.learned[:, None]
        width, begin = of_role.shape[1], [numbers[part] for part in template.begin]
        rows = len(self.offsets) - 1
        places = np.repeat(self.offsets[:-1] * width, len(begin))
        order = np.insert(pieces.ravel(), places, np.tile(np.array(begin, np.int64), rows))
        values, ends = picked(pool, edges, order)
        is_learned = np.insert(learned.ravel(), places, False)
        return Rendered(
            ids=values,
            offsets=ends[self.offsets * width + np.arange(rows + 1) * len(begin)],
            learned=np.repeat(is_learned, np.diff(ends)).astype(np.int64),
        )

    def texts(self, template: ChatTemplate) -> pa.StringArray:
        """Return the rendered conversations as texts, string[n]."""
        fixed = [np.array([*part.text.encode()], np.int64) for part in template.fixed]
        data, edges = string_bytes(self.contents)
        rendered = self.render(template, Tokens(data.astype(np.int64), edges), fixed)
        return flat_strings(rendered.ids.astype(np.uint8).tobytes(), rendered.offsets)
