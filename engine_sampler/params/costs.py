"""What the samplers of one chain may cost together: a client chooses them, and how often each one runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..base.calling import call_for_add
from ..base.errors import quoted
from ..contract import ParameterError, Sampler
from ..contract.samplers import Cost

PASSES: Mapping[Cost, int] = {"pass": 1, "sort": 8, "history": 8, "bytes": 48}
"""What each class of samplers costs a row at worst, in passes over the vocabulary: up to 0.5 ms each in the C
kernels, for 131,072 tokens of which none has been removed; up to twenty times as much in NumPy."""

MAX_PASSES = 144
"""The most that a chain may cost; all built-in samplers at once cost 128."""

MAX_REPEATS = 4
"""How often a chain may run one sampler."""


def check_repeats(parameter: str, names: Sequence[str]) -> None:
    """Raise `ParameterError` if `names`, the value of `parameter`, has one of them too often."""
    if len(set(names)) == len(names):
        return
    for name, times in Counter(names).items():
        if times > MAX_REPEATS:
            raise ParameterError(
                f"{parameter}={quoted(names)} is not allowed: it names {quoted(name)} {times:,} times; "
                f"at most {MAX_REPEATS}"
            )


def check_cost(names: Sequence[str], samplers: Mapping[str, Sampler], values: Mapping[str, Any]) -> None:
    """Raise `ParameterError` if those of the samplers `names` that the parameters turn on cost too much."""
    if passes_of(samplers[name] for name in names) <= MAX_PASSES:
        return
    on = {name: samplers[name] for name in dict.fromkeys(names) if _is_on(samplers[name], values)}
    passes = passes_of(on[name] for name in names if name in on)
    if passes > MAX_PASSES:
        raise ParameterError(
            f"order={quoted(values['order'])} is not allowed with these parameters: the samplers that they "
            f"turn on cost {passes} passes over the vocabulary at worst; at most {MAX_PASSES}"
        )


def passes_of(samplers: Iterable[Sampler]) -> int:
    """What `samplers` cost together at worst, in passes over the vocabulary."""
    return sum([PASSES[sampler.cost] for sampler in samplers])


def _is_on(sampler: Sampler, values: Mapping[str, Any]) -> bool:
    return call_for_add(sampler.name, sampler.is_active, values)
