"""A headless Chromium, driven through WebDriver. Debian: apt install chromium chromium-driver."""

import pathlib
from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

# Without these, Chromium asks servers of its maker for updates.
_QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    profile: pathlib.Path = tmp_path_factory.mktemp("profile")
    for one in ("--headless=new", "--no-sandbox", "--disable-gpu", *_QUIET):
        options.add_argument(one)
    options.add_argument(f"--user-data-dir={profile}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    driver.set_script_timeout(300)  # axe takes long on a busy machine
    yield driver
    driver.quit()
