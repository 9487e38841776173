"""Warnings that point at the line of the user's that called the package."""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path

PACKAGE = str(Path(__file__).parents[1])
OURS = (PACKAGE, contextlib.__file__)  # a `with` of ours is left through a frame of contextlib


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the first frame outside the package, however deep within it this is called."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
