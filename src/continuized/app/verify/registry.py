"""Every check, listed once, the one error budget, and how to make the checks.

ALPHA is the probability that `verify` fails a correct implementation, over all checks
together; the statistical ones share it equally.  It is half of the 1e-6 that the whole test
suite may spend; statistical tests elsewhere state their own share of the other half.

A sample may be too skewed for its size to be judged.  Each check has at least 1.5 times the samples
that its judgement needs; skewness is estimated too, and so where that is not enough, a check is
made once again, with four times the runs.  Both attempts are paid for by the check's share.
"""

from __future__ import annotations

import math
import time

from continuized.app.verify import (
    beyond,
    certificates,
    composite,
    ito,
    laws,
    literal,
    marked,
    network,
    noise,
    paper,
)
from continuized.app.verify.claims import QUICK, Check, Claim, Effort, Subject, worst_of
from continuized.support.jit import HAS_NUMBA
from continuized.support.progress import bar
from continuized.support.statistics import Measurement

ALPHA = 5e-7

# What is measured is always the worst case over functions, parameters, times and events.
RATIO = "value / bound"
EXACT = "exact E f / bound"
EXACT_SQUARE = "exact E |x - x*|^2 / bound"
EXACT_SPREAD = "exact E |x - mean|^2 / bound"
EXACT_DUAL = "exact E mean |w_i - x*|^2 / bound"
EXACT_DADAO = "exact E mean |x_i - x*|^2 / bound"
Z = "z of mean - exact"
Z_ABOVE = "z of mean - bound"
MARKS = "section 5, marks"  # the process of the paper with marks; the oracles are of later work
EDGES = "section 5, marks on edges"
LATER = "later work"  # by others, on the same process
NEW = "new here"  # beyond the paper: what it names as future work, and sharper bounds
WRITTEN = "distance to formulas written twice"
SHARES = "-log probability of shares"

