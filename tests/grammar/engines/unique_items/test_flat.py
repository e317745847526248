"""Arrays whose items must differ, though they are too many to list."""

from __future__ import annotations

import json
import os
import random
from decimal import Decimal
from typing import Any

import pytest

from engine_sampler import Tokenizer
from engine_sampler.contract import allocate_bitmask
from engine_sampler.grammar import Grammar, GrammarLimitError
from engine_sampler.grammar.engines.unique_items import UniqueItems
from engine_sampler.grammar.errors import UnsupportedKeywordError
from engine_sampler.testing import MatcherContract

from ...both_engines import every_engine
from .item_arrays import MIXED, PIECES, STRINGS, items

ROUNDS = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))


FEW = items({"type": ["string", "integer"], "pattern": "^(a|b|ab|\\n)$", "minimum": 0, "maximum": 2})
LONG = [
    *PIECES,
    *(
        b'",',
        b'a",',
        b'" ,',
        b'",1',
        b'", "a',
        b'\\"',
        b"a\\",
        b"\\n",
        b"\\na",
        b"na",
        b"u0061",
        b" ",
        b"\n",
        b' "',
        b'"a",',
    ),
]
TOKENS = [*(bytes((byte,)) for byte in range(0x20, 0x7F)), *LONG, b"<end>"]
TOKENIZER = Tokenizer(TOKENS, [len(TOKENS) - 1])


@pytest.mark.quick_share(3)
class TestUniqueItems(MatcherContract):
    rounds = ROUNDS
    grammar = Grammar.from_json_schema({"type": "object", "additionalProperties": MIXED})
    tokenizer = TOKENIZER
    texts = ('{"a":["a","b",1,11]}', '{"a":[],"b":["a"],"c":["a"]}', '{"é":[true,"true"]}')
    other_texts = ('{"a":["a","a"]}', '{"a":[1,1.0', '{"a":["\\u0061","a"]}', '{"a":[1,true,true]}')


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (STRINGS, ["[]", '["a","A"]', '["a","aa"]'], ['["a","a"]', '["a","\\u0061"]', '["é", "\\u00e9"]']),
        (items({"type": "integer"}), ["[1,11,-1]", "[0]"], ["[1,1]", "[0,-0]", "[1,11,1]"]),
        (items({"type": "number"}), ["[1,1.5,1e2]"], ["[1,1.0]", "[100,1e2]", "[0.5,5e-1]", "[0,0.0e7]"]),
        (MIXED, ['["1",1,true,"true"]'], ["[true,true]", '["1",1,"1"]']),
        (
            items({"type": "string", "pattern": "^[ab]{12}$"}),
            ['["aaaaaaaaaaaa"]'],
            ['["aaaaaaaaaaaa","aaaaaaaaaaaa"]'],
        ),
        (
            items({"type": "string", "format": "date"}),
            ['["2020-01-01","2020-01-02"]'],
            ['["2020-01-01","2020-01-01"]'],
        ),
        (
            items({"enum": [f"v{n}" for n in range(1500)]}, minItems=2),
            ['["v1","v2"]'],
            ['["v1","v1"]', '["v1"]'],
        ),
        ({"anyOf": [STRINGS, {"type": "null"}]}, ["null", '["a"]'], ['["a","a"]']),
        (items({"type": "integer", "minimum": 0}, minItems=3), ["[1,2,3]"], ["[1,2,2]", "[1,2]"]),
        ({"type": "array", "items": STRINGS}, ['[["a"],["a"]]', "[[],[]]"], ['[["a"],["b","b"]]']),
        (
            {
                "properties": {"a": STRINGS, "b": {"type": "array", "items": {"type": "string"}}},
                "type": "object",
            },
            ['{"b":["x","x"],"a":["x","y"]}', '{"a":["[\\"a\\",\\"a\\"]"]}'],
            ['{"b":["x","x"],"a":["x","x"]}'],
        ),
    ],
)
def test_items_differ_by_value(schema: Any, good: list[str], bad: list[str]) -> None:
    grammar = Grammar.from_json_schema(schema)
    assert [text for text in (*good, *bad) if grammar.check(text).valid] == good


@pytest.mark.parametrize(
    ("schema", "beginning", "refused"),
    [
        (items({"type": "string", "maxLength": 1, "pattern": "^[a-z]*$"}), '["a","', "a"),
        (items({"type": "string", "pattern": "^(ab|b[0-9]{4,9})$"}), '["ab","', "a"),
        (items({"type": "integer", "minimum": 0}), "[0,", "0"),
        (items({"type": "integer", "minimum": 0, "maximum": 5000}), "[5000,500", "0"),
        (items({"type": ["boolean", "string"]}), "[true,", "t"),
    ],
)
def test_nothing_leads_to_an_end_without_an_item_left(schema: Any, beginning: str, refused: str) -> None:
    grammar = Grammar.from_json_schema(schema)
    assert grammar.check(beginning).viable
    assert not grammar.check(beginning + refused).viable


