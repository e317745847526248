"""Programs that begin with the same expressions are compiled from what was read of these once."""

from __future__ import annotations

from array import array
from dataclasses import replace

import numpy as np
import pytest

from engine_sampler import Tokenizer
from engine_sampler.grammar import Grammar, Limits
from engine_sampler.grammar.engines import native
from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.program.rules import Program
from engine_sampler.grammar.schema.compiling import frequent_expressions

pytestmark = pytest.mark.skipif(native.load_library() is None, reason="the native library is not available")

TOKENIZER = Tokenizer([*(bytes((byte,)) for byte in range(256)), b'{"a', b'": ', b"12", b"</s>"], (259,))
SCHEMAS: list[tuple[object, bytes]] = [
    (
        {"properties": {"a": {"type": "integer"}, "b": {"maxLength": 3}}},
        b'{"a": -12, "b": "\xc3\xa9\\u00e9z"}',
    ),
    ({"type": "array", "items": {"type": "number", "minimum": 2}, "minItems": 1}, b"[2.5, 31, 4e2]"),
    ({"type": "string", "pattern": "^a.*z$"}, b'"a\xf0\x9f\x98\x80 z"'),
    ({"enum": [None, "x/y", {"k": [1]}]}, b'{"k": [1]}'),
]
PROGRAMS = [(Grammar.from_json_schema(schema).program, text) for schema, text in SCHEMAS]
OTHERS = [(Grammar.from_regex(r"(?!ab)[a-z]{2,5}\d?").program, b"ac9"), *PROGRAMS[:1]]


def vocabulary(limits: Limits, *, begins: bool) -> native.NativeVocabulary:
    """One that knows what the programs of schemas begin with, or not."""
    made = native.NativeVocabulary(TOKENIZER, limits)
    if begins:
        made.begin_with(frequent_expressions())
    return made


def masks(program: Program, text: bytes, tokens: native.NativeVocabulary, limits: Limits) -> bytes:
    """The masks along a text of the language."""
    matcher = native.NativeGrammar(program, tokens, limits).matcher()
    bitmask, filled = np.zeros((1, tokens.words), np.int32), b""
    for byte in text:
        matcher.fill_bitmask(bitmask)
        filled += bitmask.tobytes()
        assert matcher.accept_bytes(bytes((byte,)))
    assert matcher.is_accepting()
    return filled


def test_programs_of_schemas_begin_alike() -> None:
    first = frequent_expressions()
    assert len(first) > 100
    assert all(program.expressions[: len(first)] == first for program, _ in PROGRAMS)


def test_the_masks_are_the_same() -> None:
    limits = Limits()
    alike, other = vocabulary(limits, begins=True), vocabulary(limits, begins=False)
    for program, text in [*PROGRAMS, *OTHERS, *PROGRAMS]:
        assert masks(program, text, alike, limits) == masks(program, text, other, limits)


def test_a_grammar_that_is_refused_leaves_the_next_one_as_it_is() -> None:
    limits, scarce = Limits(), Limits(work=50)
    alike, other = vocabulary(limits, begins=True), vocabulary(limits, begins=False)
    program, text = PROGRAMS[0]
    expected = masks(program, text, other, limits)
    for _ in range(3):
        with pytest.raises(GrammarLimitError, match=r"Limits\.work"):
            native.NativeGrammar(program, alike, scarce)
        assert masks(program, text, alike, limits) == expected


def test_the_masks_are_the_same_after_the_shared_tables_were_emptied() -> None:
    limits = Limits(shared_memory=300000)
    alike, other = vocabulary(limits, begins=True), vocabulary(Limits(), begins=False)
    grammar = native.NativeGrammar(PROGRAMS[0][0], alike, limits)
    for program, text in 3 * PROGRAMS:
        assert masks(program, text, alike, limits) == masks(program, text, other, Limits())
    matcher = grammar.matcher()
    assert matcher.accept_bytes(PROGRAMS[0][1])
    assert grammar.statistics()["rebuilt"]


def test_a_malformed_beginning_is_refused_and_the_next_one_is_taken() -> None:
    made, limits = native.NativeVocabulary(TOKENIZER, Limits()), Limits()
    for code in (array("i", [99]), array("i", bytes(4 << 17))):
        with pytest.raises(ValueError, match="expressions of many programs"):
            made.begin_with(code)
    made.begin_with(frequent_expressions())
    made.begin_with(array("i"))
    assert masks(*PROGRAMS[0], made, limits)


def test_programs_that_are_shorter_than_the_beginning_or_malformed_after_it_are_read_as_ever() -> None:
    made, limits = vocabulary(Limits(), begins=True), Limits()
    assert masks(*OTHERS[0], made, limits)
    broken = replace(PROGRAMS[0][0], expressions=frequent_expressions() + array("i", [99]))
    with pytest.raises((ValueError, GrammarError), match="malformed code"):
        native.NativeGrammar(broken, made, limits)
