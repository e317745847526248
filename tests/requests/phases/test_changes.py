"""Drafts, rollback, forks, suspension, preemption and interruptions leave a request with phases as it is."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams

from .world import BACKENDS, END, START, TOKENIZER, VOCAB, Chat, ids, outcome, row

TEXT = {"start": "<think>", "end": "</think>", "message": "ok"}
REQUESTS: list[dict[str, Any]] = [
    {
        "seed": 59,
        "thinking": TEXT,
        "thinking_token_budget": 6,
        "answer": {"temperature": 0.6},
        "frequency_penalty": 0.5,
    },
    {
        "seed": 59,
        "thinking": {**TEXT, "scope": "all"},
        "answer": {"top_k": 3},
        "mirostat": 2,
        "thinking_token_budget": 4,
    },
    {
        "seed": 55,
        "thinking": {"start": [START], "end": "en"},
        "answer": {"temperature": 0},
        "dry_multiplier": 1.0,
    },
    {"seed": 59, "thinking": TEXT, "thinking_token_budget": 5, "regex": "[abc ]{4,12}", "min_tokens": 3},
    {"seed": 33, "thinking": {"start": [ids(b"1", b"2")], "end": [END]}, "regex": "(12|[bcd ])[abc ]{4,12}"},
    {
        "seed": 53,
        "thinking": {**TEXT, "eos": "close"},
        "stop": ["b a", "1"],
        "answer": {"presence_penalty": 1.0},
    },
    {
        "seed": 59,
        "phases": [
            {"tokens": 4, "params": {"logit_bias": {0: 3.0}}},
            {"until": ["e"], "tokens": 5, "force": "x1", "params": {"temperature": 2.0}},
            {"tokens": 3, "then": 0},
        ],
    },
]
LIKELY = [START, END, *ids(b"e", b"n", b"1", b"2")]
MOST = 36
PROMPT = [1, START, 2]
PROMPTS = [PROMPT, PROMPT, PROMPT, [3, 2], [3, 2], PROMPT, PROMPT]


def chat_with_all(backend: str, **more: Any) -> Chat:
    """A request for each of `REQUESTS`, numbered like these."""
    chat = Chat.with_backend(backend, LIKELY)
    for seed, given in enumerate(REQUESTS):
        chat.add(PROMPTS[seed], **{"max_tokens": MOST, **given, **more})
    return chat


def outcomes(chat: Chat) -> list[Any]:
    return [outcome(chat.record(i)) for i in range(len(REQUESTS))]


@pytest.fixture(scope="module", params=BACKENDS)
def whole(request: Any) -> tuple[str, list[Any]]:
    """A backend, and how all requests end on it step by step."""
    chat = chat_with_all(request.param)
    chat.run()
    assert [chat.record(i).error for i in range(len(REQUESTS))] == [None] * len(REQUESTS)
    return request.param, outcomes(chat)


def test_all_requests_go_through_several_phases(whole: Any) -> None:
    assert [len(tokens) for *_, tokens in whole[1]] == [2, 2, 2, 2, 2, 2, 3]


@pytest.mark.quick_share(2)
@pytest.mark.parametrize("right", [0.6, 1.0])
def test_drafts_give_the_tokens_of_single_steps(whole: Any, right: float) -> None:
    backend, expected = whole
    for seed in range(3):
        random = np.random.default_rng(seed)
        chat = chat_with_all(backend)
        for _ in range(MOST):
            drafts: dict[Any, list[int]] = {}
            for i in chat.scheduler.request_ids:
                done = len(chat.record(i).token_ids)
                draft = expected[i][0][done : done + int(random.integers(0, 9))]
                drafts[i] = [t if random.random() < right else int(random.integers(VOCAB)) for t in draft]
            if not chat.scheduler.request_ids:
                break
            chat.step(drafts)
        assert outcomes(chat) == expected


def test_rollback_of_any_number_of_tokens_equals_a_fresh_request(whole: Any) -> None:
    backend, expected = whole
    for steps in range(5, MOST, 8):
        for back in (1, 3, 8, 20):
            chat = chat_with_all(backend)
            for _ in range(steps):
                if chat.scheduler.request_ids:
                    chat.step()
            for i in chat.scheduler.request_ids:
                chat.scheduler.rollback(i, min(back, len(chat.record(i).token_ids)))
            chat.run()
            assert [o[0] for o in outcomes(chat)] == [o[0] for o in expected], (steps, back)
            assert [o[-1] for o in outcomes(chat)] == [o[-1] for o in expected], (steps, back)


def test_a_request_continues_from_its_output(whole: Any) -> None:
    backend, expected = whole
    for i, given in enumerate(REQUESTS):
        if given.get("mirostat") or "eos" in str(given):
            continue  # what was drawn is not known from the tokens
        for done in range(1, len(expected[i][0]) - 1, 3):
            chat = Chat.with_backend(backend, LIKELY)
            resumed = chat.add(PROMPTS[i], expected[i][0][:done], max_tokens=MOST, **given)
            chat.run()
            assert outcome(chat.record(resumed))[0] == expected[i][0], done
            assert outcome(chat.record(resumed))[2:] == expected[i][2:], done


@pytest.mark.parametrize("steps", range(1, 20, 5))
def test_a_fork_and_a_suspended_request_continue_as_if_they_had_stayed(whole: Any, steps: int) -> None:
    backend, expected = whole
    chat = chat_with_all(backend)
    for _ in range(steps):
        chat.step()
    forks = {}
    for i in list(chat.scheduler.request_ids):
        forks[i] = chat.scheduler.fork(i)
        chat.prompts[forks[i]] = chat.prompts[i]
        chat.scheduler.suspend(i)
    chat.step()
    for i in forks:
        chat.scheduler.resume(i)
    chat.run()
    assert outcomes(chat) == expected
    for i, fork in forks.items():
        assert outcome(chat.record(fork))[0] == expected[i][0]
        assert outcome(chat.record(fork))[2:] == expected[i][2:]


def test_tokens_chosen_elsewhere_go_through_the_same_phases(whole: Any) -> None:
    backend, expected = whole
    for i, given in enumerate(REQUESTS):
        if "eos" in str(given):
            continue
        tokens = expected[i][0]
        chat = Chat.with_backend(backend, LIKELY)
        request = chat.add(PROMPTS[i], max_tokens=MOST, **given)
        chat.scheduler.accept(request, tokens)
        assert chat.record(request).token_ids == tokens
        assert chat.record(request).phase_tokens == expected[i][-1]


def test_forced_tokens_can_be_run_ahead() -> None:
    chat = Chat.with_backend("native")
    request = chat.add([START], thinking=TEXT, thinking_token_budget=0, max_tokens=9)
    forced = chat.scheduler.forced_tokens(request)
    assert forced == [*ids(b"ok"), END]
    chat.scheduler.accept(request, forced)
    assert chat.scheduler.forced_tokens(request) == []
    assert chat.record(request).phase_tokens == {"reasoning": 2, "answer": 0}


def test_a_step_that_is_interrupted_has_not_been_done(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine_sampler.requests.request import Request

    for steps in range(1, 14, 2):
        chat, expected = chat_with_all("native"), chat_with_all("native")
        expected.run()
        for _ in range(steps):
            chat.step()
        calls = 0
        original = Request.follow

        def follow(self: Any, *arguments: Any, **keywords: Any) -> None:
            nonlocal calls
            original(self, *arguments, **keywords)  # noqa: B023
            calls += 1
            if calls == 2:
                raise KeyboardInterrupt

        monkeypatch.setattr(Request, "follow", follow)
        with contextlib.suppress(KeyboardInterrupt):
            chat.step()
        monkeypatch.undo()
        chat.run()
        assert outcomes(chat) == outcomes(expected)


def test_processing_leaves_only_the_forced_token() -> None:
    chat = Chat.with_backend("native")
    request = chat.add([START], thinking=TEXT, thinking_token_budget=0, logprobs=2, max_tokens=9)
    processed = chat.scheduler.process(row([START])[None], [request])
    assert np.flatnonzero(processed[0] > -np.inf).tolist() == ids(b"ok")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", ["raw", "penalized", "processed"])
def test_forced_tokens_have_logprobs_of_their_own(backend: str, mode: str) -> None:
    chat = Chat.with_backend(backend)
    request = chat.add(
        [START], thinking=TEXT, thinking_token_budget=0, logprobs=2, logprobs_mode=mode, max_tokens=9, top_k=3
    )
    logits = row([START])
    result = chat.scheduler.step(logits[None], [request])
    forced = result.tokens(0)
    assert result.logprobs.token_ids[0, 0] == forced[0] == ids(b"ok")[0]
    raw = float(logits[forced[0]] - np.log(np.exp(logits.astype(np.float64)).sum()))
    assert result.logprobs.logprobs[0, 0] == pytest.approx(0 if mode == "processed" else raw, abs=1e-4)


def test_siblings_have_phases_of_their_own() -> None:
    chat = Chat.with_backend("native", LIKELY)
    params = SamplingParams(n=3, seed=1, thinking=TEXT, thinking_token_budget=4, max_tokens=20)
    siblings = chat.scheduler.add_group(params, [START])
    chat.prompts |= {i: [START] for i in siblings}
    chat.run()
    counts = [chat.record(i).phase_tokens for i in siblings]
    assert all(sum(count.values()) == 20 or count for count in counts if count)
    assert TOKENIZER.token_bytes[END] == b"</think>"
