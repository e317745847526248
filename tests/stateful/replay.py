"""A request run again, alone in its own scheduler, token by token, on another backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine_sampler import Record, Scheduler, StepResult

from .shadow import TOLERANCE, Shadow, Token, child_order
from .workload import model_row

Logprobs = Mapping[str, tuple[np.ndarray, np.ndarray, int]]


def logprobs_of(result: StepResult, row: int, modes: Sequence[str]) -> dict[str, Any]:
    """By mode (token ids, logprobs, rank) of one row, without the entries that only other rows have."""
    found = {}
    for mode in modes:
        all_rows: Any = (result.logprobs.modes or {mode: result.logprobs})[mode]
        n = int((all_rows.token_ids[row] >= 0).sum())
        found[mode] = (all_rows.token_ids[row, :n], all_rows.logprobs[row, :n], int(all_rows.ranks[row]))
    return found


def details_of(result: StepResult, row: int) -> Any:
    """What one row says of the tokens it was drawn from, and of those that its request names."""
    mask, named = result.sampling_mask, result.given_logprobs
    tables = {} if named is None else {mode: table.row(row) for mode, table in named.by_mode.items()}
    entries = [[*table.token_ids, *table.ranks, *table.logprobs] for table in tables.values()]
    listed = mask and [bool(mask.is_inverted[row]), bool(mask.is_capped[row]), *mask.listed(row).tolist()]
    return (
        listed or [False, False],
        np.nan if mask is None else mask.logprobs[row],
        sorted(entry for entry in entries if entry),
    )


def expect_same_details(found: Any, expected: Any) -> None:
    assert found[0] == expected[0], "another sampling mask"
    np.testing.assert_array_equal(found[1], expected[1])
    distinct = sorted(set(map(tuple, found[2]))), sorted(set(map(tuple, expected[2])))
    assert distinct[0] == distinct[1], "other logprobs of named tokens"


def modes_of(shadow: Shadow) -> tuple[str, ...]:
    params = shadow.order.params
    if params.logprobs is None:
        return ()
    modes: Any = params.logprobs_mode
    return (modes,) if isinstance(modes, str) else tuple(modes)


def expect_same_logprobs(found: Logprobs, expected: Logprobs) -> None:
    assert found.keys() == expected.keys()
    for mode, (ids, values, rank) in expected.items():
        own_ids, own_values, own_rank = found[mode]
        assert own_ids.tolist() == ids.tolist(), f"{mode} logprobs of other tokens"
        assert own_rank == rank, f"{mode} rank {own_rank}, alone {rank}"
        np.testing.assert_allclose(own_values, values, atol=TOLERANCE, rtol=TOLERANCE)


def outcome(record: Record) -> tuple[Any, ...]:
    return record.token_ids, record.text, record.finish_reason, record.stop_reason, record.error


class Alone:
    """One request in its own scheduler, which repeats the tokens of a shadow."""

    def __init__(self, shadow: Shadow, scheduler: Scheduler) -> None:
        self.shadow, self.done = shadow, 0
        self.scheduler = scheduler
        drawn = [token.seed for token in shadow.tokens if token.seed is not None]
        self.seed = drawn[0] if drawn else shadow.seed
        order = child_order(shadow.order)
        given_ids: list[int] = []
        if order.learns:  # from scratch if it is resumed
            given_ids = [token.id for token in shadow.tokens if token.given]
            self.done = len(given_ids)
        position = order.position if order.position is None else order.position + len(given_ids)
        self.id = self.scheduler.add(
            order.params.replace(seed=self.seed), order.prompt, output_token_ids=given_ids, position=position,
            **order.extras(),
        )  # fmt: skip

    def record(self) -> Record:
        for token in self.shadow.tokens[self.done :]:
            self._take(token)
            self.done += 1
        if self.shadow.cause and self.scheduler.request_ids:
            self._end(*self.shadow.cause)
        if self.shadow.record is not None and self.shadow.record.finish_reason == "abort":
            return self.scheduler.remove(self.id)
        return self.scheduler.record(self.id)

    def _take(self, token: Token) -> None:
        before = self.scheduler.record(self.id)
        assert before.finish_reason is None, f"alone it ends with token {self.done}: {outcome(before)}"
        if token.seed is None:
            self.scheduler.accept(self.id, [token.id])
            return
        self._draw_with(token.seed)
        row = model_row(self.shadow.history(self.done))
        result = self.scheduler.step(row[None], [self.id])
        found = result.token_ids.tolist()
        assert found == [token.id], f"token {self.done} is {token.id}, alone {found} {result.errors}"
        if token.logprobs:
            alone = logprobs_of(result, 0, modes_of(self.shadow))
            expect_same_logprobs(token.logprobs, alone)
        if token.details is not None:
            expect_same_details(token.details, details_of(result, 0))

    def _draw_with(self, seed: int) -> None:
        if seed != self.seed:
            self.id, parent = self.scheduler.fork(self.id, seed=seed), self.id
            self.scheduler.remove(parent)
            self.seed = seed

    def _end(self, how: str, what: Any = None) -> None:
        if how == "row":
            self._draw_with(self.shadow.seed)
            self.scheduler.step(what[None], [self.id])
        elif how == "accept":
            self.scheduler.accept(self.id, [what])
        elif how == "rollback":
            self.scheduler.accept(self.id, what)
            self.scheduler.rollback(self.id, len(what))
        elif how == "prepare":
            self.scheduler.prepare()
        else:
            self.scheduler.forced_tokens(self.id)


def expect_same_alone(shadow: Shadow, record: Record, empty: Scheduler) -> None:
    """The request of `record` has the same result when it runs alone, in an empty scheduler."""
    found = Alone(shadow, empty).record()
    assert outcome(record) == outcome(found), f"alone it is {outcome(found)}, here {outcome(record)}"
