"""How the characters of strings are written."""

from __future__ import annotations

from engine_sampler.grammar import Grammar
from engine_sampler.grammar.program.expression import both, complement, literal, union
from engine_sampler.grammar.schema.scalars.matching import is_empty
from engine_sampler.grammar.schema.scalars.texts import ascii_class, spellings

ALL = (1 << 0x80) - 1
QUOTES = 1 << ord('"') | 1 << ord("\\") | 1 << ord("/")


def test_ascii_characters_are_written_in_all_their_spellings_and_in_no_other_way() -> None:
    for mask in (*(1 << byte for byte in range(0x80)), ALL, ALL & ~QUOTES, QUOTES, 0x5A5A << 8):
        found = ascii_class(mask)
        ways = (literal(way) for byte in range(0x80) if mask >> byte & 1 for way in spellings(byte))
        expected = union(*ways)
        assert is_empty(both(found, complement(expected))), f"{mask:x}"
        assert is_empty(both(expected, complement(found))), f"{mask:x}"


def test_the_keys_that_a_schema_does_not_name_take_few_expressions() -> None:
    members = {"type": "object", "properties": {"a": {"type": "null"}}}
    named = Grammar.from_json_schema({**members, "additionalProperties": False})
    others = Grammar.from_json_schema({**members, "additionalProperties": {"type": "null"}})
    assert len(others.program.expressions) - len(named.program.expressions) < 450
