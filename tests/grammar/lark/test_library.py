"""The library grammars: their examples, and how grammars import them."""

from __future__ import annotations

import json
import keyword

import pytest

from engine_sampler.base.packaged import grammar_names, grammar_text

from .oracle import LIBRARY, Oracle, ours

NAMES = sorted(path.stem for path in LIBRARY.glob("*.lark"))


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("name", NAMES)
def test_a_library_grammar_accepts_its_examples_as_expected_and_as_lark_does(name: str) -> None:
    text = (LIBRARY / f"{name}.lark").read_text(encoding="utf-8")
    examples = json.loads((LIBRARY / f"{name}.examples.json").read_text(encoding="utf-8"))
    language, oracle = ours(text), Oracle(text)
    for kind, expected in (("accept", True), ("reject", False)):
        assert len(examples[kind]) >= 7
        for example in examples[kind]:
            assert (language(example), oracle(example)) == (expected, expected), example


@pytest.mark.parametrize("name", ["python", "sql"])
def test_no_word_of_a_library_grammar_is_joined_to_the_next_one(name: str) -> None:
    """Lark forgets look-aheads where it tries a shorter text of a terminal."""
    text = (LIBRARY / f"{name}.lark").read_text(encoding="utf-8")
    joined = json.loads((LIBRARY / f"{name}.examples.json").read_text(encoding="utf-8"))["joined"]
    assert not any(map(ours(text), joined))
    assert all(map(Oracle(text), joined))


def test_no_keyword_is_a_name() -> None:
    python = ours((LIBRARY / "python.lark").read_text(encoding="utf-8"))
    for word in keyword.kwlist:
        assert not python(f"{word} = 1")
        assert python(f"x = {word}") == (word in ("None", "True", "False"))
    sql = ours((LIBRARY / "sql.lark").read_text(encoding="utf-8"))
    for word in "select from where group order limit union on using values table with null".split():
        assert not sql(f"SELECT a FROM {word}")
        assert not sql(f"SELECT a AS {word.upper()}")


def test_all_library_grammars_are_in_the_package() -> None:
    assert grammar_names() == NAMES
    for name in NAMES:
        assert grammar_text(name) == (LIBRARY / f"{name}.lark").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", ["json", "engine_sampler.json"])
def test_a_grammar_imports_rules_of_the_library(path: str) -> None:
    language = ours(f'%import {path} (value, STRING)\nstart: STRING ":=" value')
    assert language('"a":={"b": [1, null]}')
    assert not language("a:=1")


def test_a_grammar_of_lark_takes_precedence_over_one_of_the_same_name() -> None:
    lark_strings = ours("%import python.STRING\nstart: STRING")
    own_strings = ours("%import engine_sampler.python.STRING\nstart: STRING")
    assert lark_strings('ur"a"')
    assert not own_strings('ur"a"')
    assert ours("%import python.LONG_STRING\nstart: LONG_STRING")('"""a"""')


def test_import_paths_take_precedence_over_the_library(tmp_path: object) -> None:
    (tmp_path / "json.lark").write_text('value: "mine"\n')  # type: ignore[operator]
    assert ours("%import json.value\nstart: value", import_paths=[str(tmp_path)])("mine")


def test_imports_of_imports_and_several_names_of_one_grammar_are_found(tmp_path: object) -> None:
    (tmp_path / "first.lark").write_text(  # type: ignore[operator]
        "%import common (INT, WS_INLINE)\n%import .second.word\npair: word WS_INLINE INT\n"
    )
    (tmp_path / "second.lark").write_text("%import common.CNAME\nword: CNAME\n")  # type: ignore[operator]
    text = "%import first (pair)\n%import common.INT -> NUMBER\n%import common (WS)\nstart: pair WS NUMBER"
    language = ours(text, import_paths=[str(tmp_path)])
    assert language("ab 12\n3")
    assert not language("ab\n12 3")
    assert ours("%import .second.word\nstart: word", path=str(tmp_path / "main.lark"))("ab")  # type: ignore[operator]


def test_imported_definitions_can_be_extended_and_overridden() -> None:
    text = '%import json (value, NUMBER)\n%extend value: "undefined"\n%override NUMBER: "1"\nstart: value'
    language = ours(text)
    assert all(map(language, ["undefined", "[1,undefined]"]))
    assert not language("2")
