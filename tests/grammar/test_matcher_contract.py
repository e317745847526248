"""Grammars of every kind obey the laws of matchers, on both engines."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler.grammar import Grammar
from engine_sampler.grammar.engines.native import load_library
from engine_sampler.testing import MatcherContract
from engine_sampler.tokenizer import Tokenizer

PIECES = [
    *(bytes((byte,)) for byte in b'abctruefls019":,{}[] \n'),
    *(b'"a"', b"true", b"ab", b'{"', b'": ', b"<t>", "é".encode()[:1], "é".encode()[1:]),
]
SPECIAL = (b"<end>", b"", b"<tool>")
TOKENIZER = Tokenizer([*PIECES, *SPECIAL], [len(PIECES)], [len(PIECES), len(PIECES) + 2])


@pytest.fixture(params=["native", "reference"], autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "native" and load_library() is None:
        pytest.skip("there is no native grammar engine")
    monkeypatch.setenv("ENGINE_SAMPLER_MASK_ENGINE", request.param)


@pytest.mark.quick_share(4)
class GrammarLaws(MatcherContract):
    tokenizer = TOKENIZER

    def matcher(self) -> Any:
        # Compiled grammars are cached by tokenizer, whichever engine they are for.
        return type(self).grammar.compile(Tokenizer(*_arguments(TOKENIZER))).matcher()


def _arguments(tokenizer: Tokenizer) -> tuple[Any, ...]:
    return tokenizer.token_bytes, tokenizer.eos_token_ids, tokenizer.special_token_ids


class TestRegex(GrammarLaws):
    grammar = Grammar.from_regex("(ab|é)*c?")
    texts = ["", "ababéc"]
    other_texts = ["a", "cc"]


class TestChoices(GrammarLaws):
    grammar = Grammar.from_choices(["ab", "true", "abc"])
    texts = ["ab", "abc", "true"]
    other_texts = ["a", "abca"]


class TestSchema(GrammarLaws):
    grammar = Grammar.from_json_schema({"type": "object", "properties": {"a": {"enum": [1, True]}}})
    texts = ['{"a": true}', "{}", '{"ab": [1, 0]}']
    other_texts = ['{"a": 0}', "{", "[]"]


class TestLark(GrammarLaws):
    grammar = Grammar.from_lark('start: "a" start "b" | "c"')
    texts = ["c", "aacbb"]
    other_texts = ["aacb", ""]
