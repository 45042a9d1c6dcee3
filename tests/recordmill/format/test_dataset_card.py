"""The card of a dataset, README.md and the parts of croissant.json that need no mlcroissant."""

import dataclasses
import json
import re

import pytest
import yaml

from recordmill.format.croissant import croissant_json
from recordmill.format.dataset_card import Creator, DatasetCard
from recordmill.format.dataset_readme import readme, size_category
from recordmill.format.file_names import number_globs
from recordmill.format.manifest import Manifest, ManifestError
from tests.make_dataset import make_dataset

HOSTILE = "<script>alert(1)</script> --- 'q' \"d\" [x](y) ``` : # & \u202eabc"


@pytest.fixture(scope="module")
def manifest(tmp_path_factory) -> Manifest:
    return make_dataset(tmp_path_factory.mktemp("card") / "out")


def header(text: str) -> dict:
    _, head, _ = text.split("---\n", 2)
    return yaml.safe_load(head)


def test_a_card_survives_the_manifest(manifest):
    card = DatasetCard(
        name="Flowers",
        description="Of a garden.\n\n- *bold*",
        license="cc-by-4.0",
        creators=(Creator(name="Ada"), Creator(name="Lab", type="organization", email="a@b.c")),
        keywords=("a", "b"),
        rai={"dataBiases": ("one", "two"), "dataCollection": "text"},
    )
    assert card.license == "CC-BY-4.0"
    with_card = dataclasses.replace(manifest, card=card)
    assert Manifest.from_bytes(with_card.to_bytes()).card == card


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"licence": "MIT"},
            r"unknown key 'licence' \(did you mean 'license'\?\); expected one of",
        ),
        ({"license": "CC-BY"}, "license: expected a known SPDX identifier such as CC-BY-4.0"),
        ({"name": ""}, "name: expected text, got ''"),
        ({"name": "a\nb"}, "name: expected one line of text"),
        ({"name": "a\u2028b"}, "name: expected one line of text"),
        ({"description": "a\x1b[31m"}, "description: expected text without control .* U\\+001B"),
        ({"description": "\ud800"}, "description: expected text without control .* U\\+D800"),
        ({"description": ["a"]}, "description: expected text, got"),
        ({"keywords": "a"}, "keywords: expected a list, got 'a'"),
        (
            {"languages": ["English"]},
            "languages: expected a code such as en or pt-BR, got 'English'",
        ),
        (
            {"task_categories": ["Image classification"]},
            "task_categories: expected a name such as image-classification, got 'Image class",
        ),
        ({"url": "https://a.org/\u202egnp"}, "url: expected an http or https URL"),
        ({"url": "javascript:alert(1)"}, "url: expected an http or https URL"),
        ({"date_published": "31.1.2026"}, "date_published: expected a date such as 2026-01-31"),
        ({"creators": [{"name": "a", "mail": "b"}]}, "unknown key 'mail' .*'email'"),
        ({"creators": [{"url": "http://a"}]}, "creators: expected a name for each creator"),
        ({"creators": [{"name": "a", "type": "dog"}]}, "type: expected person or organization"),
        ({"creators": [{"name": "a", "email": "b"}]}, "email: expected an e-mail address"),
        ({"rai": {"dataBias": "x"}}, r"rai: unknown key 'dataBias' \(did you mean 'dataBiases'"),
        ({"name": 5}, "name: expected text, got 5"),
        ({"creators": [5]}, "creators: expected a name, or name, type, url and email; got 5"),
        ({"creators": {"a": 1}}, "creators: expected a list, got"),
        ({"name": ["a"]}, r"name: expected text, got \['a'\]"),
        ({"rai": ["x"]}, "rai: expected fields of the RAI vocabulary"),
        ({"rai": {"dataBiases": 5}}, "rai: expected a list, got 5"),
        ({"rai": {"dataCollection": ["x"]}}, "rai: dataCollection: expected one text"),
        (
            {"rai": {"dataCollectionTimeframe": ["2026"]}},
            "dataCollectionTimeframe: expected a date",
        ),
    ],
)
def test_invalid_cards_are_refused(data, message):
    with pytest.raises(ValueError, match=message):
        DatasetCard.from_json(data)


