"""Grammars in llama.cpp's language, and the texts that they accept."""

from __future__ import annotations

import pytest

from engine_sampler import Grammar, GrammarError
from engine_sampler.grammar.lark.gbnf import read_gbnf
from engine_sampler.grammar.lark.statements import MAX_BRACKETS

CONFIGURATION = r"""
root   ::= "{" gap (entry ("," gap entry)*)? "}" gap  # an object at the top
entry  ::= name gap ":" gap any
any    ::= (
    number | name | list | "yes" | "no"  # a rule may span lines within parentheses
  ) gap
list   ::=
  "[" gap (any ("," gap any)*)? "]"
name   ::= "\"" ([^"\\\r\n] | "\\" ["\\nt] | "\\u" [0-9a-fA-F]{4})* "\""
number ::= "-"? ("0" | [1-9] [0-9]{0,7}) ("." [0-9]+)? ([eE] [-+]? [0-9]{1,3})?
gap    ::= [ \t\n]{0,9} |
"""


@pytest.mark.parametrize(
    ("text", "valid", "invalid"),
    [
        ('root ::= "ab" "c"', ["abc"], ["", "ab", "abcc"]),
        ('root ::= "a" | "b" |', ["a", "b", ""], ["ab"]),
        ('root ::= ("a" | ) "b"', ["b", "ab"], ["a"]),
        ('root ::= ""', [""], ["a"]),
        ('root ::= "a" () "b"', ["ab"], ["a"]),
        ('root ::= ""* "a" ""{1,} (""? | "b")', ["a", "ab"], ["", "b"]),
        ('root ::= "ab"*', ["", "ab", "abab"], ["aba"]),
        ('root ::= "a"+ "b"?', ["a", "aab"], ["", "abb"]),
        ('root ::= "a"{2}', ["aa"], ["a", "aaa"]),
        ('root ::= "a"{2,}', ["aa", "aaaa"], ["a"]),
        ('root ::= "a"{ 1 , 2 }', ["a", "aa"], ["", "aaa"]),
        ('root ::= "x" [ab]{0,2}', ["x", "xab"], ["xabb"]),
        ('root ::= [a]{0} "x" "b"{0}', ["x"], ["ax", "xb"]),
        ("root ::= [ab]{2}", ["ab"], ["a", "aba"]),
        ("root ::= [0-9]+ [a-c]* [^x]", ["1y", "12abz", "1\n"], ["1", "1x"]),
        ('root ::= "a"+?', ["", "a", "aa"], ["b"]),
        ("root ::= [a]+?", ["", "a", "aa"], ["b"]),
        ("root ::= [a]{2}*", ["", "aa", "aaaa"], ["a", "aaa"]),
        ("root ::= .", ["a", "\n", "€"], ["", "ab"]),
        ("root ::= .{2,3}", ["a\n", "abc"], ["a", "abcd"]),
        (r"root ::= [\]\[^\\/-]+", ["]", "[^\\/-"], ["", "a"]),
        (r"root ::= [^\]\n]", ["[", "a"], ["]", "\n"]),
        ("root ::= [a-]", ["a", "-"], ["b"]),
        (r"root ::= [\x41-\x43\u00e9\U0001F600]+", ["ABC", "é😀"], ["D"]),
        (r'root ::= "\"\\\t\r\n\x41\u20AC"', ['"\\\t\r\nA€'], ['"']),
        ('root ::= a-b A-B\na-b ::= "1"\nA-B ::= "2"', ["12"], ["11"]),
        ('root ::= start 1\nstart ::= "s"\n1 ::= "n"', ["sn"], ["s"]),
        ('root ::= "(" root ")" | "x"', ["x", "((x))"], ["(x"]),
        ('root ::= root "a" | "b"', ["b", "baa"], ["a"]),
        ('# first\n\nroot::="a"#c\r\n  # last', ["a"], ["b"]),
        ('root ::=\n "a" |\n # more\n "b"\n', ["a", "b"], [""]),
        ('root ::= (\n"a"\n"b")\n', ["ab"], ["a"]),
        (CONFIGURATION, ['{"a": [1, -2.5e3, "\\u00e9", []], "b":no}\n'], ['{"a"}', "[1]", '{"a": 01}']),
    ],
)  # fmt: skip
def test_a_grammar_accepts_its_texts_and_no_others(text: str, valid: list[str], invalid: list[str]) -> None:
    grammar = Grammar.from_gbnf(text)
    assert [t for t in valid if not grammar.check(t).valid] == []
    assert [t for t in invalid if grammar.check(t).valid] == []


def test_the_last_of_several_definitions_counts_with_a_warning_where_they_differ() -> None:
    with pytest.warns(UserWarning, match=r"'x' is defined again \(line 3, column 1\): the last one counts"):
        grammar = Grammar.from_gbnf('root ::= x\nx ::= "1"\nx ::= "2"')
    assert grammar.check("2").valid
    assert not grammar.check("1").valid
    assert Grammar.from_gbnf('root ::= x\nx ::= "1"\nx ::= "1"').check("1").valid


