"""The dashboard during a build, in a browser. ``TREESIM_PICTURE=file.png`` keeps the picture, for the README."""

import os
import threading
from pathlib import Path

import pytest
from services.browser import open_page
from services.crawl_server import run_crawl_server

from treesim_dask.api import open_index
from treesim_dask.builder import build
from treesim_dask.demo.crawl import write_demo_crawl

_SECONDS_TO_DRAW = 7


def _ask_while(building, index, client):
    while building.is_alive():
        index.search(f"id:{index.segments[0].segment_id}-3", client=client)


@pytest.mark.browser
def test_dashboard_shows_a_build(small_crawl, client, tmp_path):
    target = Path(os.environ.get("TREESIM_PICTURE", tmp_path / "dashboard.png"))
    crawl = tmp_path / "crawl"
    write_demo_crawl(crawl, n_pages=320, n_files=32)
    build(str(small_crawl), str(tmp_path / "first"), client=client)
    index = open_index(str(tmp_path / "first"))
    with run_crawl_server(crawl) as server:
        server.begin(seconds_per_file=0.8)
        listed = tmp_path / "list.txt"
        paths = sorted(crawl.rglob("*.warc.gz"))
        listed.write_text("".join(f"{server.url}/{path.relative_to(crawl)}\n" for path in paths))
        building = threading.Thread(
            target=build, args=(str(listed), str(tmp_path / "second")), kwargs={"client": client}
        )
        building.start()
        asking = threading.Thread(target=_ask_while, args=(building, index, client))
        asking.start()
        try:
            with open_page(client.dashboard_link) as page:
                page.wait_for_timeout(_SECONDS_TO_DRAW * 1000)
                page.screenshot(path=str(target))
                title = page.title()
            with open_page(client.dashboard_link.replace("/status", "/workers")) as page:
                page.get_by_text("pages_per_s").wait_for(timeout=20_000)
                columns = set(page.locator(".slick-header-column").all_inner_texts())
        finally:
            building.join()
            asking.join()
    assert title == "Dask: Status"
    assert target.stat().st_size > 30_000, "the picture is empty"
    assert {"memory", "pages", "pages_per_s"} <= columns
