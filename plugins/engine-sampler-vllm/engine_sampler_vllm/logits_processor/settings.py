"""The settings of a vLLM request for this library: the keys of `extra_args` that are ours."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any

from engine_sampler import ParameterError, RequestLimits, SamplingParams
from engine_sampler.contract import Param, Sampler
from engine_sampler.for_backends import default_registry
from engine_sampler.for_bridges import (
    EDITS,
    GRAMMAR_OPTIONS,
    MAX_COUNT,
    STRUCTURED_PARAMS,
    build_chain,
    instance_of,
    integer_of,
    unknown,
)

_CORE = ("order", "min_keep")
"""Parameters of the chain that belong to no sampler."""

_EDITS = ("sequence_bias", "suppress_tokens")
"""The masks and biases that vLLM lacks."""

_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "temperature": (1.0,),
    "top_p": (1.0,),
    "top_k": (0, -1),
    "min_p": (0.0,),
    "repetition_penalty": (1.0,),
    "frequency_penalty": (0.0,),
    "presence_penalty": (0.0,),
}
"""The parameters of our chain that vLLM also has, with the values that switch vLLM's off."""


def settings_of(request: Any) -> SamplingParams | None:
    """The parameters for our chain in the `extra_args` of vLLM's `SamplingParams`; None for an idle chain.

    The seed is the request's own. A key is ours if it is the name of a parameter of this library, or begins
    like a family of them (`dry_`, `xtc_`, …); all others belong to other processors and are ignored.
    None stands for an omitted key, and 1 and 0 for True and False, which vLLM's REST server converts to
    numbers.

    Raises `ParameterError` for unknown keys of our families, with near matches; for parameters that belong
    to vLLM alone; for selectors, since vLLM draws; for values outside their bounds or beyond `RequestLimits`;
    and for parameters that vLLM would apply a second time.
    """
    extra = getattr(request, "extra_args", None)
    given = {} if extra is None else _given(instance_of(Mapping, "extra_args", extra, "an object"), request)
    if not given:
        return None
    seed = getattr(request, "seed", None)
    params = SamplingParams(**given, seed=None if seed is None else integer_of("seed", seed) % 2**64)
    active = given.keys() & params.given.keys()
    for sampler in default_registry().catalogue.samplers.values():
        _check_once(sampler, [p.name for p in sampler.params if p.name in active], request)
    RequestLimits().check(params, MAX_COUNT)
    return params if build_chain(params).samplers else None


def _given(extra: Mapping[str, Any], request: Any) -> dict[str, Any]:
    """The entries of `extra` that are ours, checked by name."""
    catalogue = default_registry().catalogue
    allowed = _allowed()
    entries = {}
    for key, value in extra.items():
        if value is None:
            continue
        if key in allowed:
            entries[key] = _plain(allowed[key], value)
        elif key in catalogue.params:
            raise ParameterError(f"{key} is not allowed in extra_args: {_reason(key, request)}")
        elif any(key.startswith(family) for family in _families()):
            raise unknown(key)
    return entries


def _allowed() -> dict[str, Param]:
    """The parameters that may be in `extra_args`: those of all samplers but vLLM's masks and biases."""
    catalogue = default_registry().catalogue
    samplers = (s for name, s in catalogue.samplers.items() if name not in EDITS or name in _EDITS)
    return {p.name: p for s in samplers for p in s.params} | {n: catalogue.params[n] for n in _CORE}


def _plain(param: Param, value: Any) -> Any:
    """`value`; for a bool parameter 0 and 1 become False and True."""
    is_number = param.type is bool and isinstance(value, (int, float)) and value in (0, 1)
    return bool(value) if is_number else value


def _reason(key: str, request: Any) -> str:
    """Why a parameter of ours is not allowed in `extra_args`."""
    catalogue = default_registry().catalogue
    if hasattr(request, key):
        return "vLLM has it itself, outside extra_args"
    if any(key == param.name for s in catalogue.selectors.values() for param in s.params):
        return "it needs a selector, but vLLM draws the token"
    takers = (s for s in catalogue.samplers.values() if s.takes_grammar)
    of_takers = {param.name for sampler in takers for param in sampler.params}
    if key in STRUCTURED_PARAMS or key in GRAMMAR_OPTIONS or key in of_takers:
        return "vLLM masks through its structured_outputs"
    return "vLLM starts, ends and answers requests itself"


def _check_once(sampler: Sampler, ours: Collection[str], request: Any) -> None:
    """Refuse parameters that vLLM would apply a second time, and modifiers of a parameter that vLLM applies.

    ours  the parameters of `sampler` that `extra_args` turn on.
    """
    modifiers = [name for name in ours if name not in _NEUTRAL]
    for name, off in _NEUTRAL.items():
        cause = name if name in ours else next(iter(modifiers), None)
        value = getattr(request, name, None)
        if cause and value not in (None, *off) and any(param.name == name for param in sampler.params):
            raise ParameterError(
                f"{name}={value!r} is not allowed with {cause} in extra_args, which does not affect vLLM's "
                f"{name}: give {name} in extra_args, and {off[0]} outside"
            )


# --- families --------------------------------------------------------------------------------------


def _families() -> set[str]:
    """The prefixes of related parameters' names, such as "dry_": the common words of all parameters of one
    sampler or selector that have the same first word."""
    catalogue = default_registry().catalogue
    parts: list[Any] = [*catalogue.samplers.values(), *catalogue.selectors.values()]
    return {family for part in parts for family in _prefixes(param.name for param in part.params)}


def _prefixes(names: Iterable[str]) -> Iterator[str]:
    by_word: dict[str, list[list[str]]] = {}
    for words in (name.split("_") for name in names):
        by_word.setdefault(words[0], []).append(words)
    for related in by_word.values():
        if len(related) > 1:
            yield "_".join(_common_words(related)) + "_"


def _common_words(lists: Collection[list[str]]) -> list[str]:
    """The words that all `lists` begin with."""
    same = takewhile(lambda column: len(set(column)) == 1, zip(*lists, strict=False))
    return [column[0] for column in same]