def test_a_comma_needs_an_item_that_is_left() -> None:
    grammar = Grammar.from_json_schema(items({"type": "string", "pattern": "^[ab]$"}))
    assert not grammar.check('["a","b",').viable
    assert grammar.check('["a","b"]').valid


@pytest.mark.parametrize(
    "schema",
    [
        items({"type": "object"}, minItems=2),
        items({"type": "string"}, contains={"const": "a"}, minContains=2),
        items({"type": "string"}, contains={"const": "a"}, maxContains=1, minItems=2),
        items(
            {"type": "string"},
            prefixItems=[{"type": "string"}, {"type": "string", "pattern": "^a+$"}],
            minItems=2,
        ),
        items({"type": "string", "pattern": "^[ab]+$"}, minItems=2),
        items({"type": "string"}, minItems=2000),
    ],
)
def test_other_arrays_are_refused(schema: Any) -> None:
    with pytest.raises(UnsupportedKeywordError, match="uniqueItems"):
        Grammar.from_json_schema(schema)


def test_other_schemas_need_no_memory_of_items() -> None:
    for schema in ({}, items({"enum": [1, 2]}), items({"type": "string"}, maxItems=1)):
        assert not Grammar.from_json_schema(schema).program.unique_items


def value(item: Any) -> Any:
    """An item such that different ones are different."""
    return (isinstance(item, bool), Decimal(item)) if isinstance(item, (int, Decimal)) else item


@pytest.mark.quick_share(4)
@every_engine
@pytest.mark.parametrize("kind", ["string", "integer", "mixed", "few"])
def test_masks_allow_exactly_the_tokens_that_are_accepted(engine: Any, kind: str) -> None:
    schema = {"mixed": MIXED, "few": FEW}.get(kind) or items({"type": kind})
    grammar = Grammar.from_json_schema(
        {"anyOf": [schema, {"type": "object", "additionalProperties": schema}]}
    )
    random_ = random.Random(3)
    ended = 0
    for _ in range(2 * ROUNDS):
        inner = engine(grammar.program, TOKENS, TOKENIZER.eos_token_ids).matcher()
        matcher = UniqueItems(grammar.program, TOKENIZER).matcher(inner)
        text = b""
        while len(text) < 40:
            bitmask = allocate_bitmask(1, len(TOKENS))
            matcher.fill_bitmask(bitmask)
            allowed = [t for t in range(len(TOKENS)) if bitmask[0, t >> 5] >> (t & 31) & 1]
            assert allowed == [t for t in range(len(TOKENS)) if matcher.fork().accept(t)], text
            assert allowed, text
            longest = [t for t in allowed if 0x7F - 0x20 <= t < len(TOKENS) - 1]
            few = [t for t in allowed if TOKENS[t] in b'"a,[]1{:}']
            token = random_.choice(random_.choice([longest or allowed, few or allowed, allowed]))
            if token == len(TOKENS) - 1:
                break
            assert matcher.accept(token)
            text += TOKENS[token]
            if matcher.is_accepting():
                ended += 1
                found = json.loads(text, parse_float=Decimal)
                for array in found.values() if isinstance(found, dict) else [found]:
                    assert len({value(one) for one in array}) == len(array), text
    assert ended


def test_completions_do_not_repeat_items_in_silence() -> None:
    grammar = Grammar.from_json_schema(STRINGS)
    assert grammar.complete('["a","b') == '"]'
    assert grammar.complete('["a","a"') is None
    with pytest.raises(GrammarLimitError, match="repeats an item"):
        grammar.complete('["",')


@pytest.mark.parametrize("items", [{"type": "string"}, {}], ids=["of texts", "of anything"])
def test_a_saved_grammar_remembers_items(tmp_path: Any, items: dict[str, Any]) -> None:
    grammar = Grammar.from_json_schema({"type": "array", "items": items, "uniqueItems": True})
    grammar.save(tmp_path / "strings.grammar")
    assert not Grammar.load(tmp_path / "strings.grammar").check('["a","a"]').viable


@pytest.mark.parametrize("items", [{"type": "string"}, {}], ids=["of texts", "of anything"])
def test_items_are_remembered_within_other_texts(items: dict[str, Any]) -> None:
    schema = {"type": "array", "items": items, "uniqueItems": True}
    content = {"type": "json_schema", "json_schema": schema}
    tags = [{"begin": "call ", "content": content, "end": "."}]
    tag = {"type": "triggered_tags", "triggers": ["call "], "tags": tags}
    for grammar in (
        Grammar.from_lark(f'start: "call " %json {json.dumps(schema)}'),
        Grammar.from_structural_tag({"type": "structural_tag", "format": tag}),
    ):
        assert not grammar.check('call ["a","a"').viable
        assert grammar.check('call ["a","b"').viable
    assert grammar.check('["a","a"] call ["x"]. ["a","a"]').valid
