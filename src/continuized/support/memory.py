"""How much memory there is, asked before it is taken."""

from __future__ import annotations

import os

SHARE = 0.8  # of the machine's memory that a result may take


def check_memory(need: float, what: str, instead: str) -> None:
    """Refuse what would take `need` bytes, if that is more than there is."""
    have = SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if need > have:
        raise MemoryError(
            f"{what} would take {need / 1e9:.1f} GB, more than {have / 1e9:.1f} GB here; "
            f"ask for {instead}"
        )
