"""Terminals with `&` and `~` between patterns."""

from __future__ import annotations

import random
import re
from itertools import count, islice, product

import pytest

from engine_sampler.grammar import Grammar
from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.lark.contextual import rules_from_lalr
from engine_sampler.grammar.lark.grammar import rules_from_lark

from ...both_engines import ENGINES, Engine, allowed, every_engine
from ..oracle import language_of, ours

WORDS = [
    *("", "a", "b", "q", "aa", "ab", "ac", "ax", "abc", "foo", "xaby", "é", "0", "a.b"),
]


@pytest.mark.parametrize(
    ("definition", "matched"),
    [
        ("/[a-z]+/ & ~/foo/", "a b q aa ab ac ax abc xaby"),
        ("/[a-z]+/ & /.*x/", "ax"),
        ("/a|ab/ & /.*/", "a ab"),
        ('/[a-z]+/ & ~"ab" "c"', "ac"),
        ('"q" | /[a-z]+/ & ~/[a-f]+/', "q ax foo xaby"),
        ('/[a-z]+/ & ~B\nB: "foo" | "a" "b"', "a b q aa ac ax abc xaby"),
        ('/[a-z]{2}/ & ~(/a./ | "b")', ""),
        ('"x" ~/a/ "y"', "xaby"),
        ('[/[a-z]/] "b" & ~"b"', "ab"),
        ('/[a-z]/~2 & ~"AB"i', "aa ac ax"),
        ('"a".."c" & ~"b"', "a"),
        ('/[ab]+/ & ~("a"+ | "b"{2,3})', "b ab"),
        ('/\\w/ & ~"a"\n  | "abc" & ~"b"', "b q é 0 abc"),
        ("B & ~/a+/\n%import common.LETTER -> B", "b q"),
        (r"~/[a-z]*/ & /.{1,2}/", "é 0"),
    ],
)
def test_what_they_match(definition: str, matched: str) -> None:
    language = ours(f"start: A\nA: {definition}")
    assert [word for word in WORDS if language(word)] == sorted(matched.split(), key=WORDS.index)


def test_one_may_be_an_operand_of_another_and_stand_beside_others() -> None:
    language = ours('start: A "." B\nA: B & ~"if"\nB: /[a-z]+/ & ~"else"\n%ignore " "')
    assert language("i . if")
    assert not any(map(language, ["if.a", "else.a", "a.else"]))


def test_a_complement_is_always_text() -> None:
    for engine in ENGINES.values():
        matcher = engine(rules_from_lark('start: A\nA: ~"a"').program(), ()).matcher()
        assert not matcher.fork().accept_bytes(b"\xff")
        assert matcher.accept_bytes("é".encode())


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ("~~/a/", "an item is expected before ~ (line 2, column 5)"),
        ("~A", "it contains itself"),
        ("B & ~/x/\nB: ~A", "it contains itself"),
        ('C & "x"', "the terminal C is used but not defined (line 2, column 4)"),
        ("/x/ &", "is expected before its end (line 2, column 9)"),
        ('(/x/ & "y"', "the bracket that closes the group is expected before its end"),
        ('B & "x"\nB: /x(?!y)/', "B depends on the text around it"),
        ('/x/ & ~"a" -> b', "the end of the terminal is expected before -> (line 2, column 15)"),
        ('"a" & /[/', "unterminated character set (line 2, column 10)"),
        ("/a/ & <x>", "is expected before <x>"),
        ('"a"{3,2} & "a"', "a count ends before it begins"),
        ('"a"~9999999 & "a"', "above 1000000 (line 2, column 7)"),
        ('/a/ & ~/b/\nA: "b" & "c"', "the terminal A is defined more than once (line 3, column 1)"),
        ('"a".. & "b"', "a string is expected before &"),
    ],
)
def test_a_wrong_one_is_refused_with_its_position(definition: str, reason: str) -> None:
    with pytest.raises(GrammarError) as caught:
        rules_from_lark(f"start: A\nA: {definition}")
    assert reason in str(caught.value)
    assert caught.value.line is not None


