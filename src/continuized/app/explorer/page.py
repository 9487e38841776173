"""The page, put together from its parts: one HTML file that needs nothing else.

The scripts beside this file hold what a browser does; every formula in the page is translated from
the Python source when the page is built.
"""

from __future__ import annotations

import inspect
import json
from importlib.resources import files
from typing import Any

from continuized import __version__
from continuized.app.explorer import functions
from continuized.app.explorer.functions import FUNCTIONS, PlaneFunction
from continuized.app.explorer.translate import Formula, translate
from continuized.network.gossip import Gossip, mix_over
from continuized.process import coefficients, flow, methods, parameters
from continuized.theory.bounds.paper import log_mean_A
from continuized.theory.bounds.sharp import LEAST_A, log_harmonic_mean
from continuized.theory.moments.pair import flow_slope, jump_slope
from continuized.theory.proofs import decay_numbers_A

SCRIPTS = ("engine", "canvas", "controls", "plane", "many", "network", "main")
RULES = [
    coefficients.gradient_descent_rule,
    coefficients.nesterov_rule,
    coefficients.convex_rule,
    coefficients.exponential_rule,
    coefficients.hyperbolic_rule,
    coefficients.quasar_convex_rule,
    coefficients.quasar_exponential_rule,
    coefficients.sharp_rule,
]
FORMULAS: list[Formula] = [
    *parameters.FORMULAS,
    *flow.FORMULAS,
    *RULES,
    flow.no_flow,
    methods.jump,
    parameters.default_start,
    mix_over,
    flow_slope,
    jump_slope,
    log_mean_A,
    decay_numbers_A,
    log_harmonic_mean,
]
# The curvatures along the axes, where f is a quadratic: its exact moments can then be shown.
QUADRATICS = ("quadratic", "paper")


def build() -> str:
    """Return the page.

    >>> page = build()
    >>> page.startswith("<!doctype html>"), "function hyperbolic_weights(" in page
    (True, True)
    """
    parts = {
        "/*STYLE*/": _read("style.css"),
        "<!--VERSION-->": __version__,
        "/*SCRIPT*/": "\n".join([_formulas(), *(_read(f"{name}.js") for name in SCRIPTS)]),
    }
    page = _read("page.html")
    for mark, text in parts.items():
        assert page.count(mark) == 1, mark
        page = page.replace(mark, text)
    return page


def _read(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _formulas() -> str:
    """Return the translated formulas, and the tables that the scripts read."""
    known = [f for p in FUNCTIONS.values() for f in (p.value, p.gradient, p.constants)]
    names = sorted({f.__name__ for f in (*FORMULAS, *known)})
    shown = ", ".join(f"{_quote(key)}: {_describe(p)}" for key, p in FUNCTIONS.items())
    bends = ", ".join(f"{key}: (kappa) => {_curvatures(key)}" for key in QUADRATICS)
    sources = {key: source_of(p) for key, p in FUNCTIONS.items()}
    return "\n".join(
        [
            translate([*FORMULAS, *known]),
            f"const FORMULAS = {{ {', '.join(names)} }};",
            f"const FUNCTIONS = {{ {shown} }};",
            f"const CURVATURES = {{ {bends} }};",
            f"const SOURCES = {_quote(sources)};",
            f"const DAMPING = {Gossip().damping!r};",
            f"const LEAST_A = {LEAST_A!r};",
        ]
    )


def _describe(p: PlaneFunction) -> str:
    """Return a function of the plane as an object of JavaScript."""
    called = {"value": p.value, "gradient": p.gradient, "constants": p.constants}
    plain = {name: value for name, value in p._asdict().items() if name not in called}
    fields = [f"{name}: {formula.__name__}" for name, formula in called.items()]
    fields += [f"{name}: {_quote(value)}" for name, value in plain.items()]
    return f"{{ {', '.join(fields)} }}"


def _curvatures(key: str) -> str:
    """Return the gradients at distance 1 along the axes: the curvatures of a quadratic."""
    x, y = FUNCTIONS[key].minimiser
    gradient = FUNCTIONS[key].gradient.__name__
    return f"[{gradient}({x + 1.0}, {y}, kappa)[0], {gradient}({x}, {y + 1.0}, kappa)[1]]"


def source_of(p: PlaneFunction) -> str:
    """Return the Python source of a function of the plane, with all that it needs."""
    needed: dict[str, str] = {}

    def add(formula: Any) -> None:
        for name in formula.__code__.co_names:
            known = getattr(functions, name, None)
            if inspect.isfunction(known):
                add(known)
            elif isinstance(known, tuple):
                needed.setdefault(name, f"{name} = {known!r}")
        text = inspect.getsource(formula).rstrip()
        head, _, rest = text.partition(") ->")
        plain = head.replace(": float", "") + "):" + rest.partition(":")[2]
        needed.setdefault(formula.__name__, plain)

    add(p.value)
    add(p.gradient)
    return "\n\n\n".join(needed.values())


def _quote(value: Any) -> str:
    """Return a value as JavaScript that no HTML parser takes for markup."""
    return json.dumps(value).replace("</", "<\\/")
