"""Requests and steps to try on a library, and what they must give."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arithmetic import LogitRows
from ...backends.library.binding import HOST, Device, Layout, Library, Refusal
from ...backends.library.header import contract, named, number, size_of
from ...backends.library.segmented import new_batch
from ...backends.library.session import LibrarySession, Parts
from ...backends.library.tensor import layout_of
from ...backends.numpy import NumpyBackend
from ...contract import Batch, Chain, Group, Rows, Vocabulary, bitmask_words
from ...params import SamplingParams, build_chain
from ...registry import default_registry
from ...requests.history import History
from ...requests.slots import Slots
from ...requests.state import RequestState
from ...tokenizer import Tokenizer
from .memory import Memory
from .observing import LibraryStep, Observed, observe
from .probes import NAMES, PROBE_PARAMS, Probe, ProbeFunctions, watched

Settings = Mapping[str, Any]

CHAINS: Sequence[Settings] = (
    {},
    {"temperature": 0.0},
    {"temperature": 0.7},
    {"top_k": 3, "temperature": 1.3},
    {"top_k": 20},
    {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8},
    {"repetition_penalty": 1.2, "frequency_penalty": 0.3},
    {"mirostat": 2, "mirostat_tau": 3.0},
)
"""What is tried in every situation, as far as the library runs it."""


class _OverwrittenPrograms(LibrarySession):
    """A session whose programs are overwritten once they are compiled, since a library must copy them."""

    def compile(self, parts: Parts) -> int | None:
        is_new = parts not in self._compiled
        compiled = super().compile(parts)
        if is_new and compiled is not None:
            program = self._compiled[parts][1].pointer
            for op in contract().unpack(program.ops, program.n_ops):
                contract().memmove(
                    op.name, b"~" * len(contract().string(op.name)), len(contract().string(op.name))
                )
            contract().memmove(
                program.ops, b"~" * (program.n_ops * size_of("es_op")), program.n_ops * size_of("es_op")
            )
        return compiled


class Room:
    """The requests of one vocabulary size on a library, in a context of their own.

    probes  samplers with C functions, which programs may contain.
    """

    def __init__(self, library: Library, size: int, *, capacity: int = 64, device: Device = HOST) -> None:
        self.size = size
        self.known = {**default_registry().catalogue.params, **PROBE_PARAMS}
        self.slots = Slots(_vocabulary(size), self.known, capacity)
        self.session = _OverwrittenPrograms(library, self.slots, device=device)
        self.session.functions = ProbeFunctions(self.slots, self.session.table)
        self.probes = tuple(Probe(name, self.slots) for name in NAMES)
        self.exact = self.session.context.query().promise("EXACT")

    def promises(self, parts: Parts, *names: str, layout: Layout | None = None, masked: bool = False) -> bool:
        """Whether the library runs the program of `parts` and makes these promises for it."""
        if layout is None:
            answer = self.session.query(parts, masked=masked)
        else:
            answer = self.session.query(parts, layout, masked)
        return answer is not None and all(answer.promise(name) for name in names)

    def requests(
        self,
        settings: Settings,
        seeds: Sequence[int] | np.ndarray,
        *,
        positions: Sequence[int] | np.ndarray | None = None,
        prompts: Sequence[Sequence[int]] | None = None,
    ) -> Rows:
        """A request for every seed, at these positions, with these prompts."""
        params = SamplingParams(**settings)
        chain, index = build_chain(params), []
        for i, seed in enumerate(seeds):
            state = RequestState(chain, History(() if prompts is None else prompts[i], ()))
            state.open(params, self.slots.vocabulary)
            position = None if positions is None else int(positions[i])
            index.append(self.slots.put(state, params.given, int(seed), position))
        return Rows(self.slots, np.array(index, np.int64))

    def open(
        self, chain: Chain, drawn: Settings, tokens: RequestTokens, seed: int, position: int | None = None
    ) -> int:
        """The slot of a new request for any `chain`; `drawn` are values of its parameters, in normal form.
        Raises `ParameterError`."""
        neutral = {name: param.neutral for name, param in self.known.items()}
        unread = self.session.library.unread  # the host asks the library for no row with these
        given = {name: drawn[name] for name in drawn if name not in unread and drawn[name] != neutral[name]}
        state = RequestState(chain, History(tokens.prompt, ()))
        state.open({**neutral, **given}, self.slots.vocabulary)
        slot = self.slots.put(state, given, seed, position)
        self.slots.accept(slot, tokens.output, tokens.notes)
        return slot

    def group_of(
        self, chain: Chain, slots: Sequence[int], index: np.ndarray, *, masked: bool = False
    ) -> Group:
        """The requests in `slots` at the rows `index` of some logits; processed logits are wanted if they are
        promised."""
        rows = Rows(self.slots, np.array(slots, np.int64))
        processed = self.promises(parts_of(chain), "PROCESSED", masked=masked)
        return Group(chain, np.asarray(index, np.int64), rows, masked, processed, chain.edits_only())

    def group(self, given: Settings, rows: Rows, index: np.ndarray, *, masked: bool = False) -> Group:
        """The requests `rows` at the rows `index` of some logits; processed logits are wanted if they are
        promised."""
        chain = build_chain(SamplingParams(**given))
        return self.group_of(chain, rows.slot_numbers.tolist(), index, masked=masked)

    def step(self, groups: Sequence[Group], logits: Any, bitmask: np.ndarray | None = None) -> LibraryStep:
        """One call for these groups."""
        rows = logits if isinstance(logits, LogitRows) else LogitRows(logits, self.size)
        return LibraryStep(self.session, [(group, parts_of(group.plan)) for group in groups], rows, bitmask)

    def most_rows(self, step: LibraryStep) -> int:
        """How many rows a call may have that runs the programs of `step`; 0: any number."""
        answers = [self.session.query(parts, masked=group.masked) for group, parts in step.entries]
        return min((answer.max_rows for answer in answers if answer and answer.max_rows > 0), default=0)

    def runs(self, step: LibraryStep) -> bool:
        """Whether the library runs all programs of a step on such logits."""
        layout = layout_of(step.logits, self.size)
        return all(self.promises(parts, layout=layout, masked=group.masked) for group, parts in step.entries)


@dataclass(frozen=True)
class RequestTokens:
    """The tokens of a request, and the notes of its output."""

    prompt: Sequence[int] = ()
    output: Sequence[int] = ()
    notes: Sequence[float] = ()


@dataclass
class Tally:
    """What has been tried."""

    calls: int = 0
    rows: int = 0
    declined: int = 0

    def __str__(self) -> str:
        left = f", {self.declined:,} of them left to the host" if self.declined else ""
        return f"{self.rows:,} rows in {self.calls:,} calls{left}"


def parts_of(chain: Chain) -> Parts:
    """A chain as a program's parts."""
    return (*chain.samplers, chain.selector)


