"""Compare an old commit with the working tree: same machine, same seeds, bit for bit.

    python tools/compare_runs.py REV [--only PATTERN] [--list] [--json]
    python tools/compare_runs.py REV --speed [--rounds N] [--only PATTERN]

REV is checked out into a folder that is removed afterwards.  Both trees run the cases of
`tools/compare_cases`, each in a process of its own.  There is a line for each case and field
that differs, with the largest absolute and relative difference, and a closing count; exit code 1 if
anything differs, or a case that should run is refused by both trees: it compares nothing.  A field
that only the new tree has is no difference.

--speed runs the benchmarks of `tools/compare_cases/speed.py` instead, in rounds of three processes:
old, new, and old again.  It prints the ratio of the least times, new to old, and as the noise that
of the two series of the old tree; exit code 1 if something is slower by more than 3 % beyond it.
Where other processes want the cores too, take more rounds, and look at the times of processors.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TOOLS = Path(__file__).resolve().parent
ROOT = TOOLS.parent
# Where old commits are checked out.  Their machine code stays, so that the next comparison need not
# compile again.
HOME = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "continuized-compare"
MEANT_TO_RAISE = {"options/nonfinite-raise"}  # cases
SLOWER = 1.03  # the ratio of times from which a benchmark counts as slower


class Difference(NamedTuple):
    """A field of a case that is not the same; what: in words, where there are no numbers."""

    case: str
    field: str
    absolute: float | None
    relative: float | None
    what: str = ""

    def line(self) -> str:
        """The line that says so."""
        if self.absolute is None or self.relative is None:
            return f"{self.case}  {self.field}  {self.what}"
        sizes = f"absolute {self.absolute:.3g}, relative {self.relative:.3g}"
        return f"{self.case}  {self.field}  {sizes}{self.what and f' ({self.what})'}"


@contextlib.contextmanager
def old_tree(rev: str) -> Iterator[Path]:
    """A folder with the sources of the commit, which is removed afterwards.

    Its path goes by their content, for Numba's cache goes by paths; while another comparison uses
    it, by chance.
    """
    named = git("rev-parse", "--verify", "--quiet", f"{rev}^{{commit}}:src")
    if named.returncode:
        sys.exit(f"{rev!r} names no commit of {ROOT} with a folder src")
    name = named.stdout.decode().strip()[:12]
    HOME.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        lock = stack.enter_context((HOME / f"{name}.lock").open("w"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder = HOME / name
            shutil.rmtree(folder, ignore_errors=True)  # of a comparison that was killed
            folder.mkdir()
        except BlockingIOError:
            folder = Path(tempfile.mkdtemp(prefix=name, dir=HOME))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        with tarfile.open(fileobj=io.BytesIO(git("archive", rev, "src").stdout)) as files:
            files.extractall(folder, filter="data")
        yield folder


def git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """What git says in the working tree."""
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True)


def start(tree: Path, script: str, *arguments: Any, **options: Any) -> subprocess.Popen[str]:
    """A process of its own that runs a script with the package of this tree."""
    environment = os.environ | {"PYTHONPATH": str(tree / "src")}
    if script == "compare_cases":  # trees run at once, and threads of BLAS would wait for cores
        environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    if tree != ROOT:
        environment["NUMBA_CACHE_DIR"] = str(HOME / "numba")
    command = [sys.executable, str(TOOLS / script), *map(str, arguments)]
    return subprocess.Popen(command, env=environment, cwd=tree, text=True, **options)


def run_cases(trees: list[Path], pattern: str | None) -> list[tuple[Any, dict[str, Any]]]:
    """The numbers and the words of all cases, of each tree; both run at once."""
    only = [] if pattern is None else ["--only", pattern]
    with tempfile.TemporaryDirectory() as folder:
        outs = [Path(folder) / str(i) for i in range(len(trees))]
        runs = [
            start(tree, "compare_cases", out, *only) for tree, out in zip(trees, outs, strict=True)
        ]
        results = []
        for tree, out, run in zip(trees, outs, runs, strict=True):
            if run.wait():
                for other in runs:
                    other.kill()
                sys.exit(f"the cases of {tree} ended with exit code {run.returncode}")
            with np.load(out.with_suffix(".npz")) as numbers:
                arrays = {name: numbers[name] for name in numbers.files}
            about = json.loads(out.with_suffix(".json").read_text())
            if Path(about["tree"]) != tree.resolve():
                sys.exit(f"the package of {about['tree']} ran, in place of that of {tree}")
            results.append((arrays, about["cases"]))
    return results


def differences(old: Any, new: Any) -> Iterator[Difference]:
    """What differs, in the order of the cases."""
    (old_numbers, old_cases), (new_numbers, new_cases) = old, new
    fields: dict[str, list[str]] = {name: [] for name in old_cases}
    for key in old_numbers:
        fields[key.partition("|")[0]].append(key)
    for name, was in old_cases.items():
        now = new_cases[name]
        raised = [about["raised"] and about["raised"][0] for about in (was, now)]
        if raised[0] != raised[1]:
            said = now["raised"] or was["raised"]
            yield Difference(name, "raised", None, None, f"{raised[0]} -> {raised[1]}: {said[1]}")
            continue
        for field, word in was["words"].items():
            if field in now["words"] and word == now["words"][field]:
                continue
            yield Difference(name, field, None, None, f"{word} -> {now['words'].get(field)}")
        for key in fields[name]:
            found = compare(name, key.partition("|")[2], old_numbers[key], new_numbers.get(key))
            if found is not None:
                yield found


def compare(case: str, field: str, a: np.ndarray, b: np.ndarray | None) -> Difference | None:
    """The difference of two arrays; None where they are the same, bit for bit, or NaN in both."""
    if b is None:
        return Difference(case, field, None, None, "missing")
    if a.dtype != b.dtype or a.shape != b.shape:
        what = f"{a.dtype}{list(a.shape)} -> {b.dtype}{list(b.shape)}"
        return Difference(case, field, None, None, what)
    if a.tobytes() == b.tobytes():
        return None
    if a.dtype.kind != "f":
        a, b = a.astype(np.float64), b.astype(np.float64)
    nan = np.isnan(a) != np.isnan(b)
    unlike = (nan | (a != b) | (np.signbit(a) != np.signbit(b))) & ~(np.isnan(a) & np.isnan(b))
    if not unlike.any():
        return None
    a, b = a[unlike].astype(np.float64), b[unlike].astype(np.float64)
    with np.errstate(all="ignore"):
        size = np.abs(a - b)
        relative = np.where(size == 0.0, 0.0, size / np.maximum(np.abs(a), np.abs(b)))
    what = f"{unlike.sum()} of {unlike.size}"
    return Difference(case, field, float(size.max()), float(relative.max()), what)


def report(found: list[Difference], cases: tuple[Any, Any], as_json: bool) -> int:
    """Print the comparison; the exit code."""
    old, new = cases
    both = sorted(name for name in old if old[name]["raised"] and new[name]["raised"])
    differing, failed = {d.case for d in found}, bool(found or set(both) - MEANT_TO_RAISE)
    if as_json:
        print(json.dumps({
            "cases": len(old),
            "differing": len(differing),
            "differences": [d._asdict() for d in found],
            "raised_in_both": {name: old[name]["raised"] for name in both},
        }))  # fmt: skip
        return int(failed)
    for d in found:
        print(d.line())
    seconds = [sum(about["seconds"] for about in c.values()) for c in cases]
    raised = ", ".join(f"{name} ({old[name]['raised'][0]})" for name in both) or "none"
    print(
        f"{len(differing)} of {len(old)} cases differ; raised in both: {raised}; "
        f"old {seconds[0]:.0f} s, new {seconds[1]:.0f} s"
    )
    return int(failed)


def compare_speed(old: Path, rounds: int, pattern: str | None, as_json: bool) -> int:
    """Time both trees, in turn, and print the ratios; the exit code."""
    only = [] if pattern is None else ["--only", pattern]
    series: dict[str, list[dict[str, list[float]]]] = {"old": [], "new": [], "again": []}
    for i in range(rounds + 1):  # the first compiles
        for name in sorted(series, reverse=i % 2 == 0):
            run = start(
                ROOT if name == "new" else old,
                "compare_cases/speed.py",
                *only,
                stdout=subprocess.PIPE,
            )
            output, _ = run.communicate()
            if run.returncode:
                sys.exit(f"the benchmarks of the {name} tree ended with {run.returncode}")
            if i > 0:
                series[name].append(json.loads(output))
    rows = []
    for name in series["old"][0]:
        wall, processor = (
            [min(r[name][i] for r in runs) for runs in series.values()] for i in (0, 1)
        )
        noise = wall[2] / wall[0]
        row = {"name": name, "seconds": wall[0], "new_to_old": wall[1] / wall[0], "noise": noise}
        row |= {"processor": processor[1] / processor[0], "noise_p": processor[2] / processor[0]}
        rows.append(row | {"slower": row["new_to_old"] > SLOWER * max(noise, 1.0 / noise)})
    if as_json:
        print(json.dumps(rows))
    else:
        print("Ratios of the least times, on the wall and of processors:")
        print(f"{'':30}{'old, ms':>9}{'new/old':>9}{'old/old':>9}{'new/old':>9}{'old/old':>9}")
        for row in rows:
            ratios = (row[key] for key in ("new_to_old", "noise", "processor", "noise_p"))
            columns = "".join(f"{ratio:>9.3f}" for ratio in ratios)
            print(
                f"{row['name']:30}{1e3 * row['seconds']:>9.3g}{columns}{'  slower' * row['slower']}"
            )
    return int(any(row["slower"] for row in rows))


def main() -> int:
    """Compare, and say what differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rev", metavar="REV", nargs="?", help="the old commit")
    parser.add_argument("--only", metavar="PATTERN", help="cases whose names contain or match it")
    parser.add_argument("--list", action="store_true", help="the names of the cases")
    parser.add_argument("--json", action="store_true", help="one object, for programs")
    parser.add_argument("--speed", action="store_true", help="compare times in place of results")
    parser.add_argument("--rounds", type=int, default=5, help="of --speed, at least 1")
    options = parser.parse_args()
    if options.list:
        only = ["--only", options.only] if options.only else []
        return start(ROOT, "compare_cases", "--list", *only).wait()
    if options.rev is None:
        parser.error("give the old commit, REV")
    with old_tree(options.rev) as old:
        if options.speed:
            return compare_speed(old, options.rounds, options.only, options.json)
        results = run_cases([old, ROOT], options.only)
    found = list(differences(*results))
    return report(found, (results[0][1], results[1][1]), options.json)


if __name__ == "__main__":
    sys.exit(main())
