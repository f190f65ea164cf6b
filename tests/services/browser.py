"""Looking at a page as a person does: the system's Chromium, without a window."""

from __future__ import annotations

import shutil
from pathlib import Path

from services.availability import give_up

_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def take_picture(url: str, target: Path, *, wait_seconds: float, width: int = 1400, height: int = 800) -> str:
    """Write a picture of a page as it looks after some seconds, and return its title."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        give_up("no browser: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, headless=True, args=_FLAGS)
        try:
            page = browser.new_page(viewport={"width": width, "height": height})
            page.goto(url, wait_until="load")
            page.wait_for_timeout(wait_seconds * 1000)
            page.screenshot(path=str(target))
            return page.title()
        finally:
            browser.close()
