"""With the lexer "contextual", the language of a grammar is that of lark's LALR parser with that lexer."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import lark
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from engine_sampler import Tokenizer
from engine_sampler.contract import allocate_bitmask
from engine_sampler.grammar import Grammar
from engine_sampler.grammar.engines.reference import ReferenceGrammar
from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.lark.contextual import rules_from_lalr
from engine_sampler.grammar.limits import LIMITS, Limits
from engine_sampler.grammar.program.lalr import IGNORED, KEYWORD, decoded, encoded
from engine_sampler.grammar.program.rules import Rules
from engine_sampler.grammar.work import counted_work

from ....bytewise import needs_native_engine
from ....conftest import example_count
from ...both_engines import ENGINES, Engine, allowed, every_engine, tried
from ..oracle import DATA, LIBRARY, Oracle, language_of, spoiled

patient = settings(deadline=None, max_examples=example_count(30), suppress_health_check=list(HealthCheck))


class Contextual(Oracle):
    """The language of a grammar as lark's LALR parser reads it."""

    def __init__(self, text: str, start: str = "start", **options: Any) -> None:
        self.parser = lark.Lark(text, parser="lalr", lexer="contextual", start=start, **options)
        self.start = lark.grammar.NonTerminal(start)


def accepted(engine: Engine, text: str, examples: str, **options: Any) -> str:
    """Those of some texts, separated by commas, that are in the language; lark must agree."""
    ours, oracle = language_of(rules_from_lalr(text, **options), engine), Contextual(text, **options)
    every = examples.split(",")
    found = [example for example in every if ours(example)]
    assert found == [example for example in every if oracle(example)]
    return ",".join(found)


# The lexer.


@every_engine
def test_the_longest_text_of_a_terminal_is_read_and_no_other(engine: Engine) -> None:
    text = 'start: A B\nA: /a+/\nB: "ab"'
    assert accepted(engine, text, "aab,ab,aaab,a") == ""
    assert accepted(engine, 'start: A B\nA: /a+/\nB: "b"', "ab,aab,b,a") == "ab,aab"


@every_engine
@pytest.mark.parametrize("end", ["", r"\b"])
def test_a_name_is_none_of_any_number_of_keywords(engine: Engine, end: str) -> None:
    keywords = "|".join(f"k{i}w" for i in range(200))
    text = f'start: NAME (";" NAME)*\nNAME: /(?!(?:{keywords})\\b)[a-z0-9]+{end}/'
    assert accepted(engine, text, "k1w,k199w,k,k1,k1wx,k200w,x") == "k,k1,k1wx,k200w,x"


@every_engine
def test_a_lazy_terminal_ends_as_early_as_it_can(engine: Engine) -> None:
    text = 'start: A+ "!"\nA: /".*?"/'
    assert accepted(engine, text, '"a"!,"a""b"!,"a"b"!,""!') == '"a"!,"a""b"!,""!'


@every_engine
def test_a_literal_is_a_keyword_of_the_names_that_match_it(engine: Engine) -> None:
    text = 'start: NAME | "if" NAME\nNAME: /[a-z]+/\n%ignore " "'
    assert accepted(engine, text, "if,iff,if x,iff x,if if,ifx") == "iff,if x,if if,ifx"


@every_engine
def test_a_literal_is_not_a_keyword_where_no_name_may_follow(engine: Engine) -> None:
    text = 'start: "if" NUMBER | "say" NAME\nNAME: /[a-z]+/\nNUMBER: /[0-9]+/\n%ignore " "'
    assert accepted(engine, text, "if1,if 1,say if,sayif,say sayif,iff1") == "if1,if 1,say if,sayif,say sayif"


@every_engine
def test_a_literal_with_a_flag_is_a_keyword_if_the_name_has_the_flag_as_well(engine: Engine) -> None:
    text = 'start: NAME | "if"i NAME\nNAME: /[a-z]+/i\n%ignore " "'
    assert accepted(engine, text, "If,iF x,IFX,if IF") == "iF x,IFX,if IF"


@every_engine
def test_a_literal_with_a_flag_that_the_name_lacks_is_a_terminal_of_its_own(engine: Engine) -> None:
    text = 'start: NAME | "if"i NAME\nNAME: /[a-z]+/\n%ignore " "'
    assert accepted(engine, text, "IF x,if x,ifx,IFx,IF,Ifx") == "IF x,if x,ifx,IFx,Ifx"


