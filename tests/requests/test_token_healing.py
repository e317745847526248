"""The prompt's last token is drawn again, among those that begin with its text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, Record, SamplingParams, Scheduler, Tokenizer
from engine_sampler.grammar import Grammar
from engine_sampler.messages import MessageParser
from engine_sampler.session import Session

PIECES = [
    b"a",
    b"b",
    b"http",
    b":",
    b"://",
    b"http:",
    b"https",
    b"h",
    "é".encode()[:1],
    "é".encode(),
    "ê".encode(),
]
EOS = len(PIECES)
TOKENIZER = Tokenizer([*PIECES, b"http</s>"], [EOS], [EOS])
VOCAB = EOS + 1
A, HTTP, COLON, HALF = 0, 2, 3, 8


def model_row(history: Sequence[int]) -> np.ndarray:
    return np.random.default_rng(list(history)).normal(0, 1.5, VOCAB).astype(np.float32)


def healed(
    prompt: Sequence[int], backend: str = "native", drafts: int = 0, **settings: Any
) -> tuple[Record, str]:
    """The record and the streamed text of a request, whose model is fed the prompt of the record."""
    scheduler = Scheduler(VOCAB, TOKENIZER, backend=backend)
    request = scheduler.add(SamplingParams(token_healing=True, **settings), prompt)
    context, streamed = list(scheduler.record(request).prompt_token_ids), ""
    while scheduler.request_ids:
        guesses = [HTTP] * drafts
        rows = np.array([model_row(context + guesses[:i]) for i in range(drafts + 1)])
        result = scheduler.step(rows, [request], [guesses] if drafts else None)
        context += result.tokens(0)
        streamed += result.text[0]
    return scheduler.record(request), streamed


def test_the_first_token_begins_with_the_text_of_the_last_one() -> None:
    seen = set()
    for seed in range(60):
        settings = {"seed": seed, "max_tokens": 4}
        record, streamed = healed([A, HTTP], **settings)
        seen.add(record.token_ids[0])
        assert record.prompt_token_ids == [A]
        whole = TOKENIZER.decode(record.token_ids)
        assert whole == "http" + streamed
        assert record.text == streamed
        for backend, drafts in (("numpy", 0), ("native", 2), ("numpy", 1)):
            assert healed([A, HTTP], backend, drafts, **settings) == (record, streamed)
    assert seen == {2, 5, 6}  # no special token


def test_a_character_that_the_prompt_ends_within_is_completed() -> None:
    for seed in range(20):
        record, streamed = healed([A, HALF], seed=seed, max_tokens=1)
        first = record.token_ids[0]
        assert streamed == ("" if first == HALF else PIECES[first].decode())


def test_stop_strings_and_bans_do_not_see_the_part_of_the_prompt() -> None:
    for seed in range(20):
        record, streamed = healed(
            [A, HTTP], seed=seed, max_tokens=6, banned_strings=["http"], stop=["p:", "ps"]
        )
        assert "http" not in streamed
        assert len(record.token_ids) > 1 or record.stop_reason is None
        assert TOKENIZER.decode(record.token_ids[:1]).startswith("http")


def test_a_request_that_has_moved_is_healed_once() -> None:
    for steps in (0, 1, 2):
        expected, _ = healed([A, HTTP], seed=5, max_tokens=4)
        scheduler = Scheduler(VOCAB, TOKENIZER)
        scheduler.add(SamplingParams(token_healing=True, seed=5, max_tokens=4), [A, HTTP])
        streamed = ""
        for step in range(4):
            if step == steps:
                state = json.loads(json.dumps(scheduler.export(0)))
                scheduler = Scheduler(VOCAB, TOKENIZER, backend="numpy")
                scheduler.add_exported(state)
            record = scheduler.record(0)
            row = model_row(record.prompt_token_ids + record.token_ids)
            streamed += scheduler.step(row[None]).text[0]
        record = scheduler.record(0)
        assert (record.token_ids, record.text) == (expected.token_ids, expected.text)
        assert streamed == expected.text


def test_a_prompt_of_one_token_or_with_a_special_one_at_its_end_stays() -> None:
    for prompt in ([HTTP], [A, EOS], []):
        record, _ = healed(prompt, seed=1, max_tokens=1)
        assert record.prompt_token_ids == prompt


def test_a_session_feeds_the_prompt_without_the_token() -> None:
    class Engine(Session):
        fed: list[list[int]] = []

        def encode(self, prompt: str) -> list[int]:
            return TOKENIZER.encode(prompt)

        def forward(self, contexts: Mapping[Any, list[int]]) -> np.ndarray:
            self.fed += [list(context) for context in contexts.values()]
            return np.array([model_row(context) for context in contexts.values()])

    engine = Engine(Scheduler(VOCAB, TOKENIZER))
    engine.add(SamplingParams(token_healing=True, seed=1, max_tokens=1), "ahttp")
    engine.add_group(SamplingParams(token_healing=True, seed=1, n=2, max_tokens=1), "bhttp")
    engine.step()
    assert engine.fed == [[0], [1], [1]]


@pytest.mark.parametrize(
    ("settings", "arguments", "named"),
    [
        ({"regex": "a"}, {}, "a grammar"),
        ({}, {"grammar": Grammar.from_regex("a")}, "a grammar"),
        ({}, {"parser": MessageParser("hermes", tokenizer=TOKENIZER)}, "a parser"),
        ({"thinking": {"start": "a", "end": "b"}}, {}, "phases"),
    ],
    ids=["regex", "grammar", "parser", "thinking"],
)
def test_what_reads_the_output_is_refused(settings: Any, arguments: Any, named: str) -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    with pytest.raises(ParameterError, match=f"token_healing and {named} are not allowed together"):
        scheduler.add(SamplingParams(token_healing=True, **settings), [A, HTTP], **arguments)
    with pytest.raises(ParameterError, match="token_healing needs a tokenizer"):
        Scheduler(VOCAB).add(SamplingParams(token_healing=True), [A, HTTP])