def test_a_manifest_with_a_damaged_card_is_damaged(manifest):
    content = manifest.to_bytes().replace(b'"card": null', b'"card": {"name": "\\u0007"}')
    with pytest.raises(
        ManifestError, match=r"dataset\.json is invalid: card: name: expected text without"
    ):
        Manifest.from_bytes(content)
    empty = manifest.to_bytes().replace(b'"card": null', b'"card": {"keywords": null}')
    assert Manifest.from_bytes(empty).card == DatasetCard()


def test_bidirectional_control_characters_are_escaped(manifest):
    name = "cod\u202egnp \u2066x\u2069 \u3000\u200f"
    shown = "cod\\u202egnp \\u2066x\\u2069 \u3000\u200f"
    card = DatasetCard(
        name=name, description=name, citation=name, keywords=(name,), rai={"dataBiases": (name,)}
    )
    text = readme(manifest, card).decode()
    assert header(text)["pretty_name"] == header(text)["tags"][0] == shown
    assert not {*"\u202e\u2066\u2069"} & {*text}
    assert f"```bibtex\n{shown}\n```" in text


def test_hostile_texts_stay_texts(manifest):
    card = DatasetCard(
        name=HOSTILE,
        description=f"{HOSTILE}\n---\nlicense: mit\n",
        citation=f"````\n{HOSTILE}\n````",
        license="https://example.com/terms",
        creators=(Creator(name=HOSTILE),),
        keywords=(HOSTILE, "---", "- a", "{b: c}"),
        languages=("no",),
        rai={"dataBiases": (HOSTILE,)},
    )
    text = readme(manifest, card).decode()
    found = header(text)
    shown = HOSTILE.replace("\u202e", "\\u202e")
    assert found["pretty_name"] == shown
    assert found["license"] == "other"
    assert found["license_link"] == "https://example.com/terms"
    assert found["language"] == ["no"]
    assert found["tags"] == [shown, "---", "- a", "{b: c}", "tfrecord"]
    body, citation, rest = re.split(r"^`{5,}(?:bibtex)?$", text, flags=re.MULTILINE)
    assert citation.strip() == f"````\n{shown}\n````"  # a block of code: no markup
    assert "<script" not in re.sub(r"\\<", "", body.split("---\n", 2)[2] + rest)
    data = json.loads(croissant_json(dataclasses.replace(manifest, card=card)))
    assert data["name"] == HOSTILE
    assert data["citeAs"] == card.citation
    assert data["rai:dataBiases"] == [HOSTILE]
    assert data["conformsTo"][1] == "http://mlcommons.org/croissant/RAI/1.0"


def test_the_index_is_a_config_of_hubs(manifest):
    [config] = header(readme(manifest, DatasetCard(name="a")).decode())["configs"]
    assert config["data_files"][1] == {
        "split": "validation",
        "path": ["index/validation-[0-9][0-9][0-9][0-9][0-9]-of-00001.parquet"],
    }
    clash = {"a-b": manifest.splits["train"], "a_b": manifest.splits["train"]}
    changed = dataclasses.replace(manifest, splits=clash)
    assert "configs" not in header(readme(changed, DatasetCard(name="a")).decode())


def test_sizes_and_numbers():
    sizes = {0: "n<1K", 999: "n<1K", 1000: "1K<n<10K", 10**6: "1M<n<10M", 10**12: "n>1T"}
    assert {records: size_category(records) for records in sizes} == sizes
    assert number_globs(1) == ["[0-9]" * 5 + "-of-00001"]
    assert number_globs(100_001) == ["[0-9]" * width + "-of-100001" for width in (5, 6)]


def test_known_licences_have_the_names_of_hubs():
    names = {
        "MIT": "mit",
        "GPL-3.0-or-later": "gpl-3.0",
        "ODbL-1.0": "odbl",
        "etalab-2.0": "etalab-2.0",
        "CDLA-Permissive-2.0": "cdla-permissive-2.0",
    }
    assert {name: DatasetCard(license=name).hub_license for name in names} == names
    assert DatasetCard(license="mit").license_url == "https://spdx.org/licenses/MIT.html"