def problem_of(room: Room, step: LibraryStep, tally: Tally, memory: Memory | None = None) -> str | None:
    """Make the call; what is wrong with it, or None.

    Tokens must be those of NumPy if the library is exact; else those of each row by itself, if it promises
    that these are the same.
    """
    return observed_problem(room, step, tally, memory)[0]


def observed_problem(
    room: Room, step: LibraryStep, tally: Tally, memory: Memory | None = None
) -> tuple[str | None, Observed | None]:
    """The same, with what the call did; None for that if it had too many rows and was made row by row."""
    most = room.most_rows(step)
    if 0 < most < len(step.index):
        alone = (problem_of(room, step.alone(i), tally, memory) for i in range(len(step.index)))
        return next(filter(None, alone), None), None
    with watched(
        room.probes, dict(zip(step.slot_numbers.tolist(), step.index.tolist(), strict=True))
    ) as calls:
        observed = observe(step, memory)
    observed.breaches += calls.breaches
    return judged(room, step, tally, observed, calls.failed), observed


def judged(
    room: Room,
    step: LibraryStep,
    tally: Tally,
    observed: Observed,
    failing: Collection[int] = (),
    again: Callable[[LibraryStep], Observed] = observe,
    most: int = 1 << 20,
) -> str | None:
    """What is wrong with a call that has been `observed`; None if nothing is. `failing`: the slots in which a
    function of the host has failed; `again` makes another call, for at most `most` rows by themselves."""
    tally.calls += 1
    tally.rows += len(step.index)
    if observed.code != number("ES_OK"):
        try:
            room.session.context.check("run", observed.code)
        except Refusal:
            tally.declined += len(step.index)
            return observed.breaches[0] if observed.breaches else None
    tally.declined += int((observed.status != 0).sum())
    failed = [i for i, slot in enumerate(step.slot_numbers.tolist()) if slot in failing]
    for i in failed:
        if observed.status[i] == number("ES_ROW_OK"):
            observed.breaches.append(
                f"a token {where_of(step, i)}, in which a function of the host has failed"
            )
    if observed.breaches:
        return observed.breaches[0]
    if room.exact or all(room.promises(p, "EXACT", masked=g.masked) for g, p in step.entries):
        return _difference(step, observed, expected_of(step))
    if all(room.promises(parts, "DETERMINISTIC", "BATCH_INVARIANT") for _, parts in step.entries):
        return _difference_alone(step, observed, again, most)
    return None


