"""Compiled loops: by Numba where it can be imported, and otherwise as the plain Python they are.

All that is compiled is a plain Python function.  Where Numba is not, as in a browser's Python or on
a Python that it has not been ported to yet, `jit_plain` stands in for `jit_numba`: functions stay
as they are, but for loops over many entries, in whose place `in_numpy` puts what does the same with
whole arrays.  The formulas are the same, and so is what is drawn.

Importing this module imports Numba (0.3 s); do so only where compiled code is used.
"""

from __future__ import annotations

import os

from continuized.support.progress import warn_caller

try:
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        raise ImportError("NUMBA_DISABLE_JIT is set")
    import numba as numba
except ImportError as error:
    HAS_NUMBA = False
    warn_caller(
        f"loops run in plain Python and NumPy, with the same results but 3 to 500 times slower, "
        f"for Numba cannot be used ({error}): install it where it exists",
        RuntimeWarning,
    )
    from continuized.support.jit_plain import *  # noqa: F403
else:
    HAS_NUMBA = True
    from continuized.support.jit_numba import *  # noqa: F403
