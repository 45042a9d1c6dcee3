"""The card of a dataset: licence, citation, description and the like, as its author gives them.

Keys of `rai` are those of the Croissant RAI vocabulary: http://mlcommons.org/croissant/RAI/1.0.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

from recordmill.errors import did_you_mean

MAX_CARD_BYTES = 1 << 20

# SPDX identifiers that dataset hubs know, most of them by the same name in lower case.
_SPDX = (
    *("AFL-3.0", "AGPL-3.0-only", "AGPL-3.0-or-later", "Apache-2.0", "Artistic-2.0"),
    *("BSD-2-Clause", "BSD-3-Clause", "BSD-3-Clause-Clear", "BSL-1.0", "C-UDA-1.0"),
    *("CC-BY-2.0", "CC-BY-2.5", "CC-BY-3.0", "CC-BY-4.0", "CC-BY-NC-2.0", "CC-BY-NC-3.0"),
    *("CC-BY-NC-4.0", "CC-BY-NC-ND-3.0", "CC-BY-NC-ND-4.0", "CC-BY-NC-SA-2.0"),
    *("CC-BY-NC-SA-3.0", "CC-BY-NC-SA-4.0", "CC-BY-ND-4.0", "CC-BY-SA-3.0", "CC-BY-SA-4.0"),
    *("CC0-1.0", "CDLA-Permissive-1.0", "CDLA-Permissive-2.0", "CDLA-Sharing-1.0"),
    *("ECL-2.0", "EPL-1.0", "EPL-2.0", "EUPL-1.1", "EUPL-1.2", "GFDL-1.3-only"),
    *("GFDL-1.3-or-later", "GPL-2.0-only", "GPL-2.0-or-later", "GPL-3.0-only"),
    *("GPL-3.0-or-later", "ISC", "LGPL-2.1-only", "LGPL-2.1-or-later", "LGPL-3.0-only"),
    *("LGPL-3.0-or-later", "MIT", "MPL-2.0", "MS-PL", "NCSA", "ODbL-1.0", "ODC-By-1.0"),
    *("OFL-1.1", "OSL-3.0", "PDDL-1.0", "PostgreSQL", "Unlicense", "WTFPL", "Zlib"),
    *("etalab-2.0",),
)
_HUB_NAMES = {
    **{"C-UDA-1.0": "c-uda", "ODbL-1.0": "odbl", "ODC-By-1.0": "odc-by", "PDDL-1.0": "pddl"},
    **{"GFDL-1.3-only": "gfdl", "GFDL-1.3-or-later": "gfdl"},
}
_LICENSES = {name.lower(): name for name in _SPDX}

_ONE = (
    *("annotationsPerItem", "dataAnnotationProtocol", "dataCollection"),
    *("dataCollectionMissingData", "dataCollectionRawData", "dataImputationProtocol"),
    *("dataManipulationProtocol", "dataReleaseMaintenancePlan", "dataSocialImpact"),
)
_MANY = (
    *("annotatorDemographics", "dataAnnotationAnalysis", "dataAnnotationPlatform", "dataBiases"),
    *("dataCollectionTimeframe", "dataCollectionType", "dataLimitations"),
    *("dataPreprocessingProtocol", "dataUseCases", "machineAnnotationTools"),
    "personalSensitiveInformation",
)
RAI_FIELDS = tuple(sorted((*_ONE, *_MANY)))

_URL = re.compile(r"https?://[^\s<>\"\\^`{|}\u202a-\u202e\u2066-\u2069]+")
_EMAIL = re.compile(r"[^\s@<>]+@[^\s@<>]+")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")  # BCP 47
_TASK = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Creator:
    """A person or an organization that made the dataset.

    Raises:
      ValueError: a value is invalid; the message says which.
    """

    name: str
    type: Literal["person", "organization"] = "person"
    url: str | None = None
    email: str | None = None

    def __post_init__(self) -> None:
        _check(self, {"name": _line, "type": _kind, "url": _url, "email": _email})


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetCard:
    """Facts about a dataset that its author gives; every field may be missing.

    description: Markdown. citation: of the dataset, preferably BibTeX.
    license: an SPDX identifier, or the URL of a licence. languages: BCP 47 codes.
    date_published: as 2026-01-31. task_categories: names of tasks in dataset hubs.
    rai: {field of the RAI vocabulary: text, or texts}.

    Raises:
      ValueError: a value is invalid; the message says which.
    """

    name: str | None = None
    description: str | None = None
    license: str | None = None
    citation: str | None = None
    creators: tuple[Creator, ...] = ()
    url: str | None = None
    version: str | None = None
    date_published: str | None = None
    keywords: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    task_categories: tuple[str, ...] = ()
    rai: Mapping[str, str | tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        lines = dict.fromkeys(("name", "version"), _line)
        texts = dict.fromkeys(("description", "citation"), _text)
        lists = {"keywords": _lines, "languages": _languages, "task_categories": _tasks}
        more = {"license": _license, "url": _url, "date_published": _date, "rai": _rai}
        _check(self, {**lines, **texts, **lists, **more})
        if self.license is not None:  # the spelling of SPDX
            spdx = _LICENSES.get(self.license.lower(), self.license)
            object.__setattr__(self, "license", spdx)

    @property
    def license_url(self) -> str | None:
        """Address of the licence's text."""
        if self.license is None or _URL.fullmatch(self.license):
            return self.license
        return f"https://spdx.org/licenses/{self.license}.html"

    @property
    def hub_license(self) -> str | None:
        """Name of the licence in dataset hubs; `other` for a URL."""
        if self.license is None:
            return None
        if self.license not in _SPDX:
            return "other"
        short = self.license.removesuffix("-only").removesuffix("-or-later")
        return _HUB_NAMES.get(self.license, short.lower())

    def to_json(self) -> dict[str, Any]:
        """Return the given fields, as they are stored in dataset.json."""
        given = {name: value for name, value in vars(self).items() if value not in (None, (), {})}
        if self.creators:
            given["creators"] = [
                {name: value for name, value in vars(one).items() if value is not None}
                for one in self.creators
            ]
        return given

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the inverse of `to_json`, also of data of a user.

        Raises:
          ValueError: a field is unknown, or its value is invalid.
        """
        _refuse_unknown(data, _fields(cls))
        given = {name: _as_tuple(value) for name, value in data.items() if value is not None}
        if "creators" in given:
            try:
                listed = _sequence(data["creators"])
            except ValueError as error:
                raise ValueError(f"creators: {error}") from error
            given["creators"] = tuple(_creator(one) for one in listed)
        if isinstance(data.get("rai"), Mapping):
            given["rai"] = {name: _as_tuple(value) for name, value in data["rai"].items()}
        return cls(**given)


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _refuse_unknown(data: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in data:
        if name not in known:
            raise ValueError(
                f"unknown key {name!r}{did_you_mean(name, known)}; expected one of"
                f" {', '.join(known)}"
            )


def _fields(record: type) -> list[str]:
    return [field.name for field in dataclasses.fields(record)]


def _creator(value: Any) -> Creator:
    if isinstance(value, str):
        return Creator(name=value)
    if not isinstance(value, Mapping):
        raise ValueError(f"creators: expected a name, or name, type, url and email; got {value!r}")
    _refuse_unknown(value, _fields(Creator))
    if "name" not in value:
        raise ValueError("creators: expected a name for each creator")
    return Creator(**value)


def _check(record: Any, checks: Mapping[str, Callable[[Any], None]]) -> None:
    for name, check in checks.items():
        value = getattr(record, name)
        if value is not None:
            try:
                check(value)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error


def _text(value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"expected text, got {_shown(value)}")
    for char in value:
        if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t":
            raise ValueError(f"expected text without control characters, got U+{ord(char):04X}")


def _line(value: Any) -> None:
    _text(value)
    if len(value.splitlines()) > 1 or value != value.strip() or "\t" in value:
        raise ValueError(f"expected one line of text, got {_shown(value)}")


def _lines(value: Any) -> None:
    for one in _sequence(value):
        _line(one)


def _languages(value: Any) -> None:
    _lines(value)
    for one in value:
        if not _LANGUAGE.fullmatch(one):
            raise ValueError(f"expected a code such as en or pt-BR, got {_shown(one)}")


def _tasks(value: Any) -> None:
    _lines(value)
    for one in value:
        if not _TASK.fullmatch(one):
            raise ValueError(f"expected a name such as image-classification, got {_shown(one)}")


def _sequence(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"expected a list, got {_shown(value)}")
    return tuple(value)


def _license(value: Any) -> None:
    _line(value)
    if value.lower() not in _LICENSES and not _URL.fullmatch(value):
        raise ValueError(
            f"expected a known SPDX identifier such as CC-BY-4.0, or the URL of a licence; got"
            f" {_shown(value)}{did_you_mean(value, _SPDX)}. Known are {', '.join(_SPDX)}"
        )


def _url(value: Any) -> None:
    _line(value)
    if not _URL.fullmatch(value):
        raise ValueError(f"expected an http or https URL, got {_shown(value)}")


def _email(value: Any) -> None:
    _line(value)
    if not _EMAIL.fullmatch(value):
        raise ValueError(f"expected an e-mail address, got {_shown(value)}")


def _kind(value: Any) -> None:
    if value not in ("person", "organization"):
        raise ValueError(f"expected person or organization, got {_shown(value)}")


def _date(value: Any) -> None:
    _line(value)
    try:
        parsed = datetime.date.fromisoformat(value).isoformat()
    except ValueError:
        parsed = ""
    if parsed != value:
        raise ValueError(f"expected a date such as 2026-01-31, got {_shown(value)}")


def _rai(value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"expected fields of the RAI vocabulary, got {_shown(value)}")
    _refuse_unknown(value, RAI_FIELDS)
    for name, given in value.items():
        if name in _ONE and not isinstance(given, str):
            raise ValueError(f"{name}: expected one text, got {_shown(given)}")
        for one in (given,) if isinstance(given, str) else _sequence(given):
            try:
                _text(one)
                if name == "dataCollectionTimeframe":
                    _date(one)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error


def _shown(value: Any) -> str:
    return repr([*value] if isinstance(value, tuple) else value)[:100]
