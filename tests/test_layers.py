"""The import rules that keep the architecture visible in the file list."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "treesim_dask"

# A layer may import from itself and from every layer before it; parts of one layer that stand beside each other
# (crawl, dom, hashing, index) may not import each other.
LAYERS = [
    {"errors", "types", "config", "kernels", "mixing", "allocator", "clock"},
    {"crawl", "dom", "hashing", "index", "demo"},
    {"query", "records"},
    {"dataflow", "clients", "jobs", "progress", "choice", "report"},
    {"builder", "compactor", "pace", "planner", "api"},
    {"cli", "__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
PART_OF_ITS_OWN = {"crawl", "dom", "hashing", "index", "demo"}

# Which parts may import a heavy package.
HOMES = {
    "dask": {"dataflow", "clients", "jobs", "api"},
    "distributed": {"dataflow", "clients", "jobs", "progress", "api", "builder", "compactor", "pace", "cli"},
    "zarr": {"index"},
    "pyarrow": {"index"},
    "warcio": {"crawl"},
    "numba": {"kernels"},
    "fastwarc": {"crawl"},
}


def modules():
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def part_of(path):
    relative = path.relative_to(PACKAGE)
    return relative.parts[0].removesuffix(".py")


def imported_names(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "treesim_dask":
                yield from (f"treesim_dask.{alias.name}" for alias in node.names)
            else:
                yield node.module


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_follow_the_layers(path):
    part = part_of(path)
    for name in imported_names(path):
        top, _, rest = name.partition(".")
        if top in HOMES:
            assert part in HOMES[top], f"{part} imports {top}"
        if top != "treesim_dask" or rest in ("", "__version__"):
            continue
        other = rest.split(".")[0]
        assert LEVEL[other] <= LEVEL[part], f"{part} imports {other} from a later layer"
        if other != part and other in PART_OF_ITS_OWN:
            assert part not in PART_OF_ITS_OWN, f"{part} imports {other} beside it"


@pytest.mark.parametrize("package", ["warcio", "fastwarc"])
def test_each_reader_is_used_in_one_module(package):
    assert len([path for path in modules() if any(n.split(".")[0] == package for n in imported_names(path))]) == 1


def test_every_part_is_in_a_layer():
    assert {part_of(path) for path in modules()} == set(LEVEL)
