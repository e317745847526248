"""The ends of rules as captures: `rule[suffix="END", stop_capture="name"]`."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from engine_sampler.grammar import Grammar, GrammarError
from engine_sampler.grammar.compiled import CompiledGrammar
from engine_sampler.grammar.program.rules import Program
from engine_sampler.tokenizer import Tokenizer

from ...both_engines import ENGINES, allowed

WHOLE_TEXTS = ["".join(some) for length in range(7) for some in itertools.product("ab!", repeat=length)]
PIECES = [b"a", b"b", b"!", b",", b".", b"ab", b"ba", b"a!", b"!b", b"!!", b"b,", b"!.", b""]
TOKENIZER = Tokenizer(PIECES, [12])
ENDS = ["!", "!!", "aba", "ab", "a!a", "bb"]
BODIES = ["[ab]*", "a+b?", "(ab|a)*", "[ab!]*", "(a|b!)+", "[^!]*", "b?a{1,3}"]


def grammars(seed: int) -> tuple[str, str, str]:
    """A grammar without and with a capture of the end of its rule `r`, and that end."""
    rng = random.Random(seed)
    end, body = rng.choice(ENDS), rng.choice(BODIES)
    text = f'start: (r | s)* "."\nr[capture, suffix="{end}"%s]: /{body}/\ns: "," | /[ab]+,/'
    return text % "", text % ', stop_capture="it"', end


def walked(programs: list[Program], rng: random.Random) -> bytes:
    """The bytes of up to twelve random tokens, before each of which all programs have the same mask on every
    engine."""
    matchers = [
        CompiledGrammar(program, TOKENIZER, engine=engine).matcher()
        for program in programs
        for engine in sorted(ENGINES)
    ]
    text = b""
    for _ in range(12):
        masks = [allowed(matcher, len(PIECES)) for matcher in matchers]
        assert all(mask == masks[0] for mask in masks)
        if not (choice := sorted(masks[0] - {12})):
            break
        token = rng.choice(choice)
        text += PIECES[token]
        assert all(matcher.accept(token) for matcher in matchers)
    return text


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("seed", range(30))
def test_a_captured_end_changes_no_mask_and_is_what_its_rule_ends_with(seed: int) -> None:
    plain, given, end = grammars(seed)
    rng = random.Random(seed)
    programs = [Grammar.from_lark(text).program for text in (plain, given)]
    text = walked(programs, rng)
    rules = Grammar.from_lark(plain).captures(text)["r"]
    found = Grammar.from_lark(given).captures(text)
    assert found["r"] == rules
    assert [(one.start, one.end) for one in found["it"]] == [(one.end - len(end), one.end) for one in rules]
    assert {one.text for one in found["it"]} <= {end}


SUFFIXES = [
    "/!+/",
    "/b?a/",
    "/a|ab|!/",
    "/a?!|b/",
    "/[ab]!/",
    "/(ab)*!/",
    "/x?/",
    '"B"i',
    "/.b/",
    "/aa|aba|!/",
]


def split(text: str, body: str, end: str) -> tuple[str, str] | None:
    """A text as a body, the longest that may be, and an end; None if it is no such text, or if a shorter
    beginning of it is one."""

    def is_end(some: str) -> bool:
        if end[0] == "/":
            return re.fullmatch(end[1:-1], some) is not None
        return some.lower() == end[1:-2].lower()

    def parts(some: str) -> tuple[str, str] | None:
        ways = ((some[:at], some[at:]) for at in range(len(some), -1, -1))
        return next((way for way in ways if re.fullmatch(body, way[0]) and is_end(way[1])), None)

    if any(parts(text[:at]) for at in range(len(text))):
        return None
    return parts(text)


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("seed", range(40))
def test_ends_that_are_no_string_are_those_of_the_longest_bodies(seed: int) -> None:
    rng = random.Random(seed)
    body, end = rng.choice(BODIES), SUFFIXES[seed % len(SUFFIXES)]
    text = f'start: "<" r ">"\nr[capture, suffix={end}%s]: /{body}/'
    plain = Grammar.from_lark(text % "")
    captured = Grammar.from_lark(text % ', stop_capture="it"')
    counted = Grammar.from_lark(text % ", max_tokens=99")
    for whole in rng.sample(WHOLE_TEXTS, 150) + WHOLE_TEXTS[:40]:
        expected = split(whole, body, end)
        given = f"<{whole}>"
        assert plain.check(given).valid == captured.check(given).valid == (expected is not None), whole
        assert counted.check(given).valid == (expected is not None)
        if expected is not None:
            found = captured.captures(given)
            assert [one.text for one in found["it"]] == [expected[1]]
            assert [one.text for one in found["r"]] == [whole]


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("seed", range(20))
def test_ends_that_are_no_string_change_no_mask(seed: int) -> None:
    rng = random.Random(seed)
    body, end = rng.choice(BODIES), SUFFIXES[seed % len(SUFFIXES)].replace("/x?/", "/x/")
    text = f'start: (r | s)* "."\nr[suffix={end}%s]: /{body}/\ns: "," | /[ab]+,/'
    added = ["", ", max_tokens=99", ', stop_capture="m"']
    programs = [Grammar.from_lark(text % more).program for more in added]
    walked(programs, rng)


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_tokens_count_up_to_an_end_that_is_no_string(engine: str) -> None:
    program = Grammar.from_lark('start: r ","\nr[max_tokens=2, suffix=/!+[.]/]: /[ab]*/').program
    matcher = CompiledGrammar(program, TOKENIZER, engine=engine).matcher()
    assert matcher.accept(0)
    assert matcher.accept(5)
    assert allowed(matcher, len(PIECES)) == {2, 9, 11}
    assert matcher.accept(2)
    matcher.rollback(2)
    assert allowed(matcher, len(PIECES)) == {0, 1, 2, 5, 6, 7, 9, 11}


def test_a_counted_rule_has_one_too_and_names_may_be_those_of_others() -> None:
    rules = """start: a b
        a[suffix="!", max_tokens=3, stop_capture="m"]: /[a-z]*/
        b[stop="?", stop_capture="m"]: X0
        X0: "x"
    """
    found = Grammar.from_lark(rules).captures("ab!x?")
    assert [one.text for one in found["m"]] == ["!", "?"]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ('stop_capture="m"', "stop_capture is only allowed with suffix or stop .*line 2, column"),
        ('lazy, stop_capture="m"', "stop_capture is only allowed with suffix or stop"),
        ('suffix="!", stop_capture', "the attribute 'stop_capture' has a wrong value"),
        ('suffix="!", stop_capture=""', "stop_capture='' is not allowed: 1 to 100 characters"),
        ('suffix=/x(?=y)/, stop_capture="m"', "would decide whether it matches"),
        ('suffix=/[^a]{30}x/, stop_capture="m"', "a: the rule and its suffix have more than 1024 states"),
    ],
)
def test_what_cannot_be_captured_is_refused_by_name(attributes: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        Grammar.from_lark(f"start: a\na[{attributes}]: /[a-z]*/")


def test_the_contextual_lexer_refuses_them() -> None:
    with pytest.raises(GrammarError, match="the lazy rule a needs the lexer"):
        Grammar.from_lark('start: a\na[suffix="!", stop_capture="m"]: /x/', lexer="contextual")


def test_printed_ebnf_says_that_it_leaves_them_out() -> None:
    text = 'root ::= r "z"\nr[capture_hidden_suffix_bytes=1, stop_capture="m", lazy] ::= Regex("[a-y]*!")'
    with pytest.warns(UserWarning, match=r'stop_capture="m" is left out \(line 2, column 34\): EBNF has no'):
        assert Grammar.from_gbnf(text).check("ab!z").valid
