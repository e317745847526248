"""The engine in C refuses malformed programs; it never reads past their ends."""

from __future__ import annotations

from array import array
from dataclasses import replace

import numpy as np
import pytest

from engine_sampler import Tokenizer
from engine_sampler.grammar import Grammar, Limits
from engine_sampler.grammar.engines import native
from engine_sampler.grammar.program.rules import Program

pytestmark = pytest.mark.skipif(native.load_library() is None, reason="the native library is not available")

ARRAYS = tuple(name for name, kind in Program.__annotations__.items() if kind == "array[int]")
TOKENIZER = Tokenizer([b"a", b"b", b'"', b'{"a', b": ", b"12", b"<end>", b"}"], (6,), (6,))
PROGRAMS = [
    Grammar.from_regex(r"(?!ab)[ab]{2,5}c?").program,
    Grammar.from_lark('start: (A | "b" start)+\nA: /a+?b/\n%ignore " "').program,
    Grammar.from_lark('start: (A | "b" start)+\nA: /a+(?!b)/\n%ignore " "', lexer="contextual").program,
    Grammar.from_json_schema({"properties": {"a": {"type": "integer"}}, "minProperties": 1}).program,
    Grammar.from_structural_tag(
        {"format": {"type": "star", "content": {"type": "any_text", "max_tokens": 2}}}
    ).program,
]
IDS = ["regex", "lark", "contextual", "schema", "budget"]


def count_accepted(program: Program) -> int:
    """Compile `program` and try some tokens; returns how many were accepted. Raises the engine's errors."""
    limits = Limits(memory=1 << 24, shared_memory=1 << 24, work=200_000)
    vocabulary = native.NativeVocabulary(TOKENIZER, limits)
    matcher = native.NativeGrammar(program, vocabulary, limits).matcher()
    bitmask, accepted = np.zeros((1, 1), np.int32), 0
    for _ in range(6):
        matcher.fill_bitmask(bitmask)
        accepted += next((1 for token in range(len(TOKENIZER)) if matcher.accept(token)), 0)
    return accepted


def corrupted(program: Program, rng: np.random.Generator) -> Program:
    """`program` with a few numbers changed, or an array shortened or extended."""
    changes = {}
    for name in rng.choice(ARRAYS, size=rng.integers(1, 4)):
        values = list(getattr(program, name))
        for _ in range(rng.integers(1, 4)):
            wild = int(rng.choice([-(2**31), -5, -2, -1, 0, 1, 2, 3, 7, 1000, 2**31 - 1]))
            if values and rng.random() < 0.7:
                at = rng.integers(len(values))
                values[at] = (
                    wild if rng.random() < 0.5 else min(2**31 - 1, values[at] + int(rng.integers(-2, 3)))
                )
            elif values and rng.random() < 0.5:
                values.pop()
            else:
                values.append(wild)
        changes[str(name)] = array("i", [max(-(2**31), value) for value in values])
    return replace(program, **changes)


@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_an_intact_program_can_be_followed(program: Program) -> None:
    assert count_accepted(program) > 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("program", PROGRAMS, ids=IDS)
def test_corrupted_programs_are_refused_or_have_another_language(program: Program, seed: int) -> None:
    rng = np.random.default_rng(seed)
    refused = 0
    for _ in range(60):
        try:
            count_accepted(corrupted(program, rng))
        except ValueError:
            refused += 1
    assert refused > 5


def test_what_the_engine_is_given_has_the_layout_of_the_header() -> None:
    types, ffi = native._types(), native._interface()
    program, limits = PROGRAMS[0], Limits(memory=1, work=2, carried=3)
    packed_program, packed_limits = types.packed_program(program), types.packed_limits(limits)
    given = ffi.from_buffer(types.program, packed_program)
    for name in ARRAYS:
        content, length = getattr(given, name), getattr(given, f"{name}_length")
        assert (list(content[0:length]) if length else []) == list(getattr(program, name))
    assert given.start == program.start
    bounds = ffi.from_buffer(types.limits, packed_limits)
    assert (bounds.max_memory, bounds.max_work, bounds.max_carried) == (1, 2, 3)


def test_a_structure_with_other_members_is_refused() -> None:
    with pytest.raises(ValueError, match=r"es_grammar_limits .* must have the members max_work, max_memory"):
        native._layout(native._interface(), "es_grammar_limits", ["max_work", "max_memory"])
