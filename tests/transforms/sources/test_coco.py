"""Annotations in COCO format: what is read, and the message for each mistake."""

import json

import pytest

from recordmill.errors import ConfigError, Reason
from recordmill.storage.files import Location
from recordmill.transforms.model.annotations import CAPTIONS, IMAGE_ID, OBJECTS, SIDES
from recordmill.transforms.sources.annotations.formats.coco import read_coco

IMAGES = [
    {"id": 3, "file_name": "b.jpg", "width": 40, "height": 30},
    {"id": 1, "file_name": "a/a.jpg", "width": 20, "height": 10},
]
CATEGORIES = [{"id": 9, "name": "dog"}, {"id": 2, "name": "cat"}]
BOX = {"image_id": 1, "category_id": 9, "bbox": [1, 2.5, 3, 4]}


@pytest.fixture
def parse(tmp_path):
    def read(annotations, images=IMAGES, categories=CATEGORIES, **options):
        path = tmp_path / "coco.json"
        # Annotations first: they may stand anywhere.
        parts = {"annotations": annotations, "images": images, "categories": categories}
        path.write_text(json.dumps(parts))
        return read_coco([Location.parse(str(path))], **options)

    return read


def test_all_fields_are_read(parse):
    polygon = [[1, 2, 3.5, 4, 5, 6]]
    lengths = {"size": [10, 20], "counts": "abc"}
    found = parse(
        [
            {**BOX, "area": 7.5, "iscrowd": None, "segmentation": polygon},
            {"image_id": 3, "caption": "two\nlines"},
            {**BOX, "category_id": 2, "iscrowd": 1, "segmentation": lengths},
            {**BOX, "image_id": 3},
            {"image_id": 3, "caption": "more"},
        ]
    )
    assert found.names == ["b.jpg", "a/a.jpg"]
    assert found.classes == ("cat", "dog")
    assert found.faults == {}
    first, second = found.table.to_pylist()
    assert (first[SIDES], second[SIDES]) == ([40, 30], [20, 10])
    assert (first[CAPTIONS], second[CAPTIONS]) == (["two\nlines", "more"], [])
    assert [one["class"] for one in second[OBJECTS]] == ["dog", "cat"]
    one, other = second[OBJECTS]
    assert [one[name] for name in ("xmin", "ymin", "xmax", "ymax")] == [1, 2.5, 4, 6.5]
    assert (one["area"], other["area"]) == (7.5, None)
    assert (one["is_crowd"], other["is_crowd"]) == (False, True)
    assert json.loads(one["segmentation"]) == polygon
    assert json.loads(other["segmentation"]) == lengths
    assert first[OBJECTS][0]["segmentation"] is None


def test_segmentation_can_be_left_out(parse):
    annotations = [{**BOX, "segmentation": [[1, 2, 3, 4]]}]
    fields = parse(annotations, segmentation=False).table.field(OBJECTS).type.value_type
    assert "segmentation" not in [field.name for field in fields]
    assert "segmentation" not in parse([{**BOX, "segmentation": []}]).table.schema.to_string()


def test_images_of_lvis_are_named_by_their_url(parse):
    images = [{"id": 1, "coco_url": "http://images.cocodataset.org/val2017/0001.jpg"}]
    assert parse([BOX], images).names == ["val2017/0001.jpg"]


