"""Where an index lies: a folder of any fsspec file system, with what segments need of it.

Everything is written to a local folder first and then published: on a local disk by one rename, on an object store
by uploading the file that makes a segment valid last. A reader therefore sees a segment whole or not at all.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import tempfile
import uuid
from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, cast

import fsspec
import psutil
from fsspec.implementations.local import LocalFileSystem

from treesim_dask.errors import IndexFormatError, StorageError, TreesimError

STAGING = "staging"
SPARE = ".spare"
# one of these at a time: each takes for granted what another would remove
COMPACTION, MERGE, REPAIR = UPKEEP = ("compaction", "merge", "repair")
_STAGED = re.compile(rf"(?P<what>[A-Za-z0-9-]+)\.(?P<host>[A-Za-z0-9-]+)\.(?P<pid>\d+)\.[0-9a-f]{{32}}({SPARE})?")
_ABANDONED_AFTER = timedelta(days=7)
_GAP_BYTES = 2**16  # arrive sooner from a distant store than the answer to another request
_NETWORK_PACKAGES = {"aiohttp", "aiobotocore", "botocore"}  # by name, as they are loaded for their stores only
_N_READERS = 32  # small files read at the same time: each is a wait for a distant store, not work


class Store:
    """A folder that holds an index.

    Parameters
    ----------
    url
        A local path or any fsspec URL.
    storage_options
        Passed to the fsspec file system (credentials, endpoint, ...).

    Examples
    --------
    >>> import tempfile
    >>> store = Store(tempfile.mkdtemp())
    >>> store.write_bytes("a/b.json", b"{}")
    >>> store.read_bytes("a/b.json"), store.exists("a/c.json")
    (b'{}', False)
    """

    def __init__(self, url: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> None:
        self.url = _absolute(os.fspath(url))
        self.storage_options = dict(storage_options or {})
        try:
            self.fs, self.root = fsspec.core.url_to_fs(self.url, **self.filesystem_options)
        except (ValueError, ImportError, TypeError) as error:
            raise StorageError(f"cannot open {self.url} as an index location: {error}") from None
        self.is_local = isinstance(self.fs, LocalFileSystem)

    def __repr__(self) -> str:
        return f"<Store {self.url}>"  # without its options: they may hold passwords

    def __reduce__(self) -> tuple[type[Store], tuple[str, dict[str, Any]]]:
        return Store, (self.url, self.storage_options)

    @property
    def filesystem_options(self) -> dict[str, Any]:
        """The options given, and those that suit an index where they leave it open."""
        if "://" not in self.url:
            return self.storage_options
        # segments come and go by other hands: a remembered listing would hide them
        options: dict[str, Any] = {"use_listings_cache": False}
        if self.url.startswith(("s3://", "s3a://")):
            _retry_changed_bytes()
            options["max_concurrency"] = 1  # else each small file is asked for its size first: twice the requests
        return {**options, **self.storage_options}

    def path(self, name: str = "") -> str:
        """Return the file system's own path of a file of the index."""
        return f"{self.root}/{name}".rstrip("/")

    def exists(self, name: str = "") -> bool:
        """Tell whether a file or folder is there."""
        with access_errors(self.url):
            return bool(self.fs.exists(self.path(name)))

    def is_file(self, name: str = "") -> bool:
        """Tell whether a file of that name is there."""
        with access_errors(self.url):
            return bool(self.fs.isfile(self.path(name)))

    def list_names(self, name: str) -> list[str]:
        """Return the names directly below a folder, sorted; none where there is no such folder."""
        try:
            with access_errors(self.url):
                found = self.fs.ls(self.path(name), detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        itself = self.path(name).rsplit("/", 1)[-1]  # listed by some stores
        return sorted({entry.rstrip("/").rsplit("/", 1)[-1] for entry in found} - {itself})

    def list_folders(self, name: str) -> list[str]:
        """Return the names of the folders below a folder, sorted; of an object store those that hold something.

        Some stores go on listing a folder whose files are gone.
        """
        if self.is_local:
            return self.list_names(name)
        return sorted({path.partition("/")[0] for path in self.find_sizes(name)})

    def find_sizes(self, name: str) -> dict[str, int]:
        """Return the size of every file below a folder, by its path relative to that folder."""
        base = self.path(name)
        with access_errors(self.url):
            found = self.fs.find(base, detail=True)
        sizes = {path[len(base) :].strip("/"): entry["size"] for path, entry in found.items()}
        return {path: size for path, size in sizes.items() if path}  # some stores list the folder itself

    def find_time(self, name: str) -> float | None:
        """Return when a file of this machine was written, in seconds since 1970; of another store it is not asked."""
        return Path(self.path(name)).stat().st_mtime if self.is_local else None

    def stamp(self, name: str) -> Hashable:
        """Return something that is another when a file was written anew, None where there is none."""
        try:
            if self.is_local:
                status = Path(self.path(name)).stat()
                return status.st_ino, status.st_mtime_ns, status.st_size
            return cast(str, self.fs.ukey(self.path(name)))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read_bytes(self, name: str) -> bytes:
        """Return a whole file."""
        with access_errors(self.url):
            return cast(bytes, self.fs.cat_file(self.path(name)))

    def read_ranges(self, ranges: Sequence[tuple[str, int, int]]) -> list[bytes]:
        """Return parts of files, given as (name, start, end); from an object store all at once."""
        if not self.is_local:
            joined, place_of = _join_near(ranges)
            paths = [self.path(name) for name, _, _ in joined]
            starts, ends = [start for _, start, _ in joined], [end for _, _, end in joined]
            with access_errors(self.url):
                read = cast(list[bytes], self.fs.cat_ranges(paths, starts, ends, on_error="raise"))
            within = [(place_of[i], start, end) for i, (_, start, end) in enumerate(ranges)]
            return [read[place][start - starts[place] : end - starts[place]] for place, start, end in within]
        files: dict[str, int] = {}
        try:
            for name, _, _ in ranges:
                if name not in files:
                    files[name] = os.open(self.path(name), os.O_RDONLY)
            return [os.pread(files[name], end - start, start) for name, start, end in ranges]
        finally:
            for file in files.values():
                os.close(file)

    def read_tail(self, name: str, n_bytes: int) -> bytes:
        """Return the last bytes of a file."""
        with access_errors(self.url):
            return cast(bytes, self.fs.cat_file(self.path(name), start=-n_bytes))

    def read_present(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the content of those of some small files that are there, by name; many are read at a time."""
        with ThreadPoolExecutor(min(_N_READERS, max(len(names), 1))) as pool:
            contents = pool.map(self._read_if_present, names)
            return {name: data for name, data in zip(names, contents, strict=True) if data is not None}

    def _read_if_present(self, name: str) -> bytes | None:
        try:
            return self.read_bytes(name)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def open_binary(self, name: str) -> BinaryIO:
        """Open a file for reading with seeks."""
        with access_errors(self.url):
            return cast(BinaryIO, self.fs.open(self.path(name), "rb"))

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write a whole file: old or new, never half of it."""
        with storage_errors(self.url):
            if not self.is_local:
                self.fs.pipe_file(self.path(name), data)
                return
            target = Path(self.path(name))
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
            try:
                part.write_bytes(data)
                part.replace(target)
            finally:
                part.unlink(missing_ok=True)

    def put_file(self, path: Path, name: str) -> None:
        """Move a local file into the index: old or new, never half of it."""
        with storage_errors(self.url):
            if not self.is_local:
                self.fs.pipe_file(self.path(name), path.read_bytes())
                path.unlink()
                return
            target = Path(self.path(name))
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)

    def remove(self, name: str) -> None:
        """Remove a file or a folder with all it holds; nothing happens where there is none."""
        with storage_errors(self.url):
            if self.exists(name):
                self.fs.rm(self.path(name), recursive=True)

    def withdraw(self, name: str, last: str) -> None:
        """Remove what `publish` put there, whole at once as far as readers see: it is invalid before it is gone."""
        with storage_errors(self.url):
            if self.is_local and self.exists(name):
                outdated = self.make_staging(name.rsplit("/", 1)[-1])
                Path(self.path(name)).replace(outdated)
                self.remove(f"{STAGING}/{outdated.name}")
                self.remove_if_empty(STAGING)
                return
        self.remove(f"{name}/{last}")
        self.remove(name)

    def remove_if_empty(self, name: str) -> None:
        """Remove a folder that nobody uses. An object store has no folders."""
        if self.is_local:
            with suppress(OSError):  # missing, or in use
                Path(self.path(name)).rmdir()

    def make_staging(self, name: str) -> Path:
        """Make an empty local folder to write into before publishing: beside the index where that is local."""
        with storage_errors(self.url):
            if not self.is_local:
                return Path(tempfile.mkdtemp(prefix=f"treesim-{name}-"))
            folder = Path(self.path(STAGING)) / f"{name}.{_writer_name()}.{uuid.uuid4().hex}"
            while not folder.exists():
                with suppress(FileNotFoundError):  # another writer has just removed the empty folder above
                    folder.mkdir(parents=True)
            return folder

    def list_abandoned(self) -> list[str]:
        """Return the names in staging that nobody will publish or remove any more: their process is gone.

        Of a process on another machine that cannot be seen; what it wrote counts as abandoned after a week. What no
        writer of an index named is not ours, and never abandoned.
        """
        return [name for name in self.list_folders(STAGING) if self._is_abandoned(name)]

    def _is_abandoned(self, name: str) -> bool:
        writer = _STAGED.fullmatch(name)
        if writer is None:
            return False
        if writer["host"] == _host_name():
            return not _is_running(int(writer["pid"]))
        path = self.path(f"{STAGING}/{name}")
        with suppress(FileNotFoundError):
            if not self.is_local:
                path = min(self.fs.find(path), default=path)  # an object store knows the age of files only
            return bool(datetime.now(UTC) - self.fs.modified(path) > _ABANDONED_AFTER)
        return False

    def list_at_work(self, mine: str = "") -> list[str]:
        """Return the marks and staging folders of processes that are still at work, without the mark `mine`."""
        names = [name for name in self.list_names(STAGING) if staged_for(name) and name != mine]
        return [name for name in names if not self._is_abandoned(name)]

    @contextmanager
    def announce(self, task: str) -> Iterator[str]:
        """Leave a mark for as long as this process is at work on the index; yield its name, see `list_at_work`."""
        mine = f"{task}.{_writer_name()}.{uuid.uuid4().hex}"
        self.write_bytes(f"{STAGING}/{mine}", b"")
        try:
            yield mine
        finally:
            with suppress(FileNotFoundError):
                self.fs.rm_file(self.path(f"{STAGING}/{mine}"))
            self.remove_if_empty(STAGING)

    @contextmanager
    def claim(self, task: str) -> Iterator[str]:
        """Announce one of the tasks of `UPKEEP`, and let no other process do any of them meanwhile.

        Two that begin in the same moment may both be refused, never both let through: each looks after it has claimed.
        What a process that is gone claimed is free.
        """
        with self.announce(task) as mine:
            for name in self.list_at_work(mine):
                if (other := staged_for(name)) in UPKEEP:
                    raise StorageError(
                        f"{'another' if other == task else 'a'} {other} of {self.url} is running: wait for it to end, "
                        f"or remove {STAGING}/{name} there if its machine is gone"
                    )
            yield mine

    def publish(self, folder: Path, name: str, last: str) -> bool:
        """Move a staged folder into the index, the file `last` after all others; True if it took another's place.

        An older version serves until all of the new one has arrived. Killed in the middle of the exchange, one of the
        two is left whole as a spare in staging, for `put_back`.

        Parameters
        ----------
        folder
            As made by `make_staging`; it is gone afterwards.
        name
            Where it goes, relative to the index. What is there already is replaced.
        last
            The file, relative to `folder`, whose presence makes the rest valid.
        """
        with storage_errors(self.url):
            if self.is_local:
                return self._publish_by_rename(folder, Path(self.path(name)))
            replaces = self.exists(f"{name}/{last}")
            if replaces:
                spare = _spare_name(name)
                self._upload(folder, f"{STAGING}/{spare}", last)
                self.put_back(spare, name, last)
            else:
                self._upload(folder, name, last)
            shutil.rmtree(folder)
            return replaces

    def put_back(self, spare: str, name: str, last: str) -> None:
        """Put a spare where it belongs, in the place of what is there. See `publish`."""
        with storage_errors(self.url):
            if self.is_local:
                Path(self.path(f"{STAGING}/{spare}")).replace(self.path(name))
                return
            self.remove(f"{name}/{last}")
            sizes = self.find_sizes(f"{STAGING}/{spare}")
            del sizes[last]
            for part in sizes:
                self.fs.cp_file(self.path(f"{STAGING}/{spare}/{part}"), self.path(f"{name}/{part}"))
            self._check_upload(name, sizes)
            self.fs.cp_file(self.path(f"{STAGING}/{spare}/{last}"), self.path(f"{name}/{last}"))
            self.remove(f"{STAGING}/{spare}")

    def _publish_by_rename(self, folder: Path, target: Path) -> bool:
        target.parent.mkdir(parents=True, exist_ok=True)
        spares = []
        while True:
            try:
                folder.replace(target)
                break
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            # an older version, or the same from a worker that was given up for dead and is not
            spare = folder.with_name(_spare_name(target.name))
            with suppress(FileNotFoundError):
                target.replace(spare)
                spares.append(spare)
        for spare in spares:
            shutil.rmtree(spare)
        self.remove_if_empty(STAGING)  # it is no part of the index; another writer's folder in it keeps it there
        return bool(spares)

    def _upload(self, folder: Path, name: str, last: str) -> None:
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        files = {path.relative_to(folder).as_posix(): path for path in paths}
        mark = files.pop(last)
        for part, path in files.items():
            self.fs.pipe_file(self.path(f"{name}/{part}"), path.read_bytes())
        self._check_upload(name, {part: path.stat().st_size for part, path in files.items()})
        self.fs.pipe_file(self.path(f"{name}/{last}"), mark.read_bytes())

    def _check_upload(self, name: str, sizes: Mapping[str, int]) -> None:
        """Compare what the store lists with what was sent; what an earlier upload left over is removed."""
        found = self.find_sizes(name)
        for part in found.keys() - sizes.keys():
            self.remove(f"{name}/{part}")
        if wrong := sorted(part for part, size in sizes.items() if found.get(part) != size):
            raise StorageError(f"{self.url}/{name}/{wrong[0]} is not as it was sent: run the same command again")


def _join_near(ranges: Sequence[tuple[str, int, int]]) -> tuple[list[tuple[str, int, int]], list[int]]:
    """Make one range of those of a file with little between them, and say which of these each lies in.

    Examples
    --------
    >>> _join_near([("a", 90, 95), ("a", 10, 20), ("b", 10, 20), ("a", 10**7, 10**7 + 5)])
    ([('a', 10, 95), ('a', 10000000, 10000005), ('b', 10, 20)], [0, 0, 2, 1])
    """
    joined: list[tuple[str, int, int]] = []
    place_of = [0] * len(ranges)
    for i in sorted(range(len(ranges)), key=ranges.__getitem__):
        name, start, end = ranges[i]
        if joined and joined[-1][0] == name and start <= joined[-1][2] + _GAP_BYTES:
            joined[-1] = (name, joined[-1][1], max(end, joined[-1][2]))
        else:
            joined.append((name, start, end))
        place_of[i] = len(joined) - 1
    return joined, place_of


def _absolute(url: str) -> str:
    """Make a local path absolute: workers have another current folder. Refuse what names no folder."""
    scheme, separator, place = url.partition("://")
    if not (place if separator else scheme).strip().strip("/") and url != "/":
        raise StorageError(f"an index location names no folder, got {url!r}: give a folder or a URL with a path")
    url = url.rstrip("/") or "/"
    return url if separator else str(Path(url).expanduser().absolute())


def _host_name() -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname()) or "host"


