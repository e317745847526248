"""The operator and its parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np

from ...contract import Param, ParameterError
from .._tensors import dtype_name, like
from .documented import draw_given, draw_seeded
from .inputs import checked_inputs
from .observed import draw, first_numbers, one_stream
from .rows import DrawResult, OperatorInputs

REMOVED = -9999.0
"""The logprob of an entry without a token."""

_MODES = ("documented", "observed")
_UINT32 = 2**32 - 1
_RESERVED = (0,) * 12
_PARAMS = {
    param.name: param
    for param in (
        Param("randSeed", int, 0, low=0, high=_UINT32),
        Param("topk", int, 100, low=0, high=_UINT32),
        Param("logProbsSize", int, 0, low=0, high=16384),
    )
}
_SEED = Param("randSeeds", int, 0, low=0, high=_UINT32)


class TopkToppSamplingType(IntEnum):
    """How the operator draws; the values of the C++ enumeration."""

    SAMPLING_UNDEFINED = -1
    """No sampling type; refused."""
    SINGLE_TOPK_SAMPLING = 0
    """One topk and one seed for all rows."""
    BATCH_TOPK_MULTINOMIAL_SAMPLING = 1
    """topk and a seed for each row."""
    BATCH_TOPK_EXPONENTIAL_SAMPLING = 2
    """topk for each row; the token with the greatest probability / exp wins."""
    BATCH_TOPK_MULTINOMIAL_LOGPROBS_SAMPLING = 3
    """topk and a random number for each row; logprobs."""
    BATCH_TOPK_EXPONENTIAL_LOGPROBS_SAMPLING = 4
    """As type 2, and logprobs."""
    SAMPLING_MAX = 5
    """The number of types; refused."""


_INPUTS = {
    TopkToppSamplingType.SINGLE_TOPK_SAMPLING: ("probs", "topp"),
    TopkToppSamplingType.BATCH_TOPK_MULTINOMIAL_SAMPLING: ("probs", "topk", "topp"),
    TopkToppSamplingType.BATCH_TOPK_EXPONENTIAL_SAMPLING: ("probs", "topk", "topp", "exp"),
    TopkToppSamplingType.BATCH_TOPK_MULTINOMIAL_LOGPROBS_SAMPLING: ("probs", "topk", "topp", "rand"),
    TopkToppSamplingType.BATCH_TOPK_EXPONENTIAL_LOGPROBS_SAMPLING: ("probs", "topk", "topp", "exp"),
}
"""The tensors that each type takes, in ATB's order."""


@dataclass
class TopkToppSamplingParam:
    """The operator's parameters under their C++ names, checked when they are assigned to an operator.

    randSeeds     32-bit seeds, one per row (BATCH_TOPK_MULTINOMIAL_SAMPLING).
    randSeed      the 32-bit seed of all rows (SINGLE_TOPK_SAMPLING).
    topk          tokens to keep in every row, 1 to V (SINGLE_TOPK_SAMPLING).
    logProbsSize  number of logprobs per row, 0 to min(16384, V) (the LOGPROBS types).
    rsv           12 reserved bytes, all 0.
    """

    topkToppSamplingType: TopkToppSamplingType = TopkToppSamplingType.SINGLE_TOPK_SAMPLING
    randSeeds: Sequence[int] = ()
    randSeed: int = 0
    topk: int = 100
    logProbsSize: int = 0
    rsv: Sequence[int] = _RESERVED