@every_engine
def test_a_literal_of_another_priority_is_not_a_keyword(engine: Engine) -> None:
    text = 'start: NAME | IF NAME\nNAME: /[a-z]+/\nIF.1: "if"\n%ignore " "'
    assert accepted(engine, text, "ifx,if x,iff,if") == "ifx,if x,iff"


@every_engine
def test_the_first_of_two_literals_that_match_a_name_is_the_keyword(engine: Engine) -> None:
    text = 'start: NAME | A "1" | B "2"\nNAME: /[a-z]+/i\nA: "if"i\nB: "if"'
    assert accepted(engine, text, "if1,if2,IF1,IF2,if,x") == "if1,IF1,x"


@every_engine
def test_the_terminal_of_the_higher_priority_is_read(engine: Engine) -> None:
    rules = 'start: A "1" | B "2"\n'
    assert accepted(engine, rules + "A: /[ab]+/\nB: /[bc]+/", "bb1,bb2") in ("bb1", "bb2")
    assert accepted(engine, rules + "A.2: /[ab]+/\nB: /[bc]+/", "bb1,bb2,bc1,bc2,cb2") == "bb1,cb2"
    assert accepted(engine, rules + "A: /[ab]+/\nB.2: /[bc]+/", "bb1,bb2,bc1,bc2,ba1") == "bb2,bc2"


@every_engine
def test_among_equal_priorities_the_wider_pattern_is_read_then_the_longer_one(engine: Engine) -> None:
    text = 'start: A "1" | B "2"\nA: /a[ab]?/\nB: /a[a-c]/'
    assert accepted(engine, text, "ab1,ab2,ac2,aa2,a1") == "ab1,a1"
    text = 'start: A "1" | B "2"\nA: /ab/\nB: /abb?/'
    assert accepted(engine, text, "ab1,ab2,abb2") == "ab2,abb2"


@every_engine
def test_a_terminal_of_lower_priority_is_read_where_one_of_higher_priority_fails(engine: Engine) -> None:
    text = 'start: (LONG | A | B)+ "."\nLONG.1: "abab!"\nA: "a"\nB: "b"'
    assert (
        accepted(engine, text, "abab!.,abab.,ababab!.,abab,aabab!.,ab!.") == "abab!.,abab.,ababab!.,aabab!."
    )


@every_engine
def test_a_terminal_that_matches_more_after_a_gap_is_one_terminal(engine: Engine) -> None:
    text = 'start: (A | B | C)+ "."\nA: /a(bbc)?/\nB: /bb/\nC: /c/'
    assert accepted(engine, text, "abb.,abbc.,abbcc.,ab.,abba.") == "abb.,abbc.,abbcc.,abba."
    text = "start: (A | B)+ C\nA: /a(bbc)?/\nB: /bb/\nC: /c/"
    assert accepted(engine, text, "abbc,abbcc,abbabbcc") == "abbcc,abbabbcc"


@every_engine
def test_the_lexer_also_reads_terminals_that_the_parser_cannot_shift(engine: Engine) -> None:
    """The lexer sees the state, but not the stack below it: LALR look-aheads of all contexts are merged."""
    text = 'start: "(" a ")" | "[" a "]]"\na: "x"\n'
    assert accepted(engine, text, "(x),[x]],(x]],[x),[x]") == "(x),[x]]"
    text = 'start: "(" a AB | "[" a A "b"\na: "x"\nAB: "ab"\nA: "a"'
    assert accepted(engine, text, "(xab,[xab,[xa") == "(xab"


@every_engine
def test_ignored_terminals_are_tried_in_their_turn(engine: Engine) -> None:
    text = "start: WORD+\nWORD: /[a-z]+/\nSPACE: / +/\nCOMMENT: /#[^\\n]*/\n%ignore SPACE\n%ignore COMMENT"
    assert accepted(engine, text, "a,a b, a ,a #b,#a\na,#,") == "a,a b, a ,a #b"
    text = 'start: A+\nA: /[ab]+/\nB.1: "b"\n%ignore B'
    assert accepted(engine, text, "a,ab,ba,b,bab,aba") == "a,ab,ba,bab,aba"
    text = 'start: A+\nA: /[ab]+/\nB: "bb"\n%ignore B'
    assert accepted(engine, text, "a,abb,bb,bba,b,bbb") == "a,abb,bba,b,bbb"


