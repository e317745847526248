"""dist: draw a token from the remaining distribution."""

from __future__ import annotations

import numpy as np

from ..arithmetic import distances, pick_by_weight, weights
from ..contract import Example, Rows, Selection, Selector


class Dist(Selector):
    """Draw from the softmax of the surviving logits, by inverse cumulative sum in id order.

    Formula: the first id, ascending, at which the cumulative integer weight exceeds (r·S) >> 64, where
    r are 64 random bits from the request's seed and the position. A token more than 31 bits below the
    best has weight 0 and is never drawn.
    """

    name = "dist"
    examples = (
        Example((0.0, -np.inf, -np.inf), {}, token=0, note="the only token left"),
        Example((0.0, 40.0, 0.0), {"seed": 1}, token=1, note="the others have weight 0"),
    )

    def select(self, logits: np.ndarray, rows: Rows) -> Selection:
        return Selection(pick_by_weight(weights(distances(logits)), rows.draw()))
