"""Steps for a device: rows as they come from models, for requests of every kind that the library runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....contract import Chain
from ....params import SamplingParams, build_chain
from ..bench import CHAINS, Settings, mask_of, normal_rows, parts_of
from ..observing import LibraryStep
from ..random_steps import random_tokens
from .room import RoomOnDevice
from .survivors import cut_of

FILTERS: Sequence[Settings] = (
    {"top_k": 5},
    {"top_k": 20, "top_p": 0.9},
    {"top_p": 0.8},
    {"min_p": 0.1, "temperature": 0.8},
    {"top_k": 8, "temperature": 1.5, "repetition_penalty": 1.3},
    {"top_k": 3, "presence_penalty": 1.5, "mirostat": 2},
)
"""Chains whose first part leaves few tokens."""

PENALTIES: Sequence[Settings] = (
    {"repetition_penalty": 1.7, "temperature": 0.0},
    {"frequency_penalty": 1.1, "presence_penalty": 0.7, "temperature": 0.0},
    {"no_repeat_ngram_size": 2, "temperature": 0.0},
    {"dry_multiplier": 2.0, "dry_allowed_length": 1, "temperature": 0.0},
    {"frequency_penalty": 1.5},
)
"""Chains whose tokens depend on the history."""


def chains_on(room: RoomOnDevice, given: Sequence[Settings] = CHAINS, **what: bool) -> list[Settings]:
    """Those settings whose chains the library runs, and whose top_k is not too great."""
    return [
        one for one in given if is_run(room, build_chain(SamplingParams(**one)), one.get("top_k", 0), **what)
    ]


def chains_to_cut(room: RoomOnDevice, given: Sequence[Settings] = FILTERS) -> list[Settings]:
    """Those settings whose first samplers leave survivors."""
    return [one for one in given if cut_of(room, build_chain(SamplingParams(**one))) is not None]


def is_run(room: RoomOnDevice, chain: Chain, top_k: int = 0, *, masked: bool = False) -> bool:
    """Whether the library runs a chain for requests with this top_k."""
    answer = room.answer(parts_of(chain), masked=masked)
    if answer is None or (masked and not answer.promise("MASKS")):
        return False
    has_top_k = any(part.name == "top_k" for part in chain.samplers)
    return not (answer.max_top_k and has_top_k) or 0 < top_k <= answer.max_top_k


def by_random_kind(room: RoomOnDevice, given: Sequence[Settings]) -> list[list[Settings]]:
    """The settings that may be in one call, together: those that want the same random numbers."""
    kinds: dict[int, list[Settings]] = {}
    for one in given:
        kinds.setdefault(room.random_kind(build_chain(SamplingParams(**one))), []).append(one)
    return list(kinds.values())


def most_rows(room: RoomOnDevice, chains: Sequence[Settings], n: int) -> int:
    """n, or how many rows a call for `chains`, or for their first parts, may have, if that is less."""
    answers = []
    for given in chains:
        chain = build_chain(SamplingParams(**given))
        answers += [room.answer(parts_of(chain)), room.answer(cut_of(room, chain) or parts_of(chain))]
    return min((answer.max_rows for answer in answers if answer and 0 < answer.max_rows < n), default=n)


def step_of(
    room: RoomOnDevice,
    chains: Sequence[Settings],
    n: int,
    random: np.random.Generator,
    *,
    logits: Any = None,
    bitmask: np.ndarray | None = None,
) -> LibraryStep:
    """n rows for new requests, shared out among `chains`; fewer if the library takes fewer."""
    n = most_rows(room, chains, n)
    groups = []
    for given, index in zip(chains, np.array_split(random.permutation(n), len(chains)), strict=True):
        if len(index):
            prompts = [random_tokens(random, room.size, int(random.integers(0, 12))) for _ in index]
            requests = room.requests(given, random.integers(0, 2**63, len(index)), prompts=prompts)
            group = room.group(given, requests, index, masked=bitmask is not None)
            groups.append(replace(group, want_processed=False))
    return room.step(groups, normal_rows(random, n, room.size) if logits is None else logits[:n], bitmask)


def random_masks(random: np.random.Generator, n: int, size: int, share: float = 0.4) -> np.ndarray:
    """A bitmask of n rows in which about this share of the tokens is allowed."""
    bits = random.random((n, size)) < share
    bits[np.arange(n), random.integers(0, size, n)] = True
    return mask_of(bits)


def drop(room: RoomOnDevice, step: LibraryStep) -> None:
    """The requests of a step leave."""
    for slot in step.slot_numbers.tolist():
        room.slots.remove(slot)


def plain_steps(room: RoomOnDevice, n: int, seed: int = 0) -> Iterator[LibraryStep]:
    """A step of n rows for each kind of random numbers, with all chains of that kind."""
    random = np.random.default_rng([seed, room.size, n])
    for chains in by_random_kind(room, chains_on(room)):
        yield step_of(room, chains, n, random)
