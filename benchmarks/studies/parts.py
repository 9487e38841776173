"""The command line of a study that has several parts."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping


def run_parts(
    description: str | None, parts: Mapping[str, Callable[[bool], None]], quick_help: str
) -> None:
    """Run the parts that the command line names, or all of them; `--quick` is passed on to each."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*parts, []], default=[])
    parser.add_argument("--quick", action="store_true", help=quick_help)
    options = parser.parse_args()
    for name in options.parts or parts:
        began = time.perf_counter()
        parts[name](options.quick)
        print(f"  [{name}: {time.perf_counter() - began:.0f} s]\n", flush=True)
