"""``python -m treesim_dask``."""

import sys

from treesim_dask.cli import main

if __name__ == "__main__":
    sys.exit(main())
