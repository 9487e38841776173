"""The solvers of skglm."""

from benchmark_utils.peers import Peer


class Solver(Peer):
    """Solvers of skglm."""

    name = "skglm"
    parameters = {"solver": ["", "LBFGS", "ProxNewton"]}
    requirements = ["skglm"]
