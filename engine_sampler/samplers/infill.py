"""infill: for fill-in-the-middle, end the text in time and merge tokens that begin alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arithmetic import descending, distances, weight_of_share, weights
from ..contract import Example, Param, ParameterError, Rows, Sampler, Vocabulary
from ..tokenizer import Tokenizer

_LEAST_SHARE = np.array(0.2)


@dataclass(frozen=True)
class _Text:
    tokenizer: Tokenizer
    ends: np.ndarray
    """EOS and end-of-turn ids, int64."""


class Infill(Sampler):
    """Keep one or few likely continuations, or the end of the text.

    With weights as probabilities, over the n tokens that are left:
    1. If 3·n·p(ends) > p(text), only tokens that end the text (EOS, end of turn) stay.
    2. In (logit desc, id asc) order, each token is merged with every token whose bytes begin with
       its own: the likelier of the two takes over the probability, the other is removed.
    3. Text tokens with p < 0.2 are removed; if none is left, the ends stay alone, or the row as it
       was if it has no ends.
    4. Of the k text tokens that are left, those with p < 1/(k + 1) among all left are removed.

    Survivors keep their logits, so merged probability steers steps 2 to 4 only. Sums are exact
    integers; the shares in 3 and 4 have the slack of all weight cuts. Meant behind top_k or top_p:
    the work grows with the number of tokens left times their length. False is neutral. Needs a
    tokenizer and EOS ids.

    Source: llama.cpp, which in step 3 forces its end-of-turn token even if that was removed before.
    """

    name = "infill"
    params = (Param("infill", bool, neutral=False, doc="choose tokens as fill-in-the-middle needs them"),)
    examples = (
        Example((2.0, 1.0, 0.0, -9.0), {"infill": True}, (2.0, -np.inf, -np.inf, -9.0), eos_token_ids=(3,),
                token_bytes=(b"a", b"b", b"aa", b"ab"),
                note="aa joins a, which then has 0.76; b with 0.24 misses a third"),
        Example((2.0, 1.0, 0.0, 1.0), {"infill": True}, (-np.inf, -np.inf, -np.inf, 1.0), eos_token_ids=(3,),
                token_bytes=(b"a", b"b", b"aa", b"ab"),
                note="the end is likely enough to be the only choice"),
    )  # fmt: skip

    def resolve(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> _Text:
        tokenizer = vocabulary.tokenizer
        if tokenizer is None:
            raise ParameterError("infill=True needs a tokenizer, which knows the bytes of every token")
        ends = {*vocabulary.eos_token_ids, *tokenizer.eos_token_ids}
        if tokenizer.eot_token_id is not None:
            ends.add(tokenizer.eot_token_id)
        if not ends:
            raise ParameterError("infill=True needs EOS ids, which say how the text ends")
        return _Text(tokenizer, np.array(sorted(ends), np.int64))

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        for i, (row, text) in enumerate(zip(logits, rows.resolved, strict=True)):
            columns = np.flatnonzero(row > -np.inf)
            if len(columns):
                order = columns[descending(row[columns])]
                ids = order if rows.ids is None else rows.ids[i, order]
                removed = ~_kept(row[order], ids, text)
                row[order[removed]] = -np.inf


def _kept(logits: np.ndarray, ids: np.ndarray, text: _Text) -> np.ndarray:
    """bool [n]: which of the tokens left stay; `logits` and `ids` in (logit desc, id asc) order."""
    mass = weights(distances(logits[None]))[0]
    ends = np.isin(ids, text.ends)
    if 3 * len(ids) * int(mass[ends].sum()) > int(mass[~ends].sum()):
        return ends
    pieces = [b"" if end else text.tokenizer.text_bytes(t) for t, end in zip(ids.tolist(), ends, strict=True)]
    alive = _merge(mass, pieces)
    likely = alive & ~ends & (mass >= weight_of_share(_LEAST_SHARE, mass.sum()))
    k = np.count_nonzero(likely)
    if not k:
        return ends if ends.any() else np.ones(len(ids), bool)
    rest = mass[likely | ends].sum()
    return ends | (likely & (mass >= weight_of_share(np.array(1.0 / (k + 1)), rest)))


def _merge(mass: np.ndarray, pieces: list[bytes]) -> np.ndarray:
    """Merge tokens that begin alike, moving `mass` in place; bool [n], False where merged away."""
    alive = np.ones(len(pieces), bool)
    for place, longer in _continued(pieces):
        for other in longer:
            if not alive[place]:
                break
            if alive[other]:
                winner, loser = (other, place) if mass[other] > mass[place] else (place, other)
                mass[winner] += mass[loser]
                mass[loser] = 0
                alive[loser] = False
    return alive


def _continued(pieces: list[bytes]) -> Iterator[tuple[int, list[int]]]:
    """For each place, ascending, the other places whose bytes begin with its own, ascending."""
    places: dict[bytes, list[int]] = {}
    for place, piece in enumerate(pieces):
        if piece:
            places.setdefault(piece, []).append(place)
    continued: dict[int, list[int]] = {}
    for other, piece in enumerate(pieces):
        for length in range(1, len(piece) + 1):
            for place in places.get(piece[:length], ()):
                if place != other:
                    continued.setdefault(place, []).append(other)
    return iter(sorted(continued.items()))
