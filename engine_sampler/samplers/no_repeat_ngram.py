"""no_repeat_ngram: no token sequence of a given length occurs twice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..arithmetic.repeats import ends_repeated
from ..contract import Example, Param, Rows, Sampler
from ._columns import mask_unless_empty


class NoRepeatNgram(Sampler):
    """Remove every token that would complete an n-gram that already occurs in prompt and output.

    n = 1 removes every token seen so far. If no token would remain, the row is unchanged
    (transformers leaves none). 0 is neutral. Source: Paulus et al. 2017, arXiv 1705.04304; as in
    transformers and fairseq.
    """

    name = "no_repeat_ngram"
    role = "penalty"
    cost = "history"
    params = (
        Param("no_repeat_ngram_size", int, neutral=0, low=0, doc="length of n-grams that occur only once"),
    )
    examples = (
        Example((1.0, 2.0, 3.0), {"no_repeat_ngram_size": 2}, (1.0, -np.inf, -np.inf),
                prompt_token_ids=(1, 1, 2, 1), note="1 was followed by 1 and by 2"),
        Example((1.0, 2.0, 3.0), {"no_repeat_ngram_size": 3}, (-np.inf, 2.0, 3.0),
                prompt_token_ids=(0, 1, 0), output_token_ids=(1,)),
        Example((1.0, 2.0), {"no_repeat_ngram_size": 1}, (1.0, 2.0), prompt_token_ids=(0, 1),
                note="never removes the last token"),
    )  # fmt: skip

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        for i, (row, token_ids) in enumerate(zip(logits, ids_completing_ngrams(rows), strict=True)):
            mask_unless_empty(row, rows.columns(i, token_ids)[0])


def ids_completing_ngrams(rows: Rows) -> Iterator[np.ndarray]:
    """For each row, the ids of the tokens that would complete an n-gram once more; with repetitions."""
    for i, n in enumerate(rows["no_repeat_ngram_size"].tolist()):
        history = rows.token_ids(i)
        yield history[completions(history, n)]


def completions(history: np.ndarray, n: int) -> np.ndarray:
    """The positions in `history` that follow an earlier occurrence of its last n − 1 tokens, int64."""
    if n == 1:
        return np.arange(len(history))
    places, _ = ends_repeated(history, n - 1, n - 1)
    return len(history) - places[::-1]
