"""Programs and rows for testing a library, and their outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..arithmetic import LogitRows, Logprobs
from ..backends.library.binding import Library
from ..backends.library.call_rows import Entry
from ..backends.library.calls import Call
from ..backends.library.programs import Part, kind_of
from ..backends.library.segmented import new_batch
from ..backends.library.session import LibrarySession, Parts
from ..backends.library.tensor import layout_of
from ..backends.numpy import NumpyBackend
from ..contract import LOGPROBS_KINDS, Batch, Chain, Group, LogprobsRequest, ParameterError, Rows
from ..params import SamplingParams, build_chain
from ..registry import default_registry
from ..requests.history import History
from ..requests.slots import Slots
from ..requests.state import RequestState
from .cases import Case, make_case
from .chains import vocabulary_of

VOCAB_SIZES = (1, 40, 2100)
CHAINS = 30
"""How many random chains of several samplers are tried."""

_FAULTY = ("extreme",)
"""Kinds of rows that give no token."""


@dataclass(frozen=True)
class LibraryTrial:
    """A chain, and rows of all kinds for it."""

    session: LibrarySession
    slots: Slots
    chain: Chain
    rows: Rows
    logits: np.ndarray

    @property
    def parts(self) -> Parts:
        return (*self.chain.samplers, self.chain.selector)

    def group(self, which: np.ndarray, *, masked: bool = False, processed: bool = False) -> Group:
        """The rows `which`, as rows 0, 1, … of some logits."""
        index, edits = np.arange(len(which)), self.chain.edits_only()
        return Group(self.chain, index, self.rows.take(which), masked, processed, edits)

    @cached_property
    def expected(self) -> Outcome:
        """The NumPy backend's outcome for all rows, with what is left of them."""
        return on_host(self, self.logits, self.group(np.arange(len(self.rows)), processed=True))

    def edits_group(self, which: np.ndarray) -> Group:
        """The same with the chain's masks, biases and penalties alone."""
        group = self.group(which, processed=True)
        return replace(group, plan=group.edits)


@dataclass(frozen=True)
class Outcome:
    """The results of rows: token ids and notes [n], survivors by row, and which were declined, bool [n]."""

    token_ids: np.ndarray
    notes: np.ndarray
    survivors: Mapping[int, tuple[np.ndarray, np.ndarray]]
    declined: np.ndarray

    @classmethod
    def joined(cls, outcomes: Sequence[Outcome]) -> Outcome:
        """The rows of several, one after another, without survivors."""
        return cls(
            np.concatenate([outcome.token_ids for outcome in outcomes]),
            np.concatenate([outcome.notes for outcome in outcomes]),
            {},
            np.concatenate([outcome.declined for outcome in outcomes]),
        )

    def reversed(self) -> Outcome:
        """The rows from last to first, without survivors."""
        return Outcome(self.token_ids[::-1], self.notes[::-1], {}, self.declined[::-1])

    def differs(self, other: Outcome, which: np.ndarray) -> bool:
        """Whether tokens, notes or survivors of the rows `which` are not equal."""
        return not (
            np.array_equal(self.token_ids[which], other.token_ids[which])
            and np.array_equal(self.notes[which], other.notes[which], equal_nan=True)
            and all(
                np.array_equal(mine, its)
                for row in which.tolist()
                if row in self.survivors and row in other.survivors
                for mine, its in zip(self.survivors[row], other.survivors[row], strict=True)
            )
        )


class DeclinedRows:
    """Collects the rows that a library declines; they are not run elsewhere."""

    lost = False

    def __init__(self) -> None:
        self.declined: list[int] = []

    def run(self, batch: Batch, groups: Sequence[Group], why: str | None) -> None:
        """Collect the rows."""
        self.declined += [row for group in groups for row in group.index.tolist()]

    def refuse(self, session: LibrarySession, parts: Parts) -> None:
        """Nothing to do: the rows of the program are declined."""

    def lose(self, reason: str) -> None:
        """Do not call the library again."""
        self.lost = True


def on_library(trial: LibraryTrial, logits: Any, group: Group, bitmask: np.ndarray | None = None) -> Outcome:
    """The library's outcome for the rows of `logits`."""
    rows, left = LogitRows(logits, trial.session.vocab_size), DeclinedRows()
    batch = new_batch(rows, group, bitmask)
    number = trial.session.compile(trial.parts)
    if number is None:
        return _outcome(batch, group.index.tolist())
    layout = layout_of(rows, trial.session.vocab_size)
    Call(trial.session, left, left, [Entry(group, trial.parts, number)], layout).run(batch)
    return _outcome(batch, left.declined)


