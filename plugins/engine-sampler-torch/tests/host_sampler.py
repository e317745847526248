"""A sampler that exists in Python only."""

from __future__ import annotations

import numpy as np

from engine_sampler.contract import Example, Param, Rows, Sampler


class SecondBest(Sampler):
    """Leaves the second-best token, if there is one."""

    name = "second_best"
    after = "temperature"
    params = (Param("second_best", bool, neutral=False),)
    examples = (Example((1.0, 2.0), {"second_best": True}, (1.0, -np.inf)),)

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        for row in logits:
            order = np.argsort(-row, kind="stable")
            best = order[1] if len(row) > 1 and row[order[1]] > -np.inf else order[0]
            value = row[best]
            row.fill(-np.inf)
            row[best] = value
