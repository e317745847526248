"""Grammars handed in by name, which a grammar in Lark's language refers to as `@name`."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler, Tokenizer
from engine_sampler.contract.constraints import settings_of
from engine_sampler.grammar import Grammar, GrammarError, GrammarLimitError, Limits
from engine_sampler.grammar.grammar import clear_grammar_cache
from engine_sampler.grammar.lark.grammar import rules_from_lark
from engine_sampler.grammar.lark.named_grammars import NamedGrammar, NamedGrammars

from ..both_engines import Engine, every_engine
from .oracle import language_of

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
WORDS = 'start: WORD ("," WORD)*\nWORD: /[a-z]+/\n%ignore " "'


def listed(*entries: dict[str, Any]) -> str:
    return json.dumps({"grammars": entries})


@pytest.mark.parametrize(
    ("text", "named", "nested"),
    [
        ('start: "<" @a ">"', {"a": SCHEMA}, 'start: "<" %json ' + json.dumps(SCHEMA) + ' ">"'),
        ('start: "<" @a ">"', {"a": WORDS}, 'start: "<" %lark {' + WORDS + '} ">"'),
        ("start: @a | @b-1", {"a": WORDS, "b-1": True}, "start: %lark {" + WORDS + "} | %json true"),
        (
            "start: r\nr[temperature=0.5]: @a",
            {"a": 'start: "x" @b', "b": {"enum": [1]}},
            'start: r\nr[temperature=0.5]: %lark {start: "x" %json {"enum": [1]}\n}',
        ),
    ],
)
def test_a_named_grammar_is_what_it_would_be_in_its_place(
    text: str, named: dict[str, Any], nested: str
) -> None:
    expected = Grammar.from_lark(nested)
    assert Grammar.from_lark(text, grammars=named) == expected
    others = [
        {"name": name, "lark_grammar" if isinstance(one, str) else "json_schema": one}
        for name, one in named.items()
    ]
    assert Grammar.from_text(listed({"lark_grammar": text}, *others)) == expected


@every_engine
def test_each_grammar_has_its_own_names_and_ignored_text(engine: Engine) -> None:
    text = 'start: a "-" @other a\na: "x"\n%ignore "."'
    named = NamedGrammars({"other": NamedGrammar("lark", 'start: a a\na: "y"\n%ignore " "')})
    language = language_of(rules_from_lark(text, named=named), engine)
    assert [one for one in ("x-yyx", "x.-y yx", "x-y.yx", "x -yyx", "x-xxx") if language(one)] == [
        "x-yyx",
        "x.-y yx",
    ]


def test_what_a_named_grammar_sets_holds_wherever_it_stands() -> None:
    text = 'start: "a" @t "b" @t "c" @u'
    named = {"t": 'start: r\nr[temperature=0.5, capture]: "x"+', "u": 'start: "u" @t'}
    grammar = Grammar.from_lark(text, grammars=named)
    assert [one.start for one in grammar.captures("axbxxcux")["r"]] == [1, 3, 7]
    tokenizer = Tokenizer([b"a", b"b", b"c", b"x", b"u", b""], [5])
    matcher = grammar.compile(tokenizer).matcher()
    settings = settings_of(matcher)
    assert settings is not None
    present = []
    for byte in b"axbxxcux":
        present.append(settings.present(matcher))
        assert matcher.accept_bytes(bytes((byte,)))
    assert present == [0, 1, 1, 1, 1, 1, 0, 1]


def test_a_list_that_begins_with_a_schema_is_that_schema() -> None:
    assert Grammar.from_text(listed({"json_schema": SCHEMA})) == Grammar.from_json_schema(SCHEMA)
    with pytest.raises(
        GrammarError, match="lexer='contextual' is not allowed for GBNF and JSON: dynamic_complete"
    ):
        Grammar.from_text(listed({"json_schema": SCHEMA}), lexer="contextual")


def test_a_request_brings_the_list_as_its_grammar() -> None:
    tokenizer = Tokenizer([b"a", b"b", b"<", b">", b""], [4])
    scheduler = Scheduler(5, tokenizer=tokenizer)
    text = listed({"lark_grammar": 'start: "<" @a ">"'}, {"name": "a", "lark_grammar": 'start: "b"'})
    request = scheduler.add(SamplingParams(grammar=text, temperature=0))
    tokens = [int(scheduler.step(np.ones((1, 5), np.float32)).token_ids[0]) for _ in range(3)]
    assert (request is not None, tokens) == (True, [2, 1, 3])


def test_it_is_saved_pickled_and_cached_by_all_texts(tmp_path: Path) -> None:
    clear_grammar_cache()
    one = Grammar.from_lark("start: @a", grammars={"a": 'start: "x"'})
    assert Grammar.from_lark("start: @a", grammars={"a": 'start: "x"'}) is one
    assert Grammar.from_lark("start: @a", grammars={"a": 'start: "y"'}) != one
    one.save(tmp_path / "it.grammar")
    assert Grammar.load(tmp_path / "it.grammar") == one == pickle.loads(pickle.dumps(one))


@pytest.mark.parametrize(
    ("text", "named", "message"),
    [
        ("start: @b", {"a": True}, "there is no grammar @b: @a .*line 1, column 8"),
        ("start: @b", {}, "there is no grammar @b: none is handed in"),
        ("start: @a", {"a": "start: b"}, r"@a: .*b.*\(line 1, column 8 of it\) \(line 1, column 8\)"),
        ("start: @a", {"a": {"type": "spam"}}, "@a: .*spam.*line 1, column 8"),
        ("start: @a", {"a": "start: @b", "b": "start: @a"}, "@a: @b: the grammar @a contains itself"),
        ("start: @a", {"a": {"pattern": b""}}, "@a: the schema is not JSON"),
        ("start: @a", {"a b": True}, "grammars: 'a b' is not allowed: a name of letters"),
        ("start: @a", {1: True}, "grammars: 1 is not allowed: a name of letters"),
        ("start: @a", [], "grammars=.* is not allowed: up to 256 texts"),
        ("start: @a", {str(i): True for i in range(257)}, "up to 256 texts"),
        ("start: A\nA: @a", {"a": True}, "@a is only allowed in a rule"),
        ("start: b\nb[lazy]: @a", {"a": True}, "@a is only allowed in a rule that"),
        ("start: b\nb[max_chars=3]: @a", {"a": True}, "@a is only allowed in a rule that"),
    ],
)
def test_what_is_wrong_names_the_grammar(text: str, named: Any, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        Grammar.from_lark(text, grammars=named)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the list of grammars is not JSON: .*line 1, column 2"),
        ("{}", "grammars=None is not allowed: a list of one or more"),
        (listed(), "a list of one or more"),
        ('{"grammars": [1]}', "grammars.0.: 1 is not allowed: an object"),
        (listed({"lark": ""}), "grammars.0.: 'lark' is not allowed: name, lark_grammar, json_schema"),
        (listed({"name": "a"}), "grammars.0. must have lark_grammar or json_schema, and not both"),
        (listed({"lark_grammar": "", "json_schema": {}}), "and not both"),
        (listed({"lark_grammar": 1}), "lark_grammar=1 is not allowed: a text"),
        (listed({"json_schema": "a"}), "json_schema='a' is not allowed: an object, true or false"),
        (listed({"lark_grammar": "start: "}, {"lark_grammar": ""}), "grammars.1. must have a name"),
        (listed({"name": "a", "json_schema": {}}, {"name": "a", "json_schema": {}}), "that no other one has"),
        ('{"grammars": [{"json_schema": {}}], "max_tokens": 3}', "'max_tokens' is not allowed: grammars"),
        ('{"x": ' + "9" * 5_000 + "}", "the list of grammars is not JSON: .*digits"),
        ("{" * 100_000, "the list of grammars is (not JSON|nested too deeply)"),
        ('{"grammars": ' + "[" * 100_000, "the list of grammars is (not JSON|nested too deeply)"),
    ],
)
def test_a_list_that_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        Grammar.from_text(text)


def test_the_bounds_of_a_text_hold_for_all_of_them_and_many_references_are_read_once() -> None:
    with pytest.raises(GrammarLimitError, match="grammars has 40 characters, the limit is 30"):
        Grammar.from_lark("start: @a", grammars={"a": "x" * 20, "b": "x" * 20}, limits=Limits(text=30))
    named = {f"a{i}": f"start: @a{i + 1} @a{i + 1} @a{i + 1}" for i in range(7)} | {"a7": 'start: "x"'}
    assert Grammar.from_lark("start: @a0", grammars=named).check("x" * 3**7).valid
    deep = {f"a{i}": f"start: @a{i + 1}" for i in range(9)} | {"a9": 'start: "x"'}
    with pytest.raises(GrammarLimitError, match="grammars are nested more than 8 deep"):
        Grammar.from_lark("start: @a0", grammars=deep)


def test_the_contextual_lexer_refuses_them_by_name() -> None:
    with pytest.raises(GrammarError, match=r"@name needs the lexer dynamic_complete.*line 1, column 8"):
        Grammar.from_lark("start: @a", grammars={"a": True}, lexer="contextual")
