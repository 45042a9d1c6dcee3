"""Steps of a training run: their number in an epoch, and the start of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recordmill.errors import ConfigError
from recordmill.loading.options import LoadOptions
from recordmill.reading.sequence import AnySequence, MixtureSequence


class EpochSteps:
    """The batches (or records) of this host in an epoch."""

    def __init__(self, options: LoadOptions, sequence: AnySequence, place: str) -> None:
        """Prepare to count. place: of the dataset, for messages."""
        self._options = options
        self._sequence = sequence
        self._place = place
        self._hosts, self._host = options.shard or (1, 0)

    def host_records(self, consumed: int) -> int | None:
        """Return the number of records that each host has in the rest of an epoch, with padding.

        It is None in an endless epoch.
        """
        if self._sequence.records is None:
            return None
        left = self._sequence.records - consumed
        drops = self._options.drop_remainder and self._options.shard is not None
        return left // self._hosts if drops else -(-left // self._hosts)

    def steps(self, consumed: int) -> int | None:
        """Return the number of batches (or records) of an epoch; None if unknown or endless.

        consumed: records that all hosts have consumed in it.
        """
        options = self._options
        records, size = self.host_records(consumed), options.batch_size or 1
        if records is None or options.bucket_boundaries is not None:
            return None
        return records // size if options.drop_remainder else -(-records // size)

    def length(self, epoch: int, consumed: int) -> int | None:
        """Return the number of elements from a start on; None if unknown or endless."""
        repeat, steps, rest = self._options.repeat, self.steps(0), self.steps(consumed)
        if steps is None or rest is None or repeat is True:
            return None
        return rest if repeat is False else rest + steps * (repeat - epoch - 1)

    def check_endless(self) -> None:
        """Check that an endless dataset has batches, because an iteration would wait forever.

        Raises:
          ConfigError: it may have none.
        """
        options, records = self._options, self.host_records(0)
        if options.cache_decoded and isinstance(self._sequence, MixtureSequence):
            fewest = min(one.records for one in self._sequence.sources)
            if fewest < self._hosts:
                raise ConfigError(
                    f"a dataset of the mixture has {fewest} records in {options.split} for"
                    f" {self._hosts} hosts, which each cache their own, and a host would wait for"
                    " them forever: use fewer hosts, or leave"
                    " cache_decoded out"
                )
        if records is None or options.repeat is not True:
            return
        if not records:
            raise ConfigError(
                f"{self._place} has no records in {options.split} for this host, and an endless"
                " dataset would wait for them forever: use fewer hosts"
            )
        if not options.drop_remainder or options.batch_size is None:
            return
        batches = len(options.bucket_boundaries or ()) + 1
        if records <= (options.batch_size - 1) * batches:
            raise ConfigError(
                f"the {records} records of {options.split} may not fill a"
                f" batch of {options.batch_size}, and with drop_remainder an endless dataset would"
                " wait for one forever: reduce batch_size, or leave drop_remainder out"
            )

    def start(self) -> tuple[int, int]:
        """Return the epoch of the option `start`, and the number of its records to skip.

        Raises:
          ConfigError: it is after the end, within the epoch of a dataset without `repeat`, or a
            state that these options do not continue.
        """
        options, size = self._options, self._options.batch_size or 1
        if isinstance(options.start, Mapping):
            epoch, consumed = self._parse_state(options.start)
            given = f"{consumed} of {self._sequence.records} records"
        elif self._sequence.records is None or not options.start:
            return 0, options.start * size
        else:
            steps = self.steps(0)
            if not steps:
                raise ConfigError("start: the split has no records")
            epoch, consumed = options.start // steps, options.start % steps * size
            given = f"{options.start}, in epochs of {steps} steps,"
        if self._sequence.records is None:
            return epoch, consumed
        if options.repeat is False and consumed:
            raise ConfigError(
                f"start: {given} is within an epoch; set repeat=True or a number of epochs, or"
                " start at the beginning of an epoch"
            )
        if not isinstance(options.repeat, bool) and epoch >= options.repeat:
            raise ConfigError(
                f"start: {given} is after the end of {options.repeat} epochs: increase repeat"
            )
        return epoch, consumed

    def _parse_state(self, state: Mapping[str, Any]) -> tuple[int, int]:
        options, is_mixture = self._options, isinstance(self._sequence, MixtureSequence)
        if options.cache_decoded and (is_mixture or options.shuffle):
            what = "a mixture with cache_decoded" if is_mixture else "a shuffled cache_decoded"
            raise ConfigError(
                f"start: {what} has an order of its own, which a state does not describe: give the"
                " number of batches, on one host"
            )
        epoch, consumed = self._sequence.parse(state)
        # If drop_remainder drops all records that are left, the next epoch follows.
        return (epoch + 1, 0) if self.steps(consumed) == 0 else (epoch, consumed)
