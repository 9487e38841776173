"""What all tests share: libraries that may be absent, fixtures, coverage without Numba's compiler.

Libraries.  The tests need the extra `test` and nothing else.  A file that imports one of
`OPTIONAL` at its top, and a test with the marker `needs("torch")`, are skipped where that library
is not installed, and the closing section says how many tests did not run for want of which.  With
`--all-libraries`, as in .ci/run, a library that is absent is an error.  So are files that import
Numba skipped where there is none.

Threads.  Each worker of xdist has one thread for linear algebra: idle threads of BLAS spin on the
cores of the other workers, and small products took ten times as long.

Garbage.  What is imported and collected stays until the end of the session: the collector of
garbage need not look through it again and again, nor through what is new after every 700 objects.
It took a tenth of the time.

Disks.  No test takes the power away, so what is written need not have reached the disk: tests of
checkpoints would wait for it twelve thousand times.

Coverage.  What compiles, draws pictures and rewrites the assertions of tests is Python of other
libraries, where no line is counted, but a trace function is called at each of its lines all the
same; a large part of the time of all tests, it would take half as long again.  Of this package,
only what says how to compile is lost to the count: the inside of the intrinsics in `jit_numba`, and
of the choice of a node model in `interface`.
"""

from __future__ import annotations

import ast
import gc
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Generator
from functools import cache, wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import rewrite

# What a shell starts in the background ignores Ctrl-C, and so would the tests of it, and their
# children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if "PYTEST_XDIST_WORKER" in os.environ:  # before anything imports NumPy
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(variable, "1")

gc.disable()  # until all is collected
os.fsync = os.fstat  # type: ignore[assignment]  # which refuses what is no open file as well

HAS_NUMBA = find_spec("numba") is not None

OPTIONAL = (
    "PEPit",
    "array_api_strict",
    "cvxpy",
    "jax",
    "optax",
    "pandas",
    "ray",
    "selenium",
    "torch",
    "yaml",
)  # not in the extra `test`
if not HAS_NUMBA:  # as tools/check_without_numba.py runs some of the tests
    OPTIONAL = (*OPTIONAL, "llvmlite", "numba")
WANT = "for want of "


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-libraries", action="store_true", help="a library that is absent is an error"
    )
    parser.addoption(
        "--cases", type=int, default=8, help="bad inputs to try every entry point with"
    )


def pytest_configure(config: pytest.Config) -> None:
    if not HAS_NUMBA:
        config.addinivalue_line("filterwarnings", "ignore:loops run in plain:RuntimeWarning")


@cache
def is_absent(library: str) -> bool:
    return find_spec(library) is None or (library == "llvmlite" and not HAS_NUMBA)


def imports(source: ast.Module) -> set[str]:
    """The libraries that the statements at the top of a file import."""
    names: set[str] = set()
    for statement in source.body:
        if isinstance(statement, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            names.add(statement.module.partition(".")[0])
    return names


@cache
def libraries_at_the_top(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    if not any(name in text for name in OPTIONAL):
        return []
    return sorted(imports(ast.parse(text)) & set(OPTIONAL))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A file that could not be imported is skipped if a library that it names itself is absent."""
    report = yield
    if not (report.failed and isinstance(collector, pytest.Module)):
        return report
    if collector.config.getoption("all_libraries"):
        return report
    absent = [name for name in libraries_at_the_top(collector.path) if is_absent(name)]
    if absent:
        source = ast.parse(collector.path.read_text(encoding="utf-8"))
        tests = sum(getattr(node, "name", "").startswith("test_") for node in ast.walk(source))
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 1, f"{WANT}{' and '.join(absent)}: {tests} tests")
        del report.call  # type: ignore[attr-defined]  # a debugger need not stop here
    return report


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give `needs` to all tests of a file that imports a library; skip those that lack theirs."""
    for item in items:
        libraries = libraries_at_the_top(item.path) if item.path.suffix == ".py" else []
        if libraries:
            item.add_marker(pytest.mark.needs(*libraries))
    if config.getoption("all_libraries"):
        return
    for item in items:
        named = {name for marker in item.iter_markers("needs") for name in marker.args}
        absent = sorted(name for name in named if is_absent(name))
        if absent:
            item.add_marker(pytest.mark.skip(reason=f"{WANT}{' and '.join(absent)}: 1 tests"))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many tests did not run for want of a library, and in which files they stand."""
    wanting: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for report in terminalreporter.stats.get("skipped", ()):
        _, found, rest = str(report.longrepr[2]).partition(WANT)
        if found:
            libraries, _, number = rest.partition(": ")
            file = report.nodeid.partition("::")[0]
            wanting[libraries][file] += int(number.partition(" ")[0])
    if not wanting:
        return
    terminalreporter.section("not run for want of a library")
    for libraries, files in sorted(wanting.items()):
        tests = sum(files.values())
        line = f"not run {WANT}{libraries}: {tests} tests in {len(files)} files"
        terminalreporter.line(line)
        for file, number in sorted(files.items()):
            terminalreporter.line(f"    {file}: {number}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a run keeps its state."""
    return tmp_path / "run.npz"


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that lets a coming block fail; see `interruptions`."""
    from tests.helpers.interrupted_runs import interruptions

    return interruptions(monkeypatch)


def untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, with the trace function of this thread set aside while it runs."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        trace = sys.gettrace()
        sys.settrace(None)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(trace)

    return called


from matplotlib.backend_bases import FigureCanvasBase  # noqa: E402  (NumPy, after what is set above)

rewrite._rewrite_test = untraced(rewrite._rewrite_test)
FigureCanvasBase.print_figure = untraced(FigureCanvasBase.print_figure)  # type: ignore[method-assign]
if HAS_NUMBA:
    from numba.core.dispatcher import Dispatcher

    Dispatcher.compile = untraced(Dispatcher.compile)
