"""The data of `python -m benchmarks`, with labels or with values."""

import numpy as np
from benchopt import BaseDataset

from benchmarks import data


class Dataset(BaseDataset):
    """Dense rows, turned at random, whose directions are of scales 1 to 1/d; or sparse rows."""

    name = "simulated"
    parameters = {
        "kind, n, d": [("dense", 5_000, 100), ("sparse", 5_000, 5_000)],
        "y": ["labels", "values"],
    }
    test_parameters = {"kind, n, d": [("dense", 100, 10), ("sparse", 60, 20)]}

    def get_data(self):
        if self.kind == "dense":
            X, labels = data.dense(self.n, self.d, rotated=True)
        else:
            X, labels = data.sparse(self.n, self.d, per_row=min(50, self.d // 4))
        if self.y == "labels":
            return {"X": X, "y": np.asarray(labels)}
        return dict(zip(("X", "y"), data.planted(X), strict=True))
