"""Checks a dataset that already exists against the limits of a run.

A dataset may have been published under other limits, or without any.
"""

from __future__ import annotations

from collections.abc import Iterator

from recordmill.errors import RunError
from recordmill.gates import is_within
from recordmill.notes import first_failing
from recordmill.options.declaration import value_of
from recordmill.pipelines.earlier.published import Published
from recordmill.pipelines.earlier.schemas import SchemaRequest
from recordmill.pipelines.options.common.config import CommonConfig
from recordmill.profile import drift, statistics_file
from recordmill.profile.statistics_file import STATISTICS
from recordmill.storage.files import shown
from recordmill.transforms.checks.violations import drift_above, drift_violations
from recordmill.transforms.planning.refusals import records_of, refusal


def keeps_limits(published: Published, config: CommonConfig, request: SchemaRequest) -> bool:
    """Return whether a published dataset is known to keep the limits of a run.

    Raises:
      RunError: it is not, and without --overwrite it is not written again.
    """
    problem = next(_beyond(published, config, request), None)
    if problem is not None and not config.overwrite:
        raise RunError(
            f"nothing has changed since {shown(published.output)} was written, but {problem}; the"
            " dataset is as it was"
        )
    return problem is None


def _beyond(published: Published, config: CommonConfig, request: SchemaRequest) -> Iterator[str]:
    yield from _rejects(published, config)
    if (message := first_failing(published.manifest.notes, config.fail_on)) is not None:
        yield message
    yield from _unknown_tokens(published, config)
    judged = request.rules is not None and config.on_violation == "fail"
    if request.compared is None or not (config.max_drift or judged):
        return
    slices = statistics_file.read(published.output, published.manifest)
    if slices is None:
        yield f"it has no {STATISTICS} to compare: --overwrite writes it again"
        return
    comparison = drift.drift(statistics_file.parse(request.compared), slices)
    if config.max_drift:
        yield from drift_above(comparison, config.max_drift)
    if judged and request.rules is not None:
        yield from drift_violations(comparison, request.rules, "drift")


def _rejects(published: Published, config: CommonConfig) -> Iterator[str]:
    if is_within(_earlier(published, "max_reject_fraction"), most=config.max_reject_fraction):
        return
    ledger = published.manifest.ledger
    inputs, records, copies = ledger.inputs, ledger.records, ledger.copies
    for noun, rejected, seen in (
        ("inputs", inputs.rejected, inputs.read + inputs.rejected),
        (records_of(ledger.unit), records.rejected, records.made),
        (
            "records and their copies",
            records.rejected + copies.rejected,
            records.made + copies.planned,
        ),
    ):
        verdict = refusal(rejected, seen, config.max_reject_fraction, noun=noun)
        if verdict is not None:
            yield verdict.message


def _unknown_tokens(published: Published, config: CommonConfig) -> Iterator[str]:
    limit = value_of(config, "max_unknown")
    if limit is not None and not is_within(_earlier(published, "max_unknown"), most=limit):
        yield (
            f"its tokens were not counted for --max-unknown {limit:g}: --overwrite reads the input"
            " again"
        )


def _earlier(published: Published, option: str) -> float | None:
    """Return the limit under which the dataset was published; None without one."""
    options = published.job.get("options")
    value = options.get(option) if isinstance(options, dict) else None
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None
