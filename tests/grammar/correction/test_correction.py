"""Finished texts: where they leave a language, and their completions."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine_sampler.grammar import Grammar, GrammarError, GrammarLimitError
from engine_sampler.grammar.correction import correction
from engine_sampler.grammar.correction.correction import BYTES, check, complete
from engine_sampler.grammar.correction.search_space import search_space_of
from engine_sampler.tokenizer import Tokenizer

from ..random_grammars import Grammar as RandomGrammar
from ..random_grammars import free, grammars, guarded, quick

OBJECT = Grammar.from_json_object()
PERSON = Grammar.from_json_schema(
    {
        "type": "object",
        "required": ["name", "age"],
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer"},
            "tags": {"type": "array", "items": {"enum": ["red", "green"]}},
        },
    }
)
SQL = """
start: "SELECT" _S names _S "FROM" _S NAME [_S "WHERE" _S condition]
names: NAME ("," NAME)*
condition: NAME "=" value | "(" condition ")" | condition _S "AND" _S condition
value: /[0-9]+/ | /'[^']*'/ | "(" value ")"
NAME: /[a-z]+/
_S: / +/
"""
C = """
start: function+
function: "int" NAME "(" ")" block
block: "{" statement* "}"
statement: block | "return" value ";" | "if" "(" value ")" statement | NAME "=" value ";"
value: NAME | NUMBER | "(" value ")" | value ("+" | "<") value
NAME: /[a-z]+/
NUMBER: /[0-9]+/
%ignore /[ \\n]+/
"""


@pytest.fixture(params=["native", "reference"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The engine that `check` runs on."""
    from engine_sampler.grammar.engines import native

    if request.param == "native" and native.load_library() is None:
        pytest.skip("the library has no grammar engine")
    monkeypatch.setenv("ENGINE_SAMPLER_MASK_ENGINE", request.param)
    same = Tokenizer(BYTES.token_bytes, BYTES.eos_token_ids, BYTES.special_token_ids)
    monkeypatch.setattr(correction, "BYTES", same)
    return str(request.param)


# --- random and brute force ----------------------------------------------------------------------

ALPHABET = b"\x00abc"
"""The bytes of random grammars, and the smallest other byte, which a complement may match."""

few = st.lists(st.sampled_from(ALPHABET), max_size=3).map(bytes)


def usable(random: RandomGrammar) -> Grammar:
    """A random grammar whose language is not empty."""
    grammar = Grammar("random", random.rules.program())
    try:
        grammar.compile(BYTES)
        search_space_of(grammar.program)
    except GrammarError:
        assume(False)
    return grammar


def texts_of(grammar: Grammar, begin: bytes, max_bytes: int) -> Iterator[bytes]:
    """Every text that follows `begin` in the language and has at most `max_bytes`, the shortest first."""
    matcher = grammar.compile(BYTES).matcher()
    layer = [(b"", matcher)] if not begin or matcher.accept_bytes(begin) else []
    for _ in range(max_bytes + 1):
        yield from (text for text, at in layer if at.is_accepting())
        following = [(text, byte, at.fork()) for text, at in layer for byte in ALPHABET]
        layer = [(text + bytes((byte,)), at) for text, byte, at in following if at.accept(byte)]


any_grammar = st.one_of(
    grammars(), grammars(free), grammars(guarded, ignore=True), grammars(registers=True, ignore=True)
)


@quick
@given(any_grammar, few)
def test_a_completion_is_the_first_of_the_shortest_in_byte_order(random: RandomGrammar, text: bytes) -> None:
    grammar = usable(random)
    expected = next(texts_of(grammar, text, 3), None)
    try:
        completion = complete(grammar.program, text, max_bytes=50, steps=2000)
    except GrammarLimitError:
        completion = None
        assert expected is None
    if completion is None or len(completion) <= 3:
        assert completion == expected
    else:
        matcher = grammar.compile(BYTES).matcher()
        assert expected is None
        assert matcher.accept_bytes(text + completion)
        assert matcher.is_accepting()


@quick
@given(any_grammar, few)
def test_a_check_agrees_with_accepting_byte_by_byte(random: RandomGrammar, text: bytes) -> None:
    grammar = usable(random)
    found = check(grammar.program, text)
    matcher = grammar.compile(BYTES).matcher()
    read = sum(1 for _ in itertools.takewhile(matcher.accept, text))
    follow = bytes(byte for byte in range(256) if matcher.fork().accept(byte))
    assert (found.position, found.viable, found.expected) == (read, read == len(text), follow)
    assert found.valid == (found.viable and matcher.is_accepting())