CHECKS: tuple[Check, ...] = (
    Check("gradient descent converges", "Theorem 1", RATIO, paper.theorem_1),
    Check("Nesterov acceleration converges", "Theorem 2", RATIO, paper.theorem_2),
    Check("E f(x_t) is below its bound", "Theorem 3", EXACT, paper.theorem_3),
    Check(
        "E f(x_t) is below it beyond quadratics",
        "Theorem 3",
        Z_ABOVE,
        paper.theorem_3_beyond_quadratics,
        statistical=True,
    ),
    Check("the iteration is the process", "Theorem 4", "distance to the ODE", paper.theorem_4),
    Check("the parameters are the paper's", "Theorems 1 to 3", WRITTEN, literal.process),
    Check("runs of 200 variables", "Theorem 4", WRITTEN, literal.paths),
    Check("weighted E f(x_k) is below its bound", "Theorem 5", Z_ABOVE, paper.theorem_5, True),
    Check("E f(x_t) is below it with noise", "Theorem 6", EXACT, paper.theorem_6),
    Check("the drift of phi is not positive", "appendix B", "I_t / phi_t", paper.drift),
    Check("phi is a supermartingale", "appendix B", "states above", paper.supermartingale),
    Check("Ito's formula closes", "appendix A", "error / largest part", ito.closes),
    Check("Ito's formula: E M_t = 0", "appendix A", Z, ito.martingale, True),
    Check("the five prefactors vanish", "appendix B", "prefactor / terms", ito.prefactors),
    Check("T_k is Gamma(k, 1)", "section 4", "distance of laws", paper.event_times, True),
    Check("gaps: mean, variance, independence", "section 3", Z, laws.gaps, True),
    Check("noise: mean, variance, independence", "section 5", Z, laws.noise, True),
    Check("marks are drawn as often as they should", MARKS, SHARES, laws.marks, True),
    Check("edges tick as often as they should", EDGES, SHARES, laws.edges, True),
    Check("E f(x_t), convex", "section 3", Z, paper.equality_convex, True),
    Check("E f(x_t), strongly convex", "section 3", Z, paper.equality_strongly_convex, True),
    Check("E f(x_t), start = 0", "appendix B, remark", Z, paper.equality_start_0, True),
    Check("E f(x_k) at events", "section 4", Z, paper.equality_at_events, True),
    Check("E f(x_t) with noise", "section 5", Z, paper.equality_noise, True),
    Check("the noise floor", "section 5", Z, paper.noise_floor, True),
    Check("minibatches: mean and exact variance", "section 5", Z, noise.minibatches, True),
    Check("minibatches: the drift of phi", "Theorem 6", "I_t / (sigma^2 A_t / L)", noise.drift),
    Check("the exact noise floor, both steps", NEW, WRITTEN, noise.floors),
    Check("the noise-adapted L pays", "section 5", "exact E f / predicted", paper.tuned_L),
    Check("the scaling limits", "appendix D", "|rate + 1/4|", paper.scaling_limits),
    Check("one family from mu = 0 to mu > 0", "appendix B, remark", "distance", paper.one_family),
    Check("mixing keeps its digits", "appendix C", "error in ulp", paper.flow_digits),
    Check("Theorems A and B: the form of the proof", NEW, "largest eigenvalue", beyond.proof_form),
    Check("E f(x_t) is below the sharper bounds", NEW, EXACT, beyond.sharp_bounds),
    Check("a whole run is below its curve", NEW, "runs above", beyond.whole_paths, True),
    Check("quasar-convex: phi is a supermartingale", NEW, "states above", beyond.quasar),
    Check("quasar-convex: E f(x_t) is below its bound", NEW, EXACT, beyond.quasar_bound),
    Check("sharp and quasar-convex: the paths", NEW, WRITTEN, beyond.paths),
    Check("two starting points: E f(x_t)", "Theorems 3 and 5", Z, beyond.two_starts, True),
    Check("the exact rate on quadratics", NEW, "theorem's / exact rate", beyond.quadratic_rates),
    Check("mu = 0: Huber's function meets the bound", NEW, Z, beyond.tightness, True),
    Check("f + psi: the drift of phi is not positive", NEW, "I_t / terms", composite.drift),
    Check("f + psi: phi is a supermartingale", NEW, "states above", composite.supermartingale),
    Check("f + psi: the paths", NEW, WRITTEN, composite.paths),
    Check("f + psi: x stays in the domain", NEW, "distance, psi(x) - psi^", composite.domain),
    Check("certificates: only proofs are accepted", NEW, "wrong verdicts", certificates.verdicts),
    Check("certificates: the form is the generator's", NEW, WRITTEN, certificates.forms),
    Check("certificates: E f(x_t) is below the bound", NEW, EXACT, certificates.bounds),
    Check("marks: the constants are the theory's", MARKS, WRITTEN, literal.marked),
    Check("coordinates: E f(x_t)", MARKS, Z, marked.coordinate_equality, True),
    Check("coordinates: E f(x_t) is below its bound", MARKS, EXACT, marked.coordinate_bound),
    Check("rows: E |x_t - x*|^2", MARKS, Z, marked.row_equality, True),
    Check("rows: E |x_t - x*|^2 is below its bound", MARKS, EXACT_SQUARE, marked.row_bound),
    Check("lazy mixing is eager mixing", MARKS, "distance", marked.lazy_is_eager),
    Check("prox: lazy is eager", MARKS, "distance", marked.lazy_proximal_steps_are_eager),
    Check("blocks: E f(x_t)", MARKS, Z, marked.block_equality, True),
    Check("blocks: E f(x_t) is below its bound", MARKS, EXACT, marked.block_bound),
    Check("batches: E |x_t - x*|^2", MARKS, Z, marked.batch_equality, True),
    Check("batches: E |x_t - x*|^2 is below its bound", MARKS, EXACT_SQUARE, marked.batch_bound),
    Check("blocks and batches: lazy is eager", MARKS, "distance", marked.lazy_groups_are_eager),
    Check("networks: the constants are the theory's", EDGES, WRITTEN, literal.networks),
    Check("gossip of 200 variables", EDGES, WRITTEN, literal.gossip_path),
    Check("dual and DADAO: the paths", LATER, WRITTEN, literal.decentralized_paths),
    Check("gossip: E |x_t - mean|^2", EDGES, Z, network.gossip_equality, True),
    Check("gossip: E |x_t - mean|^2 is below its bound", EDGES, EXACT_SPREAD, network.gossip_bound),
    Check(
        "gossip: the exact rate is above theta", EDGES, "theta / exact rate", network.gossip_rate
    ),
    Check("messages: losses, copies, delays", EDGES, "z, -log probability", laws.messages, True),
    Check("gossip: sum (x + z) is conserved", EDGES, "ledger error", network.gossip_conserves),
    Check("dual: E mean |w_i - x*|^2", EDGES, Z, network.dual_equality, True),
    Check("dual: E mean |w_i - x*|^2 is below its bound", EDGES, EXACT_DUAL, network.dual_bound),
    Check("DADAO: E mean |x_i - x*|^2 is below its bound", LATER, EXACT_DADAO, network.dadao_bound),
    Check(
        "DADAO: the exact rate is above the theorem's",
        LATER,
        "theorem's / exact rate",
        network.dadao_exact_rate,
    ),
    Check(
        "DADAO: most runs fall at the theorem's rate",
        LATER,
        "share of slower runs",
        network.dadao_runs,
        statistical=True,
    ),
    Check("A²CiD² without gradients is gossip", LATER, "distance", network.a2cid2_is_gossip),
    Check("A²CiD² without exchanges is SGD", LATER, "distance", network.a2cid2_is_sgd),
)

AGAIN = 10**9 + 7  # what is added to the seed of a second attempt
ATTEMPTS = (1, 4)  # times the runs
SHARE = ALPHA / sum(check.statistical for check in CHECKS)


def run(effort: Effort, progress: bool = False) -> list[Claim]:
    """Make every check on the library itself; without Numba, those that draw no samples."""
    claims: list[Claim] = []
    checks = [check for check in CHECKS if HAS_NUMBA or not check.statistical]
    with bar("verify", len(checks), progress, unit="check") as show:
        for check in checks:
            show(len(claims), check.claim)
            claims.append(measure(check, effort=effort))
        show(len(claims), "")
    return claims


def measure(check: Check, subject: Subject | None = None, effort: Effort = QUICK) -> Claim:
    """Make one check, on the library unless another subject is given."""
    started, raised = time.perf_counter(), ""
    try:
        for times in ATTEMPTS:
            seed, alpha = effort.seed + AGAIN * (times - 1), SHARE / len(ATTEMPTS)
            runs = times * effort.runs
            tried = effort._replace(seed=seed, runs=runs, alpha=alpha, times=times)
            measurement = worst_of(check.measure(subject or Subject(), tried))
            if measurement.usable:
                break
    except Exception as error:  # a claim that cannot be measured does not hold; the rest go on
        measurement, raised = Measurement(math.nan, math.nan), f"{type(error).__name__}: {error}"
    return Claim(check, measurement, time.perf_counter() - started, raised)