@every_engine
def test_a_terminal_that_is_ignored_and_used_is_ignored(engine: Engine) -> None:
    assert (
        accepted(engine, 'start: A B? A\nA: "a"\nB: "b"\n%ignore B', "aa,aba,abba,baab") == "aa,aba,abba,baab"
    )
    assert accepted(engine, 'start: A B A\nA: "a"\nB: "b"\n%ignore B', "aa,aba") == ""


@every_engine
@pytest.mark.parametrize(
    ("pattern", "right"),
    [
        ("/a+(?!b)/", "a2,aa2"),
        ("/(?!(?:in|is)\\b)[a-z]+/", "inn2,aa2"),
        ("/[ab](?!a)/", "b2,aa1"),
    ],
)
def test_a_look_ahead_sees_the_following_text_and_lets_other_terminals_match(
    engine: Engine, pattern: str, right: str
) -> None:
    text = f'start: A+ "2" | OTHER "1"\nA.1: {pattern}\nOTHER: /[a-z]+/'
    every = [word + end for word in ("a", "ab", "aab", "in", "inn", "b", "aa", "ba", "abb") for end in "12"]
    found = accepted(engine, text, ",".join(every)).split(",")
    assert set(right.split(",")) <= set(found) != set(every)


@every_engine
def test_a_look_ahead_makes_its_terminal_match_a_shorter_text(engine: Engine) -> None:
    text = 'start: A+ B?\nA: /a+(?!b)/\nB: "ab"'
    assert accepted(engine, text, "a,aa,aab,ab,aabab,b") == "a,aa,aab"
    text = 'start: (A | B)+ "!"\nA: /abb(?!c)|a/\nB: /b+c?/'
    assert accepted(engine, text, "abb!,abbc!,abbcc!,abcabb!") == "abb!,abbc!,abcabb!"


@every_engine
def test_a_look_ahead_holds_across_terminals(engine: Engine) -> None:
    text = 'start: A ("b" | "c")+\nA: /a(?!bcb)/\n%ignore "_"'
    assert accepted(engine, text, "ab,abc,abcb,abcc,abbcb,a_bcb,acbcb") == "ab,abc,abcc,abbcb,a_bcb,acbcb"
    text = 'start: (A | B)+\nA: /a(?!.*x)/\nB.-1: /[a-y]/\nC: "-"\n%ignore C'
    assert accepted(engine, text, "a,ax,a-x,aax-,x") == "a,ax,a-x,aax-,x"


@every_engine
def test_the_end_of_the_text_decides_a_look_ahead(engine: Engine) -> None:
    text = 'start: A | B "c"\nA: /ab(?!c)/\nB: /ab/'
    matcher = engine(rules_from_lalr(text).program(), ()).matcher()
    assert matcher.accept_bytes(b"ab")
    assert matcher.is_accepting()
    assert matcher.accept_bytes(b"c")
    assert matcher.is_accepting()
    matcher.rollback(1)
    assert matcher.is_accepting()
    assert not matcher.fork().accept_bytes(b"b")
    text = "start: A | B\nA.1: /a(?!bc)b?/\nB: /a/"
    assert accepted(engine, text, "a,ab,abc") == "a,ab"


@every_engine
def test_characters_are_read_whole(engine: Engine) -> None:
    text = "start: (A | B)+\nA: /[à-é]+/\nB: /[è-ü]x/"
    assert accepted(engine, text, "àé,èx,éx,ééx,é,ü,üx,àüx") == "àé,é,üx,àüx"


# The parser.


@every_engine
def test_a_conflict_between_shift_and_reduce_is_a_shift(engine: Engine) -> None:
    text = 'start: s\ns: "i" s | "i" s "e" s | "x"'
    assert accepted(engine, text, "ix,ixex,iixex,iixexex,ixexex") == "ix,ixex,iixex,iixexex"
    text = 'start: a "b" "c"\na: "x" | "x" "b" "b"'
    assert accepted(engine, text, "xbc,xbbbc,xb") == "xbbbc"


@every_engine
def test_priorities_of_rules_resolve_conflicts_between_two_rules(engine: Engine) -> None:
    assert accepted(engine, 'start: a "1" | b "1" "2"\na.1: "x"\nb: "x"', "x1,x12") == "x1"
    assert accepted(engine, 'start: a "1" | b "1" "2"\na: "x"\nb.1: "x"', "x1,x12") == "x12"


@every_engine
def test_the_empty_text_may_be_in_the_language(engine: Engine) -> None:
    assert accepted(engine, 'start: a?\na: "x" a?\n%ignore " "', ",x,xx, , x ") == ",x,xx, , x "
    assert accepted(engine, "start:", ",x") == ""