class TopkToppSampling:
    """The operator: keep the topk likeliest tokens, then the head of these that reaches topp, and draw one.

    Ties go to the lower token id. In mode "documented":
    - top-k keeps exactly topk tokens; top-p keeps the fewest leading tokens whose probabilities, as
      given, add up to at least topp, within 2^-20 of the row's sum. topp = 1 keeps all.
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

    In both modes `sampled_probs` is the chosen token's entry of `probs`, not rescaled to the kept tokens,
    and new parameters take effect at once, seeds included. `mode` is one of these names. Bad parameters
    raise `ParameterError` naming them, bad tensors TypeError or ValueError, before anything is drawn.
    Source: the public documentation of ATB; Holtzman et al. 2019 (top-p), Fan et al. 2018 (top-k).
    """

    def __init__(self, param: TopkToppSamplingParam | None = None, mode: str = "documented") -> None:
        if mode not in _MODES:
            raise ParameterError(f"mode={mode!r} is not allowed: one of {', '.join(map(repr, _MODES))}")
        self.mode = mode
        self.param = TopkToppSamplingParam() if param is None else param

    @property
    def param(self) -> TopkToppSamplingParam:
        """A copy of the current parameters; assign new ones to replace them, as `SetParam` does."""
        return replace(self._param)

    @param.setter
    def param(self, param: TopkToppSamplingParam) -> None:
        self._param = _checked(param)

    def __call__(
        self, probs: Any, topp: Any, topk: Any = None, exp: Any = None, rand: Any = None
    ) -> tuple[Any, ...]:
        """Draw one token per row: (sampled_indices, sampled_probs), and logprobs for the LOGPROBS types.

        probs  [B <= 512, V] float16 or bfloat16, 0 to 1, not all 0 in any row.
        topp   [B, 1] in the dtype of `probs`, 0 to 1; for SINGLE_TOPK_SAMPLING also [1, 1].
        topk   [B, 1] int32 or float16, 1 to V; not for SINGLE_TOPK_SAMPLING, where it is a parameter.
        exp    [B, V] in the dtype of `probs`, exponential noise, finite and at least 0; EXPONENTIAL types.
        rand   [B, 1] float32, 0 to 1; BATCH_TOPK_MULTINOMIAL_LOGPROBS_SAMPLING.

        sampled_indices int32 [B, 1], sampled_probs [B, 1] in the dtype of `probs`, logprobs float32
        [B, logProbsSize]: of the likeliest kept tokens, in order, -9999 beyond them. All are arrays of the
        library of `probs`, on its device.
        """
        given = {"probs": probs, "topk": topk, "topp": topp, "exp": exp, "rand": rand}
        self._check_given([name for name, tensor in given.items() if tensor is not None])
        inputs = checked_inputs(given, self._param.topk, self.mode == "observed")
        self._check_sizes(*inputs.bits.shape)
        drawn = list(self._draw(inputs))
        tokens = np.array([d.token for d in drawn], np.int32)[:, None]
        chosen = np.take_along_axis(inputs.bits, tokens.astype(np.int64), axis=1)
        results = [
            like(probs, tokens, "int32"),
            like(probs, inputs.table.values[chosen], dtype_name(probs)),
        ]
        if self._gives_logprobs:
            results.append(like(probs, _logprobs(inputs, drawn, self._param.logProbsSize), "float32"))
        return tuple(results)

    def forward(self, tensors: Sequence[Any]) -> list[Any]:
        """As `__call__`, with the tensors in ATB's order for the type: probs, [topk,] topp, [exp or rand]."""
        names = _INPUTS[self._param.topkToppSamplingType]
        if len(tensors) != len(names):
            raise ValueError(f"{len(tensors)} tensors are given; {self._kind} takes {', '.join(names)}")
        return list(self(**dict(zip(names, tensors, strict=True))))

    @property
    def _kind(self) -> str:
        return self._param.topkToppSamplingType.name

    @property
    def _gives_logprobs(self) -> bool:
        return "LOGPROBS" in self._kind

    def _check_given(self, names: list[str]) -> None:
        required = _INPUTS[self._param.topkToppSamplingType]
        if tuple(names) != required:
            raise ValueError(f"{self._kind} takes {', '.join(required)}; given are {', '.join(names)}")

    def _check_sizes(self, rows: int, vocab: int) -> None:
        """Raise unless parameters and tensors agree in their sizes."""
        seeds, size = self._param.randSeeds, self._param.logProbsSize
        if self._takes_seeds and len(seeds) != rows:
            raise ParameterError(f"randSeeds has {len(seeds)} seeds; allowed is one for each of {rows} rows")
        if self._gives_logprobs and size > vocab:
            raise ParameterError(f"logProbsSize={size} is not allowed: at most the {vocab} tokens of a row")

    @property
    def _takes_seeds(self) -> bool:
        return self._param.topkToppSamplingType == TopkToppSamplingType.BATCH_TOPK_MULTINOMIAL_SAMPLING

    @property
    def _is_single(self) -> bool:
        return self._param.topkToppSamplingType == TopkToppSamplingType.SINGLE_TOPK_SAMPLING

    def _draw(self, inputs: OperatorInputs) -> Iterator[DrawResult]:
        rows, param = len(inputs.bits), self._param
        if self.mode == "observed":
            if self._is_single:
                return draw(inputs, True, one_stream(param.randSeed, rows))
            return draw(inputs, False, first_numbers(param.randSeeds) if self._takes_seeds else inputs.rand)
        if self._is_single:
            return draw_seeded(inputs, [param.randSeed] * rows, range(rows))
        if self._takes_seeds:
            return draw_seeded(inputs, param.randSeeds, [0] * rows)
        return draw_given(inputs)


def _checked(param: TopkToppSamplingParam) -> TopkToppSamplingParam:
    """A copy of `param` in normal form; raises `ParameterError` for values that no operator accepts."""
    if not isinstance(param, TopkToppSamplingParam):
        raise TypeError(f"param is {type(param).__name__}; allowed is a TopkToppSamplingParam")
    numbers = {name: definition.check(getattr(param, name)) for name, definition in _PARAMS.items()}
    seeds = tuple(_SEED.check(seed) for seed in _entries("randSeeds", param.randSeeds))
    if _entries("rsv", param.rsv) != _RESERVED:
        raise ParameterError(f"rsv={param.rsv!r} is not allowed: {len(_RESERVED)} zeros")
    return TopkToppSamplingParam(_sampling_type(param.topkToppSamplingType), seeds, rsv=_RESERVED, **numbers)


def _sampling_type(value: Any) -> TopkToppSamplingType:
    if value in list(_INPUTS):
        return TopkToppSamplingType(value)
    names = ", ".join(f"{kind.name} ({kind.value})" for kind in _INPUTS)
    raise ParameterError(f"topkToppSamplingType={value!r} is not allowed: one of {names}")


def _entries(name: str, value: Any) -> tuple[Any, ...]:
    if not isinstance(value, Iterable):
        raise ParameterError(f"{name}={value!r} is not allowed: a list of integers")
    return tuple(value)


def _logprobs(inputs: OperatorInputs, drawn: Sequence[DrawResult], size: int) -> np.ndarray:
    """float32 [B, size]: ln of each row's leading kept probabilities divided by their mass."""
    out = np.full((len(drawn), size), REMOVED, np.float32)
    for i, (row, result) in enumerate(zip(out, drawn, strict=True)):
        shares = inputs.values(i)[result.candidates[:size]].astype(np.float64) / result.mass
        row[: len(shares)] = np.log(shares)
    return out