@pytest.mark.parametrize(
    ("definitions", "valid", "invalid"),
    [
        ('A: B "x"\nB: /[a-z]/ & ~"b"', ["ax"], ["bx", "a"]),
        ('A: (B | "1") C?\nB: C C\nC: %regex {"substring_chars": "abc"}', ["1", "", "bcab", "1bc"], ["ac1"]),
        ('A: "1" | %regex {"substring_chunks": ["ab", "c"]}', ["1", "ab", "abc", ""], ["a", "b"]),
        ('A: B~2\nB: "" | "a" | "b"', ["", "a", "ba"], ["bab"]),
        ('A: %regex {"substring_words": "a b"} & ~" "', ["a", "a b", ""], [" ", "ab"]),
    ],
)  # fmt: skip
def test_terminals_that_name_one_are_read_alike(
    definitions: str, valid: list[str], invalid: list[str]
) -> None:
    found = Grammar.from_lark(f'start: "<" A ">"\n{definitions}')
    assert [one for one in valid if not found.check(f"<{one}>").valid] == []
    assert [one for one in invalid if found.check(f"<{one}>").valid] == []


@pytest.mark.parametrize("body", ["B", '%regex {"substring_chars": "abc"}', '"" | /[a-c]/ & ~"d"'])
@pytest.mark.parametrize(
    ("attributes", "valid", "invalid"),
    [
        ('suffix="!"', ["b!", "!"], ["b", "d!"]),
        ('suffix=B, stop_capture="m"', [""], ["d"]),
        ("max_chars=1", ["b", ""], ["bc"]),
        ('max_chars=1, suffix=/[!?]/', ["b?", "!"], ["bc!", "b"]),
    ],
)  # fmt: skip
def test_rules_that_are_one_terminal_may_name_them(
    body: str, attributes: str, valid: list[str], invalid: list[str]
) -> None:
    found = Grammar.from_lark(
        f'start: "<" r ">"\nr[{attributes}]: {body}\nB: %regex {{"substring_chars": "abc"}}'
    )
    assert [one for one in valid if not found.check(f"<{one}>").valid] == []
    assert [one for one in invalid if found.check(f"<{one}>").valid] == []


def test_empty_strings_are_texts_and_end_no_rule_early() -> None:
    found = Grammar.from_lark('start: "a" start | "" | x\nx: "b" ("c" | ""i)\nA: "" | "a"')
    assert [one for one in ("", "aa", "ab", "bc", "ac") if found.check(one).valid] == ["", "aa", "ab", "bc"]
    ended = Grammar.from_lark('start: t "!"\nt[stop=""]: /a*/')
    assert ended == Grammar.from_lark('start: t "!"\nt: /a*/')


def test_operands_that_name_others_twice_are_limited_as_other_terminals_are() -> None:
    chain = "\n".join(f"T{i}: T{i + 1} & T{i + 1}" for i in range(40))
    with pytest.raises(GrammarLimitError, match="grow by more than 100000 characters"):
        rules_from_lark(f'start: T0\n{chain}\nT40: "a" & ~"b"')


ALL = ["".join(word) for length in range(5) for word in product("ab", repeat=length)]
ATOMS = ["/a/", "/b+/", "/[ab]*/", '"ab"', "/a.?/", "/(ab|b)*/", '"ba"']


def random_terminal(draw: random.Random, depth: int) -> tuple[str, frozenset[str]]:
    """A terminal, and the words of up to 4 letters that it matches."""
    if depth == 0 or draw.random() < 0.2:
        atom = draw.choice(ATOMS)
        return atom, frozenset(word for word in ALL if re.fullmatch(atom[1:-1], word))
    (left, some), (right, others) = (random_terminal(draw, depth - 1) for _ in range(2))
    kind = draw.choice(["&", "&", "|", "~", " "])
    if kind == "~":
        return f"~({left})", frozenset(ALL) - some
    joined = {
        "&": some & others,
        "|": some | others,
        " ": frozenset(one + other for one in some for other in others if len(one + other) < 5),
    }
    return f"({left}) {kind} ({right})", joined[kind]


