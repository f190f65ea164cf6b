"""The dashboard during a build, in a browser. ``TREESIM_PICTURE=file.png`` keeps the picture, for the README."""

import os
import threading
from pathlib import Path

import pytest
from services.browser import take_picture
from services.crawl_server import run_crawl_server

from treesim_dask.api import open_index
from treesim_dask.builder import build
from treesim_dask.demo.crawl import write_demo_crawl


def _ask_while(building, index, client):
    while building.is_alive():
        index.search(f"id:{index.segments[0].segment_id}-3", client=client)


@pytest.mark.browser
def test_dashboard_shows_a_build(small_crawl, client, tmp_path):
    target = Path(os.environ.get("TREESIM_PICTURE", tmp_path / "dashboard.png"))
    crawl = tmp_path / "crawl"
    write_demo_crawl(crawl, n_pages=180, n_files=18)
    build(str(small_crawl), str(tmp_path / "first"), client=client)
    index = open_index(str(tmp_path / "first"))
    with run_crawl_server(crawl) as server:
        server.begin(seconds_per_file=1.5)
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
            title = take_picture(client.dashboard_link, target, wait_seconds=6)
        finally:
            building.join()
            asking.join()
    assert title == "Dask: Status"
    assert target.stat().st_size > 30_000, "the picture is empty"
