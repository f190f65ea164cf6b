"""The dashboard during a build, in a browser. ``TREESIM_PICTURE=file.png`` keeps the picture, for the README."""

import os
import threading
from pathlib import Path

import pytest
from services.browser import take_picture
from services.crawl_server import run_crawl_server

from treesim_dask.api import open_index
from treesim_dask.builder import build


@pytest.mark.browser
def test_dashboard_shows_a_build(small_crawl, client, tmp_path):
    target = Path(os.environ.get("TREESIM_PICTURE", tmp_path / "dashboard.png"))
    build(str(small_crawl), str(tmp_path / "first"), client=client)
    index = open_index(str(tmp_path / "first"))
    with run_crawl_server(small_crawl) as server:
        server.begin(seconds_per_file=4.0)
        listed = tmp_path / "list.txt"
        paths = sorted(small_crawl.rglob("*.warc.gz"))
        listed.write_text("".join(f"{server.url}/{path.relative_to(small_crawl)}\n" for path in paths))
        work = threading.Thread(target=build, args=(str(listed), str(tmp_path / "second")), kwargs={"client": client})
        work.start()
        try:
            for number in range(3):
                index.search(f"id:{index.segments[0].segment_id}-{number}", client=client)
            title = take_picture(client.dashboard_link, target, wait_seconds=5)
        finally:
            work.join()
    assert title == "Dask: Status"
    assert target.stat().st_size > 20_000, "the picture is empty"
