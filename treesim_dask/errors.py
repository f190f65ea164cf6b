"""Every error a user can cause, each with what came, what was expected and what to do.

Each class is also the built-in exception a Python programmer would expect. The command line prints the message
on one line and exits with code 2.
"""

from __future__ import annotations


class TreesimError(Exception):
    """Base of all errors raised on purpose by this package."""


class ConfigError(TreesimError, ValueError):
    """Parameters that do not fit together, or do not fit an existing index.

    Parameters
    ----------
    message
        What is wrong.
    parameters
        The names of those parameters in it that a command line has other names for.
    """

    def __init__(self, message: str, *parameters: str) -> None:
        super().__init__(message)
        self.parameters = parameters

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, ...]]:
        return type(self), (str(self), *self.parameters)


class SourceError(TreesimError, OSError):
    """An input that cannot be read: missing, refused, empty, or not what it claims to be."""


class TransferError(SourceError):
    """An input whose bytes did not arrive as they were stored. Reading it again may help."""


class IndexFormatError(TreesimError, ValueError):
    """An index that is missing, damaged, or written by a newer version."""


class MissingFileError(IndexFormatError, FileNotFoundError):
    """A file of an index that is gone: lost, or removed by a compaction since the index was opened."""


class PageError(TreesimError, ValueError):
    """A query page that cannot be found, fetched or parsed."""


class StorageError(TreesimError, OSError):
    """An index location that cannot be written: no space, no permission, not a folder."""
