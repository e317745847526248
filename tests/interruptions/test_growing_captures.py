"""Interruptions of a parser that reports captures: each is reported once, as it grows or at the end."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from engine_sampler.grammar import Grammar
from engine_sampler.messages import Event, MessageParser

from .injecting import Injection, count_of

GRAMMARS = {
    "earley": Grammar.from_lark('start: w (" " w)*\nw[capture]: l+\nl[capture]: /[a-z]/'),
    "lalr": Grammar.from_lark('start: w (" " w)*\nw[capture]: L+\nL: /[a-z]/', lexer="contextual"),
}
PIECES = ("ab ", "c d", "ef g")


def captures_of(events: list[Event]) -> Counter[tuple[str, str]]:
    return Counter((event.id, event.text) for event in events if event.kind == "capture")


def life(grammar: Grammar, interrupted: int, at: int | None) -> tuple[MessageParser, list[Event]]:
    """All pieces; one of them is interrupted before line `at`, and comes again if it has not been read."""
    parser, events = MessageParser(None, grammar=grammar), []
    for number, piece in enumerate(PIECES):
        if number == interrupted and at is not None:
            injection, before = Injection(KeyboardInterrupt, at), parser.captures
            found = injection.during(partial(parser.feed, piece))
            if injection.where is None:  # what it needs has been computed before
                events += found
                continue
            assert parser.captures == before
        events += parser.feed(piece)
    return parser, events + parser.finish()


@pytest.mark.parametrize("kind", GRAMMARS)
@pytest.mark.parametrize("interrupted", range(len(PIECES)))
def test_an_interruption_loses_no_capture_and_reports_none_twice(kind: str, interrupted: int) -> None:
    grammar = GRAMMARS[kind]
    _, events = life(grammar, len(PIECES), None)
    parser = MessageParser(None, grammar=grammar)
    for piece in PIECES[:interrupted]:
        parser.feed(piece)
    lines = count_of(partial(parser.feed, PIECES[interrupted]))
    for at in range(0, lines - 1, 1 + lines // 60):
        found, others = life(grammar, interrupted, at)
        assert captures_of(others) == captures_of(events), at
        assert found.captures == grammar.captures("".join(PIECES)), at
