"""Attributes of rules: bounds of their text, and the sampling parameters that hold in them."""

from __future__ import annotations

import itertools
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from engine_sampler.contract.constraints import settings_of
from engine_sampler.grammar import Grammar, GrammarError
from engine_sampler.grammar.compiled import CompiledGrammar
from engine_sampler.tokenizer import Tokenizer

from ...both_engines import ENGINES, allowed

PIECES = [*(bytes((byte,)) for byte in range(32, 127)), b"", b"ab", b"ba", b"a!", b"!b", b"!!", b"aab", b"a,"]
EOS = 95
TOKENIZER = Tokenizer(PIECES, [EOS])
PATTERNS = ["[ab]*", "a+b?", "(ab|a)*", "[ab!]*", "(a|b!)+", "[^!]*", "b?a{1,3}"]


def matchers(text: str) -> list[Any]:
    """A matcher of each engine."""
    program = Grammar.from_lark(text).program
    return [CompiledGrammar(program, TOKENIZER, engine=name).matcher() for name in sorted(ENGINES)]


def walks(texts: list[str], seed: int, length: int = 14) -> list[list[set[int]]]:
    """The masks of each text's engines along one text of tokens that all of them allow."""
    rng = random.Random(seed)
    followed = [matcher for text in texts for matcher in matchers(text)]
    masks: list[list[set[int]]] = [[] for _ in followed]
    for _ in range(length):
        for mask, matcher in zip(masks, followed, strict=True):
            mask.append(allowed(matcher, len(PIECES)))
        choice = sorted(set.intersection(*(mask[-1] for mask in masks)) - {EOS})
        if not choice:
            break
        token = rng.choice(choice)
        for matcher in followed:
            assert matcher.accept(token)
    return masks


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("most", [1, 3])
def test_a_rule_has_at_most_so_many_characters(pattern: str, most: int) -> None:
    found = Grammar.from_lark(f'start: "<" t ">"\nt[max_chars={most}]: /{pattern}/')
    for length in range(6):
        for letters in itertools.product("ab!", repeat=length):
            text = "".join(letters)
            expected = length <= most and re.fullmatch(pattern, text) is not None
            assert found.check(f"<{text}>").valid == expected


def test_characters_are_not_bytes_and_a_suffix_comes_on_top() -> None:
    found = Grammar.from_lark('start: t "."\nt[max_chars=2, suffix="!"]: /.*/')
    assert found.check("é😀!.").valid
    assert not found.check("abc!.").valid


@pytest.mark.parametrize("seed", range(6))
def test_a_rule_ends_after_so_many_tokens(seed: int) -> None:
    rng = random.Random(seed)
    most, pattern = rng.randrange(1, 5), rng.choice(["[ab]*", "(a|b)+", "[ab!]+"])
    for matcher in matchers(f'start: "<" t ">"\nt[max_tokens={most}]: /{pattern}/'):
        assert matcher.accept(PIECES.index(b"<"))
        for _ in range(most):
            within = allowed(matcher, len(PIECES)) - {PIECES.index(b">")}
            assert matcher.accept(rng.choice(sorted(within)))
        assert allowed(matcher, len(PIECES)) == {PIECES.index(b">")}
        matcher.rollback(1)
        assert len(allowed(matcher, len(PIECES))) > 1


