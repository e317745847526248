"""Matchers of llguidance obey the laws of matchers."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler import SamplingParams, Tokenizer
from engine_sampler.contract import Vocabulary
from engine_sampler.testing import MatcherContract

pytest.importorskip("llguidance")
plugin = pytest.importorskip("engine_sampler_llguidance")

PIECES = [bytes((byte,)) for byte in b'abcxyz{}[]":, 0123456789truefals<>/=\n']
PIECES += [b'{"', b'": ', b'"a"', b"true", b"ab", b"abc", b"", "é".encode(), b"\xc3", b"\xa9", b"<f", b"=a>"]
TOKENIZER = Tokenizer(
    [*PIECES, b"<end>", b"<stop>", b"<pad>"], [len(PIECES), len(PIECES) + 1], [len(PIECES) + 2]
)


def compiled(**given: Any) -> Any:
    vocabulary = Vocabulary(len(TOKENIZER), TOKENIZER.eos_token_ids, TOKENIZER)
    return plugin.GuidanceReader().compiled(SamplingParams(**given), None, vocabulary)


SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}


class TestSchema(MatcherContract):
    grammar = compiled(json_schema=SCHEMA, whitespace=2)
    tokenizer = TOKENIZER
    texts = ['{"a": true}', '{"a":false,"b" : [1]}']
    other_texts = ['{"a": 1}', '{"b": 1}', '{"a": true']


class TestRegex(MatcherContract):
    grammar = compiled(regex="(ab|abc)*é?")
    tokenizer = TOKENIZER
    texts = ["", "ababc", "abé"]
    other_texts = ["a", "abcc"]


class TestChoice(MatcherContract):
    grammar = compiled(choice=["abcab", "abcxyz", ""])
    tokenizer = TOKENIZER
    texts = ["abcab", "abcxyz"]
    other_texts = ["abc"]


class TestCountedTokens(MatcherContract):
    """llguidance itself takes back no token of these."""

    grammar = compiled(grammar='start: a "x"\na[max_tokens=3]: /[ab]*/')
    tokenizer = TOKENIZER
    texts = ["aax", "x"]
    other_texts = ["aa"]


class TestStructuralTag(MatcherContract):
    grammar = compiled(
        structural_tag={
            "type": "structural_tag",
            "triggers": ["<f"],
            "structures": [{"begin": "<f=a>", "schema": {"type": "integer"}, "end": "</f>"}],
        }
    )
    tokenizer = TOKENIZER
    texts = ["ab <f=a>12</f> c"]
    other_texts = ["<f=a>true</f>"]
