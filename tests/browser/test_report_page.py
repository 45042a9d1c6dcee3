"""The report in a real browser: what it loads, how it reacts, and whether everybody can use it."""

import dataclasses
import json
import pathlib
from collections import Counter
from typing import Any

import numpy as np
import pytest
from axe_core_python.selenium import Axe
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import recordmill
from recordmill.format.file_info import file_info
from recordmill.pipelines.cli import main
from recordmill.pipelines.earlier.report_file import write_report
from recordmill.storage.files import Location
from tests.make_dataset import flower, make_dataset, rewrite
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
        "--purge", "2d",
    ],
    "arrays": ["--input", "ARRAYS", "--splits", "train=0.7,validation=0.3"],
    "video": [
        "--input", f"{DATA}/video", "--clip-frames", "8", "--size", "64", "--splits", "train=1",
    ],
}  # fmt: skip


def write_arrays(folder: pathlib.Path) -> None:
    """Arrays of two classes, 24 x 32 floats each."""
    y, x = np.mgrid[:24, :32].astype(np.float32)
    for number in range(12):
        for name, array in (("wave", np.sin(x / (number + 2))), ("slope", x + number * y)):
            path = folder / name / f"{number}.npy"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, array)


@pytest.fixture(scope="module", params=COMMANDS)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of the report of a dataset."""
    folder = tmp_path_factory.mktemp(request.param)
    command = "images" if request.param == "boxes" else request.param
    output = f"{folder}/out"
    given = [f"{folder}/arrays" if one == "ARRAYS" else one for one in COMMANDS[request.param]]
    if request.param == "arrays":
        write_arrays(folder / "arrays")
    assert main([command, *given, "--output", output, "--quiet"]) == 0
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
    """The URLs that pages asked for, without Chromium's own first page, which may come late."""
    events = [json.loads(one["message"])["message"] for one in browser.get_log("performance")]
    return [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
        and not event["params"]["documentURL"].startswith("chrome://")
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


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_cut_or_covered(browser: webdriver.Chrome, page: str, width: int) -> None:
    opened(browser, page, width=width)
    cut = browser.execute_script(
        """
        const right = document.documentElement.clientWidth;
        return [...document.querySelectorAll("body *")].filter((one) => {
          const box = one.getBoundingClientRect();
          return box.width && box.right > right + 1 && !one.closest(".scroll, .head, [hidden]");
        }).map((one) => one.outerHTML.slice(0, 200));
        """
    )
    assert cut == []
    covered = browser.execute_script(
        """
        return [...document.querySelectorAll(".cards, .feature-list")].flatMap((list) => {
          const boxes = [...list.children].map((one) => one.getBoundingClientRect());
          return boxes.flatMap((one, n) => boxes.slice(n + 1).filter((other) =>
            one.left < other.right - 1 && other.left < one.right - 1
            && one.top < other.bottom - 1 && other.top < one.bottom - 1));
        }).length;
        """
    )
    assert covered == 0


@pytest.mark.parametrize("width", [1280, 390])
def test_cards_fill_their_rows(browser: webdriver.Chrome, page: str, width: int) -> None:
    opened(browser, page, width=width)
    empty = browser.execute_script(
        """
        return [...document.querySelectorAll(".cards")].map((list) => {
          const cards = [...list.children].map((one) => one.getBoundingClientRect());
          const first = cards.filter((one) => one.top === cards[0].top);
          const end = Math.max(...first.map((one) => one.right));
          const isFull = first.length < cards.length;
          return isFull ? list.getBoundingClientRect().right - end : 0;
        });
        """
    )
    assert max(empty, default=0) <= 1
    tiles = browser.find_elements(By.CSS_SELECTOR, "#records .tiles .card")
    if width == 390 and len(tiles) > 2:
        tops = [one.rect["y"] for one in tiles[:3]]
        assert tops[0] == tops[1]  # at least two beside each other


def test_numbers_are_those_of_inspect_and_of_a_count(
    browser: webdriver.Chrome, page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    opened(browser, page)
    dataset = page.removeprefix("file://").removesuffix(".report.html")
    capsys.readouterr()
    assert main(["inspect", "--dataset", dataset, "--json"]) == 0
    stated = json.loads(capsys.readouterr().out)
    counted = {
        split: Counter(place.label for place in recordmill.open(dataset, split).places())
        for split in stated["splits"]
    }

    def table(selector: str) -> dict[str, list[str]]:
        rows = browser.find_elements(By.CSS_SELECTOR, f"{selector} tbody tr")
        return {
            row.find_element(By.TAG_NAME, "th").text: [
                cell.get_dom_attribute("data-value") or cell.text.replace(",", "")
                for cell in row.find_elements(By.TAG_NAME, "td")
            ]
            for row in rows
        }

    splits = table("[aria-label=Splits]")
    for split, one in stated["splits"].items():
        assert splits[split][0] == str(one["records"]) == str(counted[split].total())
        assert splits[split][-2:] == [str(one["shards"]), str(one["bytes"])]
    classes = table("#class-table")
    assert [name for name in classes if name != "(no class)"] == (
        stated["labels"] if any(set(one) - {None} for one in counted.values()) else []
    )
    for label, cells in classes.items():
        expected = [counted[split][None if label == "(no class)" else label] for split in splits]
        assert cells[1 : 1 + len(splits)] == [str(number) for number in expected]
    flow = browser.find_elements(By.CSS_SELECTOR, ".flow li")
    shown = {one.text.split(" ", 1)[1].split("\n")[0]: one.text.split(" ")[0] for one in flow}
    assert shown["records written"] == f"{sum(one.total() for one in counted.values()):,}"
    ledger = stated["ledger"]
    assert shown["inputs"] == f"{sum(ledger['inputs'].values()):,}"


def test_a_number_shows_its_command(browser: webdriver.Chrome, page: str) -> None:
    opened(browser, page)
    number = browser.find_element(By.CSS_SELECTOR, "#classes .get")
    number.send_keys(Keys.ENTER)
    dialog = browser.find_element(By.ID, "command")
    code = dialog.find_element(By.TAG_NAME, "code").text
    assert code == number.get_dom_attribute("data-command")
    assert code.startswith("recordmill inspect --dataset /")
    dialog.find_element(By.ID, "copy").click()
    assert browser.execute_script("return getSelection().toString()").strip() == code
    assert dialog.find_element(By.ID, "copied").text in ("copied", "selected")
    dialog.find_element(By.TAG_NAME, "button").click()
    assert not dialog.is_displayed()


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


@pytest.mark.parametrize("width", [1280, 390])
def test_filters_and_details(browser: webdriver.Chrome, page: str, width: int) -> None:
    opened(browser, page, width=width)
    groups = browser.find_elements(By.CSS_SELECTOR, ".class-group")
    name = groups[-1].get_dom_attribute("data-label") or ""
    class_filter = browser.find_element(By.ID, "class-filter")
    assert class_filter.is_displayed() == (name != "(no class)")
    if class_filter.is_displayed():
        class_filter.send_keys(name)
    shown = [one.get_dom_attribute("data-label") for one in groups if one.is_displayed()]
    assert shown
    assert all(name in (one or "") for one in shown)
    browser.find_element(By.CSS_SELECTOR, "#split-filter option:nth-child(2)").click()
    splits = browser.find_elements(By.CSS_SELECTOR, ".split-group")
    assert {one.get_dom_attribute("data-split") for one in splits if one.is_displayed()} == {
        "train"
    }
    shown = [
        one
        for one in browser.find_elements(By.CSS_SELECTOR, "#records .card")
        if one.is_displayed()
    ]
    assert browser.find_element(By.ID, "filter-count").text == f"{len(shown)} records shown"
    card = next(
        one for one in browser.find_elements(By.CSS_SELECTOR, ".card .open") if one.is_displayed()
    )
    card.send_keys(Keys.ENTER)
    details = browser.find_element(By.ID, "details")
    assert details.is_displayed()
    assert "recordmill inspect --dataset" in details.text
    # Long names leave room for the values.
    widths = [one.size["width"] for one in details.find_elements(By.CSS_SELECTOR, "dd")]
    assert min(widths) >= details.size["width"] * 0.4
    details.find_element(By.TAG_NAME, "button").click()
    assert not details.is_displayed()


def test_hostile_names_run_nothing(browser: webdriver.Chrome, tmp_path: pathlib.Path) -> None:
    nasty = NASTY.encode()
    values = flower("a", "rose").having(image__class__text=[nasty], caption=[nasty])
    rows = [dataclasses.replace(values, key=NASTY, label=NASTY)]
    folder = tmp_path / "out"
    manifest = make_dataset(
        folder, {"train": [rows], "validation": [], "test": []}, labels=(NASTY, "tulip")
    )
    reject = {"key": NASTY, "stage": "check", "reason": "empty", "detail": NASTY}
    content = json.dumps(reject).encode() + b"\n"
    (folder / "rejects.jsonl").write_bytes(content)
    files = {**manifest.files, "rejects.jsonl": file_info(content)}
    rewrite(folder, dataclasses.replace(manifest, files=files))
    url = pathlib.Path(str(write_report(Location.parse(str(folder))))).as_uri()
    opened(browser, url)
    shown = NASTY.replace("\u202e", "\\u202e")
    assert shown in browser.find_element(By.ID, "rejects").text
    number = browser.find_element(By.CSS_SELECTOR, "#class-table .get")
    number.click()
    command = browser.find_element(By.ID, "command")
    assert "window.hit" in command.text
    command.find_element(By.TAG_NAME, "button").click()
    browser.find_element(By.CSS_SELECTOR, ".open").click()
    assert browser.execute_script("return window.hit") is None
    assert requests_of(browser)[0] == url
    assert NASTY.replace("\u202e", "\\u202e") in browser.find_element(By.ID, "details").text
    assert browser.get_log("browser") == []
