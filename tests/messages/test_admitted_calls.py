"""Every call that a family's mask admits is read: token by token, in vocabularies of any kind."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from engine_sampler import Tokenizer
from engine_sampler.grammar import TOOL_FAMILIES, Grammar, tool_calls
from engine_sampler.messages import MessageParser

from .families import HARMONY_HEADERS, WrittenCall, tools_of, write_answer, write_calls
from .laws import FAMILIES, said
from .vocabularies import ADDED, EOS, SPECIAL, random_ids

BYTES = Tokenizer([*(bytes([i]) for i in range(256)), b"<eos>"], [EOS])
PLAIN = Tokenizer(ADDED.token_bytes, [EOS])
"""Markers are tokens like others."""
VOCABULARIES = {"special": SPECIAL, "added": ADDED, "plain": PLAIN, "bytes": BYTES}
CALL = WrittenCall("f", {"a": 1, "s": "x"})
TOOLS = tools_of([CALL])
CHOICES = ("auto", "required", {"type": "function", "function": {"name": "f"}})


def texts_of(family: str, choice: Any) -> list[str]:
    """An answer that is one call, in every way of its family."""
    if family == "harmony":
        return [f'{one.format(name="f")}<|message|>{{"a": 1, "s": "x"}}<|call|>' for one in HARMONY_HEADERS]
    first, *others = (TOOL_FAMILIES[family], *TOOL_FAMILIES[family].variants)
    text = write_answer(family, "", "", [CALL], Random(0)).text
    texts = [text, *(write_calls(way, [CALL], Random(0)) for way in others)]
    lead = "" if choice == "auto" else first.lead
    return [lead + one.replace("'x'", '"x"') for one in texts]  # masks of Python's form admit these quotes


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_call_that_the_mask_admits_is_read(family: str, kind: str) -> None:
    for choice in CHOICES:
        for text in texts_of(family, choice):
            check(family, choice, kind, text)


def check(family: str, choice: Any, kind: str, text: str) -> None:
    """A text is admitted in these tokens, may end there, and is read as the call."""
    tokenizer = VOCABULARIES[kind]
    ids = list(text.encode()) if kind == "bytes" else random_ids(text, Random(0))
    matcher = Grammar.from_structural_tag(tool_calls(family, TOOLS, choice)).compile(tokenizer).matcher()
    assert matcher.validate(ids) == len(ids), text
    assert all(map(matcher.accept, ids))
    assert matcher.is_accepting(), text
    parser = MessageParser(family, TOOLS, tokenizer=tokenizer)
    for one in ids:
        parser.feed([one])
    parser.finish()
    assert (parser.deviation, said(parser)) == (None, ("", "", [tuple(CALL)])), text


READ_AS_THOUGHTS = [
    (name, begin) for name, family in TOOL_FAMILIES.items() for begin, _ in family.reads_thinking
]


@pytest.mark.parametrize(("family", "begin"), READ_AS_THOUGHTS)
def test_text_before_a_call_is_not_what_is_read_as_thoughts(family: str, begin: str) -> None:
    grammar = Grammar.from_structural_tag(tool_calls(family, TOOLS, "required", reasoning="auto"))
    assert grammar.check("I look it up").viable
    assert not grammar.check(f"I look {begin}it up").viable
