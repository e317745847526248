"""The situations in which libraries go wrong: each a series of steps to try.

A situation yields (what it is, room, step) for every call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ...arithmetic import (
    FLT_MAX,
    LOGIT_LIMIT,
    SELECTOR_STREAM,
    LogitRows,
    distances,
    draw64,
    scale_draw,
    weights,
)
from ...backends.library.binding import Library
from ...params import SamplingParams, build_chain
from ..trials import built_in_parts
from .bench import CHAINS, Room, Settings, mask_of, normal_rows, parts_of
from .observing import LibraryStep

Tried = Iterator[tuple[str, Room, LibraryStep]]
Situation = Callable[[Library], Tried]

_GAP = np.float32(np.nan)
"""What stands in rows that are not in the batch: nobody may read it."""


def supported(room: Room, chains: Sequence[Settings] = CHAINS, *, masked: bool = False) -> list[Settings]:
    """Those settings whose chains the library runs."""
    return [
        given
        for given in chains
        if room.promises(parts_of(build_chain(SamplingParams(**given))), masked=masked)
    ]


def spread(
    room: Room,
    chains: Sequence[Settings],
    random: np.random.Generator,
    logits: np.ndarray,
    rows: np.ndarray,
    masked: Sequence[bool] = (False,),
) -> tuple[np.ndarray, list[tuple[Settings, np.ndarray, bool]]]:
    """Logits in which logits[i] is row rows[i], the others being NaN, and which rows each chain gets."""
    wide = np.full((int(rows.max()) + 1, logits.shape[1]), _GAP)
    wide[rows] = logits
    parts = [(given, one) for given in chains for one in masked]
    shares = np.array_split(random.permutation(rows), len(parts))
    return wide, [
        (given, share, one) for (given, one), share in zip(parts, shares, strict=True) if len(share)
    ]


def rows(library: Library) -> Tried:
    """Rows in any order and with gaps between them, slots in another order, several programs in one batch."""
    for size, n in ((1, 3), (40, 24), (333, 40)):
        random, room = np.random.default_rng([size, n]), Room(library, size)
        chains = supported(room)
        for what, numbers in (
            ("rows in another order", random.permutation(n)),
            ("rows with gaps", random.permutation(3 * n)[:n]),
            ("the last rows first", np.arange(2 * n)[::-2]),
        ):
            wide, shares = spread(room, chains, random, normal_rows(random, n, size), numbers)
            groups = []
            for given, share, _ in shares:
                requests = room.requests(given, random.integers(0, 2**63, len(share)))
                groups.append(room.group(given, requests.take(random.permutation(len(share))), share))
            yield what, room, room.step(groups, wide)


_POSITIONS = (0, 1, 255, 4095, 4096, 4097, 5000, 2**15, 2**16 - 1, 2**16, 70_000, 2**31 - 1, 2**31)
_LATE_POSITIONS = (2**32 - 1, 2**32, 2**32 + 7, 3 * 2**32 + 5, 2**40 + 1, 2**53 + 1, 2**62 + 3)
_SEEDS = (0, 1, 2**31, 2**32 - 1, 2**32, 2**32 + 5, 2**48 + 7, 2**63 - 1, 2**63, 2**64 - 1)


def positions(library: Library) -> Tried:
    """Positions and seeds of any size, each of the 64 bits at a time."""
    room, random = Room(library, 997), np.random.default_rng(0)
    for settings in supported(room):
        for what, places, seeds in (
            ("positions below 2^32", _POSITIONS, (5,) * len(_POSITIONS)),
            ("positions around and beyond 2^32", _LATE_POSITIONS, (5,) * len(_LATE_POSITIONS)),
            ("seeds of any size", (70_001,) * len(_SEEDS), _SEEDS),
            ("positions, bit by bit", [1 << bit for bit in range(63)], (2**40 + 9,) * 63),
            ("seeds, bit by bit", (3,) * 64, [1 << bit for bit in range(64)]),
        ):
            requests = room.requests(settings, seeds, positions=places)
            logits = normal_rows(random, len(places), room.size, 0.5)
            yield what, room, room.step([room.group(settings, requests, np.arange(len(places)))], logits)


def masks(library: Library) -> Tried:
    """Rows with masks of any density among rows without, whose words in the bitmask mean nothing."""
    for size in (7, 40, 333, 2117, 20_011):
        random, room = np.random.default_rng(size), Room(library, size)
        chains = [g for g in supported(room) if g in supported(room, masked=True)]
        if not chains or not all(
            room.promises(parts_of(build_chain(SamplingParams(**g))), "MASKS", masked=True) for g in chains
        ):
            continue
        left = [1, 2, 3, 5, 7, 8, 9, 16, 31, size // 90 + 1, size // 2, size - 1, size]
        counts = [min(count, size) for count in left] * 2
        numbers = random.permutation(2 * len(counts))[: len(counts)]
        logits = normal_rows(random, len(counts), size)
        wide, shares = spread(room, chains, random, logits, numbers, (True, False))
        bits = np.zeros((len(wide), size), bool)
        for row, count in zip(numbers.tolist(), counts, strict=True):
            bits[row, random.permutation(size)[:count]] = True
        groups = []
        for given, share, masked in shares:
            requests = room.requests(given, random.integers(0, 2**63, len(share)))
            groups.append(room.group(given, requests, share, masked=masked))
        words = mask_of(bits)
        yield "masked and unmasked rows", room, room.step(groups, wide, words)
        padded = np.concatenate([words, np.full((len(words), 3), -1, np.int32)], axis=1)
        yield "masks with words to spare", room, room.step(groups, wide, padded)


def limits(library: Library) -> Tried:
    """Logits at the limits: ±2^100 and their neighbours, the greatest floats, denormals, both zeros."""
    limit = np.float32(LOGIT_LIMIT)
    above, below = np.nextafter(limit, np.float32(np.inf)), np.nextafter(limit, np.float32(0))
    least = np.float32(-FLT_MAX)
    tiny = np.float32(1e-45)
    rows_of = {
        "the greatest logit that is allowed": [limit, below, 0, 1],
        "a logit above 2^100": [above, 0, 0, 1],
        "only logits below −2^100": [-above, least, -above, least],
        "−2^100 and what is below it": [-limit, -above, -limit, least],
        "one logit that is not below −2^100": [least, -limit, -above, least],
        "the limits and 0": [0, -limit, -above, 1],
        "denormals": [tiny, -tiny, 2 * tiny, 0],
        "both zeros": [-0.0, 0.0, -0.0, 0.0],
        "only −inf": [-np.inf] * 4,
        "NaN": [0, np.nan, 1, 2],
        "+inf": [0, np.inf, 1, 2],
    }
    room = Room(library, 4)
    for settings in supported(room):
        parts = parts_of(build_chain(SamplingParams(**settings)))
        for what, row in rows_of.items():
            faulty = not np.isfinite(row).any() or not np.max(row) <= limit
            if faulty and not room.promises(parts, "ROW_FAULTS"):
                continue
            requests = room.requests(settings, range(6))
            logits = np.tile(np.array(row, np.float32), (6, 1))
            yield what, room, room.step([room.group(settings, requests, np.arange(6))], logits)


_TEMPERATURES = (*(round(0.05 + 0.13 * i, 2) for i in range(20)), 1e-5, 1e-4, 3.0, 1e6)


def temperatures(library: Library) -> Tried:
    """Temperatures whose inverse rounds differently in float32, on great logits, where one unit in the last
    place counts; and the least and the greatest ones."""
    room, random = Room(library, 701), np.random.default_rng(3)
    for temperature in _TEMPERATURES:
        for settings in supported(room, [{"temperature": temperature}]):
            requests = room.requests(settings, range(12))
            logits = normal_rows(random, 12, room.size, 1.0) + np.float32(2**17)
            yield (
                f"temperature {temperature}",
                room,
                room.step([room.group(settings, requests, np.arange(12))], logits),
            )


_DEPTHS = (12.0, 16.4, 20.3, 24.0, 27.7, 29.4, 30.2, 30.5, 30.9)


def weights_at_boundaries(library: Library) -> Tried:
    """Draws that end in a long tail of tokens a given number of bits below the peak, near the boundaries
    between tokens: a weight that is off by one unit changes the token."""
    size = 40_009
    room = Room(library, size)
    for settings in supported(room, [{}]):
        for depth in _DEPTHS:
            tail = -depth * np.log(2) + np.random.default_rng(int(10 * depth)).uniform(-0.03, 0.03, size)
            row = tail.astype(np.float32)
            row[size // 3] = 0.0
            chosen = _seeds_into_tail(row, size // 3, 8)
            requests = room.requests(settings, chosen, positions=[7] * len(chosen))
            logits = np.tile(row, (len(chosen), 1))
            what = f"a tail {depth} bits below the peak"
            yield what, room, room.step([room.group(settings, requests, np.arange(len(chosen)))], logits)


def _seeds_into_tail(row: np.ndarray, peak: int, n: int) -> np.ndarray:
    """n seeds whose draw at position 7 is not the peak, but just after the boundary before its token."""
    w = weights(distances(row[None]))[0].astype(np.int64)
    ends = np.cumsum(w)
    seeds, drawn = _draws_at_7()
    targets = scale_draw(drawn, np.full(len(seeds), ends[-1]))
    tokens = np.searchsorted(ends, targets, side="right")
    tails = np.flatnonzero((tokens != peak) & (w[tokens] > 0))
    nearness = targets[tails] - (ends[tokens[tails]] - w[tokens[tails]])
    return seeds[tails[np.argsort(nearness, kind="stable")[:n]]]


@functools.cache
def _draws_at_7() -> tuple[np.ndarray, np.ndarray]:
    """Seeds, and the bits that each draws at position 7."""
    seeds = np.arange(400_000, dtype=np.uint64)
    return seeds, draw64(seeds, np.full(len(seeds), 7), SELECTOR_STREAM)


SIZES = (1, 2, 3, 31, 33, 255, 257, 2101, 4097, 50_257, 131_072, 151_937, 262_147)


def sizes(library: Library) -> Tried:
    """Vocabularies up to those of models, and of odd sizes; the likeliest tokens at the very end."""
    for size in SIZES:
        room, random = Room(library, size), np.random.default_rng(size)
        few = 3 if size > 10_000 else 6
        chains = supported(room)
        for settings in [*chains[:4], *supported(room, [{"top_k": 70_001}])] if size > 100_000 else chains:
            logits = normal_rows(random, few, size)
            logits[:2, -1] = logits[:2].max(axis=1) + 9
            logits[few - 1] = 0.25
            requests = room.requests(settings, random.integers(0, 2**63, few))
            padding = 70_000 if size == 33 else 5
            wide = np.concatenate([logits, np.full((few, padding), _GAP)], axis=1)
            group = room.group(settings, requests, np.arange(few))
            for what, given_logits in (("rows of a vocabulary", logits), ("padded rows", wide)):
                step = room.step([group], LogitRows(given_logits, size))
                if room.runs(step):
                    yield what, room, step


def batches(library: Library) -> Tried:
    """Many rows at once, and requests in high slots."""
    room, random = Room(library, 67), np.random.default_rng(1)
    chains = supported(room)
    held = [room.requests(settings, random.integers(0, 2**63, 60)) for settings in chains]  # low slots
    del held
    for n in (2, 63, 65, 129, 257, 400, 1040):
        wide, shares = spread(room, chains, random, normal_rows(random, n, room.size), np.arange(n))
        groups = []
        for settings, share, _ in shares:
            groups.append(
                room.group(settings, room.requests(settings, random.integers(0, 2**63, len(share))), share)
            )
        yield f"{n} rows", room, room.step(groups, wide)


def histories(library: Library) -> Tried:
    """Requests with long histories, which a program may read but not write."""
    room, random = Room(library, 307), np.random.default_rng(2)
    counting = supported(
        room, [{"presence_penalty": 0.5, "frequency_penalty": 1e-4}, {"dry_multiplier": 0.8}]
    )
    for settings in [*supported(room), *counting]:
        prompts = [_long_prompt(random, room.size, n) for n in (40, 0, 1, 4096, 4200, 9000, 33_000, 140_000)]
        requests = room.requests(settings, range(len(prompts)), prompts=prompts)
        logits = normal_rows(random, len(prompts), room.size)
        yield (
            "long histories",
            room,
            room.step([room.group(settings, requests, np.arange(len(prompts)))], logits),
        )


def _long_prompt(random: np.random.Generator, size: int, n: int) -> list[int]:
    """n tokens: the first 4,096 of the lower half of the vocabulary, the next of the upper one, those from
    32,768 on a few of the lower half again."""
    parts = (0, size // 2, 4096), (size // 2, size, 32_768 - 4096), (0, 9, n)
    tokens = [random.integers(low, high, count) for low, high, count in parts]
    drawn: list[int] = np.concatenate(tokens)[:n].tolist()
    return drawn


def ties(library: Library) -> Tried:
    """Tens of thousands of equal logits, for every sampler and selector by itself: sums of their weights, and
    of the squares of these, need more bits than those of a few."""
    room, random = Room(library, 50_257), np.random.default_rng(4)
    tied = np.zeros((3, room.size), np.float32)
    tied[1, random.permutation(room.size)[: room.size // 5]] = -1.5
    tied[2, room.size // 2] = 4.0
    for part in built_in_parts():
        if part.name == "infill":  # which looks at the text of all tokens
            continue
        given = dict(part.examples[0].params)
        for settings in supported(room, [given]):
            requests = room.requests(settings, range(len(tied)), prompts=[[0, 1, 0, 1]] * len(tied))
            yield (
                "equal logits",
                room,
                room.step([room.group(settings, requests, np.arange(len(tied)))], tied),
            )


SITUATIONS: dict[str, Situation] = {
    "rows": rows,
    "positions and seeds": positions,
    "masks among others": masks,
    "limits": limits,
    "temperatures": temperatures,
    "boundaries": weights_at_boundaries,
    "sizes": sizes,
    "ties": ties,
    "batches": batches,
    "histories": histories,
}
"""By the name under which `engine-sampler check` reports them."""
