"""xtc_protected: exclude the top choices with some probability, but never chosen tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arithmetic import stream_of
from ..contract import Example, Param, Rows, Truncation, Vocabulary
from ..contract.values import unique_token_ids
from .xtc import Xtc, without_top_choices


class XtcProtected(Truncation):
    """`xtc` with protected tokens: they are never dropped, and do not count as the top choice that stays.

    xtc_protected_ids are usually line ends and EOS. Shares are still those of all tokens, and the coin is
    that of `xtc`. [] is neutral. Source: exllamav3 (protected_token_ids), and mlx-lm
    (xtc_special_tokens), where a special token may be the last top choice, so that all others are dropped.
    """

    name = "xtc_protected"
    instead_of = "xtc"
    cost = "pass"
    params = (
        Param("xtc_protected_ids", object, neutral=(), convert=unique_token_ids, limit=16_384,
              doc="tokens that xtc neither drops nor counts"),
    )  # fmt: skip
    examples = (
        Example((2.0, 1.0, 0.5, -1.0), {"xtc_probability": 1.0, "xtc_protected_ids": [2]},
                (-np.inf, 1.0, 0.5, -1.0), note="of the two others above, the last stays"),
        Example((2.0, 1.0, 0.5, -1.0), {"xtc_probability": 1.0, "xtc_protected_ids": [0]},
                (2.0, -np.inf, 0.5, -1.0)),
        Example((2.0, 1.0, -3.0), {"xtc_probability": 1.0, "xtc_protected_ids": [0, 1]}, (2.0, 1.0, -3.0)),
    )  # fmt: skip

    @property
    def stream(self) -> int:
        return stream_of("xtc")

    def is_active(self, params: Mapping[str, Any]) -> bool:
        return bool(params["xtc_protected_ids"] and Xtc().is_active(params))

    def resolve(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> np.ndarray:
        vocabulary.check_ids("xtc_protected_ids", params["xtc_protected_ids"])
        return np.array(params["xtc_protected_ids"], np.int64)

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        counts = np.ones(logits.shape, bool)
        for i, protected in enumerate(rows.resolved):
            counts[i, rows.columns(i, protected)[0]] = False
        return without_top_choices(logits, rows, counts)
