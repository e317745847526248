"""Arguments of the constructors of `Grammar`: a wrong one is named, with its value and what is allowed."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from engine_sampler import SamplingParams, Tokenizer
from engine_sampler.grammar import Grammar, GrammarError, GrammarSource, Limits
from engine_sampler.grammar.engines import native
from engine_sampler.grammar.errors import GrammarLimitError
from engine_sampler.grammar.grammar import clear_grammar_cache

from .lark.oracle import LIBRARY

WRONG: list[Any] = [[], {}, 3, b"x", True, 1.5, (1,)]
A_RULE, A_GBNF_RULE = 'start: "a"', 'root ::= "a"'
CONSTRUCTORS: dict[str, Any] = {
    "start": lambda value: Grammar.from_lark(A_RULE, start=value),
    "lexer": lambda value: Grammar.from_lark(A_RULE, lexer=value),
    "path": lambda value: Grammar.from_lark(A_RULE, path=value),
    "start of GBNF": lambda value: Grammar.from_gbnf(A_GBNF_RULE, start=value),
    "start of a text": lambda value: Grammar.from_text(A_RULE, start=value),
    "start of a text in GBNF": lambda value: Grammar.from_text(A_GBNF_RULE, start=value),
    "lexer of a text": lambda value: Grammar.from_text(A_RULE, lexer=value),
    "dialect": lambda value: Grammar.from_regex("a", dialect=value),
    "path of a file": Grammar.from_file,
    "limits": lambda value: Grammar.from_lark(A_RULE, limits=value),
    "limits of a schema": lambda value: Grammar.from_json_schema({}, limits=value),
}


@pytest.mark.parametrize("name", CONSTRUCTORS)
@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_a_wrong_argument_is_named(name: str, value: Any) -> None:
    with pytest.raises(GrammarError) as caught:
        CONSTRUCTORS[name](value)
    assert str(caught.value).startswith(f"{name.split()[0]}={value!r} is not allowed: ")


@pytest.mark.parametrize("value", [None, 3, "folder", b"folder", [3], [None]], ids=repr)
def test_wrong_folders_are_named(value: Any) -> None:
    with pytest.raises(GrammarError, match=r"import_paths=.* is not allowed: "):
        Grammar.from_lark(A_RULE, import_paths=value)


@pytest.mark.parametrize(
    "value", [3, "x", [("X", "x")], {"X": 3}, {"X": None}, {3: "x"}, {"X": "\ud800"}], ids=ascii
)
def test_wrong_declarations_are_named(value: Any) -> None:
    with pytest.raises(GrammarError, match=r"declared=.* is not allowed: regular expressions"):
        Grammar.from_lark("start: X\n%declare X", declared=value)


@pytest.mark.parametrize("value", [None, 3, [], [3], ["\ud800"], [["a"]]], ids=ascii)
def test_wrong_choices_are_named(value: Any) -> None:
    with pytest.raises(GrammarError, match=r"choices=.* is not allowed: one or more strings"):
        Grammar.from_choices(value)


def test_paths_are_strings_or_paths(tmp_path: Path) -> None:
    (tmp_path / "words.lark").write_text('WORD: "a"')
    text = "%import words.WORD\nstart: WORD"
    for folder in (tmp_path, str(tmp_path)):
        assert Grammar.from_lark(text, import_paths=[folder]).check("a").valid
    assert Grammar.from_file(str(LIBRARY / "json.lark")) == Grammar.from_file(LIBRARY / "json.lark")


LARK_FILE = LIBRARY / "json.lark"
WITHIN: dict[str, Any] = {
    "lark": lambda limits: Grammar.from_lark(A_RULE, limits=limits),
    "contextual": lambda limits: Grammar.from_lark(A_RULE, lexer="contextual", limits=limits),
    "gbnf": lambda limits: Grammar.from_gbnf(A_GBNF_RULE, limits=limits),
    "text": lambda limits: Grammar.from_text(A_RULE, limits=limits),
    "text in GBNF": lambda limits: Grammar.from_text(A_GBNF_RULE, limits=limits),
    "json_schema": lambda limits: Grammar.from_json_schema({"type": "object"}, limits=limits),
    "json_object": lambda limits: Grammar.from_json_object(limits=limits),
    "regex": lambda limits: Grammar.from_regex("a{2,9}b", limits=limits),
    "choices": lambda limits: Grammar.from_choices(["first", "second"], limits=limits),
    "structural_tag": lambda limits: Grammar.from_structural_tag(
        {"format": {"type": "json_schema", "json_schema": {"type": "object"}}}, limits=limits
    ),
    "file": lambda limits: Grammar.from_file(LARK_FILE, limits=limits),
}


@pytest.mark.parametrize("name", WITHIN)
def test_a_grammar_is_read_within_the_given_limits(name: str) -> None:
    assert WITHIN[name](Limits(reading=10**7)) == WITHIN[name](Limits())
    with pytest.raises(GrammarLimitError, match=r"more than 1 steps to be read \(Limits\.reading\)"):
        WITHIN[name](Limits(reading=1))
    with pytest.raises(GrammarLimitError, match=r"characters, the limit is 3 \(Limits\.text\)"):
        WITHIN[name](Limits(text=3))


RULES = """start: item+ "end"
item: name "=" value ";" | "(" list{value} ")"
list{x}: x ("," x)*
value: NUMBER | name | /[a-z]{2,40}~/ NUMBER | /"[^"]*"/ | "null" | "true" | "false"
name: WORD | WORD "." WORD
WORD: /[a-z][a-z0-9_]{0,20}/
NUMBER: /-?\\d+(\\.\\d+)?/
%ignore /#[^\\n]*/
%ignore " "
"""
GBNF_RULES = """root ::= item+ "end"
item ::= name "=" value ";" | "(" value ("," value){0,9} ")"
value ::= number | name | [a-z]{2,40} number | "null" | "true" | "false"
name ::= word | word "." word
word ::= [a-z] [a-z0-9_]{0,20}
number ::= "-"? [0-9]+ ("." [0-9]+)?
"""
A_SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "pattern": "^(ab|cd){2,30}$"},
        "b": {"oneOf": [{"minimum": 1}, {"multipleOf": 7}]},
        "c": {"type": "array", "items": {"enum": ["x", "y", 1]}, "uniqueItems": True},
    },
    "required": ["a"],
}
A_TAG = {"format": {"type": "json_schema", "json_schema": A_SCHEMA}}
READERS: dict[str, Any] = {
    "lark": lambda limits: Grammar.from_lark(RULES, limits=limits),
    "contextual": lambda limits: Grammar.from_lark(RULES, lexer="contextual", limits=limits),
    "gbnf": lambda limits: Grammar.from_gbnf(GBNF_RULES, limits=limits),
    "schema": lambda limits: Grammar.from_json_schema(A_SCHEMA, limits=limits),
    "tag": lambda limits: Grammar.from_structural_tag(A_TAG, limits=limits),
}
IN_LARK = r"(\b(start|item|list|value|name|WORD|NUMBER)|%ignore|terminal /).*\(line \d+, column \d+\)"
PLACES = {
    **dict.fromkeys(("lark", "contextual"), IN_LARK),
    "gbnf": r"(\b(root|item|value|name|word|number)|terminal /).*\(line \d+, column \d+\)",
    "schema": "",
    "tag": "^(format|the structural tag)",
}
"""How errors say which part of a grammar they are about; those of schemas have a pointer."""


def _refusals(make: Any) -> Iterator[GrammarLimitError]:
    """The errors of a grammar under higher and higher limits on reading it, up to the first that suffices."""
    steps = 1
    while True:
        try:
            make(Limits(reading=steps))
        except GrammarLimitError as error:
            yield error
        else:
            return
        steps += 1 + steps // 8


@pytest.mark.parametrize("name", READERS)
def test_wherever_reading_ends_the_error_names_a_part(name: str) -> None:
    clear_grammar_cache()
    refusals = list(_refusals(READERS[name]))
    assert len(refusals) > 10
    for error in refusals:
        assert "(Limits.reading)" in error.text
        assert re.search(PLACES[name], str(error)), error
        assert name != "schema" or error.pointer is not None, error


BYTES = [bytes([byte]) for byte in range(256)]
COMPILING = {"memory": 1000, "shared_memory": 1000, "work": 20}
READING = {"reading": 300, "text": 20}
NEVER_REFUSED = {
    "grammar_memory": "drops the largest tables",
    "carried": "is about texts, not grammars",
}


def test_every_limit_is_walked() -> None:
    fields = {field.name for field in dataclasses.fields(Limits)}
    assert fields == COMPILING.keys() | READING.keys() | NEVER_REFUSED.keys()


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("field", READING)
def test_each_limit_on_reading_is_named(field: str, name: str) -> None:
    with pytest.raises(GrammarLimitError, match=rf"\(Limits\.{field}\)"):
        READERS[name](Limits(**{field: READING[field]}))


@pytest.mark.skipif(
    native.load_library() is None, reason="without the engine in C, these limits bind nothing"
)
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("field", COMPILING)
def test_each_limit_on_compiling_is_named_with_the_largest_part(
    field: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINE_SAMPLER_MASK_ENGINE", "native")
    grammar, tokenizer = READERS[name](Limits()), Tokenizer([*BYTES, b"</s>"], [256])
    with pytest.raises(GrammarLimitError, match=rf"\(Limits\.{field}\)") as raised:
        grammar.compile(tokenizer, limits=Limits(**{field: COMPILING[field]}))
    assert field == "shared_memory" or re.search(
        "; the grammar's largest part is the (rule|terminal) ", raised.value.text
    )


def test_limits_may_be_raised_for_one_grammar_alone() -> None:
    choices = ["a" * 2_100_000, "b"]
    assert Grammar.from_choices(choices, limits=Limits(text=3 << 20)).check("b").valid
    with pytest.raises(GrammarLimitError, match=r"Limits\.text"):
        Grammar.from_choices(choices)


def test_what_other_limits_admit_is_not_found_in_the_cache() -> None:
    assert Grammar.from_regex("(ab|cd){3,7}x", limits=Limits(reading=10**7)).check("abcdabx").valid
    with pytest.raises(GrammarLimitError, match=r"Limits\.reading"):
        Grammar.from_regex("(ab|cd){3,7}x", limits=Limits(reading=1))


def test_equal_limits_find_the_same_grammar() -> None:
    assert Grammar.from_regex("[ab]{3}c", limits=Limits()) is Grammar.from_regex("[ab]{3}c")


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


@dataclasses.dataclass
class Shirt:
    size: Size
    number: int = 1


def order(shirt: Shirt, note: str = "") -> None:
    """Order a shirt."""


@pytest.mark.parametrize(
    ("described", "valid", "invalid"),
    [
        (Shirt, '{"size": "small"}', '{"size": "tiny"}'),
        (list[Shirt], '[{"size": "small", "number": 2}]', '{"size": "small"}'),
        (Size, '"large"', "large"),
        (int | None, "null", '"null"'),
        (order, '{"shirt": {"size": "small"}}', '{"shirt": {"size": "small"}, "other": 1}'),
        (re.compile("a.b", re.DOTALL | re.IGNORECASE), "A\nb", "ab"),
    ],
    ids=["dataclass", "list", "enum", "union", "function", "pattern"],
)
def test_a_type_is_a_grammar(described: Any, valid: str, invalid: str) -> None:
    grammar = Grammar.from_type(described)
    assert grammar.check(valid).valid
    assert not grammar.check(invalid).valid


@pytest.mark.parametrize("described", [3, "int", [int], {"type": "integer"}, None], ids=repr)
def test_plain_data_is_no_type(described: Any) -> None:
    with pytest.raises(GrammarError, match=r"described=.* is not allowed: a type, or a function"):
        Grammar.from_type(described)


def test_what_takes_schemas_patterns_and_choices_takes_types() -> None:
    schema = Grammar.from_type(Shirt)
    assert Grammar.from_json_schema(Shirt) == schema
    assert GrammarSource("json_schema", Shirt).read() == schema
    assert Grammar.from_json_schema(SamplingParams(json_schema=Shirt).json_schema) == schema
    assert SamplingParams(choice=Size).choice == ("small", "large")
    assert Grammar.from_choices(Size) == Grammar.from_choices(["small", "large"])
    assert Grammar.from_choices(Literal["a", 2]) == Grammar.from_choices(["a", "2"])
    pattern = re.compile("a", re.IGNORECASE)
    assert SamplingParams(regex=pattern).regex == "(?i)a"
    assert Grammar.from_regex(pattern) == Grammar.from_regex("(?i)a")
    tag = {"format": {"type": "json_schema", "json_schema": list[Shirt]}}
    assert Grammar.from_structural_tag(tag).check('[{"size": "small"}]').valid


def test_options_of_json_are_refused_for_a_pattern() -> None:
    with pytest.raises(GrammarError, match="not allowed for a pattern"):
        Grammar.from_type(re.compile("a"), whitespace="compact")


@pytest.mark.parametrize("pattern", [re.compile(b"a"), 3], ids=["bytes", "number"])
def test_other_patterns_are_refused(pattern: Any) -> None:
    with pytest.raises((GrammarError, TypeError), match="pattern"):
        Grammar.from_regex(pattern)
