"""For authors of plugins and tests: run one sampler, and the contract kits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .chain import Chain
from .contract import Sampler, Selection, Selector, Vocabulary
from .params import SamplingParams
from .registry import default_registry
from .rows import Rows
from .slots import History, Slot, Slots


def make_rows(
    sampler: Sampler | Selector,
    params: Sequence[SamplingParams],
    vocab_size: int,
    *,
    prompts: Sequence[Sequence[int]] | None = None,
    outputs: Sequence[Sequence[int]] | None = None,
    seeds: Sequence[int] | None = None,
    eos_token_ids: Sequence[int] = (),
    tokenizer: Any = None,
) -> Rows:
    """`Rows` for one sampler or selector, one row per entry of `params`, as a backend would give.

    prompts, outputs  token ids of each row's history (default: none).
    seeds             default: the seed parameter, or 0.
    """
    catalogue = default_registry().catalogue
    vocabulary = Vocabulary(vocab_size, tuple(eos_token_ids), tokenizer)
    slots = Slots(vocabulary, catalogue.params)
    index = []
    for i, p in enumerate(params):
        if isinstance(sampler, Selector):
            chain = Chain((), sampler)
        else:
            chain = Chain((sampler,), catalogue.selectors["dist"])
        slot = Slot(chain, History(prompts[i] if prompts else (), outputs[i] if outputs else ()))
        slot.open(p, vocabulary)
        index.append(slots.put(slot, p.given, seeds[i] if seeds else (p.seed or 0)))
    return Rows(slots, np.array(index, np.int64)).bind(sampler)


def apply_sampler(
    sampler: Sampler, logits: Any, params: SamplingParams | Sequence[SamplingParams], **history: Any
) -> np.ndarray:
    """What `sampler` makes of float `logits` [n, vocab] or [vocab]: a new float32 array.

    `history` takes the keywords of `make_rows`.
    """
    out = np.array(logits, np.float32, ndmin=2)
    many = [params] * len(out) if isinstance(params, SamplingParams) else list(params)
    rows = make_rows(sampler, many, out.shape[1], **history)
    with np.errstate(all="ignore"):
        sampler.apply(out, rows)
    return out[0] if np.ndim(logits) == 1 else out


def select(
    selector: Selector, logits: Any, params: SamplingParams | Sequence[SamplingParams], **history: Any
) -> Selection:
    """What `selector` chooses in float `logits` [n, vocab]; keywords as in `make_rows`."""
    array = np.array(logits, np.float32, ndmin=2)
    many = [params] * len(array) if isinstance(params, SamplingParams) else list(params)
    with np.errstate(all="ignore"):
        return selector.select(array, make_rows(selector, many, array.shape[1], **history))
