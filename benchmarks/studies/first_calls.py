"""What the first call of each entry point costs: compiled, and read from the disk.

    python -m benchmarks.studies.first_calls [PART OF A NAME ...]

Each call is made in a process of its own, the first with an empty cache of compiled code, the next
with what that one left.  What counts is the time of the processor, of all threads, without `import
continuized`, NumPy, the data, and the libraries that a user of adapters has imported; SciPy and
Numba are imported in the call, as they are for a user.  The column "libraries there" is from the
disk where these had been imported before and Numba was ready: what is left is ours.  The row
"Numba alone" is a function of one line.  Commands are whole processes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

BEGIN = """
import json, os, sys, time
import numpy as np
if "LIBRARIES" in os.environ:
    import scipy.optimize, scipy.sparse.linalg, scipy.special
    from numba.core.registry import cpu_target
    cpu_target.target_context.refresh()
import continuized as cz
rng = np.random.default_rng(0)
X = rng.standard_normal((60, 5))
y = X.sum(axis=1) + rng.standard_normal(60)
signs, counts, x0 = np.sign(y), rng.poisson(2.0, 60).astype(float), np.zeros(5)
"""
# What Numba has compiled, beside what it found on the disk.
END = """
spent, compiled = time.process_time() - started, 0
if "numba" in sys.modules:
    import gc
    from numba.core.dispatcher import Dispatcher
    for thing in gc.get_objects():
        if issubclass(type(thing), Dispatcher) and thing.py_func.__module__ != "__main__":
            compiled += max(len(thing.overloads) - sum(thing._cache_hits.values()), 0)
