"""The operator's parameters in both revisions of ATB's struct."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar

from engine_sampler import ParameterError
from engine_sampler.contract import Param

_UINT32 = 2**32 - 1
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
    """How the operator draws; the values of the documented C++ enumeration."""

    SAMPLING_UNDEFINED = -1
    """No sampling type; refused."""
    SINGLE_TOPK_SAMPLING = 0
    """One topk and one seed for all rows."""
    BATCH_TOPK_MULTINOMIAL_SAMPLING = 1
    """topk and a seed for each row."""
    BATCH_TOPK_EXPONENTIAL_SAMPLING = 2
    """topk for each row; the token with the greatest probability / exp wins."""
    SAMPLING_MAX = 3
    """The number of types; refused."""


class TopkToppLogprobsSamplingType(IntEnum):
    """As `TopkToppSamplingType`, in the later revision, which has two more types."""

    SAMPLING_UNDEFINED = -1
    SINGLE_TOPK_SAMPLING = 0
    BATCH_TOPK_MULTINOMIAL_SAMPLING = 1
    BATCH_TOPK_EXPONENTIAL_SAMPLING = 2
    BATCH_TOPK_MULTINOMIAL_LOGPROBS_SAMPLING = 3
    """topk and a random number for each row; logprobs."""
    BATCH_TOPK_EXPONENTIAL_LOGPROBS_SAMPLING = 4
    """As type 2, and logprobs."""
    SAMPLING_MAX = 5


INPUTS = {
    "SINGLE_TOPK_SAMPLING": ("probs", "topp"),
    "BATCH_TOPK_MULTINOMIAL_SAMPLING": ("probs", "topk", "topp"),
    "BATCH_TOPK_EXPONENTIAL_SAMPLING": ("probs", "topk", "topp", "exp"),
    "BATCH_TOPK_MULTINOMIAL_LOGPROBS_SAMPLING": ("probs", "topk", "topp", "rand"),
    "BATCH_TOPK_EXPONENTIAL_LOGPROBS_SAMPLING": ("probs", "topk", "topp", "exp"),
}
"""The tensors that each type takes, in ATB's order."""


@dataclass
class TopkToppSamplingParam:
    """The operator's parameters under their C++ names and in their C++ order.

    As in C++, the types are also members of the struct itself: `TopkToppSamplingParam.SINGLE_TOPK_SAMPLING`.

    topkToppSamplingType  a member of the nested enumeration, or its value.
    randSeed      the 32-bit seed of all rows (SINGLE_TOPK_SAMPLING).
    topk          tokens to keep in every row, 1 to V (SINGLE_TOPK_SAMPLING).
    randSeeds     32-bit seeds, one per row (BATCH_TOPK_MULTINOMIAL_SAMPLING).
    rsv           16 reserved bytes, all 0.
    """

    TopkToppSamplingType: ClassVar = TopkToppSamplingType
    SAMPLING_UNDEFINED: ClassVar = TopkToppSamplingType.SAMPLING_UNDEFINED
    SINGLE_TOPK_SAMPLING: ClassVar = TopkToppSamplingType.SINGLE_TOPK_SAMPLING
    BATCH_TOPK_MULTINOMIAL_SAMPLING: ClassVar = TopkToppSamplingType.BATCH_TOPK_MULTINOMIAL_SAMPLING
    BATCH_TOPK_EXPONENTIAL_SAMPLING: ClassVar = TopkToppSamplingType.BATCH_TOPK_EXPONENTIAL_SAMPLING
    SAMPLING_MAX: ClassVar = TopkToppSamplingType.SAMPLING_MAX

    topkToppSamplingType: int = TopkToppSamplingType.SINGLE_TOPK_SAMPLING
    randSeed: int = 0
    topk: int = 100
    randSeeds: Sequence[int] = field(default_factory=list)
    rsv: Sequence[int] = (0,) * 16


