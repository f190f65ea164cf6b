"""``index.json``: the format, the parameters and their fingerprint. Written once, checked at every opening."""

from __future__ import annotations

import json
from typing import Any

from treesim_dask.config import FORMAT_VERSION, IndexConfig
from treesim_dask.errors import ConfigError, IndexFormatError
from treesim_dask.index.store import Store, check_is_folder

MANIFEST = "index.json"
_FORMAT = "treesim-index"


def write_manifest(store: Store, config: IndexConfig) -> None:
    """Write the parameters of a new index."""
    content = {"format": _FORMAT, "fingerprint": config.fingerprint, "parameters": config.to_dict()}
    store.write_bytes(MANIFEST, to_json(content))


def read_manifest(store: Store) -> IndexConfig:
    """Return the parameters of an index, or say clearly why it cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> store = Store(tempfile.mkdtemp())
    >>> write_manifest(store, IndexConfig(seed=5))
    >>> read_manifest(store).seed
    5
    """
    check_is_folder(store)
    try:
        raw = store.read_bytes(MANIFEST)
    except FileNotFoundError:
        hint = "build one with: python -m treesim_dask build INPUT --index " + store.url
        raise IndexFormatError(f"there is no index at {store.url} ({MANIFEST} is missing); {hint}") from None
    content = parse_json(raw, f"{store.url}/{MANIFEST}")
    parameters = content.get("parameters")
    if content.get("format") != _FORMAT or not isinstance(parameters, dict):
        raise IndexFormatError(f"{store.url}/{MANIFEST} does not describe an index of this program")
    version = parameters.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise IndexFormatError(
            f"the index at {store.url} has format {version}, this program reads up to {FORMAT_VERSION}; update it"
        )
    try:
        config = IndexConfig.from_dict(parameters)
    except (ConfigError, TypeError) as error:
        raise IndexFormatError(f"{store.url}/{MANIFEST} is damaged: {error}") from None
    if config.vocabulary_version != IndexConfig().vocabulary_version or config.format_version < 1:
        raise IndexFormatError(
            f"the index at {store.url} numbers tags by vocabulary {config.vocabulary_version}, this program by "
            f"{IndexConfig().vocabulary_version}; build it anew"
        )
    if config.fingerprint != content.get("fingerprint"):
        raise IndexFormatError(f"{store.url}/{MANIFEST} is damaged: its fingerprint does not fit its parameters")
    return config


def check_parameters(store: Store, existing: IndexConfig, wanted: IndexConfig) -> None:
    """Refuse to add to an index that was built with other parameters."""
    existing.refuse_other(wanted, f"the index at {store.url} was built", "use the same ones or another --index")


def to_json(content: dict[str, Any]) -> bytes:
    """Write JSON that is the same for the same content."""
    return json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def parse_json(raw: bytes, where: str) -> dict[str, Any]:
    """Read a JSON object, or say which file is damaged."""
    try:
        content = json.loads(raw)
    except ValueError as error:
        raise IndexFormatError(f"{where} is damaged: not JSON ({error}); restore it from a copy") from None
    if not isinstance(content, dict):
        raise IndexFormatError(f"{where} is damaged: expected a JSON object, found {type(content).__name__}")
    return content