def _writer_name() -> str:
    """Name this process in a staging folder, so that others can tell whether it is still at work."""
    return f"{_host_name()}.{os.getpid()}"


def staged_for(name: str) -> str:
    """Return what something in staging is for: the name of a segment or the announced task; empty if it is not ours.

    Examples
    --------
    >>> staged_for("0123456789abcdef.node1.4711." + 32 * "0"), staged_for("notes.txt")
    ('0123456789abcdef', '')
    """
    staged = _STAGED.fullmatch(name)
    return staged["what"] if staged else ""


def _spare_name(name: str) -> str:
    return f"{name.rsplit('/', 1)[-1]}.{_writer_name()}.{uuid.uuid4().hex}{SPARE}"


def _is_running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@contextmanager
def access_errors(url: str) -> Iterator[None]:
    """Say in one line that a store does not let us in, or does not answer."""
    try:
        yield
    except PermissionError as error:
        hint = "; check the credentials in --index-option" if "://" in url else ""
        raise StorageError(f"no access to {url}: {error}{hint}") from error
    except Exception as error:
        if not _is_of_network(error):
            raise
        raise _no_answer(url, error) from error


def _no_answer(url: str, error: Exception) -> StorageError:
    detail = " ".join(str(error).split()) or type(error).__name__
    if "credentials" in detail.lower():
        return StorageError(f"no credentials for {url}: configure them, or pass the index option anon=true")
    hint = "check the address and the network, or endpoint_url in --index-option"
    return StorageError(f"no answer from {url}: {detail}; {hint}")