def logprobs_on_library(trial: LibraryTrial, group: Group) -> tuple[LogprobsRequest, Outcome]:
    """What the library reports for the rows: logprobs of every kind, of all tokens."""
    n, size = trial.logits.shape
    rows, left = LogitRows(trial.logits, size), DeclinedRows()
    starts = np.cumsum([0, *(1 + size + np.arange(n) % 3)])  # rows need not have the same room
    raw, penalized, processed = (Logprobs.with_room(starts) for _ in LOGPROBS_KINDS)
    kinds = np.full(n, (1 << len(LOGPROBS_KINDS)) - 1, np.uint8)
    batch = new_batch(rows, group)
    batch.logprobs = LogprobsRequest(kinds, np.full(n, -1), (raw, penalized, processed), np.zeros(n, bool))
    layout = layout_of(rows, size)
    number = trial.session.compile(trial.parts)
    edits = trial.session.edits_program(group, trial.parts, layout)
    if number is not None and edits is not None:
        entry = Entry(group, trial.parts, number, edits)
        Call(trial.session, left, left, [entry], layout, reports=True).run(batch)
    return batch.logprobs, _outcome(batch, left.declined)


def on_host(trial: LibraryTrial, logits: Any, group: Group, bitmask: np.ndarray | None = None) -> Outcome:
    """The NumPy backend's outcome for them."""
    batch = new_batch(LogitRows(logits, trial.session.vocab_size), group, bitmask)
    NumpyBackend().run(batch)
    return _outcome(batch, [row for row, error in enumerate(batch.errors) if error is not None])


def _outcome(batch: Batch, declined: Sequence[int]) -> Outcome:
    mask = np.zeros(len(batch.token_ids), bool)
    mask[list(declined)] = True
    return Outcome(batch.token_ids, batch.notes, batch.survivors, mask)


# --- what is tried -------------------------------------------------------------------------------


def trials(library: Library) -> Iterator[LibraryTrial]:
    """Every program below that the library supports, on vocabularies of several sizes."""
    for size in VOCAB_SIZES:
        vocabulary = vocabulary_of(size)
        slots = Slots(vocabulary, default_registry().catalogue.params)
        session = LibrarySession(library, slots)
        for number, params in enumerate(_settings()):
            chain = build_chain(params)
            if session.query((*chain.samplers, chain.selector)) is not None:
                case = make_case([params.given], size, np.random.default_rng([size, number]))
                case = case.take([i for i, kind in enumerate(case.kinds) if kind not in _FAULTY])
                try:
                    rows = _live(slots, chain, params, case)
                except ParameterError:  # ids outside a small vocabulary
                    continue
                yield LibraryTrial(session, slots, chain, rows, case.logits)


def draws(library: Library, n: int) -> tuple[np.ndarray, np.ndarray] | None:
    """n draws from a row by `dist` alone, with seeds 0 to n − 1: its probabilities [vocab], float64, and
    the token ids. None if the library does not draw."""
    params = SamplingParams()
    chain, logits = build_chain(params), np.linspace(0, 4, 20, dtype=np.float32)
    slots = Slots(vocabulary_of(len(logits)), default_registry().catalogue.params)
    session = LibrarySession(library, slots)
    if session.query((*chain.samplers, chain.selector)) is None:
        return None
    case = Case(np.tile(logits, (n, 1)), ("",) * n, ({},) * n, ((),) * n, ((),) * n, tuple(range(n)))
    trial = LibraryTrial(session, slots, chain, _live(slots, chain, params, case), case.logits)
    weights = np.exp(logits.astype(np.float64))
    return weights / weights.sum(), on_library(trial, case.logits, trial.group(np.arange(n))).token_ids


def built_in_parts() -> list[Part]:
    """Every sampler and selector for which the contract has an op."""
    catalogue = default_registry().catalogue
    parts: list[Part] = [*catalogue.samplers.values(), *catalogue.selectors.values()]
    return [part for part in parts if (kind_of(part) or 0) > 0]


def _settings() -> Iterator[SamplingParams]:
    """The examples of every sampler and selector alone, then several together."""
    examples = [dict(e.params) for part in built_in_parts() for e in part.examples]
    yield from (SamplingParams(**params) for params in examples)
    random = np.random.default_rng(0)
    for _ in range(CHAINS):
        together: dict[str, Any] = {}
        for i in random.permutation(len(examples))[: random.integers(2, 7)]:
            together |= examples[i]
        try:
            yield SamplingParams(**together)
        except ParameterError:  # two selectors
            continue


def _live(slots: Slots, chain: Chain, params: SamplingParams, case: Case) -> Rows:
    """A request for every row of `case`, with a token that it drew itself."""
    index = []
    for i in range(len(case)):
        state = RequestState(chain, History(case.prompts[i], case.outputs[i]))
        state.open(params, slots.vocabulary)
        number = slots.put(state, params.given, case.seeds[i])
        slots.accept(number, [0], [2.5])
        index.append(number)
    return Rows(slots, np.array(index, np.int64))
