"""The macros and attributes that xgrammar writes when it prints a grammar."""

from __future__ import annotations

import pytest

from engine_sampler import Grammar, GrammarError, Tokenizer
from engine_sampler.grammar.lark.gbnf import read_gbnf
from engine_sampler.grammar.lark.grammar import rules_from_gbnf

from ..both_engines import Engine, allowed, every_engine
from .oracle import language_of

TWO_TAGS = (
    'root ::= TagDispatch(\n  ("<a>", a),\n  ("<b>", b),\n  loop_after_dispatch={},\n  excludes=("x")\n)\n'
)
TWO_TAGS += 'a ::= (("1"))\nb ::= (("2"))'
IN_ANY_CASE = ["", "q", "<a>1", "q<b>2", "<a"]


@every_engine
@pytest.mark.parametrize(
    ("text", "valid", "invalid"),
    [
        ('root ::= Substring("abc")', ["", "abc"], ["a", "bc"]),
        ('root ::= Substring("ab", "c")', ["", "ab", "c", "abc"], ["bc", "cab"]),
        ('root ::= (("A" s))\ns ::= Substring("b", "", "c")', ["A", "Ab", "Abc"], ["Ac b", "Acb"]),
        ('root ::= Regex("a|ab") "!"', ["a!", "ab!"], ["b!"]),
        (r'root ::= Regex("a/b\\n")', ["a/b\n"], ["a/b"]),
        (r'root ::= Regex("(\?i)k\\x21")', ["k!", "K!"], ["k"]),
        (r'root ::= Regex("\\u{43}(\?<name>d)+")', ["Cdd"], ["C"]),
        ('root ::= Regex("(?P<name>d)+a.b")', ["da\nb"], ["ab"]),
        (r'root ::= Regex("(\?i)\u03a3|[^k]")', ["\u03a3", "\u03c3", "x"], ["k", "K"]),
        (r'root ::= Regex("(\?i)\xe9")', ["\xe9"], ["\xc9"]),
        ('root ::= Regex("^a$")', ["a"], ["aa"]),
        (
            'root ::= Regex(".{2}", json_string=true)',
            ["a/", "\x7f\xe9"],
            ['a"', "a\\", "a\n", "\x1fa", "abc"],
        ),
        ('root ::= Regex("a.", json_string=false)', ['a"'], ["b"]),
        (TWO_TAGS.format("false"), IN_ANY_CASE, ["<a>1q", "<a>1<b>2", "x", "<a>"]),
        (TWO_TAGS.format("true"), [*IN_ANY_CASE, "<a>1q", "<a>1<b>2"], ["x", "<a>", "<a>1x"]),
        ('root ::= TagDispatch(("<a>", a), ("ax", b))\na ::= "1"\nb ::= "2"', ["<a>1ax2", "<ax2"], ["<ax"]),
        ('root ::= TagDispatch(excludes=("</t>")) "</t>"', ["</t>", "</</t>"], ["</t></t>", ""]),
        ('root ::= TagDispatch(("ab", a), excludes=("b"))\na ::= "1"', ["a"], ["ab1", "b"]),
        ('root ::= TagDispatch(("ab", a), excludes=("xa"))\na ::= "1"', ["ab1"], ["xab1", "xa"]),
        ('root ::= TagDispatch(("ab", a), ("b", a))\na ::= "1"', ["ab1", "b1"], ["ab"]),
        (
            'root[capture="o"] ::= r "z"\nr[capture, capture_hidden_stop_bytes=1] ::= "a"\n | "b"',
            ["az", "bz"],
            ["a"],
        ),
    ],
)
def test_their_texts(engine: Engine, text: str, valid: list[str], invalid: list[str]) -> None:
    language = language_of(rules_from_gbnf(text), engine)
    assert [one for one in valid if not language(one)] == []
    assert [one for one in invalid if language(one)] == []


TOKENS = [b"a", b"b", b"1", b"<t>", b"</s>"]


@pytest.mark.parametrize(
    ("text", "masks"),
    [
        ("root ::= ((Token(0, 1) ExcludeToken(0, 3)))", [{0, 1}, {1, 2}, {4}]),
        ('root ::= TokenTagDispatch(\n  (3, a),\n  excludes=()\n)\na ::= "1"', [{0, 1, 2, 3, 4}] * 3),
        ('root ::= TokenTagDispatch((1, a), excludes=(3))\na ::= "1"', [{0, 1, 2, 4}, {0, 1, 2, 4}, {2}]),
    ],
)
def test_tokens_in_them(text: str, masks: list[set[int]]) -> None:
    matcher = Grammar.from_gbnf(text).compile(Tokenizer(TOKENS, [4], [3])).matcher()
    found = [allowed(matcher, 5)]
    for token in (0, 1):
        assert matcher.accept(token)
        found.append(allowed(matcher, 5))
    assert found == masks


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("root ::= Regex(1)", r"Regex: Regex takes one text \(line 1, column 10\)"),
        ('root ::= "a" Regex("(")', r"Regex: not a regular expression.*line 1, column 14"),
        ('root ::= Regex("a", json_string=1)', "json_string must be true or false"),
        ('root ::= Regex("a", excludes=("a"))', "has no argument excludes"),
        ('root ::= Substring("a", b)', "Substring takes texts"),
        ('root ::= Substring("\ud800")', "lone surrogate"),
        ('root ::= TagDispatch(("\ud800", root))', "lone surrogate"),
        ("root ::= Token()", "Token takes ids of tokens"),
        ("root ::= Token(true)", "Token takes ids of tokens"),
        ('root ::= TagDispatch(("<a>", b))', r"there is no rule 'b' \(line 1, column 30\)"),
        ('root ::= TagDispatch(("", root))', "takes pairs of a trigger and the name of a rule"),
        ("root ::= TagDispatch((1, root))", "takes pairs of a trigger and the name of a rule"),
        ('root ::= TagDispatch("a")', "takes pairs of a trigger and the name of a rule"),
        ('root ::= TagDispatch((("a"), root))', "expected a text, a number or the name of a rule"),
        ('root ::= TagDispatch(excludes=("a", 1))', "excludes of TagDispatch takes texts"),
        ('root ::= TagDispatch(loop_after_dispatch="a")', "must be true or false"),
        ('root ::= Regex("a"', r"expected ',' at the end"),
        ('root[lzy] ::= "a"', r"has no attribute 'lzy': captures, lazy, .* \(line 1, column 6\)"),
        (
            'root ::= "b"\na[capture="x", suffix=3] ::= "a"',
            r"no attribute 'suffix'.*line 2, column 16",
        ),
    ],
)
def test_a_wrong_one_is_refused_with_its_position(text: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message) as caught:
        read_gbnf(text)
    assert caught.value.line is not None
