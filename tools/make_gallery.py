"""Make the pictures of docs/gallery.md by running every script under examples/.

    python tools/make_gallery.py [--from EXAMPLES] [--to FOLDER] [NAME ...]

Every script runs in a process of its own, into a folder of its own, and must leave there one
picture that has its name; only then is the old picture replaced.  Prints a line for each; exit
code 1 if any failed.  NAMEs make some pictures only.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from continuized.support import files

ROOT = Path(__file__).parents[1]
# These make no picture, but certified_rate and digits_torch, which take minutes: see
# docs/certificates.md and docs/adapters/torch.md.
APART = {"certified_rate", "delay_study", "digits_torch", "learn_digits", "stale_gradients"}
SECONDS = 300.0


def scripts(folder: Path) -> list[Path]:
    """The scripts of the gallery."""
    return sorted(path for path in folder.glob("*.py") if path.stem not in APART)


def picture(script: Path) -> bytes:
    """The picture that a script makes; RuntimeError, with the reason, if it does not."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(script.resolve()), folder]
        environment = {**os.environ, "MPLBACKEND": "Agg"}  # no windows
        try:
            run = subprocess.run(
                command, env=environment, cwd=folder, capture_output=True, text=True,
                timeout=SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"took more than {SECONDS:g} s") from error
        if run.returncode != 0:
            said = run.stderr.strip().splitlines() or ["nothing was said"]
            raise RuntimeError(f"exit code {run.returncode}: {said[-1]}")
        made = sorted(path.name for path in Path(folder).iterdir())
        if made != [f"{script.stem}.png"]:
            raise RuntimeError(f"made {', '.join(made) or 'nothing'}, not {script.stem}.png")
        return (Path(folder) / made[0]).read_bytes()


def make(chosen: list[Path], folder: Path) -> int:
    """Make the pictures of these scripts; the number that failed."""
    files.writable_folder(folder)
    failed = 0
    for script in chosen:
        try:
            files.write(folder / f"{script.stem}.png", picture(script))
            print(f"{script.stem}: made", flush=True)
        except RuntimeError as error:
            failed += 1
            print(f"{script.stem}: FAILED, {error}", flush=True)
    return failed


def main() -> int:
    """Make all pictures, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="examples", type=Path, default=ROOT / "examples")
    parser.add_argument("--to", dest="folder", type=Path, default=ROOT / "docs" / "gallery")
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_args()
    found = {script.stem: script for script in scripts(given.examples)}
    unknown = [name for name in given.names if name not in found]
    if unknown:
        parser.error(f"no example is called {unknown[0]!r}, only {', '.join(found)}")
    chosen = [found[name] for name in given.names or found]
    failed = make(chosen, given.folder)
    print(f"{len(chosen) - failed} of {len(chosen)} pictures are in {given.folder}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
