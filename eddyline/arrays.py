"""Names of array types, shared by all layers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Ints32 = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]  # bits of sets, 64 to a word
Shorts = npt.NDArray[np.uint16]
Codes = npt.NDArray[np.uint16]  # values of an attribute as `index/filters/domains.py` encodes them
Bytes = npt.NDArray[np.uint8]
Doubles = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
