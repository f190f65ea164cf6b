"""Looking at a page as a person does: the system's Chromium, without a window."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from services.availability import give_up

if TYPE_CHECKING:
    from playwright.sync_api import Page

_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@contextmanager
def open_page(url: str, *, width: int = 1400, height: int = 760) -> Iterator[Page]:
    """Show a page, with everything that it loads."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        give_up("no browser: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, headless=True, args=_FLAGS)
        try:
            page = browser.new_page(viewport={"width": width, "height": height})
            page.goto(url, wait_until="load")
            yield page
        finally:
            browser.close()
