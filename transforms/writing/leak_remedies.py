"""The options of a run that prevent leaks, for the note on them."""

from __future__ import annotations

from recordmill.format.ledger import INPUT, WINDOW
from recordmill.transforms.model.run_spec import RunSpec

# Commands with --near-duplicates, which joins the groups of equal records, and more options for it.
_NEAR = {"images": "", "text": "", "video": " --near-distance 0"}


def leak_remedies(run: RunSpec) -> tuple[str, ...]:
    """Return the options that prevent leaks and can be used with the other options of a run."""
    if run.unit == WINDOW:  # `recordmill sensor` has none of these options
        return ()
    drop = "--dedup drop"
    if run.presplit:
        return (drop,)
    if not run.grouped and run.unit == INPUT:
        return drop, "--dedup group"
    options = run.manifest_options
    more = _NEAR.get(str(options.get("kind")))
    if more is None or options.get("text_columns") or options.get("chunk") is not None:
        return (drop,)
    return drop, f"--near-duplicates group{more}"