@every_engine
def test_an_endless_rule_is_never_completed(engine: Engine) -> None:
    assert accepted(engine, 'start: "a" | "b" b\nb: "c" b', "a,b,bc,bcc") == "a"


@every_engine
def test_declared_terminals_have_their_meaning_or_none(engine: Engine) -> None:
    text = 'start: "a" X | "b"\n%declare X'
    assert accepted(engine, text, "ax,a,b") == "b"
    ours = language_of(rules_from_lalr(text, declared={"X": "x+"}), engine)
    assert [word for word in ("ax", "axx", "a", "b") if ours(word)] == ["ax", "axx", "b"]


@every_engine
def test_special_tokens_are_allowed_between_terminals(engine: Engine) -> None:
    rules = rules_from_lalr('start: (A <|x|>)+ A\nA: /a+(?!b)/\n%ignore " "', special_tokens={"<|x|>": 2})
    matcher = engine(rules.program(), (b"a", b" ", b"<|x|>", b"b"), (), (2,)).matcher()
    assert allowed(matcher, 4) == tried(matcher, 4) == {0, 1}
    assert matcher.accept_bytes(b"aa")
    assert allowed(matcher, 4) == tried(matcher, 4) == {0, 1, 2}
    assert matcher.accept(2)
    assert not matcher.is_accepting()
    assert matcher.accept_bytes(b" a")
    assert matcher.is_accepting()


# Large grammars, and random ones.

LALR = [
    *(DATA / f"{name}.lark" for name in ("calculator", "c_like", "sql_like")),
    *(LIBRARY / f"{name}.lark" for name in ("arithmetic", "email_url", "iso8601", "json", "sql")),
]
OTHERS = [
    *(DATA / f"{name}.lark" for name in ("ambiguous", "go_like", "java_like")),
    *(LIBRARY / f"{name}.lark" for name in ("csv", "python")),
]


@functools.cache
def large(engine: Engine, path: Path) -> tuple[Callable[[str], bool], Contextual]:
    """The language of a grammar of the test data, and lark's."""
    text = path.read_text(encoding="utf-8")
    return language_of(rules_from_lalr(text), engine), Contextual(text)


@pytest.mark.quick_share(4)
@every_engine
@pytest.mark.parametrize("path", LALR, ids=lambda path: path.stem)
def test_examples_are_accepted_exactly_where_lark_accepts_them(engine: Engine, path: Path) -> None:
    ours, oracle = large(engine, path)
    kinds = json.loads(path.with_suffix(".examples.json").read_text(encoding="utf-8"))
    examples = [*kinds["accept"], *kinds["reject"]]
    assert [ours(example) for example in examples] == [oracle(example) for example in examples]


@pytest.mark.quick_share(4)
@every_engine
@pytest.mark.parametrize("path", LALR, ids=lambda path: path.stem)
@settings(patient, max_examples=8)
@given(data=st.data())
def test_random_texts_are_accepted_exactly_where_lark_accepts_them(
    engine: Engine, path: Path, data: st.DataObject
) -> None:
    ours, oracle = large(engine, path)
    text = oracle.text(data.draw, 15)
    assert ours(text) == oracle(text)
    text = spoiled(data.draw, text)
    assert ours(text) == oracle(text)


def test_a_grammar_whose_tables_take_seconds_is_refused_by_the_limit_on_reading() -> None:
    chain = "\n".join(f'r{number}: "{number}" r{number + 1}?' for number in range(10_000))
    with pytest.raises(GrammarLimitError, match=r"Limits\.reading"):
        rules_from_lalr(f'start: r0\n{chain}\nr10000: "x"')


def test_a_state_that_accepts_very_many_terminals_takes_linear_work() -> None:
    names = [f"W{number}" for number in range(4000)]
    words = "\n".join(f'{name}: "{name.lower()}x"' for name in names)
    rules = rules_from_lalr(f"start: {' | '.join(names)}\n{words}")
    assert len(rules.terminal_names) == 4000


def many_keywords(count: int, rules: str) -> str:
    """A grammar with the rules {rules}, in which {names} are keywords, and {statements} begin with them."""
    names = [f"K{number}" for number in range(count)]
    statements = [f"{name} word ({after} word)?" for name, after in pairwise(names)]
    terminals = "".join(f'{name}: "K{number}X"\n' for number, name in enumerate(names))
    filled = rules.format(names=" | ".join(names), statements=" | ".join(statements))
    return f"{filled}\nNAME: /[A-Z][A-Z0-9]*/\n%ignore /[ \\n]+/\n{terminals}"


