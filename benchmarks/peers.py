"""The other libraries.  Here alone are they imported, and only when a contestant asks."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np

# The name to install, and the name to import.
PEERS = {
    "jax": "jax",
    "optax": "optax",
    "optimistix": "optimistix",
    "jaxopt": "jaxopt",
    "copt": "copt",
    "scikit-learn": "sklearn",
    "cyanure": "cyanure",
    "skglm": "skglm",
    "celer": "celer",
}


class AbsentError(ImportError):
    """A peer is not installed."""


def load(peer: str, module: str = "") -> Any:
    """A module of a peer.

    Parameters
    ----------
    peer : str
        One of PEERS.
    module : str
        Below it: "linear_model"; the peer itself where it is empty.

    Raises
    ------
    AbsentError
        Where the peer is not installed.  One that is installed and cannot be imported raises
        whatever it raises: that is a failure, not an absence.
    """
    top = PEERS[peer]
    if importlib.util.find_spec(top) is None:
        raise AbsentError(f"{peer} is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(f"{top}.{module}" if module else top)


def version(peer: str) -> str:
    """The version of a peer, or "absent"."""
    try:
        return metadata.version(peer)
    except metadata.PackageNotFoundError:
        return "absent"


def in_doubles(work: Callable[..., Any]) -> Callable[..., Any]:
    """Let JAX's work be in doubles where its arrays are; JAX's own setting stays as it is."""
    jax = load("jax")
    # It has moved to the top of the package.
    home = jax if hasattr(jax, "enable_x64") else load("jax", "experimental")

    def doubled(*arguments: Any) -> Any:
        with home.enable_x64(True):
            return work(*arguments)

    return doubled


def as_matrix(X: Any, columns: bool = False) -> Any:
    """X in the old classes of SciPy, which the peers take; by columns, where they want it so."""
    from scipy.sparse import csc_matrix, csr_matrix

    if isinstance(X, np.ndarray):
        return np.asfortranarray(X) if columns else X
    return csc_matrix(X) if columns else csr_matrix(X)


def first_line(error: BaseException) -> str:
    """The kind of an error and the first line of what it says, cut where it is long.

    >>> first_line(ValueError("no such thing\\nand so on"))
    'ValueError: no such thing'
    """
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= 120 else text[:117] + "..."
