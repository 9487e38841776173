"""Planted mistakes in gossip and in decentralised optimisation."""

from __future__ import annotations

import math

from continuized.app.verify.claims import Subject
from continuized.network import DADAO, A2CiD2, Dual, Graph, Objective
from continuized.network.gossip import Constants, Gossip
from continuized.network.optimisation.dadao import Steps
from continuized.network.protocol.transitions import APPLIED
from continuized.network.simulation.engine import Tests
from continuized.network.simulation.messages import MessageEngine
from continuized.process.clock import Events
from tests.mutants.mutant import Mutant


class LongGossip(Gossip):
    """gamma' = 1 / sqrt(mu_g R): the 2 forgotten."""

    def constants(self, graph: Graph) -> Constants:
        theta, gamma, step = super().constants(graph)
        return Constants(theta, gamma, step * (math.sqrt(2.0) if self.accelerated else 1.0))


class EagerGossip(Gossip):
    """gamma' five per cent too large."""

    def constants(self, graph: Graph) -> Constants:
        theta, gamma, step = super().constants(graph)
        return Constants(theta, gamma, step * (1.05 if self.accelerated else 1.0))


class HastyGossip(Gossip):
    """theta = sqrt(mu_g / R): the 2 forgotten."""

    def constants(self, graph: Graph) -> Constants:
        theta, gamma, step = super().constants(graph)
        return Constants(math.sqrt(2.0) * theta, gamma, step)


class TimidGossip(Gossip):
    """Exchanges that take a tenth of what they should."""

    def constants(self, graph: Graph) -> Constants:
        theta, gamma, step = super().constants(graph)
        return Constants(theta, 0.1 * gamma, 0.1 * step)


class AppliedTwice(MessageEngine):
    """Nodes that forget, from time to time, which transfers they have applied."""

    def run(
        self, events: Events, done: int, stop: float, most: int, tests: Tests
    ) -> tuple[int, int]:
        self.network.rows.edge[:, APPLIED] = 0
        return super().run(events, done, stop, most, tests)


class LongDual(Dual):
    """gamma = mu: the 1/2 forgotten."""

    def constants(self, graph: Graph, objective: Objective) -> Constants:
        theta, gamma, step = super().constants(graph, objective)
        return Constants(theta, 2.0 * gamma, step)


class HastyDual(Dual):
    """theta = sqrt(mu_g / (2R)): sqrt(mu/L) forgotten."""

    def constants(self, graph: Graph, objective: Objective) -> Constants:
        theta, gamma, step = super().constants(graph, objective)
        return Constants(theta * math.sqrt(objective.L / objective.mu), gamma, step)


class RootlessDADAO(DADAO):
    """s = nu/L: the root forgotten."""

    def steps(self, graph: Graph, objective: Objective) -> Steps:
        steps = super().steps(graph, objective)
        return steps._replace(s=steps.s**2)


class QuietDADAO(DADAO):
    """chi_1 of the rate that 2 chi_1 chi_2 = 1 asks for, but a quarter of the exchanges."""

    def edge_rate(self, graph: Graph) -> float:
        return 0.25 * super().edge_rate(graph)


class LongA2CiD2(A2CiD2):
    """alpha~ = sqrt(chi_1/chi_2): the 1/2 forgotten."""

    def constants(self, graph: Graph) -> Constants:
        eta, alpha, alpha_tilde = super().constants(graph)
        return Constants(eta, alpha, alpha_tilde * (2.0 if self.accelerated else 1.0))


class SetA2CiD2(A2CiD2):
    """The default step, whatever step is given."""

    def step_for(self, objective: Objective) -> float:
        return A2CiD2().step_for(objective)


CONSTANTS = "networks: the constants are the theory's"
GOSSIP = "gossip: E |x_t - mean|^2"
RATE = "gossip: the exact rate is above theta"
DUAL = "dual: E mean |w_i - x*|^2"
DADAO_BOUND = "DADAO: E mean |x_i - x*|^2 is below its bound"
DADAO_RATE = "DADAO: the exact rate is above the theorem's"
DADAO_RUNS = "DADAO: most runs fall at the theorem's rate"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "the 2 forgotten in 1/sqrt(2 mu_g R)",
        Subject(gossip=LongGossip),
        (GOSSIP, RATE),
        is_slow=True,
    ),
    Mutant(
        "gamma' of gossip five per cent too large",
        Subject(gossip=EagerGossip),
        (CONSTANTS, "gossip of 200 variables"),
    ),
    Mutant(
        "the 2 forgotten in sqrt(mu_g/(2R))", Subject(gossip=HastyGossip), (GOSSIP,), is_slow=True
    ),
    Mutant(
        "a tenth of what an exchange moves",
        Subject(gossip=TimidGossip),
        (GOSSIP, f"{GOSSIP} is below its bound", RATE),
        is_slow=True,
    ),
    Mutant(
        "transfers applied twice",
        Subject(messages=AppliedTwice),
        ("gossip: sum (x + z) is conserved",),
    ),
    Mutant(
        "gamma = mu", Subject(dual=LongDual), (DUAL, f"{DUAL} is below its bound"), is_slow=True
    ),
    Mutant("sqrt(mu/L) forgotten in theta", Subject(dual=HastyDual), (DUAL,), is_slow=True),
    Mutant("the root forgotten in sqrt(nu/L)", Subject(dadao=RootlessDADAO), (DADAO_RATE,)),
    Mutant(
        "a quarter of the exchanges",
        Subject(dadao=QuietDADAO),
        (DADAO_BOUND, DADAO_RATE, DADAO_RUNS),
        is_slow=True,
    ),
    Mutant(
        "the 1/2 forgotten in alpha~",
        Subject(a2cid2=LongA2CiD2),
        ("A²CiD² without gradients is gossip", CONSTANTS),
    ),
    Mutant(
        "the step given is ignored",
        Subject(a2cid2=SetA2CiD2),
        ("A²CiD² without exchanges is SGD",),
    ),
)
