"""A small network on scikit-learn's digits: Continuized beside SGD with Nesterov momentum.

Run `python examples/digits_torch.py PICTURE.png` (two minutes).
Both take the same number of gradients and have the same grid of lr (constant) and momentum beta;
Continuized takes the mu at which Nesterov's method has that beta.  Each gets the point with the
least mean training loss on five seeds; the curves are those of twenty other seeds.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

from continuized.adapters.torch import Continuized

GRID = [(lr, beta) for lr in (0.02, 0.05, 0.1, 0.2, 0.4) for beta in (0.8, 0.9, 0.95, 0.98)]
pixels, digits = load_digits(return_X_y=True)
X, y = torch.tensor(pixels / 16.0, dtype=torch.float32), torch.tensor(digits)


def optimizer_of(name, params, lr, beta, seed):
    """Nesterov's beta is (1 - q) / (1 + q) with q = sqrt(mu lr)."""
    if name == "SGD":
        return torch.optim.SGD(params, lr=lr, momentum=beta, nesterov=True)
    mu = ((1.0 - beta) / (1.0 + beta)) ** 2 / lr
    return Continuized(params, lr=lr, mu=mu, rng=seed, nonfinite="skip")


def losses(name, lr, beta, seed, epochs=15):
    """The training loss after every epoch; of Continuized at x."""
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    optimizer, found = optimizer_of(name, net.parameters(), lr, beta, seed), []
    for _ in range(epochs):
        for rows in torch.randperm(len(X)).split(64):
            optimizer.zero_grad()
            cross_entropy(net(X[rows]), y[rows]).backward()
            optimizer.step()
        with torch.no_grad(), getattr(optimizer, "evaluating", torch.no_grad)():
            found.append(cross_entropy(net(X), y).item())
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in ("SGD", "Continuized"):
        tuning = [np.mean([losses(name, *at, seed)[-1] for seed in range(5)]) for at in GRID]
        best = GRID[int(np.nanargmin(tuning))]
        curves = np.array([losses(name, *best, seed) for seed in range(5, 25)])
        low, middle, high = quantiles = np.quantile(curves, [0.1, 0.5, 0.9], axis=0)
        print(name, best, "10 %, 50 %, 90 %:", *quantiles[:, -1].round(4))
        (line,) = plt.semilogy(range(1, 16), middle, label=f"{name}: lr, beta = {best}")
        plt.fill_between(range(1, 16), low, high, color=line.get_color(), alpha=0.2)
    plt.gca().set(xlabel="epochs", ylabel="training loss (median and 10-90 % of twenty seeds)")
    plt.gca().legend()
    plt.savefig(sys.argv[1], dpi=120)
