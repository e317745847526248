"""Chains: the active samplers of a request in order, followed by a selector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..arithmetic import GREEDY_BELOW
from ..contract import Chain, Selector
from ..registry import Registry, default_registry
from .orders import full_order

EDITS = ("allowed_token_ids", "bad_words", "ignore_eos", "min_tokens", "logit_bias", "grammar_bias")
"""The fixed first steps, after the grammar's bitmask; the edits of plugins follow them."""


def build_chain(params: Mapping[str, Any], registry: Registry | None = None) -> Chain:
    """The chain of a request: without neutral samplers, edits first, the rest in the request's order.

    A temperature below 1e-4 leaves only the best token, so nothing after it is kept and the
    selector is `greedy`.
    """
    catalogue = (registry or default_registry()).catalogue
    active = {s.name: s for s in catalogue.samplers.values() if s.is_active(params)}
    selector = _selector(params, catalogue.selectors)
    edits = [n for n in EDITS if n in active]
    edits += [n for n, s in active.items() if s.role == "edit" and n not in EDITS]
    ordered = [n for n in full_order(params["order"], catalogue.samplers) if n in active]
    if selector.ignores_warps:
        ordered = [n for n in ordered if active[n].role == "penalty" or n == "temperature"]
    if params["temperature"] < GREEDY_BELOW:
        ordered = ordered[: ordered.index("temperature") + 1]
    return Chain(tuple(active[n] for n in (*edits, *ordered)), selector)


def _selector(params: Mapping[str, Any], selectors: Mapping[str, Selector]) -> Selector:
    """Greedy at temperature 0, else the selector that the parameters request, else `dist`."""
    if params["temperature"] < GREEDY_BELOW:
        return selectors["greedy"]
    return next((s for s in selectors.values() if s.is_active(params)), selectors["dist"])