print(json.dumps([spent, compiled]))
"""
ALONE = """
import numba
def f(x): return x[0]
f.__code__ = f.__code__.replace(co_filename=cz.__file__)
numba.njit(cache=True)(f)(x0)
"""
NETWORK = """
from continuized import network
parts = network.split(cz.problems.LeastSquares(X, y, 0.1), 5, rng=0)
logistic = network.split(cz.problems.LogisticRegression(X, signs, 0.1), 5, rng=0)
mild = network.Faults(delay=0.1, loss=0.1)
all_kinds = network.Faults(
    delay=0.1, loss=0.1, duplication=0.1, skew=0.1, deaths=[(20.0, 1)], joins=[(30.0, 2)]
)
"""
LOGGED = NETWORK + "r = network.simulate('cycle:5', np.eye(5)[0], events=99, rng=0, log=True)\n"
SPARSE = "from scipy import sparse; X = sparse.csr_array(np.where(np.abs(X) < 0.5, 0.0, X))\n"
ESTIMATORS = "from continuized.adapters import sklearn as ours; import sklearn.linear_model\n"
OWN = "def f(x): return 0.5 * x @ x\ndef g(x): return x\nfrom scipy import optimize\n"
COMPILED = "import numba\n@numba.njit\ndef g(x, out):\n    for i in range(5): out[i] = x[i]\n"
QUADRATIC = (
    "p = cz.problems.Quadratic(np.linspace(0.1, 1.0, 5), np.ones(5))\n"
    "q = cz.problems.LogisticRegression(X, signs, 0.1)\n"
)
LOGISTIC = "LogisticRegression(X, signs, 0.1)"


class Case(NamedTuple):
    """What is made ready, and the call."""

    ready: str
    call: str


def minimize(given: str, ready: str = OWN) -> Case:
    return Case(ready, f"cz.minimize({given}, rng=0)")


def regress(problem: str, method: str = '"continuized"', ready: str = "") -> Case:
    return minimize(f"cz.problems.{problem}, x0, method={method}", ready)


def ensemble(p: str, asked: str) -> Case:
    return Case(QUADRATIC, f"cz.ensemble({p}, cz.Continuized(1.0), x0, runs=10, {asked}, rng=0)")


def fit(kind: str, target: str = "y", **options: Any) -> Case:
    given = "".join(f", {name}={value!r}" for name, value in options.items())
    return Case(ESTIMATORS, f"ours.Continuized{kind}(random_state=0{given}).fit(X, {target})")


def simulate(given: str = "", graph: str = "cycle:9", nodes: int = 9) -> Case:
    return Case(NETWORK, f"network.simulate({graph!r}, np.eye({nodes})[0], rng=0{given})")


def decentralized(method: str, parts: str = "parts", faults: str = "None") -> Case:
    given = f"{parts}, method={method!r}, events=200, rng=0, faults={faults}"
    return Case(NETWORK, f'network.minimize("cycle:5", {given})')


CASES = {
    "Numba alone": Case("", ALONE),
    "minimize, a function": minimize("f, x0 + 1.0, g"),
    "minimize, a function, L known": minimize("f, x0 + 1.0, g, L=1.0"),
    "minimize, a function, L1": minimize("f, x0 + 1.0, g, prox=cz.prox.L1(0.1)"),
    "minimize, mirror": minimize("f, x0 + 0.2, g, L=1.0, mirror=cz.mirror.Entropy(), maxiter=99"),
    "minimize, a compiled gradient": minimize(
        "lambda x: 0.5 * x @ x, x0 + 1.0, g, L=1.0, mu=0.1, record=False", COMPILED
    ),
    "minimize, a quadratic": minimize("p, x0", QUADRATIC),
    "minimize, a quadratic, path": minimize("p, x0, maxiter=99, record='path'", QUADRATIC),
    "minimize, noise": minimize("p, x0, noise=cz.noise.Gaussian(0.1), maxiter=99", QUADRATIC),
    "minimize, L1": minimize("p, x0, prox=cz.prox.L1(0.1)", QUADRATIC),
    "minimize, least squares": regress("LeastSquares(X, y, 0.1)"),
    "minimize, logistic": regress(LOGISTIC),
    "minimize, logistic, sparse": regress(LOGISTIC, ready=SPARSE),
    "minimize, Poisson": regress("PoissonRegression(X, counts, 0.1)"),
    "minimize, Huber": regress("HuberRegression(X, y, 0.1)"),
    "minimize, softmax": minimize(
        "cz.problems.SoftmaxRegression(X, counts % 3, 0.1), np.zeros(15)", ""
    ),
    "minimize auto, least squares": regress("LeastSquares(X, y, 0.1)", '"auto"'),
    "minimize auto, logistic": regress(LOGISTIC, '"auto"'),
    "minimize auto, logistic, sparse": regress(LOGISTIC, '"auto"', SPARSE),
    "CoordinateDescent": regress("LeastSquares(X, y, 0.1)", "cz.CoordinateDescent()"),
    "CoordinateDescent, L1": regress(
        "LeastSquares(X, y, 0.1)", "cz.CoordinateDescent(prox=cz.prox.L1(0.1))"
    ),
    "DualCoordinate": regress("LeastSquares(X, y, 0.1)", "cz.DualCoordinate()"),
    "DualCoordinate, logistic": regress(LOGISTIC, "cz.DualCoordinate()"),
    "StochasticLeastSquares": regress("LeastSquares(X, y)", "cz.StochasticLeastSquares()"),
    "Kaczmarz": regress("LeastSquares(X, X @ np.ones(5))", "cz.Kaczmarz()"),
    "ensemble, steps": ensemble("p", "steps=20"),
    "ensemble, times": ensemble("p", "times=[1.0, 5.0]"),
    "ensemble, logistic": ensemble("q", "times=[1.0, 5.0]"),
    "theory.moments": Case(QUADRATIC, "cz.theory.moments(p, cz.Continuized(1.0), x0, [1.0])"),
    "theory.bound": Case(QUADRATIC, "cz.theory.bound(cz.Continuized(1.0), p, x0, t=[1.0])"),
    "theory.gossip_rate": Case(NETWORK, 'cz.theory.gossip_rate("cycle:9")'),
    "scipy_method": Case(OWN, "optimize.minimize(f, x0 + 1.0, jac=g, method=cz.scipy_method)"),
    "Ridge": fit("Ridge"),
    "Lasso": fit("Lasso", alpha=0.1),
    "ElasticNet": fit("ElasticNet", alpha=0.1),
    "LogisticRegression": fit("LogisticRegression", "signs"),
    "LogisticRegression, 3 classes": fit("LogisticRegression", "counts % 3"),
    "LogisticRegression, L1": fit("LogisticRegression", "signs", l1_ratio=1.0),
    "PoissonRegressor": fit("PoissonRegressor", "counts"),
    "HuberRegressor": fit("HuberRegressor"),
    "simulate": simulate(),
    "simulate, plain": simulate(', method="plain"'),
    "simulate, snapshots and log": simulate(", snapshots=[1.0], log=True"),
    "simulate, a grid": simulate(graph="grid:30x30", nodes=900),
    "simulate, Faults()": simulate(", faults=network.Faults()"),
    "simulate, delay and loss": simulate(", faults=mild"),
    "simulate, all faults": simulate(", faults=all_kinds"),
    "replay": Case(LOGGED, "network.replay('cycle:5', np.eye(5)[0], 'accelerated', r.log)"),
    "network.minimize, dual": decentralized("dual"),
    "network.minimize, dual, logistic": decentralized("dual", "logistic"),
    "network.minimize, dual, faults": decentralized("dual", faults="mild"),
    "network.minimize, dadao": decentralized("dadao"),
    "network.minimize, dadao, logistic": decentralized("dadao", "logistic"),
    "network.minimize, dadao, faults": decentralized("dadao", faults="mild"),
    "network.minimize, a2cid2": decentralized("a2cid2"),
    "network.minimize, a2cid2, logistic": decentralized("a2cid2", "logistic"),
    "network.minimize, a2cid2, faults": decentralized("a2cid2", faults="mild"),
    "network.race": Case(
        NETWORK, 'network.race("cycle:5", parts, work=np.ones(5), tol=0.1, events=50, rng=0)'
    ),
    "verify, the first claim": Case(
        "from continuized.app.verify.registry import CHECKS, measure\n", "measure(CHECKS[0])"
    ),
}
COMMANDS = (
    "continuized --help",
    "continuized solve rows.csv",
    "continuized solve rows.svm",
    "continuized gossip --graph path:30",
    "continuized gossip --graph path:30 --delay 0.1 --loss 0.1",
    "continuized decentralized --data rows.csv --graph cycle:5 --method dual",
)


class Cost(NamedTuple):
    """Seconds of the processor, and how many functions were compiled, where that is known."""

    seconds: float
    compiled: int | None = None


def call_once(case: Case, cache: Path, **more: str) -> Cost:
    code = f"{BEGIN}{case.ready}started = time.process_time()\n{case.call}\n{END}"
    done = _run([sys.executable, "-c", code], cache, more)
    return Cost(*json.loads(done.splitlines()[-1]))


def command_once(command: str, cache: Path) -> Cost:
    before = _spent_by_children()
    _run([sys.executable, "-m", *command.split()], cache, {})
    return Cost(_spent_by_children() - before)


def _spent_by_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(line: list[str], cache: Path, more: dict[str, str]) -> str:
    # Packages that are installed have their bytecode, whatever this process was told.
    own = {"NUMBA_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        line, env=os.environ | own | more, cwd=cache.parent, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return done.stdout


def write_data(folder: Path) -> None:
    """Write the same rows as CSV and as LIBSVM."""
    import numpy as np

    X = np.random.default_rng(0).standard_normal((60, 5))
    rows = [("1" if x.sum() > 0.0 else "-1", [f"{v:.6f}" for v in x]) for x in X]
    table = ["a,b,c,d,e,y", *(",".join([*x, y]) for y, x in rows)]
    (folder / "rows.csv").write_text("\n".join(table) + "\n")
    lines = [" ".join([y, *(f"{k}:{v}" for k, v in enumerate(x, 1))]) for y, x in rows]
    (folder / "rows.svm").write_text("\n".join(lines) + "\n")


def measure(name: str) -> list[Cost]:
    """Return what it costs with an empty cache, with a full one, and so with the libraries."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        write_data(Path(folder))
        if name in COMMANDS:
            return [command_once(name, cache) for _ in range(2)]
        costs = [call_once(CASES[name], cache) for _ in range(2)]
        return [*costs, call_once(CASES[name], cache, LIBRARIES="1")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART OF A NAME")
    parts = parser.parse_args().parts
    print("| seconds of the processor | compiled | from disk | libraries there | functions |")
    print("|---|---:|---:|---:|---:|")
    for name in [*CASES, *COMMANDS]:
        if parts and not any(part in name for part in parts):
            continue
        try:
            costs = measure(name)
        except RuntimeError as error:
            print(f"| {name} | {error} |", flush=True)
            continue
        figures = [f"{cost.seconds:.2f}" for cost in costs] + [""] * (3 - len(costs))
        count = "" if costs[0].compiled is None else str(costs[0].compiled)
        print("|", " | ".join([name, *figures, count]), "|", flush=True)


if __name__ == "__main__":
    main()