@pytest.mark.parametrize(
    ("count", "rules", "size"),
    [
        (1000, "start: (NAME | {names})+", 12_000),
        (1000, "start: item+\nitem: word word | word item\nword: NAME | {names}", 14_000),
        (400, 'start: (statement ";")+\nstatement: {statements}\nword: NAME | {names}', 24_000),
    ],
)
def test_many_keywords_take_work_and_memory_in_proportion(count: int, rules: str, size: int) -> None:
    with counted_work() as work:
        found = rules_from_lalr(many_keywords(count, rules))
    assert LIMITS.reading - work.left < 250_000
    assert len(found.parser) < size


@needs_native_engine
def test_lexers_of_many_keywords_take_work_in_proportion() -> None:
    names = [f"K{number}" for number in range(400)]
    text = (
        'start: ("(" x word | "[" x other | "<" word word)+\nx: NAME\n'
        f"word: NAME | {' | '.join(names[::2])}\n"
        f'other: "." NAME | {" | ".join(names[1::2])}\n'
        'NAME: /[a-z][a-z0-9]*/\n%ignore " "\n'
    ) + "".join(f'{name}: "{name.lower()}x"\n' for name in names)
    tokenizer = Tokenizer([bytes([byte]) for byte in range(256)] + [b"</s>"], [256])
    grammar = Grammar.from_lark(text, lexer="contextual")
    matcher = grammar.compile(tokenizer, limits=Limits(work=100_000)).matcher()
    bitmask = allocate_bitmask(1, 257)
    for byte in b"(ab k0x [ab .ab <k2x k4x (ab ":
        matcher.fill_bitmask(bitmask)
        assert matcher.accept_bytes(bytes([byte]))


@every_engine
def test_a_keyword_that_cannot_come_is_no_name_where_names_may_come(engine: Engine) -> None:
    """What may follow `x` is the same for the lexer, wherever it stands."""
    text = 'start: "(" x word | "[" x other | "<" word word\nx: "x"\nword: NAME | ONE | TWO\n'
    text += 'other: SIX | TEN\nNAME: /[a-z]+/\nONE: "one"\nTWO: "two"\nSIX: "six"\nTEN: "ten"\n%ignore " "'
    examples = "(x one,(x six,(x sixes,[x six,[xten,[x one,[x tens,<one two,<a b,<six a,<ones ten,<ten ten"
    expected = "(x one,(x sixes,[x six,[xten,<one two,<a b,<six a,<ones ten,<ten ten"
    assert accepted(engine, text, examples) == expected


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_a_grammar_that_is_not_lalr_is_refused(path: Path) -> None:
    with pytest.raises(
        GrammarError, match=r"not LALR: before .*, the text may be reduced to each of"
    ) as caught:
        rules_from_lalr(path.read_text(encoding="utf-8"))
    assert caught.value.line


LETTERS = [a_text for length in range(6) for a_text in map("".join, product("ab", repeat=length))]
OTHER_TEXTS = ["A", "aB", "ab-_b", "_", "a_b", "a__b", "_ab_", "a-_-b", "a_-a", "b_b_", "__", "AbA", "ab_ab_"]
TEXTS = LETTERS + OTHER_TEXTS

_names = st.sampled_from("abc")
_terminals = st.sampled_from("XYZ")
_strings = st.sampled_from(['"a"', '"b"', '"ab"', '"ba"', '"A"i', '"aa"', '"ab"i', '"abb"'])
_patterns = st.sampled_from(
    "/a+/ /a*b/ /(ab|b)+/ /a+?b?/ /[ab]/ /b|ba/ /A/i /[a-z]+/i /ab?/ /a(bb)?/ /[ab]{2}/".split()
    + "/a(?!b)/ /(?!b)[ab]+/ /ab(?!a)/ /[ab]+(?!-)/ /a\\b/ /b(?!ab)/".split()
    + "/a+(?!b)/ /a(?!a|bb)b?/ /(a(?!b)|b)a?/ /a(?!.*b)/ /(?!a+b)[ab]{1,3}/ /a(?![ab]*_)/ /_(?!a)/".split()
)
_priorities = st.sampled_from(["", "", ".1", ".-1"])
_ignored = st.sampled_from(
    ["", "", "%ignore /_+/", '%ignore "_"', "%ignore /_-?/\n%ignore Z", "%ignore /_+a/", "%ignore /_+(?!a)/"]
)


