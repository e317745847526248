"""greedy: choose the best token."""

from __future__ import annotations

import numpy as np

from ..contract import Example, Rows, Selection, Selector


class Greedy(Selector):
    """Choose the first token in (logit descending, id ascending) order.

    Selected by a temperature below 1e-4. Draws no random numbers.
    """

    name = "greedy"
    examples = (
        Example((1.0, 3.0, 2.0), {"temperature": 0.0}, token=1),
        Example((3.0, 3.0, 2.0), {"temperature": 0.0}, token=0, note="ties go to the lower id"),
    )

    def select(self, logits: np.ndarray, rows: Rows) -> Selection:
        return Selection(logits.argmax(axis=1))
