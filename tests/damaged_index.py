"""Asks an index in which somebody changed what kernels rely on, checksums included: run by a test as a child process.

python damaged_index.py FOLDER: each line says which file was changed, and what became of a query.
"""

import sys
from pathlib import Path

import numpy as np
import zarr

from treesim_dask import open_index
from treesim_dask.errors import IndexFormatError
from treesim_dask.index.tables import write_bands


def ask(folder: Path, page: bytes) -> str:
    """Query a new view of the index."""
    try:
        matches = open_index(str(folder)).search(page, 50).matches
    except IndexFormatError as error:
        return f"refused: {error}"
    return f"answered: {len(matches)}"


def main(folder: Path) -> None:
    """Change one array after the other to values that lead out of the others, ask, and put it back."""
    page = (folder / "page.html").read_bytes()
    print("nothing", ask(folder, page))
    for path in sorted(folder.glob("segments/**/indptr")) + sorted(folder.glob("segments/**/origin")):
        array = zarr.open_array(path, mode="r+")
        values = array[:]
        # an origin has a row below, which may be any number
        for change in (2**40, 2**62, -(2**40), *([10**6] if path.name == "indptr" else [])):
            array[:] = (values.astype(np.int64) + np.arange(len(values)) * change).astype(values.dtype)
            print(path.name, ask(folder, page))
        array[:] = values[::-1]
        if path.name == "indptr":
            print(path.name, ask(folder, page))
        array[:] = values
    for path in sorted(folder.glob("segments/*/bands.parquet")):
        # every shape has the buckets of all: the shapes of the queries and 100,000 that are not there
        content = path.read_bytes()
        keys = np.tile(np.array(open_index(str(folder))._load(page, None).keys), (100_000, 1))
        write_bands(path, keys)
        print(path.name, ask(folder, page))
        path.write_bytes(content)
    print("nothing", ask(folder, page))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