def _joined(parts: st.SearchStrategy[str], low: int, high: int, by: str) -> st.SearchStrategy[str]:
    return st.lists(parts, min_size=low, max_size=high).map(by.join)


_repeated = st.tuples(_joined(_terminals | _names, 1, 2, " "), st.sampled_from("?*+")).map(
    "({0[0]}){0[1]}".format
)
_bodies = _joined(_joined(_terminals | _names | _strings | _patterns | _repeated, 0, 3, " "), 1, 2, " | ")
_definitions = (
    _patterns | _strings | _joined(_strings | _patterns, 2, 2, " ") | _joined(_patterns, 2, 2, " | ")
)


@st.composite
def small_grammars(draw: st.DrawFn) -> str:
    """Small grammars over a few characters, whose terminals overlap."""
    lines = [f"start: {draw(_bodies)}"]
    lines += [f"{name}: {draw(_bodies)}" for name in "abc"]  # with priorities lark might never stop
    lines += [f"{name}{draw(_priorities)}: {draw(_definitions)}" for name in "XYZ"]
    return "\n".join([*lines, draw(_ignored)])


@every_engine
@settings(patient, max_examples=example_count(60))
@given(text=small_grammars())
def test_any_small_grammar_has_the_language_that_lark_gives_it(engine: Engine, text: str) -> None:
    oracle = lalr(text)
    ours = language_of(small_rules(text), engine)
    assert [short for short in TEXTS if ours(short)] == [short for short in TEXTS if oracle(short)]


def small_rules(text: str) -> Rules:
    """The rules of a small grammar; another one is drawn if a look-ahead is where none is allowed."""
    try:
        return rules_from_lalr(text)
    except GrammarError as error:
        if not re.search("a look-?ahead", str(error)):
            raise
        assume(False)


def lalr(text: str) -> Contextual:
    """Lark's parser of a small grammar; another grammar is drawn if there is none."""
    try:
        oracle = Contextual(text)
    except lark.exceptions.LarkError:
        assume(False)
    return oracle


@every_engine
@settings(patient, max_examples=example_count(60))
@given(text=small_grammars())
def test_a_mask_allows_the_tokens_that_can_be_accepted(engine: Engine, text: str) -> None:
    lalr(text)
    grammar = compiled(engine, text)
    for begun in LETTERS:
        matcher = grammar.matcher()
        if matcher.accept_bytes(begun.encode()):
            assert allowed(matcher, len(TOKENS)) == tried(matcher, len(TOKENS))


TOKENS = [*map(str.encode, LETTERS[1:]), b"_", b"-", b"A", b"_a", b"a_", b"b-_", b""]


def compiled(engine: Engine, text: str) -> Any:
    """A small grammar for TOKENS; another one is drawn if no text at all matches."""
    try:
        return engine(small_rules(text).program(), TOKENS)
    except GrammarError as error:
        if "no text at all" not in str(error):
            raise
        assume(False)


@every_engine
def test_what_a_terminal_matches_early_goes_on_although_one_that_cannot_come_may_match_longer(
    engine: Engine,
) -> None:
    grammar = """
        start: a
        a: b (X b)+ (Y | C)
        b: | b "ab"
        X: "a"
        C: "c"
        Y: /a*b/
    """
    tokens = ["".join(letters) for length in range(1, 5) for letters in product("abc", repeat=length)]
    matcher = engine(rules_from_lalr(grammar).program(), [token.encode() for token in tokens]).matcher()
    assert Contextual(grammar)("abaac")
    assert matcher.accept_bytes(b"ab")
    assert tokens.index("aa") in allowed(matcher, len(tokens))
    assert allowed(matcher, len(tokens)) == tried(matcher, len(tokens))


@pytest.mark.skipif(len(ENGINES) < 2, reason="there is no native library")
@settings(patient, max_examples=example_count(60))
@given(text=small_grammars())
def test_the_engines_give_the_same_masks(text: str) -> None:
    lalr(text)
    one, other = (compiled(engine, text) for engine in ENGINES.values())
    for begun in OTHER_TEXTS + LETTERS:
        matcher, same = one.matcher(), other.matcher()
        begins = matcher.accept_bytes(begun.encode())
        assert same.accept_bytes(begun.encode()) == begins
        if begins:
            assert allowed(matcher, len(TOKENS)) == allowed(same, len(TOKENS))
            assert matcher.is_accepting() == same.is_accepting()