# --- JSON ----------------------------------------------------------------------------------------

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text('ab"\\é\n', max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abé", max_size=2), inner, max_size=3)
    ),
    max_leaves=5,
)
objects = st.dictionaries(st.sampled_from("abc"), values, max_size=3).map(lambda value: json.dumps(value))
people = st.fixed_dictionaries(
    {"name": st.text("xyé", max_size=3), "age": st.integers(-9, 99)},
    optional={"tags": st.lists(st.sampled_from(["red", "green"]), max_size=2)},
).map(lambda value: json.dumps(value, ensure_ascii=False))
cases = st.tuples(st.just(OBJECT), objects) | st.tuples(st.just(PERSON), people)


@quick
@given(cases, st.integers(0, 60))
def test_a_text_that_was_cut_off_is_completed_with_no_more_bytes_than_it_lost(
    case: tuple[Grammar, str], cut: int
) -> None:
    grammar, text = case
    found = complete(grammar.program, text[:cut])
    assert found is not None
    assert check(grammar.program, text[:cut] + found).valid
    assert len(found.encode()) <= len(text[cut:].encode())


@quick
@given(cases)
def test_a_text_of_the_language_is_complete(case: tuple[Grammar, str]) -> None:
    grammar, text = case
    assert complete(grammar.program, text) == ""
    assert check(grammar.program, text).valid


# --- check ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("engine")
def test_a_fault_is_reported_with_line_column_and_the_expected_bytes() -> None:
    found = check(OBJECT.program, '{"é": 1,\n "é": trie}')
    assert (found.valid, found.viable, found.position) == (False, False, 19)
    assert (found.line, found.column, found.expected) == (2, 9, b"u")
    assert found.message == "line 2, column 9: 'i' is not allowed here; expected 'u'"


@pytest.mark.usefixtures("engine")
def test_a_beginning_is_viable_and_a_whole_text_valid() -> None:
    beginning, whole = check(OBJECT.program, '{"a"'), check(OBJECT.program, b'{"a": 1}')
    assert (beginning.valid, beginning.viable, beginning.position) == (False, True, 4)
    assert beginning.message == (
        "line 1, column 5: the text is not finished; expected '\\t', '\\n', '\\r', ' ' or ':'"
    )
    assert (whole.valid, whole.viable, whole.position) == (True, True, 8)
    assert whole.message == "the text is valid"


@pytest.mark.usefixtures("engine")
def test_a_message_names_the_byte_that_cannot_follow() -> None:
    assert check(Grammar.from_choices(["a"]).program, "ab").message == (
        "line 1, column 2: 'b' is not allowed here; expected the end"
    )
    assert check(Grammar.from_regex("[a-e]é").program, b"a\xff").message == (
        "line 1, column 2: byte 0xff is not allowed here; expected other characters"
    )
    assert check(Grammar.from_regex("[a-e]").program, "x").message.endswith("expected 'a' to 'e'")


@pytest.mark.usefixtures("engine")
def test_a_special_token_is_expected_but_is_not_text() -> None:
    grammar = Grammar.from_lark('start: "a" <|call|> "b"')
    found = check(grammar.program, "a<|call|>b")
    assert (found.viable, found.position, found.expected) == (False, 1, b"")
    assert found.message.endswith("expected a special token")
    assert complete(grammar.program, "a") is None


def test_a_long_text_is_checked_to_its_last_byte() -> None:
    text = "[" + "1, " * 50_000 + "x"
    assert check(Grammar.from_json_schema(True).program, text).position == len(text) - 1


def test_text_is_str_or_bytes() -> None:
    with pytest.raises(TypeError, match="text has type int; allowed are str and bytes"):
        check(OBJECT.program, 3)  # type: ignore[arg-type]


# --- complete ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ('{"a": [{"b": [[[', "]]]}]}"),
        ('{"a": tr', "ue}"),
        ('{"a', '":0}'),
        ('{"a": 1,', '"":0}'),
        ('{"a": "\\u00', '00"}'),
        ('{"a": -', "0}"),
        ("", "{}"),
        ("[", None),
        ('{"a": 1} x', None),
    ],
)
def test_json_is_completed(text: str, rest: str | None) -> None:
    assert complete(OBJECT.program, text) == rest
    assert OBJECT.complete(text.encode()) == (None if rest is None else rest.encode())


def test_deep_nesting_is_closed() -> None:
    assert complete(OBJECT.program, '{"a":[' * 300) == "]}" * 300


