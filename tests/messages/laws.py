"""What holds for all answers of a family: the checks of `test_laws`, and of `counts`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

from engine_sampler.grammar import TOOL_FAMILIES
from engine_sampler.messages import Event, MessageParser

from .families import WrittenAnswer, random_answer, tools_of
from .vocabularies import ADDED, SPECIAL, random_cuts, random_ids

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


def mutated(text: str, random: Random) -> str:
    """A text with a part that is left out, repeated, or replaced by one of another place."""
    first, last = sorted(random.randint(0, len(text)) for _ in range(2))
    last = min(last, first + random.choice([1, 3, 30]))
    other = random.randint(0, len(text))
    inserted = random.choice(
        ["", text[first:last] * 2, text[other : other + 5], '"', "<", "</think>", "\\", "\x00"]
    )
    return text[:first] + inserted + text[last:]


def check_mutations(family: str, random: Random) -> int:
    """Read a mutated answer, cut in three ways; returns how many texts that is: one."""
    answer = random_answer(family, random)
    text = answer.text
    for _ in range(random.randint(1, 3)):
        text = mutated(text, random)
    options = {
        "malformed": random.choice(["content", "drop"]),
        "unfinished": random.choice(["open", "close", "drop"]),
    }
    results = []
    for pieces in ([text], random_cuts(text, random), list(text)):
        parser = parser_of(family, answer, **options)
        events = [event for piece in pieces for event in feed(parser, piece)] + parser.finish()
        results.append((read(parser), parser.deviation, rebuilt(events)))
        assert rebuilt(events) == told(parser), text
    assert results[0] == results[1] == results[2], text
    calls = [one for one in parser.parts if one.kind == "call"]
    for number, call in enumerate(calls):
        if call.is_complete or number < len(calls) - 1 or options["unfinished"] != "open":
            assert isinstance(json.loads(call.text), dict), text
    return 1


def told(parser: MessageParser) -> tuple[str, str, list[tuple[str, str]]]:
    """Thoughts, content and calls of the message, with arguments as they are."""
    thoughts, content = (
        "".join(one.text for one in parser.parts if one.kind == kind) for kind in ("thought", "content")
    )
    return thoughts, content, [(one.name, one.text) for one in parser.parts if one.kind == "call"]