@every_engine
@pytest.mark.parametrize(
    "text",
    [
        'start: NAME "if" NAME\nNAME: /[ab]+/\n%ignore "_"',
        'start: (A | B)+ C\nA: /a(bb)?/\nB: "b"\nC: "_"',
        'start: NAME | "ab" NAME\nNAME: /[ab]+/\n%ignore "_"',
        'start: A+ "-"\nA: /a+(?!b)/\nB: "ab"\n%ignore B',
    ],
)
def test_a_mask_allows_every_token_after_which_lark_can_still_accept(engine: Engine, text: str) -> None:
    oracle = Contextual(text)
    words = [word for length in range(6) for word in map("".join, product("ab_-", repeat=length))]
    words = [word for word in words if oracle(word)]
    tokens = ["a", "b", "_", "-", "ab", "ba", "b_", "_a", "aa", "a-"]
    grammar = engine(rules_from_lalr(text).program(), [token.encode() for token in tokens])
    for begun in ("", "a", "ab", "b", "_a"):
        matcher = grammar.matcher()
        if matcher.accept_bytes(begun.encode()):
            expected = {i for i, token in enumerate(tokens) if any_begins(words, begun + token)}
            assert expected <= allowed(matcher, len(tokens))
        else:
            assert not any_begins(words, begun)


def any_begins(words: Iterable[str], begun: str) -> bool:
    """Whether one of `words` begins with `begun`."""
    return any(word.startswith(begun) for word in words)


@every_engine
def test_a_token_that_can_never_be_read_is_not_allowed(engine: Engine) -> None:
    text = 'start: "1" A B | "2" A\nA: /a+/\nB: "a"'
    grammar = engine(rules_from_lalr(text).program(), (b"1", b"2", b"a", b"b"))
    matcher = grammar.matcher()
    assert matcher.accept_bytes(b"2")
    assert allowed(matcher, 4) == {2}
    with pytest.raises(GrammarError, match="no text at all"):
        ReferenceGrammar(rules_from_lalr('start: X "1"\nX: /a+/\nY.1: /a/\n%ignore Y').program(), ())


@every_engine
@pytest.mark.parametrize(
    ("text", "begun", "right"),
    [
        ('start: "(" a ")>" | "[" a "]>"\na: "x"', "(x", ")"),  # the lexer accepts both, the parser one
        ('start: "(" a "or" "x" ")" | a\na: "x" | "y" "of"', "(x", "o"),
        ('start: "(" a "or" "x" ")" | a\na: "x" | "y" "of"', "(xo", "r"),
        ('start: A "1" | B "2"\nA.1: /ab(?!c)/\nB: /abc?/', "ab", "1c"),  # if no c follows, it is A
        ('start: A "1" | B "2"\nA: /a(?!b|2)/\nB: /a/', "a", "12"),
        ("start: A B\nA: /a(?!b)/\nB: /b?c/", "a", "c"),  # A forbids the b
        ('start: A+ "b"\nA: /a(?!a)/', "a", "b"),
        ('start: A B? "_"\nA: /a(?!b.)/\nB: "b"', "a", "_"),
    ],
)
def test_a_token_is_not_allowed_if_no_text_can_follow_it(
    engine: Engine, text: str, begun: str, right: str
) -> None:
    tokens = [bytes((byte,)) for byte in b"abcxyzorf12()[]>_"]
    matcher = engine(rules_from_lalr(text).program(), tokens).matcher()
    assert matcher.accept_bytes(begun.encode())
    assert {tokens[i].decode() for i in allowed(matcher, len(tokens))} == set(right)


# Grammars that are refused.


