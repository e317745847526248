"""Laws of parsing: for every family, answers in any tokens, cut anywhere, rolled back, and mutated."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from engine_sampler.grammar import TOOL_FAMILIES
from engine_sampler.messages import Event, MessageParser

from .families import WrittenAnswer, random_answer, tools_of
from .vocabularies import ADDED, SPECIAL, random_cuts, random_ids

ROUNDS = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))
"""1: in seconds; 1000: 10,000 answers of each family, each under ten tokenizations, and 10^5 mutated texts.
The command `counts` says how far it has come."""

FAMILIES = list(TOOL_FAMILIES)


def parser_of(family: str, answer: WrittenAnswer, **options: Any) -> MessageParser:
    """A parser for an answer, which begins within thoughts where the chat template opens them."""
    inside = bool(answer.thoughts) and TOOL_FAMILIES[family].starts_inside and family != "harmony"
    return MessageParser(
        family,
        tools_of(answer.calls),
        tool_choice="auto" if answer.calls else "none",
        starts_inside=inside,
        call_id=lambda index, name, given: given or f"call_{index}",
        **options,
    )


def pieces_of(answer: WrittenAnswer, random: Random, way: int) -> tuple[Any, Sequence[Any]]:
    """A tokenizer, or None, and an answer in its tokens, or in pieces of text."""
    if way == 0:
        return None, random_cuts(answer.text, random)
    return (SPECIAL if way == 1 else ADDED), random_ids(answer.text, random)


def feed(parser: MessageParser, piece: Any) -> list[Event]:
    return parser.feed(piece if isinstance(piece, str) else [piece])


def read(parser: MessageParser) -> tuple[Any, ...]:
    """All that a parser has read."""
    return tuple((one.kind, one.index, one.name, one.id, one.text, one.is_complete) for one in parser.parts)


def said(parser: MessageParser) -> tuple[str, str, list[tuple[str, Any]]]:
    """Thoughts, content and calls."""
    texts = {
        kind: "".join(one.text for one in parser.parts if one.kind == kind) for kind in ("thought", "content")
    }
    calls = [
        (one.name, json.loads(one.text)) for one in parser.parts if one.kind == "call" and one.is_complete
    ]
    return texts["thought"], texts["content"], calls


def rebuilt(events: Sequence[Event]) -> tuple[str, str, list[tuple[str, str]]]:
    """Thoughts, content and calls from events alone."""
    texts = {kind: "".join(one.text for one in events if one.kind == kind) for kind in ("thought", "content")}
    calls = [(one.text, one.call) for one in events if one.kind == "call_began"]
    arguments = [
        (name, "".join(one.text for one in events if one.kind == "arguments" and one.call == index))
        for name, index in calls
    ]
    return texts["thought"], texts["content"], arguments


def check_tokenizations(family: str, random: Random, count: int) -> int:
    """Read an answer in as many ways; returns how many calls it has."""
    answer = random_answer(family, random)
    expected = (answer.thoughts, answer.content, [tuple(call) for call in answer.calls])
    for number in range(count):
        tokenizer, pieces = pieces_of(answer, random, number % 3)
        parser = parser_of(family, answer, tokenizer=tokenizer)
        events = [event for piece in pieces for event in feed(parser, piece)] + parser.finish()
        assert parser.deviation is None, answer.text
        assert said(parser) == expected, answer.text
        thoughts, content, calls = rebuilt(events)
        assert (thoughts, content, [(name, json.loads(text)) for name, text in calls]) == expected
    return len(answer.calls)


@pytest.mark.parametrize("family", FAMILIES)
def test_events_rebuild_the_answer_under_any_tokenization(family: str) -> None:
    for seed in range(10 * ROUNDS):
        check_tokenizations(family, Random(seed), 3 if ROUNDS == 1 else 10)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_was_said_is_never_taken_back(family: str) -> None:
    for seed in range(2 * ROUNDS):
        random = Random(seed)
        answer = random_answer(family, random)
        tokenizer, pieces = pieces_of(answer, random, seed % 3)
        parser = parser_of(family, answer, tokenizer=tokenizer)
        seen = []
        for piece in pieces:
            feed(parser, piece)
            seen.append(read(parser))
        parser.finish()
        final = read(parser)
        for one in seen:
            for before, after in zip(one, final, strict=False):
                assert before[:4] == after[:4]
                assert after[4].startswith(before[4])
                assert after[5] >= before[5]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_rollback_equals_a_fresh_parser_and_so_does_a_fork(family: str) -> None:
    for seed in range(2 * ROUNDS):
        random = Random(seed)
        answer = random_answer(family, random)
        tokenizer, pieces = pieces_of(answer, random, seed % 3)
        whole = parser_of(family, answer, tokenizer=tokenizer)
        for piece in pieces:
            feed(whole, piece)
        finished = whole.fork()
        finished.finish()
        for _ in range(6):
            left = random.randint(0, len(pieces))
            parser = (finished if random.random() < 0.5 else whole).fork()
            parser.rollback(len(pieces) - left)
            fresh = parser_of(family, answer, tokenizer=tokenizer)
            for piece in pieces[:left]:
                feed(fresh, piece)
            assert read(parser) == read(fresh)
            assert (parser.deviation, parser.is_thinking, len(parser)) == (
                fresh.deviation,
                fresh.is_thinking,
                len(fresh),
            )
            for piece in pieces[left:]:
                assert feed(parser, piece) == feed(fresh, piece)
            assert parser.finish() == fresh.finish()
            assert read(parser) == read(finished)


def mutated(text: str, random: Random) -> str:
    """A text with a part that is left out, repeated, or replaced by one of another place."""
    first, last = sorted(random.randint(0, len(text)) for _ in range(2))
    last = min(last, first + random.choice([1, 3, 30]))
    other = random.randint(0, len(text))
    inserted = random.choice(
        ["", text[first:last] * 2, text[other : other + 5], '"', "<", "</think>", "\\", "\x00"]
    )
    return text[:first] + inserted + text[last:]


def check_mutations(family: str, random: Random, resume: bool) -> int:
    """Read a mutated answer, cut in three ways; returns how many texts that is: one."""
    answer = random_answer(family, random)
    text = answer.text
    for _ in range(random.randint(1, 3)):
        text = mutated(text, random)
    results = []
    for pieces in ([text], random_cuts(text, random), list(text)):
        parser = parser_of(family, answer, resume=resume)
        for piece in pieces:
            feed(parser, piece)
        parser.finish()
        results.append((read(parser), parser.deviation))
    assert results[0] == results[1] == results[2], text
    if parser.deviation is not None and not resume and "mark that it never" not in parser.deviation:
        at = int(parser.deviation.split(":")[0].removeprefix("at character "))
        contents = "".join(one.text for one in parser.parts if one.kind == "content")
        assert contents.endswith(text[at:]), text
    return 1


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("resume", [False, True], ids=["then_content", "resuming"])
def test_mutated_answers_are_read_alike_however_they_are_cut(family: str, resume: bool) -> None:
    for seed in range(3 * ROUNDS):
        check_mutations(family, Random(seed), resume)


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"harmony"}))
@pytest.mark.parametrize("resume", [False, True], ids=["then_content", "resuming"])
def test_no_word_is_lost_wherever_it_stands(family: str, resume: bool) -> None:
    for seed in range(10 * ROUNDS):
        random = Random(seed)
        answer = random_answer(family, random)
        at = random.randint(0, len(answer.text))
        text = f"{answer.text[:at]}QxwQ{answer.text[at:]}"
        parser = parser_of(family, answer, resume=resume)
        for piece in random_cuts(text, random):
            parser.feed(piece)
        parser.finish()
        assert any("QxwQ" in one.text + one.name + one.id for one in parser.parts), text