@dataclass
class TopkToppLogprobsSamplingParam:
    """The parameters in the later revision of the struct, whose types include two with logprobs.

    The fields of `TopkToppSamplingParam` in another order, and:
    logProbsSize  number of logprobs per row, 0 to min(16384, V) (the LOGPROBS types).
    rsv           12 reserved bytes, all 0.
    """

    TopkToppSamplingType: ClassVar = TopkToppLogprobsSamplingType
    SAMPLING_UNDEFINED: ClassVar = TopkToppLogprobsSamplingType.SAMPLING_UNDEFINED
    SINGLE_TOPK_SAMPLING: ClassVar = TopkToppLogprobsSamplingType.SINGLE_TOPK_SAMPLING
    BATCH_TOPK_MULTINOMIAL_SAMPLING: ClassVar = TopkToppLogprobsSamplingType.BATCH_TOPK_MULTINOMIAL_SAMPLING
    BATCH_TOPK_EXPONENTIAL_SAMPLING: ClassVar = TopkToppLogprobsSamplingType.BATCH_TOPK_EXPONENTIAL_SAMPLING
    BATCH_TOPK_MULTINOMIAL_LOGPROBS_SAMPLING: ClassVar = (
        TopkToppLogprobsSamplingType.BATCH_TOPK_MULTINOMIAL_LOGPROBS_SAMPLING
    )
    BATCH_TOPK_EXPONENTIAL_LOGPROBS_SAMPLING: ClassVar = (
        TopkToppLogprobsSamplingType.BATCH_TOPK_EXPONENTIAL_LOGPROBS_SAMPLING
    )
    SAMPLING_MAX: ClassVar = TopkToppLogprobsSamplingType.SAMPLING_MAX

    topkToppSamplingType: int = TopkToppLogprobsSamplingType.SINGLE_TOPK_SAMPLING
    randSeeds: Sequence[int] = field(default_factory=list)
    randSeed: int = 0
    topk: int = 100
    logProbsSize: int = 0
    rsv: Sequence[int] = (0,) * 12


AnyParam = TopkToppSamplingParam | TopkToppLogprobsSamplingParam
"""Either revision."""


@dataclass(frozen=True)
class Settings:
    """The checked values of either revision.

    kind  the name of the sampling type.
    """

    kind: str
    seeds: list[int]
    seed: int
    topk: int
    logprobs: int

    @classmethod
    def of(cls, param: AnyParam) -> Settings:
        """Raises `ParameterError` for values that no operator accepts."""
        kind = _sampling_type(param)
        numbers = {
            name: definition.check(getattr(param, name, definition.neutral))
            for name, definition in _PARAMS.items()
        }
        seeds = [_SEED.check(seed) for seed in _entries("randSeeds", param.randSeeds)]
        reserved = len(type(param).rsv)
        if _entries("rsv", param.rsv) != [0] * reserved:
            raise ParameterError(f"rsv={param.rsv!r} is not allowed: {reserved} zeros")
        return cls(kind, seeds, numbers["randSeed"], numbers["topk"], numbers["logProbsSize"])

    @property
    def is_single(self) -> bool:
        return self.kind.startswith("SINGLE")

    @property
    def takes_seeds(self) -> bool:
        return self.kind == "BATCH_TOPK_MULTINOMIAL_SAMPLING"

    @property
    def lists(self) -> int:
        """How many logprobs a row has."""
        return self.logprobs if self.gives_logprobs else 0

    @property
    def gives_logprobs(self) -> bool:
        return "LOGPROBS" in self.kind


def copied(param: AnyParam) -> AnyParam:
    """A copy with a list of seeds of its own; raises TypeError for anything else, and `ParameterError`."""
    if not isinstance(param, AnyParam):
        raise TypeError(f"param is {type(param).__name__}; allowed is a TopkToppSamplingParam")
    checked = Settings.of(param)
    twin = type(param)(**vars(param))
    twin.randSeeds = checked.seeds
    return twin


def _sampling_type(param: AnyParam) -> str:
    kinds = [kind for kind in param.TopkToppSamplingType if kind.name in INPUTS]
    value = param.topkToppSamplingType
    for kind in kinds:
        if isinstance(value, int) and value == kind and not isinstance(value, bool):
            return str(kind.name)
    names = ", ".join(f"{kind.name} ({kind.value})" for kind in kinds)
    raise ParameterError(f"topkToppSamplingType={value!r} is not allowed: one of {names}")


def _entries(name: str, value: Any) -> list[Any]:
    if not isinstance(value, Iterable):
        raise ParameterError(f"{name}={value!r} is not allowed: a list of integers")
    return list(value)
