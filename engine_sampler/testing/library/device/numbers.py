"""Random numbers that the host computes: a library must draw by those that it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ....backends.library.binding import Device, Library
from ....backends.library.header import named, number
from ....params import SamplingParams, build_chain
from ..bench import CHAINS, Settings, Tally, expected_of, normal_rows
from ..drawing import chance_of
from ..observing import LibraryStep
from ..random_steps import random_tokens
from .calling import CallOnDevice, CallOptions, breach_of, numbers_of
from .checks import Tried
from .room import RoomOnDevice
from .steps import FILTERS, chains_on, most_rows

_DRAWS, _AT_ONCE = 20_000, 500
"""How many draws show the distribution, and how many of them a call has."""


def numbers(library: Library, device: Device, tally: Tally) -> Tried:
    """Numbers of other requests, in another order, and many: the tokens follow from them."""
    for size in (5, 150):
        with RoomOnDevice(library, device, size) as room:
            for settings in _that_draw(room, [*CHAINS, *FILTERS]):
                kind = named("es_random", room.random_kind(build_chain(SamplingParams(**settings)))).lower()
                for seed in range(2):
                    yield f"{kind} of other requests", _by_others(room, settings, seed, tally)
                    yield f"{kind} in another order", _in_another_order(room, settings, seed, tally)
    with RoomOnDevice(library, device, 20) as room:
        for settings in _that_draw(room, [{}]):
            yield f"the distribution of {_DRAWS:,} draws", _distribution(room, settings, tally)


def _that_draw(room: RoomOnDevice, given: Sequence[Settings]) -> list[Settings]:
    """Those settings whose chains are given random numbers."""
    return [one for one in chains_on(room, given) if room.random_kind(build_chain(SamplingParams(**one)))]


def _step(
    room: RoomOnDevice, given: Settings, seeds: np.ndarray, prompt: Sequence[int], logits: np.ndarray
) -> LibraryStep:
    """Requests with these seeds and the same prompt, in the rows of `logits`."""
    rows = room.requests(given, seeds, prompts=[prompt] * len(seeds))
    group = replace(room.group(given, rows, np.arange(len(seeds))), want_processed=False)
    return room.step([group], logits)


def _drawn(
    room: RoomOnDevice, step: LibraryStep, tally: Tally, given: np.ndarray
) -> tuple[str | None, np.ndarray]:
    """What is wrong with a call with these numbers beside its tokens, and these, −1 where there is none."""
    room.notices.tell()
    call = CallOnDevice(room, step, CallOptions(numbers=given))
    call.begin()
    observed = call.finish()
    tally.calls, tally.rows = tally.calls + 1, tally.rows + len(step.index)
    tally.declined += int((observed.status != 0).sum())
    tokens = np.where(observed.status == number("ES_ROW_OK"), observed.token_ids, -1)
    return breach_of(room, observed), tokens


def _by_others(room: RoomOnDevice, given: Settings, seed: int, tally: Tally) -> str | None:
    """Numbers of other requests give the tokens that these draw."""
    random = np.random.default_rng([seed, room.size])
    n = most_rows(room, [given], 10)
    prompt, logits = random_tokens(random, room.size, 5), normal_rows(random, n, room.size)
    step, others = (_step(room, given, random.integers(0, 2**63, n), prompt, logits) for _ in range(2))
    theirs = numbers_of(room, others)
    problem, tokens = _drawn(room, step, tally, theirs)
    if room.promises(step.entries[0][1], "EXACT"):
        right = expected_of(others).token_ids
    else:
        right = _drawn(room, others, tally, theirs)[1]
    return problem or _difference(tokens, right, "the numbers of another request")


def _in_another_order(room: RoomOnDevice, given: Settings, seed: int, tally: Tally) -> str | None:
    """Equal rows draw what their numbers say."""
    random = np.random.default_rng([seed, room.size, 1])
    n = most_rows(room, [given], 12)
    prompt, row = random_tokens(random, room.size, 5), normal_rows(random, 1, room.size)
    step = _step(room, given, random.integers(0, 2**63, n), prompt, np.tile(row, (n, 1)))
    own, order = numbers_of(room, step), random.permutation(n)
    first, tokens = _drawn(room, step, tally, own)
    second, turned = _drawn(room, step, tally, own[order])
    return first or second or _difference(turned, tokens[order], "its number")


def _difference(tokens: np.ndarray, right: np.ndarray, why: str) -> str | None:
    wrong = np.flatnonzero((tokens >= 0) & (right >= 0) & (tokens != right))
    if not len(wrong):
        return None
    i = int(wrong[0])
    return f"token {tokens[i]} for entry {i} of {len(tokens)}, not {right[i]}, by {why}"


def _distribution(room: RoomOnDevice, given: Settings, tally: Tally) -> str | None:
    """Whether draws have the distribution, by Pearson's chi-square test; uniform numbers are evenly
    spread."""
    logits, n = np.linspace(0, 4, room.size, dtype=np.float32), most_rows(room, [given], _AT_ONCE)
    step = _step(room, given, np.arange(n), [1], np.tile(logits, (n, 1)))
    like, random = numbers_of(room, step), np.random.default_rng(0)
    calls = _DRAWS // _AT_ONCE
    places = random.permutation(calls * n).reshape(calls, n)
    drawn: list[int] = []
    for own in places:
        if like.dtype == np.uint64:
            numbers_ = random.integers(0, 2**64, like.shape, np.uint64)
        elif like.ndim == 1:
            numbers_ = ((own + 0.5) / places.size).astype(np.float32)
        else:
            numbers_ = -np.log(1 - random.random(like.shape)).astype(np.float32)
        problem, tokens = _drawn(room, step, tally, numbers_)
        if problem is not None or (tokens < 0).any():
            return problem or "a row gives no token"
        drawn += tokens.tolist()
    return chance_of(np.array(drawn), np.exp(logits.astype(np.float64)))
