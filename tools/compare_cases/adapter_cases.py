"""Cases of files and of other libraries, where these are installed."""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import DTYPES, Cases, seed_name, seeded, start_of, table, user_fun, user_grad
from scipy import optimize, sparse

import continuized as cz


def run_read(suffix: str) -> Any:
    """A file is written and read."""
    X, y = table(40, 7)
    rows = sparse.csr_array(X)
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"data{suffix}"
        if suffix == ".npz":
            np.savez(path, X=X, y=y)
        elif suffix == "-sparse.npz":
            np.savez(path, **parts, shape=rows.shape, format=b"csr", y=y)
        elif suffix == ".npy":
            np.save(path, np.column_stack([X, y]))
        else:
            text = csv_text(X, y) if ".csv" in suffix else svmlight_text(rows, y)
            path.write_bytes(gzip.compress(text) if suffix.endswith(".gz") else text)
        return cz.problems.read(path)


def csv_text(X: np.ndarray, y: np.ndarray) -> bytes:
    """The table, with a header."""
    header = ",".join([*(f"x{j}" for j in range(X.shape[1])), "y"])
    lines = (",".join(f"{v:.17g}" for v in row) for row in np.column_stack([X, y]))
    return "\n".join([header, *lines, ""]).encode()


def svmlight_text(rows: Any, y: np.ndarray) -> bytes:
    """The table, as LIBSVM has it."""
    entries = [f"{j + 1}:{v:.9g}" for j, v in zip(rows.indices, rows.data, strict=True)]
    spans = zip(rows.indptr, rows.indptr[1:], y, strict=False)
    lines = (" ".join([f"{label:.17g}", *entries[a:b]]) for a, b, label in spans)
    return "\n".join([*lines, ""]).encode()


def run_scipy(how: dict[str, Any], **options: Any) -> Any:
    """Through scipy.optimize.minimize."""
    options |= {seed_name(cz.scipy_method): 1, "maxiter": 12}
    given = {"jac": user_grad, "method": cz.scipy_method, "options": options} | how
    return optimize.minimize(user_fun, start_of(), **given)


def run_sklearn(kind: str, cuts: list[float], sparsely: bool, **how: Any) -> Any:
    """An estimator, fitted; cuts: where classes begin."""
    adapter = importlib.import_module("continuized.adapters.sklearn")
    X, y = table(80, 6)
    model = getattr(adapter, kind)(random_state=2, **how)
    labels = np.digitize(y, cuts) if cuts else y
    model.fit(sparse.csr_array(X) if sparsely else X, labels, np.linspace(0.5, 1.5, 80))
    return [model.coef_, model.intercept_, model.n_iter_, model.predict(X)]


def run_torch(dtype: str, **how: Any) -> Any:
    """Steps of the optimiser for PyTorch, the learning rate changing on the way."""
    torch = importlib.import_module("torch")
    adapter = importlib.import_module("continuized.adapters.torch")
    x = torch.linspace(-1.0, 1.0, 6, dtype=getattr(torch, dtype)).requires_grad_()
    optimizer = seeded(adapter.Continuized, [x], lr=0.5, seed=3, **how)
    seen = []
    for k in range(12):
        optimizer.param_groups[0]["lr"] = 0.5 if k < 6 else 0.3
        optimizer.zero_grad()
        (torch.cosh(x - 0.5).log().sum() + 0.25 * (x * x).sum()).backward()
        optimizer.step()
        with optimizer.evaluating():
            seen.append(x.detach().clone())
    return [seen, x.detach()]


def jax_loss(x: Any) -> Any:
    """A smooth function, written in JAX."""
    jnp = importlib.import_module("jax.numpy")
    return jnp.sum(jnp.log(jnp.cosh(x - 0.5))) + 0.25 * jnp.sum(x * x)


def jax_start(dtype: str) -> Any:
    """Where runs in JAX begin."""
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    return jax.numpy.linspace(-1.0, 1.0, 6, dtype=dtype)


def run_jax(dtype: str, **how: Any) -> Any:
    """The loop compiled by JAX, and where L is found on the way."""
    adapter = importlib.import_module("continuized.adapters.jax")
    r = adapter.minimize(jax_loss, jax_start(dtype), key=3, maxiter=8, **how)
    return [r, adapter.gaps(3, 10)]


def run_optax(dtype: str, **how: Any) -> Any:
    """Steps of the optimiser for optax."""
    jax, optax = importlib.import_module("jax"), importlib.import_module("optax")
    adapter = importlib.import_module("continuized.adapters.optax")
    params, optimiser = jax_start(dtype), adapter.continuized(0.5, key=3, **how)
    state, seen = optimiser.init(params), []
    for _ in range(8):
        updates, state = optimiser.update(jax.grad(jax_loss)(params), state, params)
        params = optax.apply_updates(params, updates)
        seen.append(adapter.continuized_eval_params(state, params))
    return [seen, params]


def files() -> Cases:
    """Every format that is read."""
    for suffix in (".csv", ".csv.gz", ".svm", ".svm.gz", ".npy", ".npz", "-sparse.npz"):
        yield f"read/{suffix}", partial(run_read, suffix)


def adapters() -> Cases:
    """Every library that is there."""
    yield "scipy/unknown-L", partial(run_scipy, {})
    yield "scipy/known", partial(run_scipy, {}, L=1.5, mu=0.5)
    yield "scipy/bounds", partial(run_scipy, {"bounds": [(0.0, 0.4)] * 5})
    yield "scipy/differences", partial(run_scipy, {"jac": None})
    has = importlib.util.find_spec
    for sparsely in (False, True) if has("sklearn") else ():
        name, logistic = "sparse" if sparsely else "dense", "ContinuizedLogisticRegression"
        yield f"sklearn/ridge/{name}", partial(run_sklearn, "ContinuizedRidge", [], sparsely)
        yield f"sklearn/two/{name}", partial(run_sklearn, logistic, [0.0], sparsely)
        few = partial(run_sklearn, logistic, [0.0], sparsely, max_iter=3)
        yield f"sklearn/few-steps/{name}", few
        yield f"sklearn/three/{name}", partial(run_sklearn, logistic, [-0.5, 0.5], sparsely)
    for library, run in {"torch": run_torch, "jax": run_jax, "optax": run_optax}.items():
        L = {"L": 1.5} if library == "jax" else {}
        for how in ({}, {"mu": 0.5}, {"mu": 0.5, "start": 1.0}) if has(library) else ():
            for dtype in DTYPES:
                yield f"{library}/{'-'.join(['L', *how])}/{dtype}", partial(run, dtype, **L, **how)
    if has("jax"):
        yield "jax/unknown-L", partial(run_jax, "float64")


CASES = (files, adapters)
