"""Why something in a crawl was not indexed: one short name each, the same in every table and summary."""

from __future__ import annotations

# The page is whole, but not one to index.
STATUS = "status"  # not a 2xx answer, or no readable status line
CONTENT_TYPE = "content-type"  # declared as something else than HTML, or sniffed as something else
HOST = "host"
URL_PATTERN = "url-pattern"
TOO_SHORT = "too-short"
TOO_LONG = "too-long"
TOO_COSTLY = "too-costly"  # to parse

# The file is not what its writer meant it to be.
DAMAGED_COMPRESSION = "damaged-compression"  # a gzip member or zstd frame that does not decode, or fails its checksum
DAMAGED_HEADER = "damaged-header"  # no WARC or ARC header where one belongs
WRONG_LENGTH = "wrong-length"  # Content-Length does not lead to the next WARC record
TRUNCATED = "truncated"  # the file stops inside a WARC record
DAMAGED_BODY = "damaged-body"  # the content encoding of a response does not decode
UNREADABLE = "unreadable"  # no such file, a file name that is not UTF-8, or no response at the place an extract names

DAMAGE_REASONS = frozenset({DAMAGED_COMPRESSION, DAMAGED_HEADER, WRONG_LENGTH, TRUNCATED, DAMAGED_BODY, UNREADABLE})