SUB = {"list": 'start: /[ab]/ ("," /[ab]/)*'}
FORMS = {
    "rules": 'r[max_tokens={most}]: x ("," x)*\nx: /[ab]/',
    "named": "r[max_tokens={most}]: @list",
    "json": 'r[max_tokens={most}]: %json {{"type": "integer"}}',
    "lark": 'r[max_tokens={most}]: %lark {{\nstart: (x | y)+\nx: "a"\ny: "b"\n}}',
    "regex": 'r[max_tokens={most}]: %regex {{"substring_chars": "abababab"}}',
    "number": 'r[max_tokens={most}]: %regex {{"type": "integer", "minimum": 0}}',
}
"""Forms of a rule that can end after each of its odd tokens."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("most", [1, 3])
def test_max_tokens_ends_a_rule_of_rules_and_other_grammars(form: str, most: int) -> None:
    text = 'start: ("<" r ">")*\n' + FORMS[form].format(most=most)
    program = Grammar.from_lark(text, grammars=SUB).program
    rng = random.Random(most)
    begin, end = PIECES.index(b"<"), PIECES.index(b">")
    for name in sorted(ENGINES):
        matcher = CompiledGrammar(program, TOKENIZER, engine=name).matcher()
        for _ in range(2):
            assert matcher.accept(begin)
            for count in range(most):
                longer = {i for i in allowed(matcher, len(PIECES)) if len(PIECES[i]) == 1} - {end}
                if count == 0:
                    longer -= {PIECES.index(b"-"), PIECES.index(b"0")}
                assert matcher.accept(rng.choice(sorted(longer)))
            assert {PIECES[i] for i in allowed(matcher, len(PIECES))} == {b">"}
            drafts = [end, begin, begin]
            assert matcher.validate(drafts) == 2
            other = matcher.fork()
            matcher.rollback(1)
            assert len(allowed(matcher, len(PIECES))) > 1
            matcher = other
            assert matcher.accept(end)


def test_max_tokens_of_rules_hold_where_the_rule_can_end_and_warn_elsewhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for matcher in matchers('start: "<" r ">"\nr[max_tokens=2]: x ("," x)*\nx: /[ab]/'):
        caplog.clear()
        for letter in (b"<", b"a", b","):
            assert matcher.accept(PIECES.index(letter))
        assert {PIECES[i] for i in allowed(matcher, len(PIECES))} >= {b"a", b"b"}
        assert "exceeds max_tokens" in caplog.text
        assert matcher.accept(PIECES.index(b"b"))
        assert {PIECES[i] for i in allowed(matcher, len(PIECES))} == {b">"}


def test_rules_with_max_tokens_keep_their_captures_and_parameters() -> None:
    plain = 'start: x ("," x)*\nx[capture, temperature=0.5]: y+\ny[capture="z"]: /[ab]/ | "c" x'
    bound = plain.replace("x[", "x[max_tokens=50, ")
    text = "ab,cab,b"
    assert Grammar.from_lark(bound).captures(text) == Grammar.from_lark(plain).captures(text)
    first, *others = walks([plain, bound], 3)
    assert all(masks == first for masks in others)
    own = {"temperature": 0.5}
    assert names_of(bound, "ab,") == [own, own, own, own]


@pytest.mark.parametrize("seed", range(12))
def test_a_large_bound_of_tokens_leaves_a_lazy_rule_as_it_is(seed: int) -> None:
    rng = random.Random(seed)
    end, pattern = rng.choice(["!", "!!", "aba", "ab", "a!a"]), rng.choice(PATTERNS)
    text = f'start: (r | s)* "."\nr[%s]: /{pattern}/\ns: "," | /[ab]+,/'
    first, *others = walks([text % f'suffix="{end}"', text % f'suffix="{end}", max_tokens=999'], seed)
    assert all(masks == first for masks in others)


@pytest.mark.parametrize(
    "attributes",
    [
        "temperature=0.5",
        "top_p=0.5, temperature=2",
        "max_tokens=99999",
        "max_chars=99999",
        "top_k=3, min_p=0",
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_attributes_that_bind_nothing_leave_the_masks_as_they_are(attributes: str, seed: int) -> None:
    body = ["/[a-c]*/", '"a" | "b" "c"', "/[^!]+/"][seed]
    text = f'start: x ("," x | "!" y)*\nx%s: {body}\ny%s: "(" "a"~1..3 ")"'
    plain = text % ("", "")
    given = text % (f"[{attributes}]", "[temperature=0.1]" if seed else "")
    first, *others = walks([plain, given], seed)
    assert all(masks == first for masks in others)


NESTED = """
start: "a" t "b" j "c" (k | l) m{t}
t[temperature=0.5]: /[a-z ]*/
j[temperature=0.25, top_p=0.5]: "[" (k | t) ("," k)* "]"
k: /[0-9]+/
l[top_k=3]: "x" k
m{v}[min_p=0.5]: "(" v ")"
"""


def names_of(text: str, written: str) -> list[dict[str, Any]]:
    """The parameters that hold after each character of `written`, the same for both engines."""
    by_matcher: list[list[dict[str, Any]]] = []
    for matcher in matchers(text):
        settings = settings_of(matcher)
        assert settings is not None
        sets: list[dict[str, Any]] = [{}, *(dict(parameters) for _, parameters in settings.settings)]
        by_matcher.append([sets[settings.present(matcher)]])
        for character in written:
            assert matcher.accept_bytes(character.encode())
            by_matcher[-1].append(sets[settings.present(matcher)])
    assert all(one == by_matcher[0] for one in by_matcher)
    return by_matcher[0]


def test_parameters_hold_where_the_next_token_may_be_in_their_rule() -> None:
    text = NESTED.replace(" m{t}", "").replace("m{v}[min_p=0.5]", "m{v}")
    own, outer = {"temperature": 0.5}, {"temperature": 0.25, "top_p": 0.5}
    assert names_of(text, "axb[z,5]cx7") == [
        {}, own, own, own, {**outer, "temperature": 0.5}, {**outer, "temperature": 0.5}, outer, outer, {},
        {"top_k": 3}, {"top_k": 3}, {"top_k": 3},
    ]  # fmt: skip


def test_parameters_of_a_json_schema_and_of_a_recursive_rule() -> None:
    own = {"temperature": 0.5}
    text = 'start: "x" j "y" k\nj[temperature=0.5]: %json {"type": "integer"}\nk: %json {"type": "integer"}'
    assert names_of(text, "x12y3") == [{}, own, own, own, {}, {}]
    text = 'start: "-" e\ne[temperature=0.5]: "(" f ")" | "a"\nf[top_k=2]: e'
    both = {**own, "top_k": 2}
    assert names_of(text, "-((a))") == [{}, own, both, both, both, own, {}]


def test_parameters_survive_saving_and_pickling(tmp_path: Path) -> None:
    grammar = Grammar.from_lark('start: "a" t\nt[temperature=0.5]: /[0-9]+/')
    grammar.save(tmp_path / "it.grammar")
    loaded = Grammar.load(tmp_path / "it.grammar")
    assert (loaded, loaded.program) == (grammar, grammar.program)
    assert grammar != Grammar.from_lark('start: "a" t\nt: /[0-9]+/')
    spoilt = (tmp_path / "it.grammar").read_text().replace('"settings_of":[0', '"settings_of":[7')
    (tmp_path / "it.grammar").write_text(spoilt)
    with pytest.raises(GrammarError, match="its terminals have settings that it lacks"):
        Grammar.load(tmp_path / "it.grammar")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("start: t\nt[max_tokens=0]: /a/", "max_tokens=0 is not allowed: a whole number from 1 to 1000000"),
        ('start: t\nt[max_chars="x"]: /a/', 'max_chars="x" is not allowed.*line 2, column 13'),
        ("start: t\nt[max_chars]: /a/", "'max_chars' has a wrong value"),
        ("start: t\nt[temperature=NaN]: /a/", "temperature=.NaN. is not allowed: .*line 2, column 15"),
        ("start: t\nt[temperature=-1]: /a/", "temperature=-1 is not allowed: .*line 2, column 15"),
        ("start: t\nt[temperature]: /a/", "'temperature' has a wrong value"),
        ("start: t\nt[temprature=1]: /a/", "no attribute 'temprature'"),
        ("start: t\nt[logit_bias=1]: /a/", "no attribute 'logit_bias'"),
        ('start: t\nt[max_chars=2]: u\nu: "x"', "u is only allowed in a rule that is neither lazy nor"),
        ("start: t\nt[max_chars=2]: %json {}", "only allowed in a rule that is neither lazy"),
        ("start: t\nt[max_chars=2]: /a(?!b)/", "t depends on the text around it, which max_"),
        (
            "start: " + " ".join(f"r{i}" for i in range(33)) + "".join(
                f"\nr{i}[temperature={i}]: /a/" for i in range(33)
            ),
            "the rule r[0-9]+: more than 32 different sets",
        ),
    ],
)  # fmt: skip
def test_attributes_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        Grammar.from_lark(text)


@pytest.mark.parametrize("attribute", ["max_tokens=2", "max_chars=2", "temperature=2"])
def test_the_contextual_lexer_refuses_them_by_name(attribute: str) -> None:
    with pytest.raises(GrammarError, match="need the lexer dynamic_complete"):
        Grammar.from_lark(f"start: t\nt[{attribute}]: /a/", lexer="contextual")


def test_rules_of_printed_ebnf_set_parameters() -> None:
    text = 'root ::= "a" t "b" u\nt[temperature=0.5, capture="x"] ::= [0-9]+\nu[top_k=3] ::= "z" | t'
    matcher = Grammar.from_gbnf(text).compile(TOKENIZER).matcher()
    settings = settings_of(matcher)
    assert settings is not None
    assert [dict(parameters) for _, parameters in settings.settings] == [
        {"temperature": 0.5},
        {"temperature": 0.5, "top_k": 3},
        {"top_k": 3},
    ]
    with pytest.raises(GrammarError, match=r"temperature=-1 is not allowed.*line 1, column 18"):
        Grammar.from_gbnf('root[temperature=-1] ::= "a"')


@pytest.mark.parametrize("key", ["chunks", "chars", "words"])
def test_a_structured_substring_is_the_one_of_its_short_form(key: str) -> None:
    value = '["ab", "c", "d"]' if key == "chunks" else '"ab c d"'
    text = "start: A\nA: %regex "
    short = Grammar.from_lark(text + f'{{"substring_{key}": {value}}}')
    assert Grammar.from_lark(text + f'{{"type": "substring", "{key}": {value}}}') == short


@pytest.mark.parametrize(
    "attributes", ['suffix="!"', "suffix=/!|z!/", 'suffix="!", max_chars=5', "suffix=/!|z!/, max_tokens=9"]
)
def test_alternatives_of_a_pattern_are_not_those_of_the_rule(attributes: str) -> None:
    found = Grammar.from_lark(f'start: r "?"\nr[{attributes}]: /x|y/ | /a|b/ /c|d/')
    texts = ["x!?", "y!?", "ad!?", "bc!?", "x?", "ac?", "a!?", "d!?", "!?"]
    assert [one for one in texts if found.check(one).valid] == texts[:4]


@pytest.mark.parametrize(
    ("number", "valid", "invalid"),
    [
        ({"type": "integer", "minimum": 3, "maximum": 12}, ["3", "12"], ["2", "13", "3.0", "03", ""]),
        ({"type": "integer", "multipleOf": 10, "exclusiveMinimum": 0}, ["10", "200"], ["0", "15", "-10"]),
        ({"type": "number", "minimum": -17.3, "exclusiveMaximum": 33.721}, ["-17.3"] * 2, ["-18", "33.721"]),
    ],
)  # fmt: skip
def test_a_structured_number_is_one_of_json_schema(
    number: dict[str, Any], valid: list[str], invalid: list[str]
) -> None:
    text = json.dumps(number)
    found = Grammar.from_lark(f'start: "<" A (">" | "," A ">")\nA: %regex {text}\n%ignore " "')
    assert [one for one in valid if not found.check(f"< {one} >").valid] == []
    assert [one for one in invalid if found.check(f"<{one}>").valid] == []
    assert found.check(f"<{valid[0]},{valid[1]}>").valid
    inline = Grammar.from_lark(f"start: %json {text}")
    assert Grammar.from_lark(f"start: A\nA: %regex {text}") == inline


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('A: %regex {"type": "integer", "spam": 1}', "%regex: 'spam' is not allowed: type, .*line 2"),
        ('A: %regex {"type": "integer", "minimum": "x"}', "%regex: .*minimum.*line 2, column 4"),
        ('A: %regex {"type": "integer", "minimum": 3, "maximum": 2}', "%regex: no value is valid.*line 2"),
        ('A: B & "x"\nB: %regex {"type": "integer"}', "a number cannot be part of another terminal"),
        ('A: B "x"\nB: %regex {"type": "integer"}', "a number cannot be part of another terminal"),
    ],
)  # fmt: skip
def test_a_structured_number_that_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        Grammar.from_lark(f"start: A\n{text}")
