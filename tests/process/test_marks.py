"""Laws of marks: the table that marks are drawn from holds the probabilities that were given."""

from __future__ import annotations

import numpy as np
import pytest

from continuized.process.marks import COMPILED_FROM, Categorical

RNG = np.random.default_rng(3)
WEIGHTS = {
    "one": [1.0],
    "equal": np.ones(7),
    "unequal": [0.5, 0.1, 0.05, 0.35],
    "some that never come": [0.0, 0.3, 0.0, 0.6, 0.1, 0.0],
    "orders of magnitude": 10.0 ** -np.arange(12.0),
    "many, in a compiled loop": RNG.exponential(size=COMPILED_FROM + 1) ** 3,
    "many that never come": RNG.exponential(size=5000) * (RNG.random(5000) < 0.5),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_the_table_holds_the_probabilities(name: str) -> None:
    p = np.array(WEIGHTS[name]) / np.sum(WEIGHTS[name])
    law, n = Categorical(p), len(p)
    # Column i gives mark i up to its threshold, and its alias beyond.
    held = law.threshold + np.bincount(law.alias, 1.0 - law.threshold, minlength=n)
    np.testing.assert_allclose(held / n, p, rtol=1e-9, atol=1e-15)
    assert np.all(held[p == 0.0] == 0.0)
    assert law.threshold.min() >= 0.0
    assert law.threshold.max() <= 1.0