def _is_of_network(error: Exception) -> bool:
    """Tell an error of the ways to a distant store, some of which have no common base, from one about a file."""
    origins = {base.__module__.partition(".")[0] for base in type(error).__mro__}
    is_about_file = isinstance(error, (FileNotFoundError, NotADirectoryError, TreesimError))
    return not is_about_file and bool(origins & _NETWORK_PACKAGES or isinstance(error, (ConnectionError, TimeoutError)))


def _retry_changed_bytes() -> None:
    """Let s3fs ask again for a file that did not arrive as it was stored, as it does after a broken connection."""
    from botocore.exceptions import FlexibleChecksumError
    from s3fs.core import S3_RETRYABLE_ERRORS, add_retryable_error

    if FlexibleChecksumError not in S3_RETRYABLE_ERRORS:
        add_retryable_error(FlexibleChecksumError)


@contextmanager
def storage_errors(url: str) -> Iterator[None]:
    """Turn the errors of a full disk, a missing permission or a file in the way into one clear line."""
    try:
        yield
    except TreesimError:  # what went wrong on the other side, such as an input that cannot be read, says so itself
        raise
    except Exception as error:
        if _is_of_network(error):
            raise _no_answer(url, error) from error
        if isinstance(error, OSError):
            raise StorageError(f"cannot write to {url}: {_reason(error)}") from error
        raise


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "no space left; free some or choose another place, then run the same command again"
    if isinstance(error, PermissionError):
        return "permission denied; choose a place you may write to"
    if isinstance(error, (NotADirectoryError, FileExistsError)):
        return "a file is in the way; choose another place"
    return str(error)


def check_is_folder(store: Store) -> None:
    """Refuse a location that is a file."""
    if store.is_file():
        raise IndexFormatError(f"{store.url} is a file, not an index folder: give the folder that `build --index` made")
