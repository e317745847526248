"""The loop between any model and a scheduler."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from engine_sampler import ParameterError, Scheduler, Tokenizer
from engine_sampler.params import SamplingParams
from engine_sampler.session import Session

LETTERS = "abcdefgh"


class NextLetter(Session):
    """A model that continues with the next letter of the alphabet; it caches the length of each request."""

    def __init__(self):
        super().__init__(Scheduler(len(LETTERS), Tokenizer([c.encode() for c in LETTERS])))
        self.cache = {}

    def encode(self, prompt):
        return [LETTERS.index(letter) for letter in prompt]

    def forward(self, contexts):
        self.cache |= {r: len(token_ids) for r, token_ids in contexts.items()}
        logits = np.zeros((len(contexts), len(LETTERS)), np.float32)
        for row, token_ids in zip(logits, contexts.values(), strict=True):
            row[(token_ids[-1] + 1) % len(LETTERS)] = 20.0
        return logits

    def forget(self, request_id):
        del self.cache[request_id]


def greedy(tokens):
    return SamplingParams(temperature=0, max_tokens=tokens)


def run(session):
    while session.scheduler.request_ids:
        session.step()


def test_each_request_continues_its_prompt():
    session = NextLetter()
    first = session.add(greedy(3), "ab")
    session.step()
    second = session.add(greedy(4), "e")
    run(session)
    assert [session.scheduler.record(r).text for r in (first, second)] == ["cde", "fgha"]


def test_rows_are_the_live_requests_in_order_of_arrival():
    session = NextLetter()
    for number, tokens in enumerate((1, 3, 2)):
        session.add(greedy(tokens), LETTERS[number], number)
    assert [session.step().request_ids for _ in range(3)] == [[0, 1, 2], [1, 2], [1]]
    assert (session.steps, session.rows) == (3, 6)


def test_an_engine_forgets_requests_that_ended_or_were_removed():
    session = NextLetter()
    for number in range(3):
        session.add(greedy(1 + number), "a", number)
    session.step()
    assert set(session.cache) == {1, 2}
    session.scheduler.remove(2)
    session.step()
    assert session.cache == {}


def test_the_total_time_is_that_of_the_model_and_of_sampling():
    session = NextLetter()
    session.add(greedy(2), "a")
    run(session)
    assert session.seconds == session.model_seconds + session.sampling_seconds > 0


def test_a_refused_prompt_leaves_no_request():
    session = NextLetter()
    with pytest.raises(ValueError, match="substring not found"):
        session.add(greedy(1), "z")
    assert session.scheduler.request_ids == []


class TokenCache(NextLetter):
    """A model with random logits after every text, which combines its cached tokens with the new ones."""

    def forward(self, contexts):
        for request_id, token_ids in contexts.items():
            cached = self.cache.get(request_id, [])
            self.cache[request_id] = cached + token_ids[len(cached) :]
        rows = [np.random.default_rng(self.cache[r]).normal(0, 2, len(LETTERS)) for r in contexts]
        return np.array(rows, np.float32)


def test_beams_continue_from_the_contexts_of_their_parents():
    session = TokenCache()
    ids = session.add_group(SamplingParams(use_beam_search=True, beam_width=3, max_tokens=6), "ab")
    while session.scheduler.request_ids:
        session.step()
        for request_id in session.scheduler.request_ids:
            record = session.scheduler.record(request_id)
            assert session._contexts[request_id] == record.prompt_token_ids + record.token_ids
    for request_id in ids:
        record = session.scheduler.record(request_id)
        logprobs = 0.0
        for i, token in enumerate(record.token_ids):
            row = np.random.default_rng([0, 1, *record.token_ids[:i]]).normal(0, 2, len(LETTERS))
            logprobs += row[token] - np.log(np.exp(row).sum())
        assert record.cumulative_logprob == pytest.approx(logprobs, abs=1e-4)
    assert session.cache == {}


def test_requests_beyond_the_capacity_of_the_model_are_refused():
    session = NextLetter()
    session.max_requests = 3
    session.add(greedy(3), "a")
    with pytest.raises(ValueError, match="max_requests=3 does not allow 3 more: 1 already live"):
        session.add_group(SamplingParams(n=3), "b")
    assert len(session.add_group(SamplingParams(n=2), "b")) == 2


def test_swapped_arguments_are_named():
    session = NextLetter()
    for add in (session.add, session.add_group):
        with pytest.raises(ParameterError, match="params='ab' is not allowed: a SamplingParams"):
            add("ab", greedy(1))
    assert session.scheduler.request_ids == []


def test_contexts_are_cut_where_a_ban_takes_tokens_back():
    class Cutting(NextLetter):
        cuts = []

        def rewind(self, request_id, length):
            self.cuts.append(length)

    session = Cutting()
    request = session.add(greedy(6).replace(banned_strings=["DEF"]), "ab")
    while request in session.scheduler.request_ids:
        session.step()
        record = session.scheduler.record(request)
        if record.finish_reason is None:
            assert session._contexts[request] == record.prompt_token_ids + record.token_ids
    assert record.text[0] == "c"
    assert "def" not in record.text
    assert session.cuts == [3]


class Random(NextLetter):
    """A model with random logits after any two tokens, which checks drafts and keeps what it has read."""

    def __init__(self):
        super().__init__()
        self.faults = []

    def forward(self, contexts):
        return self.forward_drafts(contexts, {})

    def forward_drafts(self, contexts, drafts):
        rows = []
        for request_id, context in contexts.items():
            cached, draft = self.cache.get(request_id, []), drafts.get(request_id, [])
            assert cached == context[: len(cached)]
            self.cache[request_id] = [*context, *draft]
            rows += [[*context, *draft[:n]] for n in range(1 + len(draft))]
        if drafts and self.faults:
            raise self.faults.pop()
        logits = [np.random.default_rng(ids[-2:]).normal(0, 3, len(LETTERS)) for ids in rows]
        return np.array(logits, np.float32)

    def rewind(self, request_id, length):
        del self.cache[request_id][length - 1 :]


@pytest.mark.parametrize("settings", [{}, {"banned_strings": ["b", "CD"]}, {"n": 3}])
def test_drafts_change_no_token_and_save_steps(settings):
    sessions = [Random() for _ in range(2)]
    for session, drafter in zip(sessions, (None, "ngram"), strict=True):
        params = SamplingParams(max_tokens=60, seed=2, drafter=drafter, **settings)
        session.ids = session.add_group(params, "abcabc")
        while session.scheduler.request_ids:
            session.step()
            for request_id in session.scheduler.request_ids:
                record = session.scheduler.record(request_id)
                assert session._contexts[request_id] == record.prompt_token_ids + record.token_ids
    plain, drafting = sessions
    for request_id in plain.ids:
        assert plain.scheduler.record(request_id) == drafting.scheduler.record(request_id)
    assert 0 < drafting.accepted < drafting.drafted
    assert drafting.steps < plain.steps == plain.rows / len(plain.ids)
    assert (plain.drafted, drafting.cache) == (0, {})


def test_a_step_with_drafts_that_fails_is_done_again():
    plain, failing = Random(), Random()
    failing.faults = [KeyboardInterrupt(), MemoryError()]
    for session in (plain, failing):
        session.id = session.add(SamplingParams(max_tokens=40, seed=2, drafter="ngram"), "abcabc")
        while session.scheduler.request_ids:
            with contextlib.suppress(KeyboardInterrupt, MemoryError):
                session.step()
    assert failing.scheduler.record(failing.id) == plain.scheduler.record(plain.id)
    assert (failing.faults, failing.drafted) == ([], plain.drafted)


def test_a_drafter_is_refused_where_nothing_checks_its_drafts():
    session = NextLetter()
    for add in (session.add, session.add_group):
        with pytest.raises(
            ParameterError, match=r"drafter=\('ngram',\) is not allowed: this engine checks no"
        ):
            add(SamplingParams(drafter="ngram"), "a")
    assert session.add(SamplingParams(drafter=[]), "a") == session.scheduler.request_ids[0]
