"""Ignored text after which nothing can follow is refused from its first byte on."""

from __future__ import annotations

import random

import pytest

from engine_sampler.grammar import Grammar
from engine_sampler.grammar.correction.correction import complete
from engine_sampler.grammar.lark import grammar as reading

COMMENT = r"%ignore /#[^\n]*/"
LEXERS = ("dynamic_complete", "contextual")


def viable(text: str, beginning: str, lexer: str) -> bool:
    return Grammar.from_lark(text, lexer=lexer).check(beginning).viable


@pytest.mark.parametrize("lexer", LEXERS)
@pytest.mark.parametrize(
    ("ignored", "leading_on", "leading_nowhere"),
    [
        (COMMENT, [], ["a#", "a#x"]),
        (COMMENT + '\n%ignore " "', ["a "], ["a #", "a#x "]),
        (COMMENT + '\n%ignore "\\n"', ["a#x", "a\n#x", "a#x\n#x"], []),
        (COMMENT + "\n%ignore /~[^~]*~/", ["a~x", "a~x~"], ["a#x", "a~x~#"]),
        (r"%ignore /#[^\n]*|~[^~]*~/", ["a~x", "a~x~"], ["a#x", "a~x~#"]),
    ],
)
def test_ignored_text_begins_only_where_something_can_follow_it(
    ignored: str, leading_on: list[str], leading_nowhere: list[str], lexer: str
) -> None:
    text = f'start: "a" "b" "d"\n{ignored}'
    assert [one for one in leading_on if not viable(text, one, lexer)] == []
    assert [one for one in leading_nowhere if viable(text, one, lexer)] == []


@pytest.mark.parametrize("lexer", LEXERS)
def test_ignored_text_may_end_a_text(lexer: str) -> None:
    grammar = Grammar.from_lark(f'start: "a" ("b" "c")?\n{COMMENT}', lexer=lexer)
    assert grammar.check("a#x").valid
    assert grammar.check("abc#x").valid
    assert not grammar.check("ab#x").viable


TERMINALS = ('"a"', '"b"', '"ab"', "/a+/", '"\\n"', '" "', "/[ab]b/", '"#"', "/b?a/", '"~"')
IGNORED = (r"/#[^\n]*/", "/ +/", "/#[ab]*/", r"/#[^\n]*|~[^~]*~/", "/#(a|ab)?/", "/b+#/", "/#a*#|#b*/")


def random_grammar(seed: int) -> str:
    random_ = random.Random(seed)
    items = []
    for _ in range(random_.randint(1, 4)):
        choice = " | ".join(random_.choices(TERMINALS, k=random_.randint(1, 2)))
        items.append(f"({choice}){random_.choice(['', '', '?', '*'])}")
    ignored = random_.sample(IGNORED, random_.randint(1, 2))
    return "\n".join([f"start: {' '.join(items)}", *(f"%ignore {one}" for one in ignored)])


@pytest.mark.parametrize("seed", range(8))
def test_every_beginning_can_be_completed_and_the_language_stays(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = random_grammar(seed)
    new = Grammar.from_lark(text)
    with monkeypatch.context() as patched:
        patched.setattr(reading, "move_ignored_into_rules", lambda *arguments: False)
        old = reading.rules_from_lark(text).program()
    beginnings = [""]
    for beginning in beginnings:
        check = new.check(beginning)
        completed = complete(old, beginning)
        assert check.viable == (completed is not None), (text, beginning)
        if completed is not None:
            assert new.check(beginning + completed).valid, (text, beginning, completed)
            if len(beginning) < 2:
                beginnings += [beginning + character for character in "ab#\n ~"]
