"""How much work the samplers of a chain may do together, and those of all rows of a request: a client chooses
them, how often each one runs, and in how many rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..base.calling import call_for_add
from ..base.errors import quoted
from ..contract import Chain, ParameterError, Sampler
from ..contract.samplers import Cost

PASSES: Mapping[Cost, int] = {"pass": 1, "select": 2, "history": 4, "sort": 16, "bytes": 48}
"""What each class of samplers costs a row at worst, in passes over the vocabulary: up to 0.5 ms each in the C
kernels, for 131,072 tokens of which none has been removed; up to twenty times as much in NumPy."""

MAX_PASSES = 144
"""The most that a chain may cost; all built-in samplers at once cost less."""

MAX_ROW_PASSES = 10 * MAX_PASSES
"""The most that the chains of all rows of a request may cost together, by default."""

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


def check_rows(params: Mapping[str, Any], chains: Iterable[Chain], limit: int) -> None:
    """Raise `ParameterError` if all rows of a request cost more than `limit` with the most expensive of its
    `chains`."""
    rows = row_count(params)
    ordered = ([s for s in chain.samplers if s.role != "edit"] for chain in chains)
    passes = max(map(passes_of, ordered), default=0)
    if rows * passes > limit:
        raise ParameterError(
            f"{row_parameter(params)}={rows} is not allowed with these parameters: the samplers that they "
            f"turn on cost each row {passes} passes over the vocabulary at worst; this scheduler's limit is "
            f"{limit:,} for all rows together, which allows {limit // passes} (RequestLimits({ROW_PASSES}=…))"
        )


ROW_PASSES, HISTORIES = "passes", "histories"
"""The names of the limits on what all rows of a request cost."""

MAX_HISTORIES = 1 << 22
"""The default of `histories`: a change over this many tokens takes some 60 ms of one core."""


def row_parameter(params: Mapping[str, Any]) -> str:
    """The parameter that says how many rows a request has."""
    if params["use_beam_search"] and params["beam_width"] is not None:
        return "beam_width"
    return "n" if params["best_of"] is None else "best_of"


def row_count(params: Mapping[str, Any]) -> int:
    """How many rows a request has: siblings, or the texts of its beam search."""
    return int(params[row_parameter(params)])


def passes_of(samplers: Iterable[Sampler]) -> int:
    """What `samplers` cost together at worst, in passes over the vocabulary."""
    return sum([PASSES[sampler.cost] for sampler in samplers])


def _is_on(sampler: Sampler, values: Mapping[str, Any]) -> bool:
    return call_for_add(sampler.name, sampler.is_active, values)
