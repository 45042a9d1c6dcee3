"""Check of a sample of masks of class ids: colours, ambiguous levels, and smoothed edges.

Levels are ambiguous if they may be class ids, or gray levels that stand for classes, such as 0, 64,
128, 191, 255. Ids may have gaps, too, but they count from 0, so a few ids are seldom spread over
the whole gray scale.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import ConfigError, Reason, RecordError
from recordmill.notes import Note
from recordmill.option_names import option_name
from recordmill.storage.input_files import read_ahead, read_file
from recordmill.transforms.imaging.class_masks import (
    Ids,
    StoredMask,
    decode_mask,
    open_mask,
    stored_mask,
)
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.mask_options import MaskOptions

# blank: only 0. white: only 255, or only 65535. binary: 0 and one of these. one_bit: of one bit,
# with 1. unit: other masks of at most 0 and 1, with 1. smoothed: a mask of 0 and 255 with levels
# between at its edges. ids: others.
Kind = Literal["blank", "white", "binary", "one_bit", "unit", "smoothed", "ids"]

SAMPLED = 32  # masks that are read to check their kind
_WHITE = 255
_WHITE_16 = 65535  # of 16 bits
_CODE = "masks"
_FEWEST = 4  # levels between 0 and 255 of a smoothed mask
_FEWEST_OF_RANGE = 8  # such levels if they are not between those of their neighbours
_LOW, _HIGH = 64, 192  # such levels are below and above; ids rarely are both
_LISTED = 5  # levels in a note
_MOST_GRAYS = 16  # most levels, with white, that may stand for classes
_WIDE = 0.1  # least distance between levels that are noted, as a fraction of white


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskSample:
    """Kinds of the sampled masks.

    white: the highest level of white and binary masks. between: some levels of the first smoothed
    mask, and of ids. levels: 0 and the levels of all masks, without repetition, sorted.
    """

    kinds: dict[str, Kind]
    white: int
    between: dict[Kind, Sequence[int]]
    levels: Sequence[int]

    def named(self, *kinds: Kind) -> list[str]:
        """Return the keys of the masks of some kinds."""
        return [key for key, kind in self.kinds.items() if kind in kinds]

    def count(self, *kinds: Kind) -> str:
        """Return how many of the masks are of some kinds."""
        return f"{len(self.named(*kinds))} of {len(self.kinds)} sampled masks"


def check_mask_sample(
    keys: Sequence[str],
    references: pa.RecordBatch,
    options: MaskOptions,
    limits: ImageOptions,
    *,
    where: str,
) -> list[Note]:
    """Check that the options fit a sample of the masks; unreadable ones are rejected later.

    references: columns as `MASK_COLUMNS`. where: the place of the masks, for messages.

    Returns:
      Notes on masks that are read, but probably not as meant.

    Raises:
      ConfigError: no mask has a format that keeps ids; masks hold colours, but options give no
        colours or only others; or the levels of masks are ambiguous.
    """
    sampled, of_formats = itertools.tee(_read_sample(keys, references))
    _check_formats(of_formats, limits)
    del of_formats  # or it would keep all masks in memory
    if options.values is not None:
        return []
    if options.colours is not None:
        _check_colours(sampled, options, limits)
        return []
    kinds: dict[str, Kind] = {}
    between: dict[Kind, Sequence[int]] = {}
    levels = {0}
    white = _WHITE
    for key, data in sampled:
        try:
            mask = stored_mask(data, limits)
        except RecordError:
            continue
        if mask is None:
            raise ConfigError(
                f"{option_name('masks')}: {key!r} holds colours, not class ids: name the class"
                f" of each colour with {option_name('mask_colours')} FILE"
            )
        found = np.unique(mask.levels)
        levels.update(found.tolist())
        kind = kinds[key] = mask_kind(mask, found)
        if kind in ("white", "binary"):
            white = max(white, int(found[-1]))
        if kind in ("smoothed", "ids"):
            between.setdefault(kind, np.setdiff1d(found, (0, _WHITE, _WHITE_16)).tolist())
    sample = MaskSample(kinds=kinds, white=white, between=between, levels=sorted(levels))
    notes: list[Note] = []
    if options.ignore is None:
        _check_meaning(sample, where)
        on_grays = _notes_on_grays(sample, options, where)
        notes += _note_on_meaning(sample, options) or on_grays
    return notes + (_note_on_smoothed(sample) if options.classes is None else [])


def _read_sample(keys: Sequence[str], references: pa.RecordBatch) -> Iterator[tuple[str, bytes]]:
    """Yield the keys and contents of a sample of masks; skip those that cannot be read."""
    order = sorted(range(len(keys)), key=keys.__getitem__)
    count = min(len(order), SAMPLED)
    places = [order[number * len(order) // count] for number in range(count)]
    columns = (column.take(pa.array(places, pa.int64())) for column in references.columns)
    files = [*zip(*(column.to_pylist() for column in columns), strict=True)]
    for at, (path, size, mtime) in read_ahead([*zip(places, files, strict=True)], files):
        with contextlib.suppress(RecordError):
            yield keys[at], read_file(path, size=size, mtime=mtime)


def _check_formats(sampled: Iterable[tuple[str, bytes]], limits: ImageOptions) -> None:
    """Raise ConfigError if all masks have formats such as JPEG, in which ids may change."""
    problem = ""
    for key, data in sampled:
        try:
            open_mask(io.BytesIO(data), limits)
        except RecordError as error:
            if error.reason == Reason.UNSUPPORTED:
                problem = problem or f"{key!r} is {error.detail}"
                continue
        return
    if problem:
        raise ConfigError(
            f"{option_name('masks')}: no sampled mask can be read: {problem}; convert the masks to"
            " PNG, and set each pixel to the level of its class, because levels near edges have"
            " changed"
        )


def _check_colours(
    sampled: Iterable[tuple[str, bytes]], options: MaskOptions, limits: ImageOptions
) -> None:
    """Raise ConfigError if masks have colours of no class, unless one of several colours fits.

    A mask of one colour, such as black, proves nothing: other colours may still be wrong.
    """
    problem = ""
    for key, data in sampled:
        try:
            if np.ptp(decode_mask(data, options, limits).ids):
                return
        except RecordError as error:
            if error.reason == Reason.BAD_VALUE:
                problem = problem or f"{key!r}: {error.detail}"
    if problem and options.colours is not None:
        given = [",".join(map(str, colour[:3])) for colour in options.colours]
        more = ", ..." if len(given) > _LISTED else ""
        raise ConfigError(
            f"{option_name('mask_colours')}: no sampled mask of several classes has only"
            f" colours of this file: {problem}. The file is read as"
            f" {'; '.join(given[:_LISTED])}{more}; lines of numbers are read as R G B NAME, unless"
            " the first line names the columns, as in id r g b name"
        )


def mask_kind(mask: StoredMask, found: Ids) -> Kind:
    """Return the kind of a mask. found: its levels without repetition, sorted."""
    levels = {*found.tolist()}
    if levels <= {0}:
        return "blank"
    if levels in ({_WHITE}, {_WHITE_16}):
        return "white"
    if levels in ({0, _WHITE}, {0, _WHITE_16}):
        return "binary"
    if mask.is_one_bit:
        return "one_bit"
    if levels <= {0, 1}:
        return "unit"
    return "smoothed" if is_smoothed(mask.levels, found) else "ids"


def is_smoothed(levels: Ids, found: Ids) -> bool:
    """Return whether a mask looks like one of 0 and 255 after a blur, a resize or a lossy format.

    Most of its pixels are 0 and 255, and the others have many levels. They are between the levels
    of both neighbours, in a row or a column, or are near 0 and near 255. Ids are seldom either:
    between two neighbours is only an id one pixel wide, and data sets count their ids from 0.

    levels: uint8 or uint16[height, width]. found: the same without repetition, sorted.
    """
    middle = found[(found > 0) & (found < _WHITE)]
    if found[0] != 0 or found[-1] != _WHITE or len(middle) < _FEWEST:
        return False
    between = (levels > 0) & (levels < _WHITE)
    count = np.count_nonzero(between)
    if 2 * count > levels.size:
        return False
    if len(middle) >= _FEWEST_OF_RANGE and middle[0] < _LOW and middle[-1] >= _HIGH:
        return True
    ramps = np.zeros(levels.shape, np.bool_)
    ramps[:, 1:-1] = _is_between(levels[:, :-2], levels[:, 1:-1], levels[:, 2:])
    ramps[1:-1] |= _is_between(levels[:-2], levels[1:-1], levels[2:])
    return bool(2 * np.count_nonzero(ramps & between) >= count)


def _is_between(before: Ids, levels: Ids, after: Ids) -> npt.NDArray[np.bool_]:
    rises: npt.NDArray[np.bool_] = (before < levels) & (levels < after)
    return rises | ((before > levels) & (levels > after))


def _check_meaning(sample: MaskSample, where: str) -> None:
    """Raise ConfigError if no mask shows whether the level of white is a class or ignored."""
    white = sample.white
    whites, bits, units = (
        sample.named(*kinds) for kinds in (("binary", "white"), ("one_bit",), ("unit",))
    )
    binary, ids, smoothed = (sample.named(kind) for kind in ("binary", "ids", "smoothed"))
    if whites and not (bits or units or ids):
        some = f"the masks in {where} have"
        if smoothed:
            some = (
                f"{sample.count('smoothed')} in {where}, such as {smoothed[0]!r}, look smoothed,"
                f" and {sample.count('binary', 'white')}, such as {whites[0]!r}, have"
            )
        raise ConfigError(
            f"{option_name('masks')}: {some} only the levels 0 and {white}, and {white} usually"
            f" marks pixels without a class: pass {option_name('mask_values')} 0,{white} to make"
            f" {white} the class 1, or {_ignoring(white)} to ignore it"
        )
    # Where ids are beside 255, masks of 0 and 1 may lack 255; only those of one bit cannot have it.
    if not binary or not (bits or (units and not ids)):
        return
    units = [] if ids else units
    others = [*bits, *units]
    held = ["one bit"] * bool(bits) + ["only 0 and 1"] * bool(units)
    remedy = f"pass --mask-values 0,{white}, which also reads white in masks of one bit as {white}"
    if units or ids:
        remedy = "store all masks with the same levels"
    raise ConfigError(
        f"{option_name('masks')}: {sample.count('binary')} in {where}, such as {binary[0]!r}, have"
        f" only the levels 0 and {white}, and {len(others)}, such as {others[0]!r}, have"
        f" {' or '.join(held)}, so a class may have two ids: {remedy}, or pass {_ignoring(white)}"
        f" if {white} marks pixels without a class"
    )


def _notes_on_grays(sample: MaskSample, options: MaskOptions, where: str) -> list[Note]:
    """Return a note if all levels are far apart, as gray levels that stand for classes are.

    Raises:
      ConfigError: they are also spread over the gray scale up to white, which may be a class or
        ignored.
    """
    levels = sample.levels
    white = _WHITE if levels[-1] <= _WHITE else _WHITE_16
    ids = [level for level in levels if level != white]
    if len(ids) < 2 or (options.classes is not None and ids[-1] < options.classes):
        return []
    least = min(np.diff(ids).tolist())
    values = f"{option_name('mask_values')} {','.join(map(str, levels))}"
    have = f"the sampled masks in {where} have only the levels {_listed(levels)}"
    # If most masks are binary, other levels may be stray ones, such as 254 beside white.
    mostly_binary = len(sample.named("binary")) > len(sample.named("ids"))
    closest = min(least, white - ids[-1]) if mostly_binary else least
    is_spread = 2 * closest * (len(levels) - 1) >= white
    if white in levels and len(levels) <= _MOST_GRAYS and is_spread:
        raise ConfigError(
            f"{option_name('masks')}: {have}, which look like gray levels, not class ids, and"
            f" {white} may be a class or mark pixels without one: pass {values} to make them the"
            f" classes 0 to {len(levels) - 1}, or {_ignoring(white)} to read the levels as ids and"
            f" {white} as no class"
        )
    if least < _WIDE * white:
        return []
    meaning = f", and {white} is ignored" if white in levels and options.ignored == white else ""
    text = f"{have}, and each is read as a class id{meaning}; if they stand for the classes 0 to"
    text += f" {len(levels) - 1}, pass {values}; otherwise {_ignoring(white)} confirms the ids"
    return [Note(_CODE, text)]


def _ignoring(white: int) -> str:
    """Return the options that ignore a level."""
    return f"--mask-ignore {white}" + (" --mask-depth 16" if white > _WHITE else "")


def _note_on_meaning(sample: MaskSample, options: MaskOptions) -> list[Note]:
    """Return a note if masks of black and white outnumber those of other ids."""
    white = sample.white
    binary, ids = sample.named("binary"), sample.named("ids")
    if len(binary) <= len(ids):
        return []
    meaning = "ignored" if options.ignored == white else "a class id"
    return [
        Note(
            _CODE,
            f"{sample.count('binary')}, such as {binary[0]!r}, have only the levels 0 and {white},"
            f" but {ids[0]!r} also has {_listed(sample.between['ids'])}, so {white} is {meaning};"
            f" if it is the class 1, pass --mask-values 0,{white}, which rejects other levels;"
            f" otherwise {_ignoring(white)} confirms the id",
        )
    ]


def _note_on_smoothed(sample: MaskSample) -> list[Note]:
    """Return a note if masks look smoothed."""
    smoothed = sample.named("smoothed")
    if not smoothed:
        return []
    return [
        Note(
            _CODE,
            f"{sample.count('smoothed')} look smoothed, as by a blur, a resize or JPEG: most pixels"
            f" of {smoothed[0]!r} are 0 or 255, and others have levels between, such as"
            f" {_listed(sample.between['smoothed'])}, each of which is read as a class id; make the"
            " masks anew without smoothing, or set each level to 0 or 255, and pass --mask-values"
            " 0,255, which rejects other levels",
        )
    ]


def _listed(levels: Sequence[int]) -> str:
    more = ", ..." if len(levels) > _LISTED else ""
    return ", ".join(map(str, levels[:_LISTED])) + more
