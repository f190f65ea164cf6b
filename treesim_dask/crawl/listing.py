"""Which input files lie in a folder or behind a glob, on this machine or anywhere fsspec reaches."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from treesim_dask.crawl.streams import explain_failure, find_filesystem, is_local
from treesim_dask.errors import SourceError

Kind = Literal["archive", "html", "list"]
_Entry = tuple[str, int | None, float | None]  # url, size and time of a file

_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("archive", re.compile(r"\.w?arc(\.gz|\.zst)?(\.open)?$", re.IGNORECASE)),
    ("html", re.compile(r"\.(html?|xhtml?|xht|shtml)$", re.IGNORECASE)),
    ("list", re.compile(r"\.(paths|txt)(\.gz)?$", re.IGNORECASE)),
)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """An input file. ``root`` is the folder, pattern or list it was found in, empty if it was named itself.

    ``modified`` is when it was written, in seconds since 1970, for a file of this machine.
    """

    url: str
    kind: Literal["archive", "html"]
    size: int | None = None
    root: str = ""
    modified: float | None = None


def normalise(place: str) -> str:
    """Return the one spelling of a place: an absolute path without a scheme for local files, else a URL.

    Symbolic links stay as they are written: the path is stored in the index and has to mean something to its users.

    Examples
    --------
    >>> normalise("file:///data/x/../a.warc.gz"), normalise("S3a://bucket/a.warc.gz")
    ('/data/a.warc.gz', 's3://bucket/a.warc.gz')
    """
    if place.startswith(("file://", "local://")) and "::" not in place:
        place = place.partition("://")[2]
    if is_local(place):
        return os.path.abspath(Path(place).expanduser())  # noqa: PTH100 - resolve() would follow links
    scheme, separator, rest = place.partition("://")
    return re.sub(r"^s3a$", "s3", scheme.lower()) + separator + rest


def spell_out(url: str) -> str:
    """Return `url` with bytes that are not UTF-8, as file names may hold them, in a form that can be shown and stored.

    Examples
    --------
    >>> spell_out("/site/café.html"), spell_out(os.fsdecode(b"/site/caf\\xe9.html"))
    ('/site/café.html', '/site/caf\\\\xe9.html')
    """
    return url.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def kind_by_name(url: str) -> Kind | None:
    """Return what the name of a file promises.

    Examples
    --------
    >>> kind_by_name("a.warc.gz"), kind_by_name("a.warc.wet.gz"), kind_by_name("warc.paths.gz")
    ('archive', None, 'list')
    """
    path = re.split(r"[?#]", url)[0] if url.startswith(("http://", "https://")) else url.partition("::")[0]
    return next((kind for kind, pattern in _KINDS if pattern.search(path)), None)


def list_files(place: str, storage_options: Mapping[str, Any] | None) -> list[FoundFile] | None:
    """Return the archives and HTML files in a folder (to any depth) or behind a glob, None if `place` is neither.

    Raises
    ------
    SourceError
        The place cannot be listed, or holds nothing to read.
    """
    root = normalise(place)
    entries = _list_local(root) if is_local(root) else _list_remote(root, storage_options)
    if entries is None:
        return None
    files = [
        FoundFile(url, kind, size, root, modified)
        for url, size, modified in entries
        if (kind := kind_by_name(url)) == "archive" or kind == "html"
    ]
    if not files:
        what = "nothing matches" if _is_glob(root) else "no archive (.warc, .warc.gz, .arc.gz) and no HTML file in"
        raise SourceError(f"{what} {place}: check the spelling")
    return files


def _is_glob(url: str) -> bool:
    return any(mark in url for mark in ("*?[" if is_local(url) else "*["))  # "?" begins the query of a URL


def _list_local(path: str) -> list[_Entry] | None:
    if Path(path).is_dir():
        found: Iterable[str] = (
            str(Path(folder) / name) for folder, _, names in os.walk(path, onerror=_refuse_folder) for name in names
        )
    elif _is_glob(path) and not Path(path).exists():
        found = glob.iglob(path, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
    else:
        return None
    return [(name, *state) for name in found if (state := _local_state(name)) is not None]


def _refuse_folder(error: OSError) -> None:
    raise explain_failure(str(error.filename), error) from error


def _local_state(path: str) -> tuple[int, float] | None:
    """Return size and time of a file; None for folders, dangling links, pipes and the like."""
    if not Path(path).is_file():
        return None
    state = Path(path).stat()
    return state.st_size, state.st_mtime


def _list_remote(url: str, storage_options: Mapping[str, Any] | None) -> list[_Entry] | None:
    is_web = url.startswith(("http://", "https://"))
    if is_web and not url.endswith("/") and not _is_glob(url):
        return None
    fs, path = find_filesystem(url, storage_options)
    try:
        if _is_glob(url):
            details = fs.glob(path, detail=True)
        elif is_web:
            details = {entry["name"]: entry for entry in fs.ls(path, detail=True)}
        elif url.endswith("/") or fs.info(path)["type"] == "directory":
            details = fs.find(path, detail=True)
        else:
            return None
    except Exception as error:  # every file system has errors of its own
        raise explain_failure(url, error) from error
    files = (entry for entry in details.values() if entry["type"] == "file")
    return [(_full_url(fs, entry["name"], url), entry.get("size"), None) for entry in files]


def _full_url(fs: Any, name: str, listed_url: str) -> str:
    if listed_url.startswith(("http://", "https://")):
        return name
    chain = listed_url.partition("::")
    return str(fs.unstrip_protocol(name)) + chain[1] + chain[2]
