"""Seeded cases on the public names of the package, for `tools/compare_runs.py`.

    PYTHONPATH=TREE/src python tools/compare_cases OUT [--only PATTERN]
    PYTHONPATH=TREE/src python tools/compare_cases --list [--only PATTERN]

Runs every case with the package of that tree and writes OUT.npz (numbers) and OUT.json (words, what
was raised, seconds).  Only public names stand here, so that the same files run on an old tree and
on a new one.  Sizes are small: a case takes milliseconds once everything is compiled.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import adapter_cases
import network_cases
import numpy as np
import solver_cases
import theory_cases
from flattening import flatten

import continuized


def chosen_cases(pattern: str | None) -> dict[str, Callable[[], Any]]:
    """The cases whose names contain the pattern, or match it as a glob."""
    cases: dict[str, Callable[[], Any]] = {}
    for module in (solver_cases, theory_cases, network_cases, adapter_cases):
        for group in module.CASES:
            for name, case in group():
                name = f"theory/{name}" if module is theory_cases else name
                assert name not in cases, name
                if pattern is None or pattern in name or fnmatch.fnmatchcase(name, pattern):
                    cases[name] = case
    return cases


def run_case(case: Callable[[], Any]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The numbers of one case; its words, our warnings among them, what it raised, its seconds."""
    began, raised, fields = time.perf_counter(), None, {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fields = dict(flatten("", case()))
        except Exception as error:
            raised = [type(error).__name__, str(error)]
    numbers = {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}
    words = {name: value for name, value in fields.items() if name not in numbers}
    ours = {w.category for w in caught if w.category.__module__.startswith("continuized")}
    words["warnings"] = sorted(category.__name__ for category in ours)
    return numbers, {"words": words, "raised": raised, "seconds": time.perf_counter() - began}


def main() -> None:
    """Run the cases, and write what they gave."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--only", metavar="PATTERN")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    cases = chosen_cases(options.only)
    if options.list or options.out is None:
        print("\n".join(cases))
        return
    numbers: dict[str, np.ndarray] = {}
    about: dict[str, Any] = {}
    for name, case in cases.items():
        found, about[name] = run_case(case)
        numbers |= {f"{name}|{field}": value for field, value in found.items()}
    np.savez(options.out.with_suffix(".npz"), **numbers)  # type: ignore[arg-type]
    tree = str(Path(continuized.__file__).resolve().parents[2])
    options.out.with_suffix(".json").write_text(json.dumps({"tree": tree, "cases": about}))


if __name__ == "__main__":
    main()
