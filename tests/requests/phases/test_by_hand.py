"""A request with phases gives the tokens of requests that are put together by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .world import BACKENDS, END, EOS, START, ByHand, Chat, ids, outcome

THINKING: list[dict[str, Any]] = [
    {"temperature": 1.3, "top_p": 0.95},
    {"temperature": 0.8, "repetition_penalty": 1.3, "frequency_penalty": 0.4, "top_k": 20},
    {"temperature": 1.0, "presence_penalty": 0.7, "dry_multiplier": 0.8, "min_p": 0.05},
    {"temperature": 1.1, "logit_bias": {3: 2.0, 7: -1.0}, "no_repeat_ngram_size": 3, "penalty_scope": "all"},
    {"mirostat": 2, "temperature": 1.2},
    {"temperature": 0.0},
]
ANSWERS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.7, "top_p": 0.8, "presence_penalty": 1.5},
    {"temperature": 0.0},
    {"mirostat": 2, "top_k": 5},
    {"order": ["temperature", "top_p", "penalties"], "logit_bias": {4: 3.0}, "frequency_penalty": 0.2},
]
MARKERS: list[tuple[Any, list[int], Any, list[int]]] = [
    ("<think>", [START], "</think>", [END]),
    ([START], [START], [ids(b"e", b"n", b"d>")], ids(b"e", b"n", b"d>")),
    ([ids(b"<", b"a")], ids(b"<", b"a"), [ids(b"</", b"a")], ids(b"</", b"a")),
]
MOST = 40


def given_to(phase: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """The parameters of an answer: those of the request, some of them changed."""
    changed = {**phase, **answer}
    if "mirostat" in answer or "order" in answer:
        changed.pop("dry_multiplier", None)
    return changed


def cases(count: int) -> list[Any]:
    """Parameters, markers, a budget, a scope and a prompt; each case by a number of its own."""
    made = []
    for seed in range(count):
        random = np.random.default_rng(seed)
        thinking, answer = THINKING[seed % len(THINKING)], ANSWERS[random.integers(len(ANSWERS))]
        if (
            set(thinking) & {"dry_multiplier", "repetition_penalty", "no_repeat_ngram_size"}
            and "order" in answer
        ):
            answer = ANSWERS[1]
        if "mirostat" in thinking and "order" in answer:
            answer = ANSWERS[2]
        budget = [None, 0, 1, 3, 7][random.integers(5)]
        made.append((seed, thinking, answer, MARKERS[random.integers(3)], budget, bool(random.integers(2))))
    return made


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", cases(36), ids=lambda case: str(case[0]))
def test_a_request_with_phases_equals_requests_put_together_by_hand(backend: str, case: Any) -> None:
    seed, thinking, answer, (start, start_ids, end, end_ids), budget, is_apart = case
    likely = [*start_ids, *end_ids]
    random = np.random.default_rng(seed)
    prompt = random.integers(0, 8, 5).tolist()
    begins_inside = bool(random.integers(2))
    if begins_inside:
        prompt += start_ids
    if "mirostat" in {**thinking, **answer} and not is_apart:
        is_apart = True  # `add` does not know what was drawn
    message = ids(b"ok", b"\n")
    chat = Chat.with_backend(backend, likely)
    phased = chat.add(
        prompt,
        **thinking,
        thinking={
            "start": start,
            "end": end,
            "message": message,
            "scope": "answer" if is_apart else "all",
        },
        thinking_token_budget=budget,
        answer=answer,
        max_tokens=MOST,
        seed=seed,
    )
    chat.run()
    whole = {**thinking, "seed": seed}
    by_hand = ByHand(
        backend,
        likely,
        whole,
        {**whole, **answer},
        budget,
        start_ids,
        end_ids,
        [*message, *end_ids],
        is_apart,
    )
    tokens, reason = by_hand.run(prompt, MOST, begins_inside=begins_inside)
    record = chat.record(phased)
    assert record.error is None
    assert record.token_ids == tokens
    assert record.finish_reason == reason
    assert sum((record.phase_tokens or {}).values()) == len(tokens)


@pytest.mark.quick_share(2)
@pytest.mark.parametrize("case", cases(8), ids=lambda case: str(case[0]))
def test_backends_batches_and_neighbours_do_not_matter(case: Any) -> None:
    _, thinking, answer, (start, start_ids, end, end_ids), budget, is_apart = case
    marks = {"start": start, "end": end, "scope": "answer" if is_apart else "all"}
    params = {**thinking, "thinking": marks, "thinking_token_budget": budget, "answer": answer}
    likely = [*start_ids, *end_ids]
    outcomes = []
    for backend in BACKENDS:
        together = Chat.with_backend(backend, likely)
        members = [together.add([i, START], **params, seed=i, max_tokens=30) for i in range(4)]
        together.add([1], temperature=1.5, max_tokens=25)
        together.add([2], regex="[ab]{3,9}", max_tokens=25)
        together.run()
        outcomes.append([outcome(together.record(member)) for member in members])
        for i in range(4):
            alone = Chat.with_backend(backend, likely)
            single = alone.add([i, START], **params, seed=i, max_tokens=30)
            alone.run()
            assert outcome(alone.record(single)) == outcomes[-1][i]
    assert outcomes[0] == outcomes[1]


def test_markers_alone_change_nothing() -> None:
    for seed in range(5):
        chat = Chat.with_backend("native", [START, END])
        plain, marked = (
            chat.add([START], mirostat=2, seed=seed, max_tokens=30, **more)
            for more in ({}, {"thinking": {"start": "<think>", "end": "</think>", "scope": "all"}})
        )
        chat.run()
        assert chat.record(plain).token_ids == chat.record(marked).token_ids
        assert EOS not in chat.record(marked).token_ids[:-1]


OF_THE_ANSWER: list[dict[str, Any]] = [
    {"stop": ["ab", "1"], "stop_token_ids": [9]},
    {"stop_regex": ["[bc]+d"], "min_tokens": 6, "stop": ["a"]},
    {"regex": "[abcd ]{6,20}", "min_tokens": 4},
    {"json_object": True, "include_stop_str_in_output": True, "stop": ["2"]},
]


@pytest.mark.quick_share(2)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("settings", OF_THE_ANSWER, ids=lambda settings: next(iter(settings)))
def test_what_holds_in_the_answer_holds_as_in_a_request_of_its_own(
    backend: str, settings: dict[str, Any]
) -> None:
    for seed in range(8):
        sampling = {"temperature": 1.1, "frequency_penalty": 0.3, "seed": seed}
        chat = Chat.with_backend(backend, [END])
        phased = chat.add(
            [2, START],
            **sampling,
            **settings,
            thinking={"start": "<think>", "end": "</think>", "eos": "mask"},
            thinking_token_budget=6,
            max_tokens=MOST,
        )
        chat.run()
        by_hand = ByHand(
            backend,
            [END],
            {**sampling, "ignore_eos": True},
            {**sampling, **settings},
            6,
            [START] if "stop" in settings and "json_object" not in settings else [EOS, EOS],
            [END],
            [END],
        )
        tokens, reason = by_hand.run([2, START], MOST, begins_inside=True)
        record = chat.record(phased)
        assert (record.token_ids, record.finish_reason) == (tokens, reason)
