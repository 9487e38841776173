"""The explorer in a real browser: no errors, no requests, exact numbers, controls that work.

It needs Selenium and Chromium with its driver; where there are none, these tests are not run.
"""

from __future__ import annotations

import itertools
import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

import continuized as cz
from continuized.app.explorer.functions import FUNCTIONS
from continuized.app.explorer.page import FORMULAS, build
from continuized.network import Graph

pytestmark = pytest.mark.slow
ALL_OF_THEM = [f for p in FUNCTIONS.values() for f in (p.value, p.gradient, p.constants)]
TOLERANCE = 1e-12  # of a formula in JavaScript: functions of `Math` differ by a few last bits


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explorer") / "explorer.html"
    path.write_text(build(), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    names = ("chromium", "chromium-browser", "google-chrome")
    binary = next(filter(None, map(shutil.which, names)), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("for want of chromium: 1 tests")
    options = Options()
    options.binary_location = binary
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(flag)
    options.add_argument("--window-size=1300,1000")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    running = webdriver.Chrome(options=options, service=Service(driver))
    yield running
    running.quit()


@pytest.fixture
def visit(browser: Any, page: Path) -> Iterator[Any]:
    """Open the page at an address; at the end nothing may have gone wrong or been asked for."""

    def go(address: str = "") -> Any:
        browser.get("about:blank")
        browser.get(f"{page.as_uri()}#{address}")
        return browser

    yield go
    assert browser.get_log("browser") == []
    asked = browser.execute_script("return performance.getEntriesByType('resource').length")
    assert asked == 0


# Formulas


def draw_arguments(name: str, names: list[str], rng: np.random.Generator) -> list[float]:
    """Arguments that make sense for a formula, by their names."""
    L = 10.0 ** rng.uniform(-1.0, 1.0)
    mu = L * 10.0 ** rng.uniform(-4.0, 0.0)
    if not name.startswith(("exponential", "hyperbolic", "quasar_exponential", "sharp")):
        mu *= rng.choice([0.0, 1.0])
    start = rng.choice([0.0, rng.uniform(0.0, 10.0)])
    if mu > 0.0 and "convex" not in name and "hyperbolic" not in name:
        start = rng.choice([start, math.inf])
    t0, dt = rng.choice([0.0, rng.uniform(0.0, 50.0)]), rng.exponential()
    near = name == "_weights_near"
    known = {
        "L": L, "mu": mu, "start": start, "tau": rng.uniform(0.2, 1.0), "t0": t0, "t1": t0 + dt,
        "t": t0 + dt, "dt": dt, "d": dt, "carry": rng.uniform(0.0, 9.0), "k": rng.integers(1, 99),
        "u": rng.uniform(0.01, 0.7) if near else rng.uniform(0.7, 20.0),
        "kappa": 10.0 ** rng.uniform(0.0, 4.0), "eta": rng.exponential(),
        "eta_prime": rng.exponential(), "rate": rng.exponential(), "theta": rng.exponential(),
    }  # fmt: skip
    return [float(known.get(argument, rng.normal())) for argument in names]


def as_text(value: float) -> Any:
    """Infinity has no JSON."""
    return "Infinity" if value == math.inf else value


@pytest.mark.parametrize("formula", [*FORMULAS, *ALL_OF_THEM], ids=lambda f: f.__name__)
def test_a_formula_gives_what_its_python_gives(browser: Any, page: Path, formula: Any) -> None:
    if not browser.current_url.startswith(page.as_uri()):  # one page will do for all
        browser.get(page.as_uri())
    rng = np.random.default_rng(0)
    code = formula.__code__
    names = list(code.co_varnames[: code.co_argcount])
    cases = [draw_arguments(formula.__name__, names, rng) for _ in range(1_000)]
    script = """
        const [name, cases] = [arguments[0], JSON.parse(arguments[1])];
        const numbers = cases.map((c) => c.map(Number));
        return JSON.stringify(numbers.map((c) => [window.explorer.FORMULAS[name](...c)].flat()
            .map((v) => Number.isFinite(v) ? v : String(v))));
    """
    sent = json.dumps([[as_text(value) for value in case] for case in cases])
    answer = browser.execute_script(script, formula.__name__, sent)
    found = np.array([[float(value) for value in row] for row in json.loads(answer)])
    expected = np.array([np.atleast_1d(formula(*case)) for case in cases], dtype=float)
    assert np.allclose(found, expected, rtol=TOLERANCE, atol=1e-14, equal_nan=True)


# Runs


ADDRESSES = [
    "t=30&methods=c",
    "f=paper&t=40.5&methods=c&start=3",
    "f=logcosh&t=25&methods=c&kappa=5",
    "f=logistic&t=60&methods=c&mu=0.01",
    "f=huber&t=20&methods=c&start=2.5&x=-3&y=1.25",
    "f=quasar&t=30&methods=c",
    "f=quasar&t=30&methods=c&tau=0.7",
    "f=rosenbrock&t=15&methods=c",
    "t=20&methods=s",
    "t=20&methods=n",
    "f=huber&t=20&methods=n",
    "t=20&methods=g&L=3",
    "t=12&methods=c&noise=0.1",
    "t=12&methods=n&noise=0.05&seed=7",
    "f=quadratic&t=30&methods=c&mu=0.02&tau=0.6",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_the_python_code_repeats_the_run(visit: Any, address: str) -> None:
    code = visit(address).execute_script("return window.explorer.pythonCode()")
    names: dict[str, Any] = {}
    exec(compile(code, "run.py", "exec"), names)  # it asserts what the page showed
    table = visit(address).execute_script("return window.explorer.planeTable()")
    last = table.strip().splitlines()[-1].split(",")
    assert np.allclose(names["r"].x, [float(v) for v in last[3:5]], rtol=1e-9, atol=1e-9)
    assert names["r"].nit == int(last[1])


def test_the_python_code_of_another_run_fails(visit: Any) -> None:
    browser = visit("t=30&methods=c")
    code = browser.execute_script("return window.explorer.pythonCode()")
    with pytest.raises(AssertionError):
        exec(code.replace("start=math.inf", "start=1.0"), {})


def test_a_link_shows_the_same(visit: Any) -> None:
    address = "f=logistic&t=33&methods=gnc&seed=5&noise=0.02&x=1.5"
    tables = [visit(address).execute_script("return window.explorer.planeTable()") for _ in "ab"]
    browser = visit(address)
    browser.execute_script("document.getElementById('link').click()")
    again = browser.current_url.partition("#")[2]
    tables.append(visit(again).execute_script("return window.explorer.planeTable()"))
    assert len(set(tables)) == 1


@pytest.mark.parametrize(
    ("mu", "start", "noise"),
    [(0.02, "inf", 0.0), (0.0, 0.0, 0.0), (0.02, 1.5, 0.1), (0.0, 3.0, 0.1)],
)
def test_the_exact_mean_is_that_of_the_library(
    visit: Any, mu: float, start: Any, noise: float
) -> None:
    script = """
        const [mu, start, noise] = [arguments[0], Number(arguments[1]), arguments[2]];
        const c = { L: 1, mu, start, tau: 1 };
        return [1, 0.05].map((curvature) => window.explorer.exactSecondMoment(
            c, curvature, 2, [1, 5, 20], noise * noise));
    """
    sent = "Infinity" if start == "inf" else start
    found = np.array(visit().execute_script(script, mu, sent, noise))
    p = cz.problems.Quadratic([1.0, 0.05], [0.0, 0.0])
    method = cz.Continuized(1.0, mu, start=float(start))
    exact = cz.theory.moments(p, method, [2.0, 2.0], [1.0, 5.0, 20.0], sigma2=2.0 * noise**2)
    assert np.allclose(found, exact.xx.T, rtol=1e-6)


# The network


@pytest.mark.parametrize(
    "address",
    ["kappa=100", "kappa=5", "kappa=100&start=3", "f=paper", "f=huber", "f=quasar",
     "kappa=30&noise=0.1", "kappa=30&start=2&noise=0.1", "f=logcosh&noise=0.03"],
)  # fmt: skip
def test_the_bounds_are_those_of_the_library(visit: Any, address: str) -> None:
    """kappa = 100 has Theorem A, kappa = 5 has not; with noise there is no curve of whole runs."""
    times, delta = [0.5, 7.0, 90.0], 0.01
    script = """
        const { lyapunov, constants } = window.explorer;
        const c = constants();
        return [c, arguments[0].map((t) => lyapunov.bound(c, t, 0.7, 2)),
            arguments[0].map((t) => lyapunov.pathBound(c, t, 0.7, 2, arguments[1]))];
    """
    c, bounds, whole = visit(address).execute_script(script, times, delta)
    start = math.inf if c["start"] is None else float(c["start"])  # infinity is no JSON
    method = cz.Continuized(c["L"], c["mu"], start, tau=c["tau"])
    p = cz.Problem(
        lambda x: 0.35 * x @ x, lambda x: 0.7 * x, L=c["L"], mu=c["mu"],
        x_star=np.zeros(2),
    )  # fmt: skip
    x0 = np.array([math.sqrt(2.0), 0.0])
    sigma2 = 2.0 * c["noise"] ** 2
    expected = cz.theory.bound(method, p, x0, t=times, sigma2=sigma2)
    np.testing.assert_allclose(bounds, expected, rtol=1e-12)
    np.testing.assert_allclose(whole, cz.theory.path_bound(method, p, x0, times, delta), rtol=1e-12)


@pytest.mark.parametrize("name", ["path:7", "cycle:6", "star:9", "grid:3x3"])
def test_the_constants_of_graphs(visit: Any, name: str) -> None:
    graph = Graph.of(name)
    script = "return Object.values(window.explorer.graphConstants(...arguments))"
    found = visit().execute_script(script, graph.nodes, graph.edges.tolist())
    assert np.allclose(found, [graph.mu_g, graph.R], rtol=1e-10)


@pytest.mark.parametrize("faults", ["", "&loss=0.3", "&delay=2", "&loss=0.3&delay=1&dead=3"])
def test_exchanges_make_and_lose_nothing(visit: Any, faults: str) -> None:
    script = """
        const { net, state } = window.explorer;
        const sum = (g) => g.x.map((x, i) => x + g.z[i]).reduce((p, q) => p + q, 0);
        const before = net.pair.map(sum);
        for (const g of net.pair) {
            g.advance(3000);
            g.tick = () => { g.ticks += 1; };  // no new exchange: those under way come to an end
            g.advance(4000);
        }
        return [before, net.pair.map(sum), net.pair.map((g) => g.error()), net.pair[0].done];
    """
    before, after, errors, done = visit(f"tab=network&nodes=9{faults}").execute_script(script)
    assert np.allclose(after, before, rtol=1e-12)
    assert done > 300
    assert max(errors) < 1e-3


def test_acceleration_is_quicker_on_a_path_and_a_dead_node_keeps_its_value(visit: Any) -> None:
    browser = visit("tab=network&graph=path&nodes=20&dead=4")
    script = """
        const { pair } = window.explorer.net;
        for (const g of pair) g.advance(6000);
        return [pair.map((g) => g.error()), pair.map((g) => g.x[4])];
    """
    errors, kept = browser.execute_script(script)
    assert kept[0] == 4 / 19
    assert errors[1] < errors[0]


# The page


def test_every_slider_changes_what_it_says(visit: Any) -> None:
    script = """
        const [name, tab] = arguments;
        const pictures = () => [...document.querySelectorAll(`#${tab} canvas`)]
            .map((c) => c.toDataURL()).join();
        const slider = document.getElementById(name);
        const before = [pictures(), window.explorer.state[name]];
        const far = Number(slider.min) + 0.4 * (slider.max - slider.min);
        slider.value = Math.abs(slider.value - far) > 1e-6 ? far : slider.max;
        slider.dispatchEvent(new Event("input"));
        const text = document.querySelector(`output[for="${name}"]`).textContent;
        return [before[0] !== pictures(), before[1] !== window.explorer.state[name], text];
    """
    speeds = {"speed", "net_speed", "loss", "delay"}  # seen only when it moves
    tabs = {
        "plane": ["kappa", "L", "mu", "start", "tau", "noise", "speed"],
        "many": ["kappa", "L", "mu", "start", "noise", "runs", "until"],
        "network": ["nodes", "loss", "delay", "net_speed"],
    }
    for tab, names in tabs.items():
        for name in names:
            result = visit(f"tab={tab}&t=20&methods=gnc").execute_script(script, name, tab)
            assert result[1:2] == [True], (tab, name)
            assert result[0] or name in speeds, (tab, name)
            assert result[2], (tab, name)


def test_buttons_and_keys(visit: Any) -> None:
    browser = visit("methods=c")
    script = """
        const { state, plane } = window.explorer;
        const seen = [];
        const click = (id) => document.getElementById(id).click();
        click("one"); seen.push(plane.t > 0);
        const t = plane.t;
        const key = new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true });
        document.body.dispatchEvent(key);
        seen.push(plane.t > t);
        click("same_clock"); seen.push(plane.t === 0);
        click("one"); seen.push(plane.paths[0].path.states[1].t === t);
        click("new_clock"); click("one"); seen.push(plane.t !== t);
        click("use-nesterov"); seen.push(state.methods === "nc");
        click("tab-many"); seen.push(state.tab === "many", !document.getElementById("many").hidden);
        click("tab-network"); click("net_one"); seen.push(window.explorer.net.pair[0].ticks === 1);
        click("kill"); seen.push(window.explorer.net.pair[1].dead.has(0));
        click("kill"); seen.push(!window.explorer.net.pair[1].dead.has(0));
        click("theme"); seen.push(document.documentElement.dataset.theme === "dark");
        return seen;
    """
    assert all(browser.execute_script(script))


def test_a_graph_made_by_clicks(visit: Any) -> None:
    browser = visit("tab=network&graph=own")
    script = """
        const canvas = document.getElementById("plain");
        const box = canvas.getBoundingClientRect();
        const click = (x, y) => canvas.dispatchEvent(new MouseEvent("click",
            { clientX: box.left + x, clientY: box.top + y }));
        const { net } = window.explorer;
        const seen = [net.graph.usable];
        click(60, 60); click(160, 60); click(110, 160);
        seen.push(net.graph.places.length, net.graph.usable);
        click(60, 60); click(160, 60); click(160, 60); click(110, 160);
        seen.push(net.graph.edges.length, net.graph.usable, net.pair.length);
        return seen;
    """
    assert browser.execute_script(script) == [False, 3, False, 2, True, 2]


@pytest.mark.parametrize("tab", ["plane", "many", "network"])
def test_everything_has_a_name_and_fits_a_phone(visit: Any, tab: str) -> None:
    browser = visit(f"tab={tab}")
    script = """
        const parts = [...document.querySelectorAll("input, select, button, canvas")];
        return parts.filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim()
            || e.closest("label")?.textContent.trim())).map((e) => e.id);
    """
    assert browser.execute_script(script) == []
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 390, "height": 800, "deviceScaleFactor": 2, "mobile": True},
    )
    try:
        wide = "return document.documentElement.scrollWidth - window.innerWidth"
        assert visit(f"tab={tab}").execute_script(wide) <= 0
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_addresses_that_make_no_sense_are_passed_over(visit: Any) -> None:
    odd = ["f=nothing&kappa=-3&nodes=1e9", "tab=5&seed=x&t=-4", "L=0&mu=7&start=nan", "runs=1e9",
           "f=toString&toString=1", "graph=nothing", "many_method=nothing&t=1e9"]  # fmt: skip
    for address, tab in itertools.product(odd, ("plane", "many", "network")):
        visit(f"{address}&tab={tab}")


def test_it_plays(visit: Any, capsys: pytest.CaptureFixture[str]) -> None:
    browser = visit("methods=c")
    script = """
        const done = arguments[0];
        document.getElementById("play").click();
        setTimeout(() => {
            document.getElementById("play").click();
            const paint = performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
            done([window.explorer.plane.frames, window.explorer.plane.t, paint]);
        }, 1000);
    """
    frames, t, paint = browser.execute_async_script(script)
    with capsys.disabled():
        print(f"\nexplorer: {frames} frames in a second, first picture after {paint:.0f} ms")
    assert frames > 0
    assert t > 0.0
