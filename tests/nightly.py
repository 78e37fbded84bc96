"""How many times as many seeds a random test has in `make nightly`."""

import os

TIMES = 25 if os.environ.get("EDDYLINE_NIGHTLY") == "1" else 1
