"""The report in a real browser: what it loads, how it reacts, and whether everybody can use it."""

import dataclasses
import json
import pathlib
from typing import Any

import pytest
from axe_core_python.selenium import Axe
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from recordmill.pipelines.cli import main
from recordmill.pipelines.report_file import write_report
from recordmill.storage.files import Location
from tests.make_dataset import flower, make_dataset
from tests.paths import DATA, ROOT

NASTY = "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'>\"'\u202egnp"
COMMANDS = {
    "images": ["--input", f"{ROOT}/examples/clothing", "--size", "64", "--balance", "oversample"],
    "boxes": [
        "--input", f"{DATA}/boxes/images", "--annotations", f"{DATA}/boxes/annotations.json",
        "--size", "96",
    ],
    "text": [
        "--input", f"{DATA}/sms_spam/SMSSpamCollection", "--format", "tsv", "--label-column",
        "Label", "--text-column", "SMS", "--tokenizer", "words",
    ],
    "table": [
        "--input", f"{DATA}/imbalanced/imbalanced.csv", "--columns", "a,b,c,d,e,f,class",
        "--label-column", "class",
    ],
    "sensor": [
        "--input", f"{DATA}/air_quality/AirQualityUCI.csv", "--time-column", "Date,Time",
        "--time-format", "%d/%m/%Y %H.%M.%S", "--delimiter", ";", "--decimal", ",",
        "--missing=-200", "--window", "24", "--split-by", "time", "--max-reject-fraction", "0.1",
    ],
    "video": [
        "--input", f"{DATA}/video", "--clip-frames", "8", "--size", "64", "--splits", "train=1",
    ],
}  # fmt: skip


@pytest.fixture(scope="module", params=COMMANDS)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of the report of a dataset."""
    folder = tmp_path_factory.mktemp(request.param)
    command = "images" if request.param == "boxes" else request.param
    output = f"{folder}/out"
    assert main([command, *COMMANDS[request.param], "--output", output, "--quiet"]) == 0
    return pathlib.Path(str(write_report(Location.parse(output)))).as_uri()


def opened(
    browser: webdriver.Chrome, url: str, *, width: int = 1280, scheme: str = "light"
) -> None:
    browser.get_log("performance")
    browser.get_log("browser")
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    browser.get(url)


def requests_of(browser: webdriver.Chrome) -> list[str]:
    """The URLs that the page asked for."""
    events = [json.loads(one["message"])["message"] for one in browser.get_log("performance")]
    return [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_page_is_whole_and_accessible(
    browser: webdriver.Chrome, page: str, width: int, scheme: str
) -> None:
    opened(browser, page, width=width, scheme=scheme)
    assert [one for one in requests_of(browser) if not one.startswith("data:")] == [page]
    assert browser.get_log("browser") == []
    sizes: list[Any] = browser.execute_script(
        "return [...document.querySelectorAll('svg image')].map(one => one.getBBox().width)"
    )
    assert all(size > 0 for size in sizes)
    scrolled = browser.execute_script(
        "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert scrolled == 0  # nothing is wider than the page
    found = Axe().run(browser)
    serious = [
        (one["id"], [node["html"][:200] for node in one["nodes"][:3]])
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_a_click_sorts_a_table(browser: webdriver.Chrome, page: str) -> None:
    opened(browser, page)
    table = browser.find_element(By.CSS_SELECTOR, "table.sortable")
    heading = table.find_elements(By.CSS_SELECTOR, "thead button")[1]

    def counts() -> list[int]:
        cells = table.find_elements(By.CSS_SELECTOR, "tbody td:nth-child(2)")
        return [int(cell.text.replace(",", "")) for cell in cells]

    expected = sorted(counts())
    heading.click()
    assert counts() == expected
    heading.send_keys(Keys.ENTER)
    assert counts() == expected[::-1]


def test_filters_and_details(browser: webdriver.Chrome, page: str) -> None:
    opened(browser, page)
    groups = browser.find_elements(By.CSS_SELECTOR, ".class-group")
    name = groups[-1].get_dom_attribute("data-label") or ""
    browser.find_element(By.ID, "class-filter").send_keys(name)
    shown = [one.get_dom_attribute("data-label") for one in groups if one.is_displayed()]
    assert shown
    assert all(name in (one or "") for one in shown)
    browser.find_element(By.CSS_SELECTOR, "#split-filter option:nth-child(2)").click()
    splits = browser.find_elements(By.CSS_SELECTOR, ".split-group")
    assert {one.get_dom_attribute("data-split") for one in splits if one.is_displayed()} == {
        "train"
    }
    card = next(
        one for one in browser.find_elements(By.CSS_SELECTOR, ".card .open") if one.is_displayed()
    )
    card.send_keys(Keys.ENTER)
    details = browser.find_element(By.ID, "details")
    assert details.is_displayed()
    assert "recordmill inspect --dataset" in details.text
    details.find_element(By.TAG_NAME, "button").click()
    assert not details.is_displayed()


def test_hostile_names_run_nothing(browser: webdriver.Chrome, tmp_path: pathlib.Path) -> None:
    values = flower("a", "rose").having(image__class__text=[NASTY.encode()])
    rows = [dataclasses.replace(values, key=NASTY, label=NASTY)]
    make_dataset(
        tmp_path / "out", {"train": [rows], "validation": [], "test": []}, labels=(NASTY, "tulip")
    )
    url = pathlib.Path(str(write_report(Location.parse(f"{tmp_path}/out")))).as_uri()
    opened(browser, url)
    browser.find_element(By.CSS_SELECTOR, ".open").click()
    assert browser.execute_script("return window.hit") is None
    assert requests_of(browser)[0] == url
    assert NASTY.replace("\u202e", "\\u202e") in browser.find_element(By.ID, "details").text
    assert browser.get_log("browser") == []
