"""infill: for fill-in-the-middle, end the text in time and merge tokens that share a beginning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arithmetic import descending, distances, weight_of_share, weights
from ..contract import Example, Param, ParameterError, Rows, Sampler, Vocabulary, allows
from ..tokenizer import Tokenizer

_MIN_SHARE = np.array(0.2)


@dataclass(frozen=True)
class _Text:
    tokenizer: Tokenizer
    ends: np.ndarray
    """EOS and end-of-turn ids, int64."""
    forced: int | None = None
    """The token that may be put back to end the text."""


class Infill(Sampler):
    """Keep one or few likely continuations, or the end of the text.

    With weights as probabilities, over the n remaining tokens:
    1. If 3·n·p(ends) > p(text), only the tokens that end the text (EOS, end of turn) stay.
    2. In (logit desc, id asc) order, each token is merged with every token whose bytes begin with
       its own: the likelier of the two receives the other's probability, and the other is removed.
    3. Text tokens with p < 0.2 are removed; if none is left, only the ends stay. If those have been
       removed before, the end is forced: the end of turn, or without one the first EOS, becomes the
       only token, with logit 1.
    4. Of the k remaining text tokens, those with p < 1/(k + 1) among all remaining tokens are removed.

    Survivors keep their logits, so merged probability affects only steps 2 to 4. Sums are exact
    integers; the shares in 3 and 4 have the slack of all weight cuts. Meant to follow top_k or top_p:
    the work grows with the number of remaining tokens times their length. False is neutral. Needs a
    tokenizer and EOS ids.

    The forced end is the one token that comes back after a cut, never against a constraint. The row is left
    as it is if the grammar's mask, allowed_token_ids, bad_words, ignore_eos or a bias of −inf excludes it.
    The same holds before min_tokens tokens have been generated.

    Source: llama.cpp, which in step 3 forces the end whatever excludes it, and also if other ends are left.
    """

    name = "infill"
    cost = "bytes"
    params = (Param("infill", bool, neutral=False, doc="choose tokens for fill-in-the-middle"),)
    restores = True
    examples = (
        Example((2.0, 1.0, 0.0, -9.0), {"infill": True}, (2.0, -np.inf, -np.inf, -9.0), eos_token_ids=(3,),
                token_bytes=(b"a", b"b", b"aa", b"ab"),
                note="aa is merged into a, which then has 0.76; b with 0.24 is below a third"),
        Example((2.0, 1.0, 0.0, 1.0), {"infill": True}, (-np.inf, -np.inf, -np.inf, 1.0), eos_token_ids=(3,),
                token_bytes=(b"a", b"b", b"aa", b"ab"),
                note="the end is likely enough to be the only choice"),
    )  # fmt: skip

    def resolve(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> _Text:
        tokenizer = vocabulary.need_tokenizer("infill=True", "needs a tokenizer for the bytes of every token")
        ends = {*vocabulary.eos_token_ids, *tokenizer.eos_token_ids}
        if tokenizer.eot_token_id is not None:
            ends.add(tokenizer.eot_token_id)
        if not ends:
            raise ParameterError("infill=True needs EOS ids, which end the text")
        eot = tokenizer.eot_token_id
        end = vocabulary.eos_token_ids[0] if eot is None else eot
        return _Text(
            tokenizer,
            np.array(sorted(ends), np.int64),
            None if _is_excluded(end, params, vocabulary) else end,
        )

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        for i, (row, text) in enumerate(zip(logits, rows.resolved, strict=True)):
            columns = np.flatnonzero(row > -np.inf)
            if len(columns):
                order = columns[descending(row[columns])]
                ids = order if rows.ids is None else rows.ids[i, order]
                kept = _kept(row[order], ids, text)
                if kept.any():
                    row[order[~kept]] = -np.inf
                elif _may_force(text.forced, i, rows):
                    rows.leave_only(i, row, text.forced, 1.0)


def _is_excluded(token_id: int, params: Mapping[str, Any], vocabulary: Vocabulary) -> bool:
    """Whether the parameters of a request exclude a token at every step."""
    allowed = params.get("allowed_token_ids")
    is_eos = token_id in vocabulary.eos_token_ids
    return (
        not 0 <= token_id < vocabulary.size
        or (allowed is not None and token_id not in allowed)
        or (is_eos and bool(params.get("ignore_eos")))
        or dict(params.get("logit_bias", ())).get(token_id) == -np.inf
        or any(w[-1:] == (token_id,) and (len(w) > 1 or not is_eos) for w in params.get("bad_words", ()))
    )


def _may_force(token_id: int | None, i: int, rows: Rows) -> bool:
    """Whether this step of row i may end the text with `token_id`."""
    if token_id is None or len(rows.output_token_ids(i)) < rows["min_tokens"][i]:
        return False
    return rows.bitmask is None or allows(rows.bitmask[i], token_id)


def _kept(logits: np.ndarray, ids: np.ndarray, text: _Text) -> np.ndarray:
    """bool [n]: which of the remaining tokens stay; `logits` and `ids` in (logit desc, id asc) order. None
    does if no text is likely and no end is left."""
    mass = weights(distances(logits[None]))[0]
    ends = np.isin(ids, text.ends)
    if 3 * len(ids) * int(mass[ends].sum()) > int(mass[~ends].sum()):
        return ends
    pieces = [b"" if end else text.tokenizer.text_bytes(t) for t, end in zip(ids.tolist(), ends, strict=True)]
    need = weight_of_share(_MIN_SHARE, mass.sum())
    alive = _merge(mass, _worth_merging(pieces, mass, need))
    likely = alive & ~ends & (mass >= need)
    k = np.count_nonzero(likely)
    if not k:
        return ends
    rest = mass[likely | ends].sum()
    return ends | (likely & (mass >= weight_of_share(np.array(1.0 / (k + 1)), rest)))


def _worth_merging(pieces: list[bytes], mass: np.ndarray, need: np.ndarray) -> list[bytes]:
    """The pieces, empty where their first byte begins less mass than `need` altogether: merged in any way,
    none of them gets that much."""
    first = np.array([piece[0] if piece else 256 for piece in pieces])
    begun = np.zeros(257, np.int64)
    np.add.at(begun, first, mass)
    return [piece if worth else b"" for piece, worth in zip(pieces, (begun >= need)[first], strict=True)]


def _merge(mass: np.ndarray, pieces: list[bytes]) -> np.ndarray:
    """Merge tokens that share a beginning, moving `mass` in place; bool [n], False where merged away."""
    alive = np.ones(len(pieces), bool)
    for i, longer in _extensions(pieces):
        for other in longer:
            if not alive[i]:
                break
            if alive[other]:
                winner, loser = (other, i) if mass[other] > mass[i] else (i, other)
                mass[winner] += mass[loser]
                mass[loser] = 0
                alive[loser] = False
    return alive


def _extensions(pieces: list[bytes]) -> Iterator[tuple[int, list[int]]]:
    """For each index, ascending, the other indices whose bytes begin with its own, ascending."""
    indices: dict[bytes, list[int]] = {}
    for i, piece in enumerate(pieces):
        if piece:
            indices.setdefault(piece, []).append(i)
    extensions: dict[int, list[int]] = {}
    for other, piece in enumerate(pieces):
        for length in range(1, len(piece) + 1):
            for i in indices.get(piece[:length], ()):
                if i != other:
                    extensions.setdefault(i, []).append(other)
    return iter(sorted(extensions.items()))