_FAULTS = tuple(map(number, ("ES_ROW_BAD_LOGITS", "ES_ROW_EMPTY", "ES_ROW_BAD_VALUE")))
"""Statuses that say that a row has no token; others leave it to the host."""


def expected_of(step: LibraryStep) -> Batch:
    """What the NumPy backend gives for a step."""
    groups = [group for group, _ in step.entries]
    batch = new_batch(step.logits, groups[0], step.bitmask)
    batch.groups = groups
    NumpyBackend().run(batch)
    return batch


def _difference(step: LibraryStep, observed: Observed, expected: Batch) -> str | None:
    """The first row whose token, note or survivors are others."""
    for i, row in enumerate(step.index.tolist()):
        where, status = where_of(step, i), int(observed.status[i])
        if status in _FAULTS and expected.errors[row] is None:
            return f"status {named('es_row_status', status)} {where}, which has a token"
        if status != number("ES_ROW_OK"):
            continue
        if expected.errors[row] is not None:
            return f"a token {where}, which has none: {expected.errors[row]}"
        token, right = int(observed.token_ids[row]), int(expected.token_ids[row])
        if token != right:
            return f"token {token} {where}, not {right}"
        if not np.array_equal(observed.notes[row], expected.notes[row], equal_nan=True):
            return f"note {observed.notes[row]} {where}, not {expected.notes[row]}"
        if row in observed.survivors and row in expected.survivors:
            mine, its = observed.survivors[row], expected.survivors[row]
            if not np.array_equal(mine[0], its[0]):
                return f"{len(mine[0])} tokens are left {where}, not {len(its[0])}, or others"
            if not np.array_equal(mine[1], its[1]):
                return f"other processed logits {where}"
    return None


def _difference_alone(
    step: LibraryStep, observed: Observed, again: Callable[[LibraryStep], Observed], most: int
) -> str | None:
    n = len(step.index)
    for i in range(0, n, -(-n // most)):
        row = int(step.index[i])
        if observed.status[i] != number("ES_ROW_OK"):
            continue
        alone = again(step.alone(i))
        if alone.code == number("ES_OK") and alone.status[0] == number("ES_ROW_OK"):
            token, right = int(observed.token_ids[row]), int(alone.token_ids[0])
            if token != right:
                return f"token {token} {where_of(step, i)}, alone {right}"
    return None


def where_of(step: LibraryStep, i: int) -> str:
    """Which entry of a step number i is, in words."""
    counts = np.cumsum([len(group.index) for group, _ in step.entries])
    which = int(np.searchsorted(counts, i, side="right"))
    group = step.entries[which][0]
    slots = group.rows.slot_numbers
    member = i - (int(counts[which - 1]) if which else 0)
    slot = int(slots[member])
    position = int(group.rows.slots.positions[slot])
    return (
        f"for entry {i} of {len(step.index)} (row {int(step.index[i])}, slot {slot}, position {position}, "
        f"{step.session.vocab_size} tokens, {group.plan})"
    )


def mask_of(bits: np.ndarray) -> np.ndarray:
    """bool [rows, size] as a bitmask, int32 [rows, words]; the excess bits of the last word are set."""
    n, size = bits.shape
    padded = np.ones((n, 32 * bitmask_words(size)), bool)
    padded[:, :size] = bits
    return np.packbits(padded, axis=1, bitorder="little").view("<i4").astype(np.int32)


def normal_rows(random: np.random.Generator, n: int, size: int, scale: float = 2.0) -> np.ndarray:
    """float32 [n, size] as they come from models."""
    return random.normal(0, scale, (n, size)).astype(np.float32)


@functools.lru_cache(maxsize=4)
def _vocabulary(size: int) -> Vocabulary:
    """Tokens with common prefixes; token 0 is EOS, token 1 a newline."""
    pieces: Iterator[bytes] = (b"\n" if number == 1 else b"%x" % number for number in range(size))
    return Vocabulary(size, (0,), Tokenizer(list(pieces), eos_token_ids=[0]))
