"""sequence_bias: make token sequences more or less likely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..base.giving_way import unhurried
from ..contract import Example, Param, Rows, Sampler, Vocabulary
from ..contract.values import phrase_token_ids, token_ids
from ._sequences import values_after
from .logit_bias import add_biases, as_logits, bias_of

_ALLOWED = "[[token ids, bias], …], each sequence once, with biases that are finite numbers or -inf"

_Biases = tuple[tuple[tuple[int, ...], float], ...]


def _biases(value: Any) -> _Biases:
    """(ids, bias) pairs, ascending by ids, from a mapping or a list of pairs."""
    pairs = value.items() if isinstance(value, Mapping) else value
    biases: dict[tuple[int, ...], float] = {}
    try:
        for count, (ids, bias) in enumerate(unhurried(pairs), 1):
            biases[token_ids(ids)] = bias_of(bias, _ALLOWED)
            if len(biases) < count or () in biases:
                raise ValueError(_ALLOWED)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(_ALLOWED) from None
    return tuple((ids, biases[ids]) for ids in unhurried(sorted(biases)))


class Endings(NamedTuple):
    """tables  for each length: all tokens but the last [entries, length − 1], and each sequence's number.
    last, biases  int64 and float64 [sequences], the last token of each sequence and its bias."""

    tables: tuple[tuple[np.ndarray, np.ndarray], ...]
    last: np.ndarray
    biases: np.ndarray


class SequenceBias(Sampler):
    """Add a bias to the last token of each sequence if the history ends with the rest of it.

    Formula: l + float32(Σ bias) over the sequences that a token would complete, summed in float64 and
    clamped to ±FLT_MAX. The history is prompt and output. A sequence of one token always counts. A bias of
    −inf removes the token; a removed token stays removed. If no token is left, the request ends with an
    error. Sequences are given as [[token ids, bias], …], or as a mapping whose keys are tuples of ids.
    {} is neutral. Source: transformers, which sums in float32.
    """

    name = "sequence_bias"
    role = "edit"
    params = (
        Param("sequence_bias", object, neutral=(), convert=_biases, limit=4096,
              doc="[[token ids, bias], …]: biases for the last token of a sequence"),
    )  # fmt: skip
    examples = (
        Example((1.0, 2.0, 3.0), {"sequence_bias": [[[0, 1], 2.5], [[2], -1.0]]}, (1.0, 4.5, 2.0),
                prompt_token_ids=(2, 0)),
        Example((1.0, 2.0, 3.0), {"sequence_bias": {(0, 1): 2.5}}, (1.0, 2.0, 3.0), prompt_token_ids=(0, 2)),
        Example((1.0, 2.0, 3.0), {"sequence_bias": {(1,): 1.0, (2, 1): 0.5}}, (1.0, 3.5, 3.0),
                output_token_ids=(2,), note="both sequences end with token 1"),
    )  # fmt: skip

    def resolve(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> Endings:
        sequences = [ids for ids, _ in params["sequence_bias"]]
        vocabulary.check_ids("sequence_bias", phrase_token_ids(sequences))
        by_length: dict[int, list[int]] = {}
        for number, ids in enumerate(sequences):
            by_length.setdefault(len(ids), []).append(number)
        tables = (
            (np.array([sequences[number][:-1] for number in numbers], np.int64).reshape(len(numbers), -1),
             np.array(numbers))
            for numbers in by_length.values()
        )  # fmt: skip
        last = np.array([ids[-1] for ids in sequences], np.int64)
        return Endings(tuple(tables), last, np.array([bias for _, bias in params["sequence_bias"]]))

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        for i, (row, endings) in enumerate(zip(logits, rows.resolved, strict=True)):
            which = np.sort(values_after(rows.token_ids(i), endings.tables))
            ids, place = np.unique(endings.last[which], return_inverse=True)
            add_biases(row, rows, i, ids, as_logits(np.bincount(place, endings.biases[which], len(ids))))
