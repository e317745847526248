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
    params   the parameters that it owns.
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
    origins = default_registry().catalogue.origins
    doc = inspect.cleandoc(type(part).__doc__ or "")
    return ChainPart(
        name=part.name,
        role=part.role if isinstance(part, Sampler) else "selector",
        origin=origins[f"{'samplers' if is_sampler else 'selectors'}/{part.name}"],
        summary=first_sentence(doc),
        doc=doc,
        params=tuple(part.params),
    )
