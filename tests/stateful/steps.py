"""One step under random operations: its requests, their drafts and rows, and the expected result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from engine_sampler import StepResult
from engine_sampler.stateless import process_logits

from ..engines import repeated_once
from .layouts import Untouched
from .plugins import LISTENER, Interferer
from .replay import details_of, logprobs_of, modes_of
from .shadow import TOLERANCE, Shadow, Token
from .state import LIMITS, State
from .workload import VOCAB, Random, faulty_row

MOST_DRAFTS = 5

Tree = tuple[list[int], list[int]]
"""Tokens, and for each the number of the one that it follows: -1 for none."""


class Steps(State):
    """The steps of a scheduler."""

    def step(self) -> None:
        ids = self._members()
        if self.chance(0.3):
            ids = self._prepared(ids)
        named = None if ids == self.scheduler.request_ids and self.chance(0.5) else ids
        drafts = self._drafts(ids) if self.chance(0.35) and not any(i in self.searches for i in ids) else None
        rows = self._rows(ids, drafts)
        guarded = Untouched(np.concatenate(rows) if rows else np.empty((0, VOCAB), np.float32), self.random)
        if drafts is None and self.chance(0.1):
            self._process(guarded, ids, rows)
        chains, trees = self._as_given(ids, drafts)
        self.log(f"step {ids} with drafts {drafts}")
        Interferer.interfere = self._interfere
        result = repeated_once(lambda: self.scheduler.step(guarded.logits, named, chains, draft_trees=trees))
        Interferer.interfere = None
        guarded.expect_untouched()
        assert result.request_ids == ids
        self._settle(result, rows, drafts or [([], [])] * len(ids))

    def _settle(self, result: StepResult, rows: list[np.ndarray], drafts: Sequence[Tree]) -> None:
        """Check the result of a step for all requests, and update the shadows."""
        ids = result.request_ids
        self._settle_searches(result)
        for i, request_id in enumerate(ids):
            if request_id in self.shadows:
                self._follow(self.shadows[request_id], result, i, rows[i], drafts[i])
        for request_id, tokens in self.given_meanwhile.items():
            if request_id in self.shadows:
                self.note_accepted(self.shadows[request_id], tokens)
        self.given_meanwhile = {}

    def _settle_searches(self, result: StepResult) -> None:
        ids = result.request_ids
        for search in {id(s): s for i in ids if (s := self.searches.get(i)) is not None}.values():
            if search.removed is None and search.follow(self.scheduler, result):
                self.search_ended(search)
        for search in self.removed_meanwhile:  # before or after the search took its step
            indices = [ids.index(i) for i in search.ids if i in ids]
            search.steps += any(result.token_ids[p] >= 0 or result.finish_reasons[p] for p in indices)
            self.break_off(search, search.removed)
        self.removed_meanwhile = []

    def _prepared(self, ids: list[Any]) -> list[Any]:
        """Fill the masks, then perhaps outdate one; returns those of `ids` that are still live."""
        self.prepare(None if ids == self.scheduler.request_ids else ids)
        masked = [s for i in ids if (s := self.shadows.get(i)) and s.order.is_masked and not s.cause]
        if masked and self.chance(0.5):
            change = self.rollback if self.chance(0.7) else self.accept
            change(masked[self.random.integers(len(masked))])
        return [i for i in ids if i in self.scheduler.request_ids]

    def prepare(self, ids: Sequence[Any] | None = None) -> None:
        self.log(f"prepare {ids}")
        repeated_once(lambda: self.scheduler.prepare(ids))
        for shadow in self.shadows.values():
            if not shadow.cause and self.scheduler.record(shadow.id).finish_reason == "error":
                shadow.cause = ("prepare",)

    def _interfere(self) -> None:
        """The work of another thread while a step runs; it takes effect after the step."""
        what = self.random.choice(["add", "accept", "remove", "remove search"])
        shadow, searches = self.any_shadow(), list(self.searches)
        if what == "add":
            order = self.random_order()
            self.log(f"meanwhile add {order}")
            request_id = self.scheduler.add(order.params, order.prompt, **order.extras())
            self.enter(request_id, replace(order, position=None), self.scheduler.record(request_id).seed)
        elif what == "remove search" and searches:
            self._remove_meanwhile(searches[self.random.integers(len(searches))])
        elif what == "remove" and shadow is not None:
            self.log(f"meanwhile remove {shadow.id}")
            del self.shadows[shadow.id]
            record = self.scheduler.remove(shadow.id)
            assert record.token_ids[: len(shadow.tokens)] == shadow.ids
        elif shadow is not None and self.scheduler.record(shadow.id).finish_reason is None:
            tokens = self.random.integers(2, 12, 2).tolist()
            self.log(f"meanwhile {shadow.id} accepts {tokens}")
            self.scheduler.accept(shadow.id, tokens)
            self.given_meanwhile[shadow.id] = tokens

    def _remove_meanwhile(self, request_id: Any) -> None:
        self.log(f"meanwhile remove {request_id} of a search")
        self.scheduler.remove(request_id)
        search = self.searches[request_id]
        search.removed = request_id
        self.removed_meanwhile.append(search)

    # --- before ----------------------------------------------------------------------------------

    def _members(self) -> list[Any]:
        """Some live requests in some order: all of them, those of the last step, or a random subset."""
        live = self.scheduler.request_ids
        if self.chance(0.35):
            return live
        if self.chance(0.4) and self.last_members and all(i in live for i in self.last_members):
            return self.last_members
        some = [i for i in live if self.chance(0.6)]
        beams = [b for i in some if i in self.searches for b in self.searches[i].ids]
        some = list(dict.fromkeys([*some, *beams]))
        self.last_members = [some[i] for i in self.random.permutation(len(some))]
        return self.last_members

    def _drafts(self, ids: Sequence[Any]) -> list[Tree]:
        if self.chance(0.3):
            drafted = repeated_once(lambda: self.scheduler.draft(ids, MOST_DRAFTS, ("grammar", "ngram")))
            drafts = [drafted.get(i, []) if i in self.shadows else [] for i in ids]
            return [(draft, [*range(-1, len(draft) - 1)]) for draft in drafts]
        chains = [self._guess(self.shadows[i]) if i in self.shadows and self.chance(0.7) else [] for i in ids]
        return [branched(self.random, chain) for chain in chains]

    def _as_given(self, ids: Sequence[Any], drafts: Sequence[Tree] | None) -> tuple[Any, Any]:
        """The drafts as `draft_token_ids` and `draft_trees`, as lists or by id."""
        if drafts is None:
            return None, None
        chains = [[] if branches(tree) else tree[0] for tree in drafts]
        trees = [tree if branches(tree) else None for tree in drafts]
        if self.chance(0.3):
            return {i: d for i, d in zip(ids, chains, strict=True) if d}, dict(zip(ids, trees, strict=True))
        return chains, trees if any(trees) else None

    def _guess(self, shadow: Shadow) -> list[int]:
        """Drafts that are right, wrong, right up to a point, or that continue after the end."""
        length = int(self.random.integers(0, MOST_DRAFTS + 1))
        if self.chance(0.6) and not shadow.cause:
            guess = self._draws_of_fork(shadow, length)
            guess += self.random.integers(0, VOCAB, length - len(guess)).tolist()
        else:
            guess = []
            for _ in range(length):
                guess.append(int(shadow.next_row(guess).argmax()))
        if guess and self.chance(0.3):
            guess[self.random.integers(len(guess))] = int(self.random.integers(VOCAB))
        return guess

    def _draws_of_fork(self, shadow: Shadow, length: int) -> list[int]:
        """The draws of a fork of the request, which must not affect the request."""
        fork = self.scheduler.fork(shadow.id)
        guess: list[int] = []
        for _ in range(length):
            token = int(self.scheduler.step(shadow.next_row(guess)[None], [fork]).token_ids[0])
            if token < 0:
                break
            guess.append(token)
            if fork not in self.scheduler.request_ids:
                break
        self.scheduler.remove(fork)
        return guess

    def _rows(self, ids: Sequence[Any], drafts: Sequence[Tree] | None) -> list[np.ndarray]:
        """For each request its rows, float32 [1 + drafts, vocab], some of them faulty."""
        blocks = []
        for i, request_id in enumerate(ids):
            if request_id in self.searches:
                search = self.searches[request_id]
                if self.chance(0.01):
                    faults = search.faults.setdefault(search.steps, {})
                    faults[search.ids.index(request_id)] = faulty_row(self.random)
                blocks.append(search.row(request_id)[None].copy())
                continue
            if request_id in self.faulty:
                blocks.append(np.zeros((1, VOCAB), np.float32))
                continue
            shadow, paths = self.shadows[request_id], list[list[int]]([[]])
            for token, parent in zip(*(drafts[i] if drafts else ((), ())), strict=True):
                paths.append([*paths[parent + 1], token])
            block = np.stack([shadow.next_row(path) for path in paths])
            if self.chance(0.01):
                block[self.random.integers(len(block))] = faulty_row(self.random)
            blocks.append(block)
        return blocks

    def _process(self, guarded: Untouched, ids: list[Any], rows: list[np.ndarray]) -> None:
        """`process` returns what the stateless call returns for each row, and changes nothing."""
        processed = repeated_once(lambda: self.scheduler.process(guarded.logits, ids))
        for i, request_id in enumerate(ids):
            shadow = self.shadows.get(request_id)
            if shadow is None or shadow.order.grammar is not None or shadow.cause:
                continue
            position = shadow.order.position
            with LISTENER.mute():
                expected = process_logits(
                rows[i], shadow.order.params.replace(n=1, best_of=None, seed=shadow.seed),
                prompt_token_ids=[shadow.order.prompt], output_token_ids=[shadow.ids],
                positions=None if position is None else [position + len(shadow.tokens)],
                tokenizer=self.padded_tokenizer, backend=self.other_backend, limits=LIMITS,
            )  # fmt: skip
            assert np.array_equal(processed[i], expected[0], equal_nan=True)
        guarded.expect_untouched()

    # --- after ------------------------------------------------------------------------------------

    def _follow(self, shadow: Shadow, result: StepResult, i: int, rows: np.ndarray, tree: Tree) -> None:
        """Check the result of a step for one request, and update its shadow."""
        tokens, first = result.tokens(i), int(result.first_rows[i])
        path: list[int | None] = [0]
        for token in tokens:
            path.append(_row_after(tree, path[-1], token))
        following = path.pop() if tokens else 0
        assert result.accepted_rows(i) == path[: len(tokens)], (
            "a wrong draft was taken, or a right one was not"
        )
        assert result.seeds[i] == shadow.seed
        assert result.parent_ids[i] == shadow.id
        error, finish = result.errors[i], result.finish_reasons[i]
        for j, token in enumerate(tokens):
            row = path[j]
            assert row is not None
            logprobs = self._logprobs(shadow, result, first + row, token, rows[row])
            details = details_of(result, first + row)
            shadow.tokens.append(Token(token, shadow.seed, logprobs=logprobs, details=details))
            self.grown(shadow, *((finish, result.stop_reasons[i]) if j == len(tokens) - 1 else (None, None)))
        if tokens and finish is None:
            assert following is None, "a right draft was not taken"
        if finish == "error" and not shadow.cause and following is not None:
            shadow.cause = ("row", rows[following].copy())
        assert (error is not None) == (finish == "error")
        self._stream(shadow, result.text[i] or "", finish)
        if finish is None:
            assert tokens, "a row gave no token and no reason"
        else:
            record = self.scheduler.record(shadow.id)
            reasons = (result.stop_reasons[i], error)
            assert (record.finish_reason, record.stop_reason, record.error) == (finish, *reasons)
            self.ended(shadow)

    def _logprobs(
        self, shadow: Shadow, result: StepResult, row: int, token: int, logits: np.ndarray
    ) -> dict[str, Any]:
        """The logprobs of one token, the raw ones compared with their formula."""
        modes = modes_of(shadow)
        if not modes:
            return {}
        by_mode = logprobs_of(result, row, modes)
        for ids, _, _ in by_mode.values():
            assert ids[0] == token
        if "raw" in by_mode:
            exact = logits.astype(np.float64)
            with np.errstate(divide="ignore"):
                exact -= np.log(np.exp(exact).sum())
            ids, values, rank = by_mode["raw"]
            np.testing.assert_allclose(values, exact[ids], atol=TOLERANCE, rtol=TOLERANCE)
            order = sorted(range(VOCAB), key=lambda t: (-exact[t], t))
            assert ids[1:].tolist() == order[: len(ids) - 1]
            assert exact[token] == -np.inf or order[rank - 1] == token
        return by_mode

    def _stream(self, shadow: Shadow, delta: str, finish: str | None) -> None:
        """The text of a step is exactly what has become certain since the last."""
        whole = shadow.text(finish)
        expected = whole[len(shadow.certain(shadow.sent)) :]
        assert delta == expected, f"{shadow.id} streams {delta!r}, not {expected!r}"
        shadow.sent = len(shadow.tokens)
        shadow.streamed += delta
        assert not shadow.joined or shadow.streamed == whole


def branched(random: Random, chain: Sequence[int]) -> Tree:
    """A chain, or a tree that it is a path of."""
    tree: Tree = ([], [])
    share, last = (0.0 if random.random() < 0.6 else 0.4), -1
    for token in chain:
        while random.random() < share:
            tree[1].append(int(random.integers(-1, len(tree[0]))))
            tree[0].append(int(random.integers(VOCAB)))
        tree[1].append(last)
        last = len(tree[0])
        tree[0].append(token)
    return tree


def branches(tree: Tree) -> bool:
    """Whether it is no chain."""
    return tree[1] != list(range(-1, len(tree[0]) - 1))


def _row_after(tree: Tree, row: int | None, token: int) -> int | None:
    """The row behind `token`, drawn in `row`; None if there is none."""
    nodes = zip(*tree, strict=True)
    return next(
        (i + 1 for i, (t, parent) in enumerate(nodes) if (t, parent) == (token, (row or 0) - 1)), None
    )
