"""The ends of rules as captures: `rule[suffix="END", stop_capture="name"]`."""

from __future__ import annotations

import random

import pytest

from engine_sampler.grammar import Grammar, GrammarError
from engine_sampler.grammar.compiled import CompiledGrammar
from engine_sampler.tokenizer import Tokenizer

from ...both_engines import ENGINES, allowed

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


@pytest.mark.parametrize("seed", range(30))
def test_a_captured_end_changes_no_mask_and_is_what_its_rule_ends_with(seed: int) -> None:
    plain, given, end = grammars(seed)
    rng = random.Random(seed)
    programs = [Grammar.from_lark(text).program for text in (plain, given)]
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
    rules = Grammar.from_lark(plain).captures(text)["r"]
    found = Grammar.from_lark(given).captures(text)
    assert found["r"] == rules
    assert [(one.start, one.end) for one in found["it"]] == [(one.end - len(end), one.end) for one in rules]
    assert {one.text for one in found["it"]} <= {end}


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
        (
            'suffix=/!+/, stop_capture="m"',
            "a: stop_capture is only allowed before a suffix that is one string",
        ),
        ('suffix="e"i, stop_capture="m"', "a: stop_capture is only allowed before a suffix that is one"),
    ],
)
def test_what_cannot_be_captured_is_refused_by_name(attributes: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        Grammar.from_lark(f"start: a\na[{attributes}]: /[a-z]*/")


def test_the_contextual_lexer_refuses_them() -> None:
    with pytest.raises(GrammarError, match="need the lexer dynamic_complete"):
        Grammar.from_lark('start: a\na[suffix="!", stop_capture="m"]: /x/', lexer="contextual")


def test_printed_ebnf_says_that_it_leaves_them_out() -> None:
    text = 'root ::= r "z"\nr[capture_hidden_suffix_bytes=1, stop_capture="m", lazy] ::= Regex("[a-y]*!")'
    with pytest.warns(UserWarning, match=r'stop_capture="m" is left out \(line 2, column 34\): EBNF has no'):
        assert Grammar.from_gbnf(text).check("ab!z").valid
