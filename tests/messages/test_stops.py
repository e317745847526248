"""What ends an answer, and whether it is a part of it: parsers read what the text of the result says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, SamplingParams, Scheduler, Tokenizer
from engine_sampler.messages import ChatFormat, Event, MessageParser
from engine_sampler.messages.definition import AnswerDefinition

from .vocabularies import MARKERS, SPECIAL

BYTES = Tokenizer([*(bytes([i]) for i in range(256)), b"<eos>"], [256])

CALL = '<tool_call>\n{"name": "f", "arguments": {"a": "x END y"}}\n</tool_call>'


def run(
    tokenizer: Tokenizer, params: dict[str, Any], answers: Sequence[Sequence[int]], **options: Any
) -> list[tuple[str, list[tuple[str, str]]]]:
    """What the results say, and what the parser reads, of siblings that draw these tokens."""
    parser = MessageParser("qwen_3", tokenizer=tokenizer, call_id=lambda *_: "1", **options)
    engine = Scheduler(len(tokenizer), tokenizer)
    ids = engine.add_group(SamplingParams(temperature=0, n=len(answers), **params), [1], parser=parser)
    events: dict[Any, list[Event]] = {request_id: [] for request_id in ids}
    texts = dict.fromkeys(ids, "")
    for at in range(max(map(len, answers))):
        live = [
            request_id
            for request_id in ids
            if request_id in engine.request_ids and at < len(answers[ids.index(request_id)])
        ]
        if not live:
            break
        rows = np.zeros((len(live), len(tokenizer)), np.float32)
        for row, request_id in enumerate(live):
            rows[row, answers[ids.index(request_id)][at]] = 9
        result = engine.step(rows, live)
        for number, request_id in enumerate(result.request_ids):
            texts[request_id] += result.text[number]
            events[request_id] += (result.deltas or [])[number]
    return [(texts[request_id], parts_of(events[request_id])) for request_id in ids]


def parts_of(events: Sequence[Event]) -> list[tuple[str, str]]:
    """Texts of a kind that follow each other, made one."""
    parts: list[tuple[str, str]] = []
    for kind, text, *_ in events:
        if kind in ("thought", "content", "arguments"):
            if parts and parts[-1][0] == kind:
                text = parts.pop()[1] + text
            parts.append((kind, text))
    return parts


@pytest.mark.parametrize("included", [False, True])
@pytest.mark.parametrize("where", ["content", "thought"])
def test_a_stop_string_is_a_part_of_what_it_ends_if_it_is_asked_for(included: bool, where: str) -> None:
    before = "<think>" if where == "thought" else ""
    params = {"stop": ["END"], "include_stop_str_in_output": included}
    answer = list(f"{before}One EN two END three".encode())
    [(text, parts)] = run(BYTES, params, [answer], **params)
    said = "One EN two END" if included else "One EN two "
    assert text == before + said
    assert parts == [(where, said.rstrip() if where == "thought" else said)]


def test_a_stop_string_within_arguments_stops_the_request_and_what_is_read_stays() -> None:
    for included in (False, True):
        params = {"stop": ["END"], "include_stop_str_in_output": included}
        [(text, parts)] = run(BYTES, params, [list(CALL.encode())], **params)
        assert text == CALL[: CALL.index("END") + 3 * included]
        assert parts[0] == ("arguments", '{"a": "x END')


@pytest.mark.parametrize("included", [False, True])
def test_a_stop_token_is_text_only_if_it_is_asked_for(included: bool) -> None:
    params = {"stop_token_ids": [ord(".")], "include_stop_str_in_output": included}
    options = {"include_stop_str_in_output": included}
    [(text, parts)] = run(BYTES, params, [list(b"One. Two.")], **options)
    assert text == ("One." if included else "One")
    assert parts == [("content", text)]


def test_a_mark_that_stops_an_answer_is_read() -> None:
    end = len(SPECIAL) - len(MARKERS) + MARKERS.index("</think>")
    begin = len(SPECIAL) - len(MARKERS) + MARKERS.index("<think>")
    [(_, parts)] = run(SPECIAL, {"stop_token_ids": [end]}, [[begin, 65, end]])
    assert parts == [("thought", "A")]


@pytest.mark.parametrize("skips", [True, False])
def test_special_tokens_are_text_only_if_they_are_not_skipped(skips: bool) -> None:
    plain = [bytes([i]) for i in range(256)]
    tokenizer = Tokenizer([*plain, b"<eos>", b"<|note|>"], [256], [256, 257])
    params = {"skip_special_tokens": skips}
    for ids, expected in (
        ([65, 257, 66], "A<|note|>B"),
        ([*b"<think>", 65, 257, *b"</think>", 66], "<think>A<|note|></think>B"),
        ([*CALL[:50].encode(), 257], CALL[:50] + "<|note|>"),
    ):
        [(text, parts)] = run(tokenizer, params, [ids], **params)
        assert text == (expected.replace("<|note|>", "") if skips else expected)
        assert any("<|note|>" in said for _, said in parts) is not skips


def test_siblings_are_read_each_for_itself() -> None:
    answers = [list(CALL.encode()), list(b"<think>Hm.</think>No."), list(b"One END two"), list(b"Yes")]
    read = [parts for _, parts in run(BYTES, {"stop": ["END"]}, answers, stop=["END"])]
    assert read == [
        [("arguments", '{"a": "x END')],
        [("thought", "Hm."), ("content", "No.")],
        [("content", "One ")],
        [("content", "Yes")],
    ]


def test_a_format_hands_on_how_stop_strings_end_what_is_read() -> None:
    parser = ChatFormat("qwen_3").parser(stop=["END"], include_stop_str_in_output=True)
    parser.feed("One END two")
    parser.finish()
    assert parser.parts[0].text == "One END"


def test_stop_strings_are_limited_before_anything_is_made_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AnswerDefinition, "stopping_at", None)
    for stop in ([f"x{number}" for number in range(20_000)], ["x" * 33_000], "x" * 33_000, [""], [5], 5):
        for make in (
            lambda stop: MessageParser(stop=stop),
            lambda stop: ChatFormat("qwen_3").parser(stop=stop),
        ):
            with pytest.raises(
                ParameterError, match=r"stop=.* is not allowed: a text or a list of texts, .*32768"
            ):
                make(stop)
