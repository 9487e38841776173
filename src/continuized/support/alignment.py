"""Arrays that begin where a cache line does.

Vector instructions are as wide as a line; in an array that begins elsewhere each of them touches
two, which takes up to half as long again.  NumPy's arrays begin at multiples of 16 bytes.

LLVM's loops take two vectors at a time, and what is left over at the end in small steps, which may
take as long as all the rest: zeros behind the entries spare them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

LINE = 64  # bytes


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return a C-contiguous array of zeros that begins at a multiple of `LINE` bytes.

    >>> array = aligned_zeros((2, 3), np.float32)
    >>> array.ctypes.data % LINE, array.shape, array.dtype.name
    (0, (2, 3), 'float32')
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + LINE, np.uint8)
    first = -memory.ctypes.data % LINE
    array: NDArray[Any] = memory[first : first + size].view(dtype).reshape(shape)
    return array


def padded_size(size: int, dtype: Any) -> int:
    """Return the size of the array with zeros: as many pairs of lines as are needed, at least one.

    >>> padded_size(100, np.float32), padded_size(100, np.float64), padded_size(0, np.float64)
    (128, 112, 16)
    """
    pair: int = 2 * LINE // np.dtype(dtype).itemsize
    return max(-(-size // pair), 1) * pair
