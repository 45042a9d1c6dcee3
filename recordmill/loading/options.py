"""The options of `recordmill.load`, with all checks that do not need a dataset."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from recordmill.errors import ConfigError
from recordmill.format.split_names import TRAIN
from recordmill.option_checks import expect_some_of, expect_whole, split_list

Padding = Literal["pad", "ragged"]
Normalize = Literal["unit", "signed", "imagenet"]
Augmentation = Literal["crop", "flip", "rotate", "brightness", "contrast"]

AUGMENTATIONS: tuple[Augmentation, ...] = get_args(Augmentation)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """The keyword arguments of `recordmill.load`, which documents them.

    Raises:
      ConfigError: they are invalid, or contradict each other.
    """

    split: str
    batch_size: int | None = None
    shuffle: bool = False
    seed: int = 0
    order: str | None = None
    repeat: bool | int = False
    inputs: tuple[str, ...] | None = None
    label: str | None = None
    as_supervised: bool | None = None
    image_size: tuple[int, int] | None = None
    augment: frozenset[str] = frozenset()
    normalize: Normalize | None = None
    one_hot: bool = False
    class_weights: bool = False
    padding: Padding = "pad"
    pad_to: int | None = None
    bucket_boundaries: tuple[int, ...] | None = None
    drop_remainder: bool = False
    cache_decoded: bool | str = False
    shard: tuple[int, int] | None = None
    start: int | Mapping[str, Any] = 0
    filter: Any = None
    temperature: float | None = None
    until: str | None = None

    def __post_init__(self) -> None:
        for name in ("batch_size", "pad_to"):
            value = getattr(self, name)
            if value is not None:
                expect_whole(name, value, least=1)
        if not isinstance(self.split, str):
            raise ConfigError(f"split: expected the name of a split, got {self.split!r}")
        for name in ("shuffle", "one_hot", "class_weights", "drop_remainder"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise ConfigError(f"{name}: expected True or False, got {value!r}")
        if self.label is not None and not isinstance(self.label, str):
            raise ConfigError(f"label: expected the name of a feature, got {self.label!r}")
        if self.inputs == ():
            raise ConfigError("inputs: expected the name of a feature, or several; got none")
        if not isinstance(self.cache_decoded, bool | str):
            raise ConfigError(
                f"cache_decoded: expected True, or a path, got {self.cache_decoded!r}"
            )
        expect_whole("seed", self.seed, least=0, below=2**63)
        if not isinstance(self.start, Mapping):
            expect_whole("start", self.start, least=0)
        if not isinstance(self.repeat, bool):
            expect_whole("repeat", self.repeat, least=1)
        expect_some_of("augment", self.augment, AUGMENTATIONS)
        if self.normalize is not None:
            expect_some_of("normalize", [self.normalize], get_args(Normalize))
        expect_some_of("padding", [self.padding], get_args(Padding))
        if self.image_size is not None:
            for side in self.image_size:
                expect_whole("image_size", side, least=1)
        self._check_start()
        self._check_batches()
        if self.augment and self.split != TRAIN:
            raise ConfigError(f"augment is for the split {TRAIN}, got the split {self.split!r}")
        if self.order is not None and self.cache_decoded:
            raise ConfigError(
                "order contradicts cache_decoded, which is read in sequence and shuffled in a"
                " buffer: leave one of them out"
            )
        if self.until is not None and self.cache_decoded:
            raise ConfigError(
                "until contradicts cache_decoded, of which each host has its own part: leave one of"
                " them out"
            )
        if self.filter is not None and self.class_weights:
            raise ConfigError(
                "class_weights contradicts filter: the weights are those of all records of train;"
                " leave one of them out"
            )
        if self.as_supervised is False and (self.one_hot or self.class_weights or self.label):
            raise ConfigError(
                "as_supervised=False returns the features of records: omit label, one_hot and"
                " class_weights"
            )

    def _check_start(self) -> None:
        hosts, _ = self.shard or (1, 0)
        if hosts > 1 and self.start and not isinstance(self.start, Mapping):
            raise ConfigError(
                f"start: the records of {self.start!r} steps depend on the number of hosts: give a"
                " state, such as recordmill.position('out', step=100, global_batch=64), with the"
                " batch of all hosts that made the steps"
            )

    def _check_batches(self) -> None:
        if self.batch_size is None:
            for name in ("pad_to", "bucket_boundaries"):
                if getattr(self, name) is not None:
                    raise ConfigError(f"{name} applies to batches: set batch_size")
            if self.drop_remainder and self.shard is None:
                raise ConfigError(
                    "drop_remainder applies to batches and hosts: set batch_size or shard"
                )
        if self.padding == "ragged" and self.pad_to is not None:
            raise ConfigError("pad_to contradicts padding='ragged': leave one of them out")
        if self.bucket_boundaries is None:
            return
        for boundary in self.bucket_boundaries:
            expect_whole("bucket_boundaries", boundary, least=1)
        if self.padding == "ragged":
            raise ConfigError(
                "padding='ragged' contradicts bucket_boundaries, which pad to the longest record:"
                " leave one of them out"
            )
        if not self.bucket_boundaries or [*self.bucket_boundaries] != sorted(
            set(self.bucket_boundaries)
        ):
            raise ConfigError(
                "bucket_boundaries: expected ascending lengths, such as [32, 64, 128], got"
                f" {[*self.bucket_boundaries]}"
            )
        for name in ("pad_to", "shard", "start"):
            if getattr(self, name):
                raise ConfigError(
                    f"{name} contradicts bucket_boundaries: the number of batches depends on the"
                    " lengths of records; leave one of them out"
                )


def parse_names(value: str | Iterable[str]) -> tuple[str, ...]:
    """Return names, given as "flip,crop" or as a list."""
    if isinstance(value, str):
        value = split_list(value) if value else ()
    return tuple(name.strip() for name in value)


def parse_image_size(value: int | Sequence[int] | None) -> tuple[int, int] | None:
    """Return (height, width), given as one number for both or as a pair."""
    if value is None:
        return None
    both = (value, value) if isinstance(value, int) else tuple(value)
    if len(both) != 2:
        raise ConfigError(f"image_size: expected 224, or (height, width), got {value!r}")
    return both[0], both[1]


def parse_boundaries(value: Any) -> tuple[int, ...] | None:
    """Return the lengths that separate buckets."""
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ConfigError(f"bucket_boundaries: expected lengths, such as [32, 64], got {value!r}")
    return tuple(value)
