"""A real browser for the pages of the site."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DRIVER = re.compile(r"GL Driver Message|WebGL")
"""Said by software OpenGL: about the machine, not about the page."""
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium; tests that need it are skipped where it is missing."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is missing: pip install playwright"
    )
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if path is None:
        pytest.skip("Chromium is missing: apt-get install chromium")
    # Chromium's own sandbox does not work for root, e.g. in containers.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=arguments)
        yield running
        running.close()


class Visit:
    """One tab, and everything the pages in it asked for or complained about."""

    def __init__(self, browser: Any, site: Path, **options: Any) -> None:
        options.setdefault("viewport", {"width": 1280, "height": 800})
        self.site = site
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self._note(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))

    def _note(self, text: str) -> None:
        if not DRIVER.search(text):
            self.complaints.append(text)

    def open(self, path: Path) -> Any:
        """Go to a page of the site and return the tab."""
        self.page.goto(path.as_uri())
        return self.page

    def open_only(self, folder: str, start: str = "") -> Any:
        """Go to the one page of a folder whose name begins so."""
        (path,) = (self.site / folder).glob(f"{start}*.html")
        return self.open(path)

    def outside(self) -> list[str]:
        """Return what was asked for outside the site's folder."""
        return [url for url in self.requests if not url.startswith(f"{self.site.as_uri()}/")]


@pytest.fixture
def visit(browser: Any) -> Iterator[Any]:
    """Return a function that opens a tab on a site."""
    visits: list[Visit] = []

    def start(site: Path, **options: Any) -> Visit:
        visits.append(Visit(browser, site, **options))
        return visits[-1]

    yield start
    for item in visits:
        item.context.close()