def test_whole_floats_are_ids_and_sides(parse):
    images = [{"id": 1.0, "file_name": "a.jpg", "width": 20.0, "height": 10.0}]
    box = {**BOX, "id": 8.0, "image_id": 1, "category_id": 9.0}
    again = {**box, "id": 8, "image_id": 1.0}
    found = parse([box, again], images, [{"id": 9, "name": "dog"}])
    assert (found.faults, found.rejects, boxes(found)) == ({}, [], [["dog"]])
    assert found.table[SIDES].to_pylist() == [[20, 10]]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"bbox": [1, 2, 3]}, "expected a 'bbox' of [x, y, width, height], got [1, 2, 3]"),
        ({"bbox": [1, 2, -3, 4]}, "expected a 'bbox' of [x, y, width, height], got [1, 2, -3, 4]"),
        ({"bbox": [1, 2, 3, "4x"]}, "expected a 'bbox' of [x, y, width, height], got [1, 2, 3, '4"),
        (
            {"bbox": ["1", "2", "3", "-4"]},
            "expected a 'bbox' of [x, y, width, height], got [1.0, 2",
        ),
        ({"area": "4_0"}, "expected an 'area' of 0 or more, got '4_0'"),
        ({"bbox": [1, 2, 3, float("nan")]}, "expected a 'bbox' of [x, y, width, height], got [1,"),
        ({"bbox": None}, "expected a 'bbox' of [x, y, width, height], got None"),
        ({"category_id": 4}, "its 'category_id' 4 is not the id of a category"),
        ({"category_id": [4]}, "its 'category_id' [4] is not the id of a category"),
        ({"area": -1}, "expected an 'area' of 0 or more, got -1"),
        ({"area": 2**63}, "expected an 'area' of 0 or more, got 9223372036854775808"),
        ({"area": 10**400}, "expected an 'area' of 0 or more, got 1000"),
        ({"bbox": [1, 2, 3, 10**400]}, "expected a 'bbox' of [x, y, width, height], got [1, 2, 3"),
        ({"bbox": [1e308, 2, 1e308, 1]}, "expected a 'bbox' of [x, y, width, height], got [1e+3"),
        ({"bbox": "\ud800"}, "expected a 'bbox' of [x, y, width, height], got '\\ud800'"),
        ({"caption": "\ud800"}, "expected a 'caption' of text, got '\\ud800'"),
        ({"iscrowd": 2}, "expected 'iscrowd' to be 0 or 1, got 2"),
        ({"caption": 5}, "expected a 'caption' of text, got 5"),
        ({"segmentation": "\ud800"}, "expected a 'segmentation' of numbers, got"),
    ],
)
def test_a_bad_entry_rejects_its_image_by_name(parse, change, why):
    found = parse([{**BOX, "image_id": 3}, {**BOX, **change}])
    assert list(found.faults) == [1]
    assert found.faults[1].startswith(f"coco.json: annotations[1]: {why}")


def boxes(found):
    return [[one["class"] for one in objects] for objects in found.table[OBJECTS].to_pylist()]


def test_a_repeated_annotation_counts_once(parse):
    one, other = {**BOX, "id": 2**63}, {**BOX, "id": 7, "category_id": 2}
    text = {"image_id": 1, "id": 7, "caption": "x"}  # captions have ids of their own
    found = parse([one, text, other, {**one, "area": 3}, BOX, BOX, text])
    assert found.faults == {}
    assert boxes(found) == [[], ["dog", "cat", "dog", "dog"]]
    assert found.table[CAPTIONS].to_pylist() == [[], ["x"]]


def test_files_may_share_annotations(parse, tmp_path):
    parse([{**BOX, "id": 1}, {**BOX, "id": 2, "image_id": 3}])
    first = Location.parse(str((tmp_path / "coco.json").rename(tmp_path / "first.json")))
    alone = read_coco([first])
    again = [{**BOX, "id": 2, "image_id": 3}, {**BOX, "id": 1}, {**BOX, "id": 9}]
    parse(again)
    second = Location.parse(str(tmp_path / "coco.json"))
    assert read_coco([first, first]).table == alone.table
    both = read_coco([first, second, second])
    assert boxes(both) == [["dog"], ["dog", "dog"]]
    assert both.faults == {}


def test_files_with_other_images_may_reuse_ids(parse, tmp_path):
    parse([{**BOX, "id": 1}])
    first = Location.parse(str((tmp_path / "coco.json").rename(tmp_path / "first.json")))
    parse([{**BOX, "id": 1}], [{"id": 1, "file_name": "other.jpg"}])
    found = read_coco([first, Location.parse(str(tmp_path / "coco.json"))])
    assert (found.faults, boxes(found)) == ({}, [[], ["dog"], ["dog"]])


@pytest.mark.parametrize(
    ("entry", "change", "how"),
    [
        (BOX, {"bbox": [1, 2.5, 3, 5]}, "which has other content"),
        (BOX, {"category_id": 2}, "which has other content"),
        (BOX, {"image_id": 3}, "which belongs to another image"),
        ({"image_id": 1, "caption": "a"}, {"caption": "b"}, "which has other content"),
    ],
)
@pytest.mark.parametrize("known", [5, "five"])
def test_an_id_of_two_annotations_is_a_fault(parse, entry, change, how, known):
    first = {**entry, "id": known}
    found = parse([{**BOX, "image_id": 3}, first, {**first, **change}])
    which = 0 if "image_id" in change else 1
    why = f"coco.json: annotations[2]: its 'id' {known!r} is that of coco.json: annotations[1], "
    assert found.faults == {which: why + how}


