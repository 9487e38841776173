"""Python runs this first where this folder is on its path: Numba cannot be imported then."""

import sys

sys.modules["numba"] = None  # type: ignore[assignment]