def test_many_required_keys_are_written_once_each() -> None:
    names = [f"key{i}" for i in range(24)]
    kinds = [{"type": "integer"}, {"type": "string"}, {"const": "long constant"}]
    schema = {
        "type": "object",
        "required": names,
        "properties": {name: kinds[i % 3] for i, name in enumerate(names)},
        "additionalProperties": {"type": "null"},
    }
    begin = '{"key3":1,"other":null,'
    found = complete(Grammar.from_json_schema(schema).program, begin)
    assert found is not None
    value = json.loads(begin + found)
    assert set(value) == {*names, "other"}
    members = [f'"{name}":' + ("0", '""', '"long constant"')[i % 3] for i, name in enumerate(names) if i != 3]
    assert len(found) == len(",".join(members) + "}")


def test_required_counts_are_reached() -> None:
    array = Grammar.from_json_schema({"type": "array", "minItems": 40, "items": {"type": "boolean"}})
    assert complete(array.program, "[false") == ",true" * 39 + "]"
    few_keys = Grammar.from_json_schema({"type": "object", "minProperties": 4, "required": ["a", "bc"]})
    assert len(json.loads("{" + str(complete(few_keys.program, "{")), object_pairs_hook=list)) == 4
    word = Grammar.from_json_schema({"type": "string", "minLength": 100, "pattern": "^(ab|c)*$"})
    assert complete(word.program, '"a') == "ba" * 49 + 'b"'


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("SELECT a FROM t WHERE ((x=((1", ")" * 4),
        ("SELECT a,", "a FROM a"),
        ("SELECT a FROM t WHERE x='a b", "'"),
        ("SELECT a FROM t WHERE x=1 A", "ND a=0"),
    ],
)
def test_sql_is_completed(text: str, rest: str) -> None:
    assert complete(Grammar.from_lark(SQL).program, text) == rest


LALR_C = C.replace("value: NAME | NUMBER", 'value: term | value ("+" | "<") term\nterm: NAME | NUMBER')
LALR_C = LALR_C.replace(' | value ("+" | "<") value', "")
BEGINNINGS = ["", "int main() { if (a < (1 + 2)) { return ((b", "int f(){if(x)", "int f(){re", "}"]


@pytest.mark.parametrize("begin", BEGINNINGS)
def test_both_lexers_complete_a_program_alike(begin: str) -> None:
    grammar = Grammar.from_lark(LALR_C, lexer="contextual")
    assert grammar.complete(begin) == complete(Grammar.from_lark(C).program, begin)


def test_a_keyword_is_no_name_in_completions_of_the_contextual_lexer() -> None:
    text = 'start: "if" NAME | NAME "=" NAME\nNAME: /[a-z]+/\n%ignore " "'
    contextual = Grammar.from_lark(text, lexer="contextual")
    assert contextual.complete("if") == " a"
    assert contextual.complete("i") == "=a"
    assert contextual.complete("if=") is None


@pytest.mark.parametrize("begin", ["", "a", "(", "((a", "aa+", "(aa)+"])
def test_completions_of_the_contextual_lexer_are_the_shortest(begin: str) -> None:
    text = 'start: sum\nsum: item | sum "+" item\nitem: NAME | "(" sum ")" | "a" "b" "b"\nNAME: /aa/'
    grammar = Grammar.from_lark(text, lexer="contextual")
    found = grammar.complete(begin)
    assert found is not None
    assert grammar.check(begin + found).valid
    shorter = ("".join(tried) for n in range(len(found)) for tried in itertools.product("ab()+", repeat=n))
    assert not any(grammar.check(begin + tried).valid for tried in shorter)


def test_a_program_is_completed() -> None:
    begin = "int main() { if (a < (1 + 2)) { return ((b"
    assert complete(Grammar.from_lark(C).program, begin) == "));}}"
    assert complete(Grammar.from_lark(C).program, "int f(){if(x)") == "{}}"


def test_a_completion_beyond_the_limits_is_refused() -> None:
    array = Grammar.from_json_schema({"type": "array", "minItems": 40, "items": {"type": "boolean"}})
    with pytest.raises(GrammarLimitError, match="max_bytes=100"):
        complete(array.program, "[", max_bytes=100)
    with pytest.raises(GrammarLimitError, match=r"first 7 bytes tried \(steps\)"):
        complete(array.program, "[", steps=7)


def test_an_incomplete_character_is_completed_in_bytes() -> None:
    grammar = Grammar.from_choices(["aé"])
    assert complete(grammar.program, b"a\xc3") == b"\xa9"
    assert complete(grammar.program, "a") == "é"