@pytest.mark.parametrize("image", [77, None, "01", "x", [1], True, 1.5, float("inf")])
def test_an_entry_without_image_is_rejected(parse, image):
    (reject,) = parse([BOX, {**BOX, "image_id": image}]).rejects
    assert reject.key == "coco.json#annotations[1]"
    assert reject.reason == Reason.MISSING
    assert reject.detail == f"its 'image_id' {image!r} is not the id of an image"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"images": []}, "expected COCO's 'images', a list of images, got none"),
        ({"annotations": []}, "expected COCO's 'annotations', a list, got none"),
        ({"images": {"a": 1}}, "images: expected a list of objects, got"),
        ({"images": [3]}, "images[0]: expected a list of objects, got '3'"),
        ({"images": [{"id": 1}]}, "images[0]: expected a 'file_name', got None"),
        ({"images": [{"file_name": "a"}]}, "images[0]: expected an 'id', got None"),
        ({"images": [{"id": 0.5, "file_name": "a"}]}, "images[0]: expected an 'id', got 0.5"),
        (
            {"images": [*IMAGES, {"id": 3, "file_name": "c.jpg"}]},
            "images[2]: the 'id' 3 is also the id of another image",
        ),
        (
            {"images": [{"id": 1, "file_name": "\ud800.jpg"}]},
            "images[0]: expected a 'file_name', got '\\ud800.jpg'",
        ),
        (
            {"categories": [{"id": 1, "name": "a\ud800"}]},
            "categories[0]: expected a 'name' of one line, got 'a\\ud800'",
        ),
        ({"categories": [{"id": 1}]}, "categories[0]: expected a 'name' of one line, got None"),
        (
            {"categories": [*CATEGORIES, {"id": 2, "name": "cow"}]},
            "categories[2]: 'cow' has the 'id' 2 of 'cat'",
        ),
    ],
)
def test_files_that_are_not_coco(parse, parts, message):
    with pytest.raises(ConfigError) as caught:
        parse(**{"annotations": [BOX], **parts})
    assert f"coco.json: {message}" in str(caught.value)


def test_ids_of_images_are_kept_on_request(parse, tmp_path):
    assert IMAGE_ID not in parse([BOX]).fields.names
    twice = [*IMAGES, {"id": 2.0, "file_name": "a/a.jpg"}]
    found = parse([BOX], twice, image_ids=True)
    assert found.table[IMAGE_ID].to_pylist() == [3, 1]
    again = Location.parse(str((tmp_path / "coco.json").rename(tmp_path / "again.json")))
    both = read_coco([again, again], image_ids=True)
    assert both.table[IMAGE_ID] == found.table[IMAGE_ID]
    assert found.notes == []


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"id": "x"}, "the id 'x' of 'c.jpg' is not a whole number from 0 to 2^52"),
        ({"id": -1}, "the id -1 of 'c.jpg' is not a whole number from 0 to 2^52"),
        ({"id": 2**52}, f"the id {2**52} of 'c.jpg' is not a whole number from 0 to 2^52"),
        ({"id": 3}, "the id 3 of 'c.jpg' is also the id of another image"),
    ],
)
def test_ids_that_do_not_identify_images_are_noted(parse, tmp_path, entry, why):
    parse([BOX])
    first = Location.parse(str((tmp_path / "coco.json").rename(tmp_path / "first.json")))
    parse([{"image_id": entry["id"], "caption": "c"}], [{"file_name": "c.jpg", **entry}])
    found = read_coco([first, Location.parse(str(tmp_path / "coco.json"))], image_ids=True)
    assert IMAGE_ID not in found.fields.names
    (note,) = found.notes
    assert note == (
        f"image/source_id is made from keys instead of the ids of images, because {why}"
    )


def test_categories_with_one_name_become_one_class_with_a_note(parse):
    found = parse([BOX], categories=[*CATEGORIES, {"id": 4, "name": "dog"}])
    assert found.classes == ("cat", "dog")
    assert found.notes == ["the categories 4, 9 share the name 'dog': they became one class"]
    assert parse([BOX]).notes == []


@pytest.mark.parametrize("entry", [{"image_id": 1, "caption": None}, {"image_id": 1, "caption": 3}])
def test_bad_captions(parse, entry):
    (why,) = parse([BOX, entry]).faults.values()
    assert why == f"coco.json: annotations[1]: expected a 'caption' of text, got {entry['caption']}"


def test_a_box_may_have_no_caption(parse):
    assert boxes(parse([{**BOX, "caption": None}])) == [[], ["dog"]]


def test_sizes_that_differ_are_a_fault(parse):
    twice = [*IMAGES, {"id": 5, "file_name": "b.jpg", "width": 41, "height": 30}]
    found = parse([BOX], twice)
    assert list(found.faults) == [0]
    assert "images[2]: two entries give different sizes of the image" in found.faults[0]
