"""What a chain may consist of: every registered sampler and selector, as data."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import NamedTuple

from ..contract import Param, Sampler, Selector
from ..params import SamplingParams, lookup_of
from ..registry import default_registry
from .labels import first_sentence


class ChainPart(NamedTuple):
    """A sampler or selector.

    name     its name, in `order` lists and in a `TraceStep`.
    role     "edit", "penalty", "warp" or "selector"; all but edits and selectors can be ordered.
    origin   the distribution that registered it.
    summary  the first sentence of its documentation.
    doc      its documentation.
    params   the parameters that it owns, and those of samplers that stand in its place (`instead_of`), which
             are not parts of their own.
    """

    name: str
    role: str
    origin: str
    summary: str
    doc: str
    params: tuple[Param, ...]


def chain_parts(order: str | Sequence[str] = "llama.cpp") -> list[ChainPart]:
    """Edits first, then the samplers that can be ordered, in `order`, then the selectors.

    A sampler that a list leaves out is not there. Raises `ParameterError` for an order that is not allowed.
    """
    catalogue = default_registry().catalogue
    named = lookup_of(catalogue).order(SamplingParams(order=order).order)
    edits = [sampler for sampler in catalogue.samplers.values() if sampler.role == "edit"]
    ordered = [catalogue.samplers[name] for name in dict.fromkeys(named)]
    parts: list[Sampler | Selector] = [*edits, *ordered, *catalogue.selectors.values()]
    return [_part(part) for part in parts]


def _part(part: Sampler | Selector) -> ChainPart:
    is_sampler = isinstance(part, Sampler)
    catalogue = default_registry().catalogue
    stand_ins = (s for s in catalogue.samplers.values() if s.instead_of == part.name)
    doc = inspect.cleandoc(type(part).__doc__ or "")
    return ChainPart(
        name=part.name,
        role=part.role if isinstance(part, Sampler) else "selector",
        origin=catalogue.origins[f"{'samplers' if is_sampler else 'selectors'}/{part.name}"],
        summary=first_sentence(doc),
        doc=doc,
        params=(*part.params, *(param for sampler in stand_ins for param in sampler.params)),
    )
