"""Which of many beginnings a text has, and what finding it takes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from engine_sampler.grammar.errors import GrammarLimitError
from engine_sampler.messages import MessageParser
from engine_sampler.messages.definition import Opener
from engine_sampler.messages.reading.openers import MAX_NESTED, OpenerIndex
from engine_sampler.messages.templates import FAILED, PARTIAL, Found, Part, Template


def one_by_one(openers: Sequence[Opener], text: str, at: int) -> tuple[Opener | None, Found]:
    """What an index finds, by trying them all."""
    best: tuple[Opener | None, Found] = (None, Found(FAILED))
    for opener in openers:
        found = opener.begin.match(text, at)
        if found.end == PARTIAL:
            return opener, found
        if found.end > best[1].end:
            best = opener, found
    return best


def random_openers(random: Random) -> list[Opener]:
    openers = []
    for _ in range(random.randint(1, 12)):
        parts = [Part("text", "".join(random.choices("ab<", k=random.randint(1, 4))))]
        for _ in range(random.randint(0, 3)):
            kind = random.choice(["text", "space", "name"])
            if kind != parts[-1].kind:
                parts.append(Part(kind, "".join(random.choices("ab<", k=2)) if kind == "text" else ""))
        openers.append(Opener(random.choice(["call", "content", "trigger", "stop"]), Template(parts)))
    return openers


def test_an_index_finds_what_trying_all_openers_finds() -> None:
    for seed in range(400):
        random = Random(seed)
        openers = random_openers(random)
        index = OpenerIndex(openers)
        for _ in range(10):
            text = "".join(random.choices("ab< \n", k=random.randint(1, 9)))
            for at in range(len(text)):
                opener, found = index.find(text, at)
                expected, wanted = one_by_one(openers, text, at)
                assert found == wanted, (openers, text, at)
                assert opener is expected or found.end == PARTIAL


def tags(begins: Sequence[str]) -> dict[str, Any]:
    content = {"type": "json_schema", "json_schema": {}}
    inner = [{"type": "tag", "begin": one, "content": content, "end": "</a>"} for one in begins]
    return {"format": {"type": "triggered_tags", "triggers": ["<"], "tags": inner}}


@pytest.fixture
def matches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The length of what is looked at in each trial of a template."""
    lengths: list[int] = []
    match = Template.match

    def counted(self: Template, text: str, at: int) -> Found:
        lengths.append(len(text) - at)
        return match(self, text, at)

    monkeypatch.setattr(Template, "match", counted)
    return lengths


@pytest.mark.parametrize("shared", ["<a", '<tool_call>\n{"name": "f', "<" + "a" * 1_000])
def test_tags_that_begin_alike_take_no_more_trials_than_a_few(shared: str, matches: list[int]) -> None:
    counts = []
    for count in (475, 950, 1_900):
        parser = MessageParser(structural_tag=tags([f'{shared}{number}"b>' for number in range(count)]))
        matches.clear()
        for character in (shared + "x") * 20 + shared:
            parser.feed(character)
        counts.append(len(matches))
    assert counts[0] == counts[1] == counts[2]


def test_beginnings_that_begin_with_each_other_are_bounded() -> None:
    nested = ["<" * number + "\nx" for number in range(1, 100)]
    divided = ["<" + "\n".join(parts) for parts in itertools.product(("<", "<<"), repeat=8)]
    for begins in (nested, divided):
        MessageParser(structural_tag=tags(begins[:MAX_NESTED]))
        with pytest.raises(
            GrammarLimitError, match="structural_tag: more than 64 tags whose beginnings begin"
        ):
            MessageParser(structural_tag=tags(begins))
    parser = MessageParser(stop=["a" * number for number in range(1, 250)])
    parser.feed("b" + "a" * 300)
    assert [part.text for part in parser.parts] == ["b"]


def test_marks_of_tags_that_are_too_long_to_be_held_back_are_refused() -> None:
    for begin in ("<" + "a" * 5_000, '{"' + "[" * 300, "<" + "\na" * 200):
        with pytest.raises(
            GrammarLimitError, match=r"structural_tag: the mark '.* is too long to be held back"
        ):
            MessageParser(structural_tag=tags([begin]))
    content = {"type": "json_schema", "json_schema": {}}
    long = {"type": "tag", "begin": "<a>", "content": content, "end": "</" + "a" * 5_000}
    dropped = {"type": "tag", "begin": "<" + "a" * 5_000, "content": {"type": "any_text"}, "end": ""}
    for tag in (long, dropped):
        with pytest.raises(GrammarLimitError, match="too long to be held back"):
            MessageParser(structural_tag={"format": tag})


def test_what_is_held_back_is_looked_at_in_proportion_to_the_text() -> None:
    begin = "<" + "a" * 4_000
    parser = MessageParser(structural_tag=tags([begin + ">"]))
    held = []
    for size in (1, 2, 4):
        looked = 0
        for character in (begin + "b") * size:
            parser.feed(character)
            looked += len(parser._place.pending)
        held.append(looked)
    assert held[1] == 2 * held[0]
    assert held[2] == 4 * held[0]
