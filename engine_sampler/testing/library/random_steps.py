"""Steps at random: programs of any operations, requests with any parameters, and rows of any kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...arithmetic import LOGIT_LIMIT, LogitRows
from ...backends.library.binding import HOST, Device, Layout, Library
from ...contract import LOGPROBS_KINDS, Chain, ParameterError, Sampler, Selector
from ..cases import KINDS
from ..trials import built_in_parts
from .bench import RequestTokens, Room, mask_of, parts_of
from .observing import LibraryStep
from .probes import FINE
from .settings import Random, random_settings

MOST_ROWS = 70
_MOST_LOGITS = 300_000
"""Logits of a step, so that no step takes long."""

_FEW_TOKENS = 4200
"""The largest vocabulary on which steps that look at the text of all tokens are tried."""


def random_size(random: Random) -> int:
    """A vocabulary size: mostly small, seldom that of a model, and sometimes of very few tokens."""
    kind = random.random()
    if kind > 0.9:
        return int(random.integers(1, 5))
    if kind < 0.1:
        return int(random.choice([9_000, 32_000, 50_257, 65_537, 131_072]))
    if kind < 0.3:
        return int(random.choice([1, 2, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1024, 2048, 4096, 4097]))
    return int(2 ** random.uniform(1, 13))


# --- programs ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Repertoire:
    """The parts that a library runs in programs of their own."""

    edits: Sequence[Sampler]
    others: Sequence[Sampler]
    selectors: Sequence[Selector]
    functions: bool

    @classmethod
    def of(cls, library: Library, device: Device = HOST) -> Repertoire:
        """What `library` says about every sampler and selector."""
        room = Room(library, 333, device=device)
        own = [part for part in built_in_parts() if room.session.query((part,)) is not None]
        samplers = [part for part in own if isinstance(part, Sampler)]
        return cls(
            [part for part in samplers if part.role == "edit"],
            [part for part in samplers if part.role != "edit"],
            [part for part in own if isinstance(part, Selector)],
            room.session.query(room.probes[:1]) is not None,
        )


def random_chain(random: Random, room: Room, known: Repertoire) -> Chain | None:
    """A chain that the library runs, in which a sampler may stand more than once; None if none was found."""
    selector = known.selectors[int(random.integers(len(known.selectors)))]
    samplers = [part for part in known.edits if random.random() < 0.25]
    others = [part for part in known.others if part.name != "infill" or room.size <= _FEW_TOKENS]
    for _ in range(int(random.choice([0, 1, 1, 2, 2, 3, 4, 6, 9])) if others else 0):
        samplers.append(others[random.integers(len(others))])
    if samplers and random.random() < 0.3:
        place = int(random.integers(len(samplers)))
        away = place if random.random() < 0.5 else int(random.integers(len(samplers) + 1))
        samplers.insert(away, samplers[place])
    if known.functions and random.random() < 0.45:
        for _ in range(int(random.choice([1, 1, 2, 3]))):
            probe = room.probes[random.integers(len(room.probes))]
            samplers.insert(int(random.integers(len(samplers) + 1)), probe)
    while True:
        chain = Chain(tuple(samplers), selector)
        if room.promises(parts_of(chain)):
            return chain
        if not samplers:
            return None
        del samplers[random.integers(len(samplers))]


# --- requests ------------------------------------------------------------------------------------


def random_request(random: Random, room: Room, chain: Chain) -> int:
    """The slot of a new request for `chain`."""
    while True:
        drawn = random_settings(random, parts_of(chain), room.known, room.size)
        for name in [name for name in drawn if name.endswith("_outcome") and random.random() < 0.9]:
            drawn[name] = FINE
        seed = int(random.integers(0, 2**64, dtype=np.uint64))
        position = None if random.random() < 0.5 else int(2 ** random.uniform(0, 50))
        try:
            return room.open(chain, drawn, _tokens(random, room.size), seed, position)
        except ParameterError:  # ids outside a small vocabulary
            continue


def _tokens(random: Random, size: int) -> RequestTokens:
    most = int(random.choice([3, 40, 40, 200, 3000], p=[0.2, 0.3, 0.25, 0.17, 0.08]))
    prompt, output = (random_tokens(random, size, int(random.integers(0, most))) for _ in range(2))
    return RequestTokens(prompt, output, random_notes(random, len(output)))


def random_tokens(random: Random, size: int, n: int) -> list[int]:
    """n tokens, mostly a few that come back, in some cases in the same order."""
    if random.random() < 0.25:
        period = random.integers(0, size, int(random.integers(1, 40)))
        again: list[int] = np.resize(period, n).tolist()
        return again
    few = random.integers(0, min(size, int(random.choice([2, 4, 12]))), n)
    tokens: list[int] = np.where(random.random(n) < 0.9, few, random.integers(0, size, n)).tolist()
    return tokens


def random_notes(random: Random, n: int) -> list[float]:
    """n notes, NaN for tokens that were chosen elsewhere."""
    notes: list[float] = np.where(random.random(n) < 0.9, random.uniform(0, 12, n), np.nan).tolist()
    return notes


# --- logits --------------------------------------------------------------------------------------


def _tiny(random: Random, size: int) -> np.ndarray:
    """Denormals of every type, and zeros of both signs."""
    unit = float(random.choice([2.0**-149, 2.0**-133, 2.0**-24]))
    return random.choice([-3, -1, -0.0, 0.0, 1, 2], size) * unit


def _few_values(random: Random, size: int) -> np.ndarray:
    return np.round(random.normal(0, 2, size) * 2) / 2


def _thousands_tied(random: Random, size: int) -> np.ndarray:
    row = np.full(size, float(random.choice([0.0, -3.5, 11.0])))
    row[random.random(size) < random.choice([0.0, 0.02, 0.4])] -= random.choice([0.5, 9.0])
    return row


def _far_below(random: Random, size: int) -> np.ndarray:
    row = random.uniform(-21.6, -18, size)
    row[random.integers(size)] = 0
    return row


def _neighbours(random: Random, size: int) -> np.ndarray:
    """Logits that are a few units in the last place apart."""
    return float(random.choice([1.0, -7.3, 1000.0])) * (1 + random.integers(0, 5, size) * 2.0**-23)


_KINDS: Mapping[str, Callable[[Random, int], np.ndarray]] = {
    **{name: kind for name, kind in KINDS.items() if name != "extreme"},
    "tiny": _tiny,
    "few values": _few_values,
    "thousands tied": _thousands_tied,
    "far below": _far_below,
    "neighbours": _neighbours,
    "offset": lambda random, size: random.normal(0, 1, size) + float(random.choice([2.0**17, -300.0])),
}


def random_row(random: Random, size: int) -> np.ndarray:
    """A row of any kind that is not faulty, float64 [size]."""
    kinds = list(_KINDS)
    return _KINDS[kinds[random.integers(len(kinds))]](random, size)


_FAULTS = (np.nan, np.inf, 2 * float(LOGIT_LIMIT), -np.inf)


def random_logits(random: Random, room: Room, rows: np.ndarray, *, faults: bool, strides: bool) -> LogitRows:
    """Logits in which the rows `rows` hold something, the others NaN; of any type that the library may take,
    any width, and, if `strides`, any distance of rows."""
    height = int(rows.max()) + 1
    wide = room.size + int(random.choice([0, 0, 1, 7])) * (room.size > 1 or strides)
    logits = np.full((height, wide), np.nan, np.float32)
    for row in rows.tolist():
        logits[row, : room.size] = random_row(random, room.size)
        if faults and random.random() < 0.04:
            fault = _FAULTS[random.integers(len(_FAULTS))]
            logits[row, slice(None) if fault == -np.inf else random.integers(room.size)] = fault
    return _typed(random, _apart(random, logits) if strides else logits, room.size)


def _apart(random: Random, logits: np.ndarray) -> np.ndarray:
    """The same rows at another distance from each other."""
    kind = random.random()
    if kind < 0.15:
        return np.ascontiguousarray(logits[::-1])[::-1]
    if kind < 0.3:
        twice = np.full((2 * len(logits), logits.shape[1]), np.nan, np.float32)
        twice[::2] = logits
        return twice[::2]
    return logits


def _typed(random: Random, logits: np.ndarray, size: int) -> LogitRows:
    kind = random.random()
    if kind < 0.2:
        with np.errstate(over="ignore"):
            return LogitRows(np.where(np.abs(logits) > 6e4, -np.inf, logits).astype(np.float16), size)
    if kind < 0.4:
        return LogitRows.from_bfloat16_bits((logits.view(np.uint32) >> 16).astype(np.uint16), size)
    return LogitRows(logits, size)


# --- steps ---------------------------------------------------------------------------------------


def random_step(random: Random, room: Room, requests: Sequence[tuple[Chain, int]]) -> LibraryStep | None:
    """One step of requests, each given by its chain and slot; None if the library does not run it so."""
    chains = list(dict.fromkeys(chain for chain, _ in requests))
    n = len(requests)
    rows = random.permutation(n + int(random.integers(0, n + 1)))[:n]
    every = [parts_of(chain) for chain in chains]
    faults = all(room.promises(parts, "ROW_FAULTS") for parts in every)
    strides = all(room.promises(parts, "ANY_STRIDE") for parts in every)
    logits = random_logits(random, room, rows, faults=faults, strides=strides)
    masked = [random.random() < 0.25 and room.promises(parts, "MASKS", masked=True) for parts in every]
    groups = []
    for chain, has_mask in zip(chains, masked, strict=True):
        mine = [i for i, (its, _) in enumerate(requests) if its is chain]
        group = room.group_of(chain, [requests[i][1] for i in mine], rows[mine], masked=has_mask)
        if random.random() < 0.5:
            group = replace(group, want_processed=False)
        groups.append(group)
    bits = random.random((len(logits), room.size)) < random.choice([0.005, 0.02, 0.5, 0.98])
    bits[np.arange(len(logits)), random.integers(0, room.size, len(logits))] = True
    step = room.step(groups, logits, mask_of(bits) if any(masked) else None)
    if not room.runs(step):
        step = replace(
            step, logits=LogitRows(np.stack([_plain(logits, i) for i in range(len(logits))]), room.size)
        )
    if not room.runs(step):
        return None
    return replace(_reporting(random, room, step), newer=random.random() < 0.4)


def _plain(logits: LogitRows, i: int) -> np.ndarray:
    return np.array(logits.row(i))


def _reporting(random: Random, room: Room, step: LibraryStep) -> LibraryStep:
    """The same, in some cases with logprobs, where they are promised."""
    if random.random() > 0.25 or not all(
        room.promises(parts, "LOGPROBS", "PROCESSED", masked=group.masked)
        and room.session.edits_program(group, parts, Layout(2, 32, True)) is not None
        for group, parts in step.entries
    ):
        return step
    n = len(step.logits)
    kinds = random.integers(0, 1 << len(LOGPROBS_KINDS), n).astype(np.uint8)
    top_n = random.choice([-1, 0, 1, 3, min(20, room.size)], n)
    if room.size > _FEW_TOKENS:
        top_n = np.maximum(top_n, 0)
    entries = [(replace(group, want_processed=True), parts) for group, parts in step.entries]
    return replace(step, entries=entries, logprobs=(kinds, top_n))


def rows_for(random: Random, room: Room) -> int:
    """How many rows a step has."""
    most = max(1, min(MOST_ROWS, _MOST_LOGITS // room.size))
    return (
        int(random.integers(1, most + 1))
        if random.random() < 0.3
        else int(random.integers(1, min(most, 12) + 1))
    )
