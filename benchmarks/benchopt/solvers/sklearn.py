"""The solvers of scikit-learn."""

from benchmark_utils.peers import Peer


class Solver(Peer):
    """Solvers of scikit-learn."""

    name = "scikit-learn"
    parameters = {
        "solver": [
            "lbfgs",
            "newton-cg",
            "newton-cholesky",
            "sag",
            "saga",
            "auto",
            "lsqr",
            "sparse_cg",
        ]
    }
    requirements = ["scikit-learn"]
