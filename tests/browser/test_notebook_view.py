"""A dataset in a notebook: a kernel makes the output, and a browser shows it."""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from selenium import webdriver

from recordmill.pipelines.cli import main
from tests.browser.test_report_page import COMMANDS, NASTY, opened, requests_of
from tests.make_dataset import flower, make_dataset
from tests.paths import ROOT

_PACKAGES = ROOT / "build" / "notebook"


def outputs(folder: pathlib.Path, *cells: str) -> list[dict[str, Any]]:
    """Execute a notebook, and return the representations of the last value of each cell."""
    made = [
        {"cell_type": "code", "metadata": {}, "source": one, "outputs": [], "execution_count": None}
        for one in cells
    ]
    file = folder / "data.ipynb"
    file.write_text(json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}))
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONWARNINGS": os.environ["PYTHONWARNINGS"],
        "HOME": str(folder),
        "PYTHONPATH": f"{ROOT}:{_PACKAGES}",
        "JUPYTER_PATH": str(_PACKAGES / "share" / "jupyter"),
    }
    program = "from nbclient.cli import main; main()"  # `jupyter execute`
    done = subprocess.run(
        [sys.executable, "-c", program, str(file), "--inplace", "--kernel_name=python3"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    executed = json.loads(file.read_text())["cells"]
    return [cell["outputs"][-1]["data"] for cell in executed if cell["outputs"]]


def html_of(output: dict[str, Any]) -> str:
    return "".join(output["text/html"])


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("datasets")
    for name in ("images", "boxes", "text", "sensor"):
        command = "images" if name == "boxes" else name
        assert main([command, *COMMANDS[name], "--output", f"{folder}/{name}", "--quiet"]) == 0
    rows = [flower("a", "rose").having(caption=[NASTY.encode()])]
    make_dataset(folder / "hostile", {"train": [rows]})
    return folder


def test_a_notebook_shows_datasets(
    browser: webdriver.Chrome, datasets: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    names = sorted(path.name for path in datasets.iterdir())
    found = outputs(
        tmp_path,
        "import recordmill",
        *(f"recordmill.open({str(datasets / name)!r})" for name in names),
        f"recordmill.open({str(datasets / 'images')!r}).show('train', 12)",
    )
    assert len(found) == len(names) + 1
    for output in found:
        assert "".join(output["text/plain"]).startswith("<")  # plain text stays
        assert len(html_of(output)) <= 1_000_000
    for width, scheme in ((1280, "light"), (390, "dark")):
        page = tmp_path / f"{scheme}.html"
        views = "\n".join(f"<section>{html_of(one)}</section>" for one in found)
        page.write_text(
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>views</title>'
            '<meta name="viewport" content="width=device-width">'
            "<style>:root{color-scheme:light dark}</style></head>"
            f'<body><p id="outside" class="line card">text</p>{views}</body></html>'
        )
        opened(browser, page.as_uri(), width=width, scheme=scheme)
        asked = [one for one in requests_of(browser) if not one.startswith("data:")]
        assert asked == [page.as_uri()]
        assert browser.get_log("browser") == []
        assert browser.execute_script("return window.hit") is None
        assert browser.execute_script(
            "return [...document.images].every(one => one.complete && one.naturalWidth > 0)"
        )
        assert (
            browser.execute_script(
                "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            == 0
        )
        assert (
            browser.execute_script(
                "return getComputedStyle(document.getElementById('outside')).borderStyle"
            )
            == "none"
        )  # styles apply to the view alone
        browser.save_screenshot(str(tmp_path / f"{scheme}.png"))
