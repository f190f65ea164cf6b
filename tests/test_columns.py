"""Column chunks decoded by hand hold what pyarrow wrote into them."""

import io
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treesim_dask.index.columns import decode_integers


def written(values, dtype):
    """The bytes of a column chunk as pyarrow writes a band table."""
    file = io.BytesIO()
    table = pa.table({"a": pa.array(np.array(values, dtype))})
    options = {"use_dictionary": False, "column_encoding": {"a": "DELTA_BINARY_PACKED"}, "write_page_checksum": True}
    pq.write_table(table, file, compression="zstd", **options)
    chunk = pq.ParquetFile(file).metadata.row_group(0).column(0)
    return file.getvalue()[chunk.data_page_offset :][: chunk.total_compressed_size]


NUMBERS = {
    np.uint64: st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 9)),
    np.uint32: st.one_of(st.integers(0, 2**32 - 1), st.integers(0, 9)),
}


@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("is_sorted", [False, True])
@given(data=st.data())
def test_any_integers(dtype, is_sorted, data):
    values = data.draw(st.lists(NUMBERS[dtype], min_size=1, max_size=300))
    values = (sorted(values) if is_sorted else values) * data.draw(st.sampled_from([1, 1, 10]))
    decoded = decode_integers(written(values, dtype), len(values), dtype)
    assert decoded.dtype == dtype
    assert decoded.tolist() == values


@given(st.lists(NUMBERS[np.uint64], min_size=20, max_size=200), st.data())
def test_a_changed_byte_is_an_error_or_changes_nothing(values, data):
    chunk = bytearray(written(values, np.uint64))
    chunk[data.draw(st.integers(0, len(chunk) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with suppress(OSError):
        assert decode_integers(bytes(chunk), len(values), np.uint64).tolist() == values


def test_a_row_group_of_another_length_is_refused():
    with pytest.raises(OSError, match="not what was written"):
        decode_integers(written([1, 2, 3], np.uint64), 4, np.uint64)


def test_pages_that_somebody_made_up_give_what_is_in_them_or_an_error():
    command = [sys.executable, "-m", "damaged_columns", "2000"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 200 < int(done.stdout) < 1900  # both happen often
