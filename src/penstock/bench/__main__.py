"""`python -m penstock.bench`."""

import sys

from penstock.bench.main import main

if __name__ == "__main__":
    sys.exit(main())
