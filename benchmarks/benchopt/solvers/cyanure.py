"""The solvers of cyanure."""

from benchmark_utils.peers import Peer


class Solver(Peer):
    """Solvers of cyanure."""

    name = "cyanure"
    parameters = {"solver": [""]}
    requirements = ["pip::cyanure"]
