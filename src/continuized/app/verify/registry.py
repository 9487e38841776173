"""Every check, listed once, and the one error budget.

ALPHA is the probability that `verify` fails a correct implementation, over all checks
together; the statistical ones share it equally.  It is half of the 1e-6 that the whole test
suite may spend; statistical tests elsewhere state their own share of the other half.
"""

from __future__ import annotations

from continuized.app.verify import decentralized, exact, gossip, marked
from continuized.app.verify import (
    monte_carlo as chance,
)
from continuized.app.verify.claims import Check

ALPHA = 5e-7

# What is measured is always the worst case over functions, parameters, times and events.
RATIO = "value / bound"
Z = "z of mean - exact"
Z_ABOVE = "z of mean - bound"
MARKS = "section 5, marks"  # the process of the paper with marks; the oracles are of later work
EDGES = "section 5, marks on edges"
LATER = "later work"  # by others, on the same process

CHECKS: tuple[Check, ...] = (
    Check("gradient descent converges", "Theorem 1", RATIO, exact.theorem_1),
    Check("Nesterov acceleration converges", "Theorem 2", RATIO, exact.theorem_2),
    Check("E f(x_t) is below its bound", "Theorem 3", "exact E f / bound", exact.theorem_3),
    Check(
        "E f(x_t) is below it beyond quadratics",
        "Theorem 3",
        Z_ABOVE,
        chance.theorem_3_beyond_quadratics,
        statistical=True,
    ),
    Check("the iteration is the process", "Theorem 4", "distance to the ODE", exact.theorem_4),
    Check(
        "weighted E f(x_k) is below its bound",
        "Theorem 5",
        Z_ABOVE,
        chance.theorem_5,
        statistical=True,
    ),
    Check("E f(x_t) is below it with noise", "Theorem 6", "exact E f / bound", exact.theorem_6),
    Check("the drift of phi is not positive", "appendix B", "I_t / phi_t", exact.drift),
    Check(
        "phi is a supermartingale",
        "appendix B",
        "states above",
        exact.supermartingale,
    ),
    Check("T_k is Gamma(k, 1)", "section 4", "distance of laws", chance.event_times, True),
    Check("E f(x_t), convex", "section 3", Z, chance.equality_convex, True),
    Check("E f(x_t), strongly convex", "section 3", Z, chance.equality_strongly_convex, True),
    Check("E f(x_t), start = 0", "appendix B, remark", Z, chance.equality_start_0, True),
    Check("E f(x_k) at events", "section 4", Z, chance.equality_at_events, True),
    Check("E f(x_t) with noise", "section 5", Z, chance.equality_noise, True),
    Check("the noise floor", "section 5", Z, chance.noise_floor, True),
    Check("the noise-adapted L pays", "section 5", "exact E f / predicted", exact.tuned_L),
    Check("the scaling limits", "appendix D", "|rate + 1/4|", exact.scaling_limits),
    Check("one family from mu = 0 to mu > 0", "appendix B, remark", "distance", exact.one_family),
    Check("mixing keeps its digits", "appendix C", "error in ulp", exact.flow_digits),
    Check("coordinates: E f(x_t)", MARKS, Z, marked.coordinate_equality, True),
    Check(
        "coordinates: E f(x_t) is below its bound",
        MARKS,
        "exact E f / bound",
        marked.coordinate_bound,
    ),
    Check("rows: E |x_t - x*|^2", MARKS, Z, marked.row_equality, True),
    Check(
        "rows: E |x_t - x*|^2 is below its bound",
        MARKS,
        "exact E |x - x*|^2 / bound",
        marked.row_bound,
    ),
    Check("lazy mixing is eager mixing", MARKS, "distance", marked.lazy_is_eager),
    Check("blocks: E f(x_t)", MARKS, Z, marked.block_equality, True),
    Check("blocks: E f(x_t) is below its bound", MARKS, "exact E f / bound", marked.block_bound),
    Check("batches: E |x_t - x*|^2", MARKS, Z, marked.batch_equality, True),
    Check(
        "batches: E |x_t - x*|^2 is below its bound",
        MARKS,
        "exact E |x - x*|^2 / bound",
        marked.batch_bound,
    ),
    Check("blocks and batches: lazy is eager", MARKS, "distance", marked.lazy_groups_are_eager),
    Check("gossip: E |x_t - mean|^2", EDGES, Z, gossip.equality, True),
    Check(
        "gossip: E |x_t - mean|^2 is below its bound",
        EDGES,
        "exact E |x - mean|^2 / bound",
        gossip.bound,
    ),
    Check("gossip: the exact rate is above theta", EDGES, "theta / exact rate", gossip.rate),
    Check("gossip: sum (x + z) is conserved", EDGES, "ledger error", gossip.conserved),
    Check("dual: E mean |w_i - x*|^2", EDGES, Z, decentralized.dual_equality, True),
    Check(
        "dual: E mean |w_i - x*|^2 is below its bound",
        EDGES,
        "exact E mean |w_i - x*|^2 / bound",
        decentralized.dual_bound,
    ),
    Check(
        "DADAO: E mean |x_i - x*|^2 is below its bound",
        LATER,
        "exact E mean |x_i - x*|^2 / bound",
        decentralized.dadao_bound,
    ),
    Check(
        "DADAO: the exact rate is above the theorem's",
        LATER,
        "theorem's / exact rate",
        decentralized.dadao_exact_rate,
    ),
    Check(
        "DADAO: most runs fall at the theorem's rate",
        LATER,
        "share of slower runs",
        decentralized.dadao_runs,
        statistical=True,
    ),
    Check("A²CiD² without gradients is gossip", LATER, "distance", decentralized.a2cid2_is_gossip),
    Check("A²CiD² without exchanges is SGD", LATER, "distance", decentralized.a2cid2_is_sgd),
)

SHARE = ALPHA / sum(check.statistical for check in CHECKS)
