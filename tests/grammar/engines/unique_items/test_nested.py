"""Arrays whose items must differ, though they are too many to list."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from engine_sampler import Tokenizer
from engine_sampler.contract import allocate_bitmask
from engine_sampler.grammar import Grammar, GrammarLimitError
from engine_sampler.grammar.engines.unique_items import UniqueItems
from engine_sampler.testing import MatcherContract

from ...both_engines import every_engine
from .item_arrays import MIXED, PIECES, STRINGS, items

ROUNDS = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))


ANYTHING = items({})
LONG = [
    *PIECES,
    *(
        b'{"',
        b'{"a":',
        b'":"',
        b'":1',
        b'"}',
        b"},",
        b'},{"',
        b'"},{"a',
        b"},{",
        b"1},",
        b"[{",
        b"]}",
        b'{"a":1},{"a":1}',
    ),
]
TOKENS = [*(bytes((byte,)) for byte in range(0x20, 0x7F)), *LONG, b"<end>"]
TOKENIZER = Tokenizer(TOKENS, [len(TOKENS) - 1])


@pytest.mark.quick_share(3)
class TestNestedItems(MatcherContract):
    rounds = ROUNDS
    grammar = Grammar.from_json_schema({"type": "object", "additionalProperties": items({})})
    tokenizer = TOKENIZER
    texts = ('{"a":["a",{"a":1},[1]]}', '{"a":[],"b":[{}],"c":[{}]}', '{"é":[{"a":[1,1]},{"a":[1]}]}')
    other_texts = (
        '{"a":[{"a":1},{"a":1}]}',
        '{"a":[[1],[1.0]',
        '{"a":[{"\\u0061":1},{"a":1}]}',
        '{"a":[{},{}]}',
    )


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            items({"type": "object"}),
            ['[{}, {"a": 1}]', '[{"a": {"b": []}}, {"a": {"b": [{}]}}]', '[{"a": "1"}, {"a": 1}]'],
            [
                "[{}, { }]",
                '[{"a": 1, "b": 2}, {"b": 2, "a": 1}]',
                '[{"\\u0061": 10}, {"a": 1e1}]',
                '[{"a": 1}, {"a": 2, "a": 1}]',
            ],
        ),
        (items(STRINGS), ['[["a","b"],["b","a"],[]]'], ['[["a"],["a"]]', "[[],[]]", '[["a","a"]]']),
        (
            items({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}),
            ['[{"a": true}, {"a": false}, {"a": true, "b": 1}]'],
            ['[{"a": true}, {"a": false}, {"a": true}]'],
        ),
        (
            items({"type": "string"}, prefixItems=[{"const": "a"}], contains={"const": "b"}),
            ['["a","b"]', '["a","c","b"]'],
            ['["a","a","b"]', '["a","b","b"]', '["a","c"]'],
        ),
    ],
)
def test_nested_items_differ_by_value(schema: Any, good: list[str], bad: list[str]) -> None:
    grammar = Grammar.from_json_schema(schema)
    assert [text for text in (*good, *bad) if grammar.check(text).valid] == good


def value(item: Any) -> Any:
    """An item such that different ones are different."""
    if isinstance(item, dict):
        return frozenset((name, value(member)) for name, member in item.items())
    if isinstance(item, list):
        return tuple(map(value, item))
    return (isinstance(item, bool), Decimal(item)) if isinstance(item, (int, Decimal)) else item


KINDS = {
    "string": items({"type": "string"}),
    "integer": items({"type": "integer"}),
    "mixed": MIXED,
    "object": items({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}),
    "closed object": items(
        {
            "type": "object",
            "properties": {"a": {"enum": ["a", 1]}, "ab": {"enum": ["a", "aa"]}},
            "additionalProperties": False,
        }
    ),
    "array": items({"type": "array", "items": {"type": ["integer", "string"]}, "maxItems": 2}),
    "anything": items({}),
    "inner array": items(
        {"type": "object", "additionalProperties": items({"type": "string", "pattern": "^[a1]{0,2}$"})}
    ),
    "pattern": items({"type": "string", "pattern": "^[a1]$"}),
    "pair": {
        "type": "array",
        "prefixItems": [{"enum": ["a", 1]}],
        "items": {"type": "string"},
        "uniqueItems": True,
    },
    "containing": items({"type": ["string", "object"]}, contains={"enum": ["a", {"a": 1}]}),
}


@pytest.mark.quick_share(4)
@every_engine
@pytest.mark.parametrize("kind", KINDS)
def test_masks_allow_exactly_the_tokens_that_are_accepted(engine: Any, kind: str) -> None:
    schema = KINDS[kind]
    grammar = Grammar.from_json_schema(
        {"anyOf": [schema, {"type": "object", "additionalProperties": schema}]}, whitespace="compact"
    )
    random_ = random.Random(4)
    for _ in range(ROUNDS):
        inner = engine(grammar.program, TOKENS, TOKENIZER.eos_token_ids).matcher()
        matcher = UniqueItems(grammar.program, TOKENIZER).matcher(inner)
        text = b""
        while True:
            bitmask = allocate_bitmask(1, len(TOKENS))
            matcher.fill_bitmask(bitmask)
            allowed = [t for t in range(len(TOKENS)) if bitmask[0, t >> 5] >> (t & 31) & 1]
            assert allowed, text
            if len(text) < 50:
                assert allowed == [t for t in range(len(TOKENS)) if matcher.fork().accept(t)], text
                longest = [t for t in allowed if 0x7F - 0x20 <= t < len(TOKENS) - 1]
                few = [t for t in allowed if TOKENS[t] in b'"a,[]1{:}']
                token = random_.choice(random_.choice([longest or allowed, few or allowed, allowed]))
            else:
                ends = [t for end in (b"<end>", b'"', b"]", b"}", b":") for t in allowed if TOKENS[t] == end]
                token = ends[0] if ends else random_.choice(allowed)
            if token == len(TOKENS) - 1 or len(text) > 120:
                break
            assert matcher.accept(token)
            text += TOKENS[token]
        if matcher.is_accepting():
            found = json.loads(text, parse_float=Decimal)
            assert all(len(set(one)) == len(one) for one in unique_arrays(found))


def unique_arrays(found: Any) -> Iterator[list[Any]]:
    """The arrays at the top of a value, and those in the objects of their items."""
    for array in found.values() if isinstance(found, dict) else [found]:
        yield [value(one) for one in array]


def test_completions_do_not_repeat_objects_in_silence() -> None:
    grammar = Grammar.from_json_schema(items({"type": "object"}))
    assert grammar.complete('[{"a":1},{"a":2') == "}]"
    assert grammar.complete('[{"a":1},{"a":1}') is None
    with pytest.raises(GrammarLimitError, match="repeats an item"):
        grammar.complete("[{},")


def test_a_number_may_not_grow_without_end() -> None:
    grammar = Grammar.from_json_schema(items({}), numbers="any")
    assert grammar.check("[" + "1" * 4000).viable
    with pytest.raises(GrammarLimitError, match="a number among items that must differ has more than 4096"):
        grammar.check("[" + "1" * 5000)
    with pytest.raises(GrammarLimitError, match="a number among items that must differ has more than 4096"):
        grammar.check("[1e" + "1" * 5000 + "]")


def test_an_item_may_not_be_nested_without_end() -> None:
    grammar = Grammar.from_json_schema(items({}))
    assert grammar.check("[" * 90).viable
    with pytest.raises(GrammarLimitError, match="an item is nested more than 100 deep"):
        grammar.check("[" * 103)


def test_no_item_begins_after_the_last_different_object() -> None:
    flag = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
    grammar = Grammar.from_json_schema(items({**flag, "additionalProperties": False}))
    assert grammar.check('[{"a": true}, {"a": fals').viable
    assert not grammar.check('[{"a": true}, {"a": t').viable
    assert not grammar.check('[{"a": true}, {"a": false},').viable


@pytest.mark.parametrize("count", [1, 2, 5])
def test_objects_are_remembered_exactly_after_rollback_and_fork(count: int) -> None:
    matcher = Grammar.from_json_schema(items({"type": "object"})).compile(TOKENIZER).matcher()
    assert matcher.accept_bytes(b"[")
    for number in range(count):
        assert matcher.accept_bytes(b'{"a":%d},' % number)
    fork = matcher.fork()
    assert fork.accept_bytes(b'{"b":1}')
    assert not matcher.accept_bytes(b'{"a":0}')
    assert matcher.accept_bytes(b'{"b":1}')
    assert matcher.accept_bytes(b',{"b":2}')
    matcher.rollback(2)
    assert matcher.accept_bytes(b'{"b":2},{"b":1}]')
    assert fork.accept_bytes(b',{"b":2}]')
