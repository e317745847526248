"""repetition_aware: draw again, without truncation, where a token has occurred too often."""

from __future__ import annotations

import numpy as np

from ..arithmetic import distances, pick_by_weight, weights
from ..contract import Example, Param, Rows, Selection, Selector
from .min_p import MinP
from .top_k import TopK
from .top_p import TopP

_CUTS = (TopK(), TopP(), MinP())


class RepetitionAware(Selector):
    """Draw with `top_k`, `top_p` and `min_p`; a token that recurs is drawn again from the whole distribution.

    Formula: a first draw as in `dist`, from the tokens that all three leave, each of which is applied to the
    whole distribution. The token recurs if it occurs ras_win_max_num_repeat times or more among the last
    ras_win_len tokens of the output. Then a second draw follows, from all tokens, with the next random number
    of the position.

    Other truncations are not in the chain, nor is what changes the shape, except for the temperature.
    A ras_win_len of 0 is neutral. Source: VALL-E 2 (Chen et al. 2024, arXiv 2406.05370), for speech; the
    names are those of Higgs Audio. CosyVoice and Fish Speech say win_size and tau_r, of which
    ras_win_max_num_repeat is the product, rounded up: 1 for 10 and 0.1.
    """

    name = "repetition_aware"
    ignores_warps = True
    params = (
        Param("ras_win_len", int, neutral=0, low=0, high=65_536,
              doc="newest tokens of the output that count"),
        Param("ras_win_max_num_repeat", int, neutral=2, low=1, high=65_536, switch=False,
              doc="occurrences among them at which a token is drawn again"),
    )  # fmt: skip
    examples = (
        Example((0.0, 40.0, 0.0), {"ras_win_len": 10}, token=1, note="the others have weight 0"),
        Example((5.0, 1.0, 0.0), {"ras_win_len": 10, "top_k": 1}, token=0, note="the first draw counts"),
    )

    def select(self, logits: np.ndarray, rows: Rows) -> Selection:
        columns = pick_by_weight(weights(distances(_truncated(logits, rows))), rows.draw())
        again = np.flatnonzero(_recurs(rows.token_ids_at(columns), rows))
        if len(again):
            columns[again] = pick_by_weight(weights(distances(logits[again])), rows.draw(1)[again])
        return Selection(columns)


def _truncated(logits: np.ndarray, rows: Rows) -> np.ndarray:
    """The logits of the first draw."""
    kept = logits.copy()
    for cut in _CUTS:
        name = cut.params[0].name
        on = np.flatnonzero([cut.is_active({name: value}) for value in rows[name].tolist()])
        if len(on):
            ids = None if rows.ids is None else rows.ids[on]
            kept[on] = np.where(cut.keep(logits[on], rows.take(on, ids)), kept[on], -np.inf)
    return kept


def _recurs(token_ids: np.ndarray, rows: Rows) -> np.ndarray:
    """bool [n]: whether row i has drawn `token_ids`[i] too often."""
    lengths, most = rows["ras_win_len"].tolist(), rows["ras_win_max_num_repeat"]
    recent = (rows.output_token_ids(i)[-length:] for i, length in enumerate(lengths))
    counts = [np.count_nonzero(ids == token) for ids, token in zip(recent, token_ids, strict=True)]
    return np.asarray(counts >= most)
