"""Notes on names of inputs that could be classes or splits, but are not used."""

from __future__ import annotations

import shlex

from recordmill.format.split_names import canonical_split
from recordmill.notes import Note
from recordmill.option_checks import list_text
from recordmill.storage.files import Location, shown
from recordmill.transforms.model.source import Layout
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.folders.path_names import file_split
from recordmill.transforms.sources.folders.references import Unlabelled
from recordmill.transforms.sources.rows.references.file_list import is_listing


def input_notes(inputs: Inputs, layout: Layout, unlabelled: Unlabelled) -> tuple[Note, ...]:
    """Return a note on inputs with names of classes, or on a single input with that of a split."""
    (first, *others) = inputs.paths
    if others and not layout.labelled:
        return _class_notes(inputs, unlabelled)
    if others or layout.split_source is not None or inputs.split_from != "auto":
        return ()
    place = Location.parse(first.path)
    of_folder, of_file = canonical_split(place.name), file_split(place.name)
    if of_folder is None and of_file is None:
        return ()  # without access to a store
    is_folder = place.is_dir()
    split = of_folder if is_folder else of_file
    if split is None or not (is_folder or is_listing(place)):
        return ()
    text = (
        f"{place.name} has the name of a split, but its records are divided by --splits:"
        f" --input {split}={first.path} puts all of them into {split}"
    )
    return (Note("splits", text),)


def _class_notes(inputs: Inputs, unlabelled: Unlabelled) -> tuple[Note, ...]:
    """Return a note if all inputs are folders of the same parent, and none has classes."""
    places = [Location.parse(one.path) for one in inputs.paths]
    around = {place.parent for place in places}
    names = [place.name for place in places]
    if len(around) > 1 or len({*names}) < len(names) or not all(map(Location.is_dir, places)):
        return ()
    if unlabelled == "keep" or any(one.split is not None for one in inputs.paths):
        return ()
    if all(map(canonical_split, names)):
        return ()
    text = (
        f"the names of the input folders are not used as classes: --input {shown(around.pop())}"
        f" --include-labels {shlex.quote(list_text(names))} makes classes of these folders,"
        " --unlabelled keep omits this note"
    )
    return (Note("no-classes", text),)
