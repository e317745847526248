"""Run one sampler or selector on its own, as a backend would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contract import (
    Chain,
    Drafter,
    Param,
    ParameterError,
    Rows,
    Sampler,
    Selection,
    Selector,
    StoppingCriteria,
    Vocabulary,
)
from ..params import SamplingParams
from ..registry import default_registry
from ..requests.history import History
from ..requests.slots import Slots
from ..requests.state import RequestState

Params = Mapping[str, Any]
"""`SamplingParams`, or some parameters by name, such as {"min_p": 0.05}; the others are neutral."""


def make_rows(sampler: Sampler | Selector, params: Sequence[Params], vocab_size: int, **history: Any) -> Rows:
    """`Rows` for one sampler or selector, one row per entry of `params`, as a backend would pass them.

    The sampler need not be registered. `history` takes the keywords of `open_slots`.
    """
    slots, index = open_slots(sampler, params, vocab_size, **history)
    return Rows(slots, index).bind(sampler)


def apply_sampler(
    sampler: Sampler, logits: Any, params: Params | Sequence[Params], **history: Any
) -> np.ndarray:
    """The result of `sampler` for float `logits` [n, vocab] or [vocab]: a new float32 array.

    `history` takes the keywords of `open_slots`.
    """
    out = np.array(logits, np.float32, ndmin=2)
    with np.errstate(all="ignore"):
        sampler.apply(out, _rows_for(sampler, out, params, history))
    return out[0] if np.ndim(logits) == 1 else out


def select(selector: Selector, logits: Any, params: Params | Sequence[Params], **history: Any) -> Selection:
    """The choice of `selector` in float `logits` [n, vocab]; `history` as in `open_slots`."""
    array = np.array(logits, np.float32, ndmin=2)
    with np.errstate(all="ignore"):
        return selector.select(array, _rows_for(selector, array, params, history))


def open_slots(
    sampler: Sampler | Selector,
    params: Sequence[Params],
    vocab_size: int,
    *,
    prompts: Sequence[Sequence[int]] | None = None,
    outputs: Sequence[Sequence[int]] | None = None,
    seeds: Sequence[int] | None = None,
    eos_token_ids: Sequence[int] = (),
    tokenizer: Any = None,
) -> tuple[Slots, np.ndarray]:
    """Live requests with a chain of only `sampler`: the slots, and the slot of each request.

    prompts, outputs  token ids of each request's history (default: none).
    seeds             default: the seed parameter, or 0.
    """
    vocabulary = Vocabulary(vocab_size, tuple(eos_token_ids), tokenizer)
    known = known_params(sampler)
    neutral = {name: param.neutral for name, param in known.items()}
    slots = Slots(vocabulary, known, capacity=max(1, len(params)))
    if prompts:
        slots.pool.reserve(max(map(len, prompts), default=0), len(prompts))
    index = []
    checked: dict[int, dict[str, Any]] = {}  # most requests share a few mappings
    for i, each in enumerate(params):
        if id(each) not in checked:
            checked[id(each)] = _checked(sampler, each, known)
            sampler.check(neutral | checked[id(each)])
        non_neutral = checked[id(each)]
        values = neutral | non_neutral
        state = RequestState(
            chain_of(sampler), History(prompts[i] if prompts else (), outputs[i] if outputs else ())
        )
        state.open(values, vocabulary)
        index.append(slots.put(state, non_neutral, seeds[i] if seeds else (values["seed"] or 0)))
    return slots, np.array(index, np.int64)


def known_params(part: Sampler | Selector | StoppingCriteria | Drafter) -> dict[str, Param]:
    """Every registered parameter, and those of `part`, by name."""
    return {**default_registry().catalogue.params, **{p.name: p for p in part.params}}


def settings(sampler: Sampler | Selector, params: Params) -> dict[str, Any]:
    """Every parameter by name as `sampler` would see it, each checked alone, then all together."""
    values = values_for(sampler, params)
    sampler.check(values)
    return values


def values_for(part: Sampler | Selector | StoppingCriteria | Drafter, params: Params) -> dict[str, Any]:
    """Every parameter by name as `part` would see it, each checked."""
    known = known_params(part)
    return {name: param.neutral for name, param in known.items()} | _checked(part, params, known)


def _checked(
    part: Sampler | Selector | StoppingCriteria | Drafter, params: Params, known: Mapping[str, Param]
) -> dict[str, Any]:
    """The parameters that are given, each checked."""
    values = {}
    for name, value in (params.given if isinstance(params, SamplingParams) else params).items():
        if name not in known:
            raise ParameterError(f"{name!r} is neither registered nor a parameter of {part.name}")
        values[name] = known[name].check(value)
    return values


def _rows_for(
    sampler: Sampler | Selector, logits: np.ndarray, params: Params | Sequence[Params], history: Any
) -> Rows:
    many = [params] * len(logits) if isinstance(params, Mapping) else list(params)
    return make_rows(sampler, many, logits.shape[1], **history)


def chain_of(part: Sampler | Selector) -> Chain:
    """The chain of a selector alone, or of a sampler before `dist`."""
    if isinstance(part, Selector):
        return Chain((), part)
    return Chain((part,), default_registry().catalogue.selectors["dist"])