@pytest.mark.parametrize("seed", range(40))
def test_both_engines_agree_with_sets_of_words(seed: int) -> None:
    draw = random.Random(seed)
    text, words = random_terminal(draw, 3)
    rules = rules_from_lark(f"start: A\nA: ({text}) & /.*/")
    for engine in ENGINES.values():
        language = language_of(rules, engine)
        assert {word for word in ALL if language(word)} == words, text
    if not words:
        return
    tokens = [b"a", b"b", b"ab", b"bb", b"c", b"</s>"]
    matchers = [engine(rules.program(), tokens, [5]).matcher() for engine in ENGINES.values()]
    for _ in range(6):
        masks = [allowed(matcher, len(tokens)) for matcher in matchers]
        assert masks[0] == masks[-1], text
        token = draw.choice(sorted(masks[0] - {5}) or [5])
        assert len({matcher.accept(token) for matcher in matchers}) == 1


# In lexers by states, which read the longest text of the first terminal that has any.


def lexed(text: str, terminals: list[frozenset[str]]) -> bool:
    """Whether a lexer reads all of a text with terminals of some words, in order."""
    while text:
        longest = (
            max((word for word in words if text.startswith(word)), key=len, default="") for words in terminals
        )
        word = next(filter(None, longest), "")
        if not word:
            return False
        text = text[len(word) :]
    return True


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("seed", range(40))
def test_lexers_by_states_read_their_longest_texts_by_priority(seed: int) -> None:
    draw = random.Random(seed)
    endless = (random_terminal(draw, 2) for _ in count())
    some = list(islice((one for one in endless if one[1] - {""}), 3))
    order = draw.sample(range(3), 3)
    definitions = [
        f"{name}.{3 - order.index(number)}: ({text}) & /.{{1,4}}/"
        for number, (name, (text, _)) in enumerate(zip("ABC", some, strict=True))
    ]
    rules = rules_from_lalr("\n".join(["start: (A | B | C)*", *definitions]))
    ordered = [some[number][1] - {""} for number in order]
    for name in sorted(ENGINES):
        language = language_of(rules, ENGINES[name])
        for text in draw.sample(ALL, 20) + ["".join(draw.choices("ab", k=7)) for _ in range(10)]:
            assert language(text) == lexed(text, ordered), (name, text, definitions)


@every_engine
@pytest.mark.parametrize(
    ("text", "valid", "invalid"),
    [
        # As with plain patterns, a state tries what it accepts only.
        (
            'start: "if" NAME\nNAME: /[a-z]+/ & ~"no"\n%ignore " "',
            ["if x", "ifx", "if if"],
            ["if no", "no x"],
        ),
        (
            'start: ("if" | NAME)+\nNAME: /[a-z]+/ & ~"no"\n%ignore " "',
            ["if x", "iffy if", "if no"],
            ["if 7"],
        ),
        # A complement is the widest, and tried first; what both match is as wide as the shorter one.
        ('start: (A | B)* "!"\nA: /[ab]{3}/ & /[ab]*/\nB: /[ab]{1,2}/', ["aaa!", "aaaa!", "a!"], ["!!"]),
        ('start: A "c" | B\nA: ~/.*c.*/ & /.+/\nB: /[a-z]{2,9}/', ["abc", "xyc", "cab"], ["ab", "cabc."]),
        ('start: "x" OTHER\nOTHER: WORD & ~("a" | "b")\nWORD: /[a-c]/\n', ["xc"], ["xa", "xb", "x"]),
        ('start: A A\nA: "a"\n%ignore S\nS: /[ .]+/ & ~/.*[.][.].*/', ["a.a", "a . a", "a..a"], ["a-a"]),
        ('start: "x" ANY\nANY: ~(/.*b/) & /[^!]+/', ["xa", "x\n", "xba"], ["xb", "xab", "x"]),
    ],
)
def test_lexers_by_states_order_them_as_patterns(
    engine: Engine, text: str, valid: list[str], invalid: list[str]
) -> None:
    language = language_of(rules_from_lalr(text), engine)
    assert [one for one in valid if not language(one)] == []
    assert [one for one in invalid if language(one)] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('start: A\nA: ~"a"', "the terminal A: it matches the empty text .*line 2, column 1"),
        ("start: A\nA: ~A & /a/", "the terminal A: it contains itself"),
        ("start: A\nA: /a/ & B", "the terminal B is used but not defined"),
        ("start: A\nA: /a/ & B\nB: /a(?!b)/", "B depends on the text around it"),
    ],
)
def test_lexers_by_states_refuse_what_they_cannot_read(text: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        rules_from_lalr(text)
