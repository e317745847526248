"""Chains: the active samplers of a request in order, followed by a selector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..arithmetic import GREEDY_BELOW
from ..contract import Chain, Selector
from ..registry import Registry, default_registry, structured_in
from .lookups import Lookup, lookup_of
from .sampling_params import SamplingParams, kept_with

EDITS = (
    "allowed_token_ids",
    "bad_words",
    "ignore_eos",
    "min_tokens",
    "logit_bias",
    "sequence_bias",
    "suppress_tokens",
    "grammar_bias",
    "forced_tokens",
)
"""The fixed first steps, after the grammar's bitmask; the edits of plugins follow them, in alphabetical
order."""


def build_chain(params: Mapping[str, Any], registry: Registry | None = None) -> Chain:
    """The chain of a request: without neutral samplers, edits first, the rest in the request's order.

    A temperature below 1e-4 leaves only the best token, so nothing after it is kept and the
    selector is `greedy`. `SamplingParams` keep theirs.
    """
    known = lookup_of((registry or default_registry()).catalogue)
    if isinstance(params, SamplingParams):
        return kept_with(params, known, lambda: _build(params, params.given, known))
    return _build(params, known.differing(params), known)


def _build(params: Mapping[str, Any], given: Mapping[str, Any], known: Lookup) -> Chain:
    active = {s.name: s for s in known.samplers.active(given, params)}
    selector = _selector(params, known.catalogue.selectors, known.selectors.active(given, params))
    edits = [n for n in EDITS if n in active]
    edits += sorted(n for n, s in active.items() if s.role == "edit" and n not in EDITS)
    for name, base in known.stand_ins.items():
        if name in active:
            active[base] = active[name]
    ordered = [n for n in known.order(params["order"]) if n in active]
    if selector.ignores_warps:
        ordered = [n for n in ordered if active[n].role == "penalty" or n == "temperature"]
    if params["temperature"] < GREEDY_BELOW:
        ordered = ordered[: ordered.index("temperature") + 1]
    return Chain(tuple(active[n] for n in (*edits, *ordered)), selector)


def _selector(
    params: Mapping[str, Any], selectors: Mapping[str, Selector], requested: Iterable[Selector]
) -> Selector:
    """Greedy at temperature 0, else the selector that the parameters request, else `dist`."""
    if params["temperature"] < GREEDY_BELOW:
        return selectors["greedy"]
    return next(iter(requested), selectors["dist"])


def takes_grammar(params: Mapping[str, Any]) -> bool:
    """Whether the parameters give a grammar, and a sampler of the chain takes it: it then masks nothing."""
    return bool(structured_in(params)) and build_chain(params).takes_grammar


def without_takers(params: SamplingParams) -> SamplingParams:
    """The parameters without those of samplers that take the grammar: their chain can do without it."""
    takers = (s for s in build_chain(params).samplers if s.takes_grammar)
    neutral = {param.name: param.neutral for sampler in takers for param in sampler.params}
    return params.replace(**neutral) if neutral else params
