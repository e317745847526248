"""The scheduler under test, the shadows of its requests, and the checks when one of them changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine_sampler import Record, RequestLimits, Scheduler
from engine_sampler.testing.search.machine import RandomMachine

from .beams import Search
from .plugins import LISTENER
from .replay import expect_same_alone
from .shadow import Shadow, Token
from .workload import BACKENDS, ENGINES, EOS, EOT, PIECES, VOCAB, Order, random_order, tokenizer_for

EOS_IDS = ((EOS, EOT), (EOS, EOT), (EOT,), ())
"""The EOS tokens of a scheduler."""

LIMITS = RequestLimits(logprobs=VOCAB, return_sampling_mask=None)


class State(RandomMachine):
    """One scheduler under random operations, which is made as `number` says.

    shadows    the live requests, except those of beam searches and those with faulty plugins.
    searches   the running searches, by the id of each of their texts.
    faulty     live requests whose plugins misbehave, of which nothing is expected.
    finished   requests that have ended and are not removed, by id.
    kept       which settings of a new request stay, as bits: none in the simplest one.
    """

    kept = 0

    def __init__(self, number: int) -> None:
        super().__init__()
        self.random = np.random.default_rng([number, 5])
        self.backend = BACKENDS[number % len(BACKENDS)]
        self.other_backend = next((b for b in BACKENDS if b != self.backend), self.backend)
        engines = [ENGINES[i] for i in self.random.permutation(len(ENGINES))]
        eos = EOS_IDS[self.random.integers(len(EOS_IDS))]
        self.tokenizers = [tokenizer_for(engine, eos) for engine in engines]
        self.padded_tokenizer = tokenizer_for(engines[0], eos, VOCAB - len(PIECES))
        self.crowded = self.chance(0.03)
        self.most_live = 90 if self.crowded else int(self.random.integers(1, 14))
        self.longest = 300 if self.chance(0.1) else 30
        self.max_model_len = int(self.random.integers(12, 40)) if self.chance(0.2) else None
        self.scheduler = Scheduler(
            VOCAB, self.tokenizers[0], limits=LIMITS, max_model_len=self.max_model_len, backend=self.backend,
            num_threads=int(self.random.integers(1, 3)),
        )  # fmt: skip
        self.vocabulary = self.scheduler.vocabulary
        self.shadows: dict[Any, Shadow] = {}
        self.searches: dict[Any, Search] = {}
        self.faulty: set[Any] = set()
        self.finished: dict[Any, Shadow | Search] = {}
        self.last_members: list[Any] = []
        self.given_meanwhile: dict[Any, list[int]] = {}
        self.removed_meanwhile: list[Search] = []

    def another(self) -> Scheduler:
        """An empty scheduler like this one on the other backend, with the other grammar engine."""
        return Scheduler(
            VOCAB,
            self.tokenizers[-1],
            max_model_len=self.max_model_len,
            backend=self.other_backend,
            limits=LIMITS,
        )

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def log(self, what: str) -> None:
        self.happened.append(what)

    def any_shadow(self, sound: bool = True) -> Shadow | None:
        """A random live request; with `sound`, none that has failed already."""
        some = [s for s in self.shadows.values() if not (sound and s.cause)]
        return some[self.random.integers(len(some))] if some else None

    @property
    def is_full(self) -> bool:
        return len(self.scheduler.request_ids) >= self.most_live

    def random_order(self) -> Order:
        return random_order(self.random, self.longest, bool(self.vocabulary.eos_token_ids), self.kept)

    def enter(self, request_id: Any, order: Order, seed: int) -> Shadow:
        """A request has joined."""
        shadow = Shadow(request_id, order, seed, self.vocabulary, self.max_model_len)
        self.shadows[request_id] = shadow
        return shadow

    # --- checks when a request changes ------------------------------------------------------------

    def grown(self, shadow: Shadow, finish: str | None = None, stop: Any = None) -> None:
        """A token has been added; the request has ended with it if it must."""
        ending = shadow.ending(len(shadow.tokens))
        expected = (None, None) if ending is None else ending[:2]
        if finish == "error" and (ending is None or shadow.may_fail):
            return  # the replay checks the fault
        found = (finish, stop)
        assert found == expected, f"{shadow.id} ends with {found}, not {expected}, at {shadow.ids}"

    def note_accepted(self, shadow: Shadow, tokens: Sequence[int]) -> None:
        """The request was given tokens that were chosen elsewhere; those after its end are dropped."""
        record = self.scheduler.record(shadow.id)
        new = record.token_ids[len(shadow.tokens) :]
        assert list(tokens[: len(new)]) == new
        for i, token in enumerate(new):
            shadow.tokens.append(Token(token))
            self.grown(shadow, *((record.finish_reason, record.stop_reason) if i == len(new) - 1 else ()))
        if record.finish_reason is None:
            assert len(new) == len(tokens), "a token was dropped"
            return
        if record.finish_reason == "error" and len(new) < len(tokens):
            shadow.cause = ("accept", tokens[len(new)])
        self.ended(shadow)

    def ended(self, shadow: Shadow) -> None:
        """The request has left the live ones."""
        assert shadow.id not in self.scheduler.request_ids
        del self.shadows[shadow.id]
        self.finished[shadow.id] = shadow
        shadow.record = self.scheduler.record(shadow.id)
        self.expect_right(shadow, shadow.record)

    def search_ended(self, search: Search) -> None:
        for i in search.ids:
            del self.searches[i]
            self.finished[i] = search
        with LISTENER.mute():
            search.expect_same_alone(self.scheduler, self.another())

    def break_off(self, search: Search, request_id: Any) -> None:
        """A request of the search has been removed, and all others have ended with it."""
        search.removed = request_id
        self.search_ended(search)
        del self.finished[request_id]

    def expect_right(self, shadow: Shadow, record: Record) -> None:
        """The record agrees with the shadow, and with the request run alone."""
        assert record.token_ids == shadow.ids
        assert record.prompt_token_ids == list(shadow.order.prompt)
        assert record.seed == shadow.seed
        whole = shadow.text(record.finish_reason)
        assert record.text == whole, f"the text of {shadow.id} is {record.text!r}, not {whole!r}"
        if record.cumulative_logprob is not None:
            total = math.fsum(shadow.raw_logprob(i) for i in range(len(shadow.tokens)))
            assert math.isclose(record.cumulative_logprob, total, rel_tol=1e-5, abs_tol=1e-4)
        with LISTENER.mute():
            expect_same_alone(shadow, record, self.another())

    # --- accept and rollback ----------------------------------------------------------------------

    def accept(self, shadow: Shadow | None = None) -> None:
        shadow = shadow or self.any_shadow()
        if shadow is None:
            return
        forced = self.scheduler.forced_tokens(shadow.id)
        if self.scheduler.record(shadow.id).finish_reason == "error":
            shadow.cause = ("forced",)
            return
        count = int(self.random.integers(0, 4)) if self.longest < 100 else int(self.random.integers(0, 40))
        tokens = forced or self._likely(shadow, count)
        self.log(f"{shadow.id} accepts {tokens}, forced {forced}")
        self.scheduler.accept(shadow.id, tokens)
        self.note_accepted(shadow, tokens)
        assert not (forced and shadow.order.is_structured and shadow.cause), "a forced token was refused"

    def _likely(self, shadow: Shadow, count: int) -> list[int]:
        """Tokens that are likely under the model; the first is usually one that the request allows."""
        row = shadow.next_row()
        if self.chance(0.8):
            row = self.scheduler.process(row[None], [shadow.id])[0]
        likely = row.argsort()[-8:]
        allowed = likely[row[likely] > -np.inf]
        first = self.random.choice(allowed if len(allowed) else likely, min(count, 1)).tolist()
        return [*first, *self.random.integers(2, 12, max(0, count - 1)).tolist()]

    def rollback(self, shadow: Shadow | None = None) -> None:
        shadow = shadow or self.any_shadow()
        if shadow is None:
            return
        have = len(shadow.tokens)
        n = have if self.chance(0.1) else int(self.random.integers(0, min(have, 6) + 1))
        self.log(f"roll {shadow.id} back by {n} of {have}")
        dropped = shadow.ids[have - n :]
        self.scheduler.rollback(shadow.id, n)
        shadow.rollback(n)
        if self.scheduler.record(shadow.id).finish_reason is not None:
            shadow.cause = ("rollback", dropped)
            self.ended(shadow)