def test_special_tokens_keep_their_names_and_ids() -> None:
    grammar = Grammar.from_gbnf("root ::= <|call|> <[7]>+ <|call|>")
    assert grammar.special_names == ("<|call|>",)
    assert list(grammar.program.special_ids) == [-1, 7]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no rule 'root'"),
        ('a ::= "x"', "there is no rule 'root'"),
        ("root ::= x y", r"there is no rule 'x' \(line 1, column 10\)"),
        ("root ::= 'a'", "expected the end of the line before"),
        ("root = 1", r"expected '::=' before '= 1' \(line 1, column 6\)"),
        ('root ::= "a', r"""expected '"' at the end"""),
        ("root ::= [a", "expected ']' at the end"),
        ("root ::= []", "expected a character in the class"),
        ("root ::= [b-a]", "expected a range that does not end before 'b'"),
        (r'root ::= "\q"', r"expected an escape such as .* before 'q"),
        (r'root ::= "\uD800"', "expected an escape"),
        ('root ::= ("a"', r"expected '\)' at the end"),
        ('root ::= "a")', r"expected the end of the line before '\)'"),
        ("root ::= *", r"expected the end of the line before '\*'"),
        ('root ::= "a"{3,2}', "expected at least 3 as the upper bound"),
        ('root ::= "a"{,2}', "expected the end of the line before '{,2}'"),
        ('root ::= "a"\n* "b"', r"expected the name of a rule before .* \(line 2, column 1\)"),
        ("root ::= !<[^5]>", "excludes twice.*line 1, column 10"),
        ("root ::= !x", "expected a token such as <name>"),
        ("root ::= <x", "expected a token such as <name>"),
        ("root ::= " + "(" * (MAX_BRACKETS + 1), "nested more than"),
        ('root ::= "a"{' + "9" * 5000 + "}", r"a number is longer than 100 .*line 1, column 13"),
        ("root ::= [a]{0," + "9" * 5000 + "}", "a number is longer than 100"),
    ],
)
def test_text_that_cannot_be_read_is_named_with_its_position(text: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        read_gbnf(text)


def test_what_is_found_wrong_later_is_named_with_its_position_too() -> None:
    with pytest.raises(GrammarError, match=r"a count is above 1000000 \(line 2, column 8\)"):
        Grammar.from_gbnf('root ::= "a" # text\n  ("b"){1000001}')


def test_equal_words_are_the_same_wherever_they_stand() -> None:
    grammar = Grammar.from_gbnf('root ::= "a"+ b "a"? [xy]+ [xy]\nb ::= "a" | <|call|> "a" <|call|>')
    assert [text for text in ["aaxx", "aaaxyxy", "axx", "aax"] if grammar.check(text).valid] == [
        "aaxx",
        "aaaxyxy",
    ]
    assert len(grammar.program.terminals) == 4


@pytest.mark.parametrize(
    ("text", "valid", "invalid"),
    [
        ('root ::= "a"\n | "b"\n  # or\n | c_d\nc_d ::= "c"\n  "d"', ["a", "b", "cd"], ["c", "ab"]),
        ('root ::= a.b (= "!")\na.b ::= "x"', ["x"], ["x!"]),
        ('root ::= Token("b")\nToken ::= "a"', ["ab"], ["b"]),
        (r'root ::= "\'\?\f"', ["'?\f"], ["'?"]),
        ('\n  my_rule ::= "a"\nroot ::= my_rule+', ["a", "aa"], [""]),
    ],
)
def test_the_ebnf_of_xgrammar_is_read(text: str, valid: list[str], invalid: list[str]) -> None:
    grammar = Grammar.from_gbnf(text)
    assert [grammar.check(one).valid for one in valid + invalid] == [True] * len(valid) + [False] * len(
        invalid
    )


def test_another_rule_may_derive_the_text() -> None:
    text = 'root ::= "a" top\ntop ::= "b"'
    assert Grammar.from_text(text, start="top").check("b").valid
    assert Grammar.from_text(text).check("ab").valid


def test_a_text_is_recognised_by_its_definitions() -> None:
    lark = 'start: "::=" /x ::= y/ // a ::= b\n'
    assert Grammar.from_text(lark).check("::=x ::= y").valid
    lines = "start: WORD\nWORD: /\n a ::= # no rule of GBNF\n b/x\n"
    assert Grammar.from_text(lines).check("a::=b").valid
    assert Grammar.from_text('# one ::= "b"\n// two ::= "c"\nstart: "a"').check("a").valid
    assert Grammar.from_text('# a comment\n\n root ::= "::="').check("::=").valid
    with pytest.raises(GrammarError, match="lexer='contextual' is not allowed for GBNF"):
        Grammar.from_text('root ::= "a"', lexer="contextual")


def test_a_tag_may_contain_it() -> None:
    tag = {"format": {"type": "grammar", "grammar": 'root ::= "yes" | "no"'}}
    assert Grammar.from_structural_tag(tag).check("no").valid


def test_a_repetition_up_to_minus_one_has_no_bound() -> None:
    grammar = Grammar.from_gbnf('root ::= [ab]{2,-1} ("-" "c"){0,-1}')
    assert all(grammar.check(text).valid for text in ("ab", "abab", "aa-c-c"))
    assert not grammar.check("a-").viable
