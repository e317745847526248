"""The operator."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine_sampler import ParameterError
from engine_sampler.arithmetic import LN_2, log2_64
from engine_sampler.for_bridges import dtype_name, entries_of, like, one_of, to_numpy

from .drawing import new_drawing
from .inputs import Errors, checked_inputs
from .numbers import first_numbers, numbers_of_seeds, numbers_of_shares, one_stream
from .param import INPUTS, AnyParam, Settings, TopkToppSamplingParam, copied
from .rows import Decision, DrawingMethod, Draws, OperatorInputs

logger = logging.getLogger("engine_sampler")

REMOVED = -9999.0
"""The logprob of an entry without a token."""

_LAST_EXACT_FLOAT16 = 2048
"""Above it float16 skips whole numbers."""

_MODES = ("documented", "observed")


class TopkToppSampling:
    """The operator: keep the topk likeliest tokens, then the head of these that reaches topp, and draw one.

    Ties go to the lower token id. In mode "documented":
    - top-k keeps exactly topk tokens; top-p keeps the fewest leading tokens whose probabilities, as
      given, add up to at least topp, in exact sums. topp = 1 keeps all.
    - The documentation specifies the distribution and that a seed repeats its draw, but no generator:
      the seeded types draw as `engine_sampler.sample` does, from Philox. A row with its own seed draws
      at position 0, so that its token does not depend on the batch; with the single randSeed, row i
      draws at position i. exp is indexed by token id; rand is a point in the cumulative distribution
      in (probability desc, id asc) order.
    - Logprobs are those of the kept tokens in that order, scaled to add up to 1.

    Mode "observed" reproduces the observed behaviour of the vendor's implementation:
    - All types but SINGLE keep the first topk + 1 tokens and all that tie with the last of them; topk is
      0 to V - 1. For SINGLE a topk of 0 means V.
    - Sums are rounded to the 16 bits of the input after every addition, so they stop growing in a long
      tail. Top-p keeps the head whose sum stays below topp (for the exponential types: at most topp),
      at least one token.
    - u comes from glibc's rand() / 0x7FFFFFFF, where seed 0 equals seed 1: one stream for randSeed, a
      number per row in row order; or the first number of each seed in randSeeds; or u is rand. The drawn
      rank is the number of sums that are at most u times the head's sum, in float32. u = 1 may exceed
      the head: it may draw the next token kept by top-k.
    - exp is indexed by the rank in sorted order. Logprobs are divided by the head's rounded sum.

    topk and topp are not `top_k` and `top_p` in their usual order: nothing is scaled after top-k, so topp is
    a share of all probabilities as given. `SamplingParams(top_k=…, top_p=…, order=("top_p", "top_k"))` keeps
    the same tokens of probabilities that add up to 1.

    In both modes `sampled_probs` is the chosen token's entry of `probs`, not rescaled to the kept tokens.
    New parameters take effect at once, seeds included. `mode` is one of these names. Bad parameters
    raise `ParameterError` naming them, tensors with a wrong dtype or shape TypeError or ValueError, before
    anything is drawn. A wrong value in one row of a tensor costs that row alone its token.
    Source: the public documentation of ATB; Holtzman et al. 2019 (top-p), Fan et al. 2018 (top-k).
    """

    def __init__(self, param: AnyParam | None = None, mode: str = "documented") -> None:
        self.mode = one_of(_MODES, "mode", mode)
        self._drawing = new_drawing()
        self._has_warned = False
        self.errors: Errors = []
        """Why rows of the last call have no token; None for the others."""
        self.param = TopkToppSamplingParam() if param is None else param

    @property
    def param(self) -> AnyParam:
        """The operator's own parameters: changes of their fields apply to the next call, which checks them.

        Assigned parameters are checked and copied, as `SetParam` does.
        """
        return self._param

    @param.setter
    def param(self, param: AnyParam) -> None:
        self._param = copied(param)

    def __call__(
        self, probs: Any, topp: Any, topk: Any = None, exp: Any = None, rand: Any = None
    ) -> tuple[Any, ...]:
        """Draw one token per row: (sampled_indices, sampled_probs), and logprobs for the LOGPROBS types.

        probs  [B, V] float16 or bfloat16, 0 to 1, not all 0 in any row.
        topp   [B, 1] in the dtype of `probs`, 0 to 1; for SINGLE_TOPK_SAMPLING also [1, 1].
        topk   [B, 1] int32 or float16, 1 to V; not for SINGLE_TOPK_SAMPLING, where it is a parameter. Above
               2,048, float16 rounds it, which is logged once.
        exp    [B, V] in the dtype of `probs`, exponential noise, finite and at least 0; EXPONENTIAL types.
        rand   [B, 1] float32, 0 to 1; BATCH_TOPK_MULTINOMIAL_LOGPROBS_SAMPLING.

        sampled_indices int32 [B, 1], sampled_probs [B, 1] in the dtype of `probs`, logprobs float32
        [B, logProbsSize]: of the likeliest kept tokens, in order, -9999 beyond them. All are arrays of the
        library of `probs`, on its device. A row with a wrong value has the index -1, the probability 0 and
        no logprobs; the reason is logged and in `errors`.
        """
        settings = Settings.of(self._param)
        given = {"probs": probs, "topk": topk, "topp": topp, "exp": exp, "rand": rand}
        _check_given(settings, [name for name, tensor in given.items() if tensor is not None])
        inputs, errors = checked_inputs(given, settings.topk, self.mode == "observed")
        _check_sizes(settings, *inputs.bits.shape)
        self._warn_of_rounded(topk)
        tokens = np.full((len(inputs), 1), -1, np.int32)
        chosen = np.zeros((len(inputs), 1), np.float32)
        logprobs = np.full((len(inputs), settings.lists), REMOVED, np.float32)
        rows = np.array([i for i, error in enumerate(errors) if error is None], np.int64)
        if len(rows):
            drawn = self._drawing.draw(inputs, rows, self._decision(inputs, settings, rows))
            tokens[rows, 0] = drawn.tokens
            sound = drawn.tokens >= 0
            for row in rows[~sound].tolist():
                errors[row] = inputs.fault_of(row) or "its numbers changed meanwhile"
            rows, drawn = rows[sound], drawn.at(sound)
            chosen[rows, 0] = inputs.table.values[inputs.bits[rows, drawn.tokens]]
            logprobs[rows] = _logprobs(drawn)
        self.errors = errors
        for i, error in enumerate(errors):
            if error is not None:
                logger.error("row %d: %s", i, error)
        results = [like(probs, tokens, "int32"), like(probs, chosen, dtype_name(probs))]
        return (*results, like(probs, logprobs, "float32")) if settings.gives_logprobs else tuple(results)

    def forward(self, tensors: Sequence[Any]) -> list[Any]:
        """As `__call__`, with the tensors in ATB's order for the type: probs, [topk,] topp, [exp or rand]."""
        kind = Settings.of(self._param).kind
        tensors = entries_of("tensors", tensors, f"a list of {', '.join(INPUTS[kind])}")
        if len(tensors) != len(INPUTS[kind]):
            raise ValueError(f"{len(tensors)} tensors are given; {kind} takes {', '.join(INPUTS[kind])}")
        return list(self(**dict(zip(INPUTS[kind], tensors, strict=True))))

    def _warn_of_rounded(self, topk: Any) -> None:
        """Log, once, that a float16 `topk` is too great to be exact."""
        if self._has_warned or topk is None or dtype_name(topk) != "float16":
            return
        if (to_numpy(topk) > _LAST_EXACT_FLOAT16).any():
            self._has_warned = True
            logger.warning(
                "topk is above %d in float16, which rounds it: int32 is exact", _LAST_EXACT_FLOAT16
            )

    def _decision(self, inputs: OperatorInputs, settings: Settings, rows: np.ndarray) -> Decision:
        """What decides the `rows` of `inputs`."""
        seeds = [settings.seeds[i] for i in rows.tolist()] if settings.takes_seeds else []
        numbers: np.ndarray | None = None
        if self.mode == "observed":
            way = DrawingMethod.ROUNDED_SHARE
            if inputs.exp is not None:
                way = DrawingMethod.ROUNDED_RACE
            elif inputs.rand is not None:
                numbers = inputs.rand[rows]
            elif settings.takes_seeds:
                numbers = first_numbers(seeds)
            else:
                numbers = one_stream(settings.seed, int(rows[-1]) + 1)[rows]
            return Decision(way, numbers, not settings.is_single, settings.lists)
        way = DrawingMethod.BY_WEIGHT_OF_IDS
        if inputs.exp is not None:
            way = DrawingMethod.RACE
        elif inputs.rand is not None:
            way, numbers = DrawingMethod.BY_WEIGHT_OF_RANKS, numbers_of_shares(inputs.rand[rows])
        elif settings.takes_seeds:
            numbers = numbers_of_seeds(seeds, [0] * len(rows))
        else:
            numbers = numbers_of_seeds([settings.seed] * len(rows), rows)
        return Decision(way, numbers, False, settings.lists)


def _check_given(settings: Settings, names: list[str]) -> None:
    required = INPUTS[settings.kind]
    if tuple(names) != required:
        raise ValueError(f"{settings.kind} takes {', '.join(required)}; given are {', '.join(names)}")


def _check_sizes(settings: Settings, rows: int, vocab: int) -> None:
    """Raise unless parameters and tensors agree in their sizes."""
    seeds, size = settings.seeds, settings.logprobs
    if settings.takes_seeds and len(seeds) != rows:
        raise ParameterError(f"randSeeds has {len(seeds)} seeds; allowed is one for each of {rows} rows")
    if settings.gives_logprobs and size > vocab:
        raise ParameterError(f"logProbsSize={size} is not allowed: at most the {vocab} tokens of a row")


def _logprobs(drawn: Draws) -> np.ndarray:
    """float32 [B, lists]: ln of each row's leading kept probabilities divided by their mass."""
    if not drawn.shares.shape[1]:
        return drawn.shares
    shares = drawn.shares.astype(np.float64) / drawn.masses[:, None]
    out = np.full(shares.shape, REMOVED, np.float32)
    there = shares > 0
    out[there] = log2_64(shares[there]) * LN_2
    return out
