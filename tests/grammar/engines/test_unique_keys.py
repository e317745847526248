"""Objects whose keys must differ, though the schema does not name them."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from engine_sampler import Tokenizer
from engine_sampler.contract import allocate_bitmask
from engine_sampler.grammar import Grammar, GrammarLimitError
from engine_sampler.grammar.engines import unique_keys
from engine_sampler.testing import MatcherContract

from ..both_engines import every_engine

TWO = {"minProperties": 2}
PIECES = [
    b'"a":',
    b'{"a":1,"',
    b'a"',
    b'"a',
    b'":1,"a":',
    b'","a":"',
    b'\\u0061"',
    b'b"',
    b'b":{"a":1,"a',
    b'1,"b":2}',
]
TOKENS = [*(bytes((byte,)) for byte in range(0x20, 0x7F)), *PIECES, b"<end>"]
TOKENIZER = Tokenizer(TOKENS, [len(TOKENS) - 1])


@pytest.mark.quick_share(3)
class TestUniqueKeys(MatcherContract):
    rounds = 4
    grammar = Grammar.from_json_schema(TWO)
    tokenizer = TOKENIZER
    texts = ('{"a":1,"b":2}', '[{"a":{"a":1,"b":2},"":2}]', '"x"')
    other_texts = ('{"a":1,"a":2}', '{"a":1}', '[{"a":1,"b":{"c":1,"c"', '{"b":1,"\\u0062":2}')


@pytest.mark.parametrize(
    "schema",
    [
        TWO,
        {"properties": {"x": True}, "required": ["x"], "minProperties": 3},
        {"not": {"additionalProperties": {"type": "integer"}}, "type": "object"},
        {"patternProperties": {"^a": {"type": "integer"}}, "minProperties": 2},
    ],
)
def test_a_repeated_key_counts_once(schema: Any) -> None:
    grammar = Grammar.from_json_schema({"type": "object", **schema})
    assert grammar.check('{"x":"1","a":2,"b":"3"}').valid
    check = grammar.check('{"x":"1","a":2,"a":"3"}')
    assert not check.viable
    assert check.position == 17


def test_other_schemas_need_no_memory_of_keys() -> None:
    for schema in (
        {},
        {"minProperties": 1},
        {"properties": {"a": {}}, "required": ["a"], "minProperties": 2},
    ):
        assert not Grammar.from_json_schema(schema).program.unique_keys


def unique(text: str) -> bool:
    """Whether no object in a JSON text repeats a key."""

    def refuse(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise KeyError
        return dict(pairs)

    try:
        json.loads(text, object_pairs_hook=refuse)
    except KeyError:
        return False
    return True


@every_engine
def test_masks_allow_exactly_the_tokens_that_are_accepted(engine: Any) -> None:
    grammar = Grammar.from_json_schema(TWO, whitespace="compact")
    random_ = random.Random(1)
    ended = 0
    for _ in range(5):
        inner = engine(grammar.program, TOKENS, TOKENIZER.eos_token_ids).matcher()
        matcher = unique_keys.UniqueKeysMatcher(inner, TOKENIZER)
        text = b""
        while len(text) < 60:
            bitmask = allocate_bitmask(1, len(TOKENS))
            matcher.fill_bitmask(bitmask)
            allowed = [t for t in range(len(TOKENS)) if bitmask[0, t >> 5] >> (t & 31) & 1]
            assert allowed == [t for t in range(len(TOKENS)) if matcher.fork().accept(t)]
            longest = [t for t in allowed if 0x7F - 0x20 <= t < len(TOKENS) - 1]
            token = random_.choice(longest or allowed)
            if token == len(TOKENS) - 1:
                break
            assert matcher.accept(token)
            text += TOKENS[token]
            if matcher.is_accepting():
                ended += 1
                assert unique(text.decode())
    assert ended


def test_completions_do_not_repeat_keys() -> None:
    grammar = Grammar.from_json_schema(TWO)
    assert grammar.complete('{"a":1') == ',"":0}'
    assert grammar.complete('{"a":1,"a":') is None
    assert grammar.complete('{"":1') == '," ":0}'


def test_the_number_of_remembered_keys_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unique_keys, "MAX_KEYS", 2)
    with pytest.raises(GrammarLimitError, match="more than 2 keys"):
        Grammar.from_json_schema(TWO).check('{"a":1,"b":1,"c":1}')


def test_saved_grammars_still_know_it(tmp_path: Any) -> None:
    Grammar.from_json_schema(TWO).save(tmp_path / "two.grammar")
    assert not Grammar.load(tmp_path / "two.grammar").check('{"a":1,"a":2}').viable