def refused(text: str, *, kind: type[GrammarError] = GrammarError, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        rules_from_lalr(text, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("start: WORD\nWORD: /a*/", "zero-width.*line 1, column 8"),
        (
            'start: a | b\na: "x"\nb: "x"',
            r"before the end, the text may be reduced to each .*a : X; b : X.*line 1",
        ),
        ('start: %json {"type": "string"}', "%json needs the lexer dynamic_complete.*line 1, column 8"),
        ('start: a "x"\na[lazy]: /.+/', "the lazy rule a needs the lexer dynamic_complete.*line 1"),
        ('start: A\nA: %regex {"substring_chars": "abc"}', "%regex needs the lexer"),
        ("start: b\n", "undefined rule|used but not defined"),
        ('a: "x"', "no rule 'start'"),
        ('start: A\n%ignore B\n%declare B\nA: "a"', "[Ii]gnore"),
        ('start: A "a"\nA: /(?:a(?!b)|c)*d/', "a look-ahead in a loop.*line 2"),
        ("start: X A\nX: /[ab]/\nA: /(?<=a)b/", "the terminal A.*line 3"),
    ],
)
def test_errors_give_the_reason_and_the_position(text: str, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        rules_from_lalr(text)


@pytest.mark.parametrize(
    "text",
    [
        "start: " + "A? " * 40 + '\nA: "a"',
        'start: ((((A|B)~40)~40)~40)~40\nA: "a"\nB: "b"',
        'start: _t{A}\n_t{x}: x _t{_u{x}}\n_u{x}: x\nA: "a"',
        'start: (A|B)~60..100000\nA: "a"\nB: "b"\n' * 1 + "c: " + "(A|B) " * 60,
    ],
)
def test_a_grammar_that_lark_would_expand_without_end_is_refused(text: str) -> None:
    assert "more than" in refused(text, kind=GrammarLimitError)


def test_a_grammar_with_too_many_states_is_refused() -> None:
    """States are sets of items: to record which of the last letters were an a takes exponentially many."""
    rules = ['start: "a" start | "b" start | "a" r0']
    rules += [f'r{i}: "a" r{i + 1} | "b" r{i + 1}' for i in range(40)]
    message = refused("\n".join([*rules, 'r40: "c"']), kind=GrammarLimitError)
    assert "items" in message


def test_a_sequence_of_many_brackets_is_refused_before_lark_expands_each_of_them() -> None:
    assert "Limits.reading" in refused("start: " + '("a")' * 6000, kind=GrammarLimitError)


@every_engine
def test_counts_without_an_upper_bound_are_counted(engine: Engine) -> None:
    ours = language_of(rules_from_lalr('start: "a"{2,} "b"{0,} C\nC: /c{2,}/'), engine)
    right = ["aacc", "aaabccc", "aabbcc"]
    assert [w for w in (*right, "acc", "aac", "aabb") if ours(w)] == right


def test_a_grammar_has_the_lexer_that_was_requested() -> None:
    text = 'start: A B | "b"\nA: /a+/\nB: "ab"'
    free, strict = (Grammar.from_lark(text, lexer=lexer) for lexer in ("dynamic_complete", "contextual"))
    assert free != strict
    assert not free.program.parser
    assert strict.program.parser
    assert strict.text == text
    assert free.complete("a") == "ab"
    assert strict.complete("a") is None  # /a+/ takes every a


def test_encoding_and_decoding_preserve_the_tables() -> None:
    code = rules_from_lalr('start: A | "if" start\nA: /[a-z]+/\n%ignore " "').parser
    parser = decoded(code)
    assert encoded(parser) == code
    kinds = {kind for state in parser.states for _, kind in state.entries}
    assert kinds == {0, KEYWORD, IGNORED}
    for wrong in (code[:-1], [*code, 0]):
        with pytest.raises(GrammarError, match="tables of the parser are too"):
            decoded(wrong)


@every_engine
def test_a_mask_allows_every_token_that_one_of_several_readings_accepts(engine: Engine) -> None:
    """After the first letter, "aa" is not the beginning of Z, but it is read otherwise."""
    text = r"""start: a
a: b
b: "A"i (Z)? c
c:  | a /(?!a+b)[ab]{1,3}/
X: /a+/
Y: /a+/
Z: /ab(?!a)/"""
    tokens = [b"", *(bytes(some) for size in (1, 2, 3, 4) for some in product(b"abA", repeat=size))]
    compiled = engine(rules_from_lalr(text).program(), tokens)
    for first in (b"a", b"A", b"aa", b"aab"):
        matcher = compiled.matcher()
        if matcher.accept(tokens.index(first)):
            assert allowed(matcher, len(tokens)) == tried(matcher, len(tokens))


@every_engine
def test_classes_by_property_are_read_although_lark_cannot_compile_them(engine: Engine) -> None:
    text = 'start: (NAME | KEY | ANY)+\nNAME: /[\\p{L}_]\\p{XID_Continue}*/\nKEY: "été"\nANY: /\\P{L}/'
    matcher = engine(rules_from_lalr(text).program(), ()).matcher()
    for one, expected in (("été", True), ("_a1é", True), ("1+", True), ("", False)):
        fork = matcher.fork()
        assert bool(fork.accept_bytes(one.encode()) and fork.is_accepting()) == expected
