"""Every engine accepts exactly the language that a grammar defines."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine_sampler.grammar.engines.reference import ReferenceGrammar
from engine_sampler.grammar.errors import GrammarError
from engine_sampler.grammar.program import expression as e
from engine_sampler.grammar.program.operations import at_least, clause, clear, count, set_bit
from engine_sampler.grammar.program.rules import ACCEPT, Edge, Rules, alternatives, repeated, sequence

from ..both_engines import Engine, accepts, every_engine
from ..naive import Naive
from ..random_grammars import Grammar, compiled_or_none, free, grammars, guarded, quick, texts


def agrees(engine: Engine, grammar: Grammar, examples: list[bytes]) -> None:
    """Assert that the engine and the naive matcher agree on each text."""
    compiled = compiled_or_none(engine, grammar)
    if compiled is None:
        assert not any(map(grammar.naive.accepts, examples))
        return
    for text in examples:
        matcher = compiled.matcher()
        assert (matcher.accept_bytes(text) and matcher.is_accepting()) == grammar.naive.accepts(text), text


some_texts = st.lists(texts, min_size=1, max_size=6)


@every_engine
@quick
@given(grammar=grammars(), examples=some_texts)
def test_random_rules_have_their_language(engine: Engine, grammar: Grammar, examples: list[bytes]) -> None:
    agrees(engine, grammar, examples)


@every_engine
@quick
@given(grammar=grammars(free), examples=some_texts)
def test_rules_of_intersections_and_complements_have_their_language(
    engine: Engine, grammar: Grammar, examples: list[bytes]
) -> None:
    agrees(engine, grammar, examples)


@every_engine
@quick
@given(grammar=grammars(registers=True), examples=some_texts)
def test_rules_with_registers_have_their_language(
    engine: Engine, grammar: Grammar, examples: list[bytes]
) -> None:
    agrees(engine, grammar, examples)


@every_engine
@quick
@given(grammar=grammars(free, ignore=True), examples=some_texts)
def test_rules_with_ignored_text_have_their_language(
    engine: Engine, grammar: Grammar, examples: list[bytes]
) -> None:
    agrees(engine, grammar, examples)


@every_engine
@quick
@given(part=guarded, tail=free, examples=some_texts)
def test_guards_look_into_the_text_after_their_terminal(
    engine: Engine, part: e.Expression, tail: e.Expression, examples: list[bytes]
) -> None:
    rules = Rules()
    terminals = {rules.terminal("PART", part): part}
    terminals[rules.terminal("TAIL", tail)] = tail
    first, last = rules.terminal("PART", part), rules.terminal("TAIL", tail)
    rules.start = rules.rule("start")
    states = [[Edge(first, 1)], [Edge(last, 2)], [Edge(first, 3)], [Edge(ACCEPT, 0)]]
    rules.define_automaton(rules.start, states)
    agrees(engine, Grammar(rules, Naive(terminals, [states], [], 0)), examples)


def listed(left: bool, nullable: bool = False) -> Rules:
    """A list of "a", by left or right recursion."""
    rules = Rules()
    a, items = rules.terminal("A", e.literal(b"a")), rules.rule("items")
    more = sequence(items, a) if left else sequence(a, items)
    rules.define(items, alternatives(sequence() if nullable else a, more))
    rules.start = items
    return rules


@every_engine
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("nullable", [True, False])
def test_long_lists_by_recursion_on_either_side(engine: Engine, left: bool, nullable: bool) -> None:
    rules = listed(left, nullable)
    assert accepts(engine, rules, b"a" * 3000)
    assert accepts(engine, rules, b"") == nullable
    assert not accepts(engine, rules, b"aab")


@every_engine
def test_brackets_may_be_nested_to_any_depth(engine: Engine) -> None:
    rules = Rules()
    opening, closing = rules.terminal("(", e.literal(b"(")), rules.terminal(")", e.literal(b")"))
    rules.start = nested = rules.rule("nested")
    rules.define(nested, sequence(opening, alternatives(sequence(), nested), closing))
    matcher = engine(rules.program(), ()).matcher()
    depth = 10_000 if engine is ReferenceGrammar else 100_000
    for _ in range(10):
        assert matcher.accept_bytes(b"(" * (depth // 10))
    for _ in range(10):
        assert not matcher.is_accepting()
        assert matcher.accept_bytes(b")" * (depth // 10))
    assert matcher.is_accepting()
    assert not matcher.accept_bytes(b")")


@every_engine
def test_hidden_left_recursion_and_cycles_are_allowed(engine: Engine) -> None:
    rules = Rules()
    a, b = rules.terminal("A", e.literal(b"a")), rules.terminal("B", e.literal(b"b"))
    x, y, maybe = rules.rule("x"), rules.rule("y"), rules.rule("maybe")
    rules.define(maybe, alternatives(sequence(), b))
    rules.define(x, alternatives(y, sequence(maybe, x, a), a))
    rules.define(y, alternatives(x, y))
    rules.start = y
    assert all(accepts(engine, rules, text) for text in (b"a", b"aaa", b"baa", b"bbaaa"))
    assert not any(accepts(engine, rules, text) for text in (b"", b"b", b"ba", b"bbaa"))


@every_engine
def test_an_ambiguous_rule_is_read_in_every_way(engine: Engine) -> None:
    rules = Rules()
    one, plus = rules.terminal("1", e.literal(b"1")), rules.terminal("+", e.literal(b"+"))
    rules.start = total = rules.rule("sum")
    rules.define(total, alternatives(one, sequence(total, plus, total)))
    assert accepts(engine, rules, b"+".join([b"1"] * 60))
    assert not accepts(engine, rules, b"1++1")


@every_engine
def test_terminals_may_match_the_empty_text(engine: Engine) -> None:
    rules = Rules()
    maybe = rules.terminal("A", e.repeat(e.literal(b"a")))
    rules.start = rules.rule("start")
    rules.define(
        rules.start, sequence(repeated(maybe), rules.terminal("B", e.literal(b"b")), repeated(maybe))
    )
    assert accepts(engine, rules, b"aaabaa")
    assert accepts(engine, rules, b"b")


@every_engine
def test_a_grammar_with_an_empty_language_is_refused(engine: Engine) -> None:
    rules = Rules()
    rules.start = loop = rules.rule("loop")
    rules.define(loop, sequence(rules.terminal("A", e.literal(b"a")), loop))
    with pytest.raises(GrammarError, match="no text at all"):
        engine(rules.program(), ())


@every_engine
def test_a_derivation_that_cannot_end_is_not_begun(engine: Engine) -> None:
    rules = Rules()
    a, b = rules.terminal("A", e.literal(b"a")), rules.terminal("B", e.literal(b"b"))
    loop = rules.rule("loop")
    rules.define(loop, sequence(a, loop))
    rules.start = rules.rule("start")
    rules.define(rules.start, alternatives(b, sequence(a, loop)))
    assert not engine(rules.program(), ()).matcher().accept_bytes(b"a")
    assert accepts(engine, rules, b"b")


def an_object(keys: int, required: int) -> Rules:
    """`{}` around keys a, b, ... in any order, each at most once; the first `required` ones must occur."""
    rules = Rules()
    opening, closing, comma = (rules.terminal(mark, e.literal(mark.encode())) for mark in "{},")
    names = [rules.terminal(chr(97 + i), e.literal(bytes((97 + i,)))) for i in range(keys)]
    all_required = tuple(clause((i, True)) for i in range(required))
    rules.start = rules.rule("object")
    inner = [Edge(name, 2, (clear(i), set_bit(i))) for i, name in enumerate(names)]
    states = [
        [Edge(opening, 1)],
        [*inner, Edge(closing, 4, all_required)],
        [Edge(comma, 3), Edge(closing, 4, all_required)],
        inner,
        [Edge(ACCEPT, 4)],
    ]
    rules.define_automaton(rules.start, states, bits=keys)
    return rules


@every_engine
def test_keys_may_come_in_any_order_but_only_once_each(engine: Engine) -> None:
    rules = an_object(20, 2)
    assert accepts(engine, rules, b"{b,a}")
    assert accepts(engine, rules, b"{t,a,c,b}")
    for text in (b"{}", b"{a}", b"{a,a,b}", b"{a,b,b}", b"{a,b,}", b"{c,b}"):
        assert not accepts(engine, rules, text)


@every_engine
@quick
@given(low=st.integers(0, 6), extra=st.integers(0, 3), times=st.integers(0, 10))
def test_a_repetition_is_counted(engine: Engine, low: int, extra: int, times: int) -> None:
    assume(low + extra > 0)
    rules = Rules()
    rules.start = rules.rule("start")
    rules.define(rules.start, repeated(rules.terminal("AB", e.literal(b"ab")), low, low + extra))
    assert accepts(engine, rules, b"ab" * times) == (low <= times <= low + extra)


@every_engine
def test_an_edge_whose_operations_fail_is_not_begun(engine: Engine) -> None:
    rules = Rules()
    a, b = rules.terminal("A", e.literal(b"aa")), rules.terminal("B", e.literal(b"bb"))
    rules.start = rules.rule("start")
    edges = [Edge(a, 0, (count(0, 2),)), Edge(b, 1, (at_least(0, 2),))]
    rules.define_automaton(rules.start, [edges, [Edge(ACCEPT, 1)]], counters=1)
    matcher = engine(rules.program(), ()).matcher()
    assert not matcher.accept_bytes(b"b")
    assert matcher.accept_bytes(b"aaaa")
    assert not matcher.accept_bytes(b"a")
    assert matcher.accept_bytes(b"bb")


def spaced(comment: bool = False) -> Rules:
    """Two numbers with optional space between them; `comment`: also comments, each as long as possible."""
    rules = Rules()
    digits = rules.terminal("N", e.repeat(e.byte_range(48, 57), 1, None))
    rules.ignore = [rules.terminal("WS", e.repeat(e.literal(b" "), 1, None))]
    if comment:
        body = e.repeat(e.byte_class(e.ALL_BYTES & ~(1 << 10)))
        rules.ignore.append(rules.terminal("COMMENT", e.concat(e.literal(b"#"), body)))
        rules.ignore.append(rules.terminal("NL", e.literal(b"\n")))
    rules.start = rules.rule("start")
    rules.define(rules.start, sequence(digits, digits))
    return rules


@every_engine
def test_ignored_text_may_precede_separate_and_follow_terminals(engine: Engine) -> None:
    assert accepts(engine, spaced(), b"  12   34 ")
    assert accepts(engine, spaced(), b"1234")
    assert not accepts(engine, spaced(), b"12 34 56")


@every_engine
def test_ignored_text_is_as_long_as_possible(engine: Engine) -> None:
    assert accepts(engine, spaced(comment=True), b"1 # 2 3\n4")
    assert not accepts(engine, spaced(comment=True), b"1 # 2")


@every_engine
def test_a_rule_may_also_name_an_ignored_terminal(engine: Engine) -> None:
    rules = Rules()
    space = rules.terminal("WS", e.repeat(e.literal(b" "), 1, None))
    a = rules.terminal("A", e.literal(b"a"))
    rules.ignore = [space]
    rules.start = rules.rule("start")
    rules.define(rules.start, sequence(a, space, a))
    assert accepts(engine, rules, b"a a")
    assert accepts(engine, rules, b" a    a ")
    assert not accepts(engine, rules, b"aa")


@every_engine
def test_a_guard_forbids_a_keyword_as_the_prefix_of_a_longer_word(engine: Engine) -> None:
    letters = e.byte_range(97, 122)
    rules = Rules()
    word = e.concat(e.literal(b"if"), e.guard(e.EPSILON, letters))
    keyword, name = rules.terminal("IF", word), rules.terminal("NAME", e.repeat(letters, 1, None))
    rules.ignore = [rules.terminal("WS", e.repeat(e.literal(b" "), 1, None))]
    rules.start = rules.rule("start")
    rules.define(rules.start, sequence(keyword, name))
    assert accepts(engine, rules, b"if x")
    assert not accepts(engine, rules, b"ifx")


@every_engine
def test_a_guard_holds_even_if_the_part_before_it_is_empty(engine: Engine) -> None:
    rules = Rules()
    number = e.concat(e.repeat(e.byte_range(48, 57)), e.guard(e.EPSILON, e.literal(b"x")))
    first, second = rules.terminal("N", number), rules.terminal("X", e.byte_range(97, 122))
    rules.start = rules.rule("start")
    rules.define(rules.start, sequence(first, second))
    assert accepts(engine, rules, b"12y")
    assert accepts(engine, rules, b"y")
    assert not accepts(engine, rules, b"12x")
    assert not accepts(engine, rules, b"x")


@every_engine
def test_a_guard_holds_at_the_end_of_the_text(engine: Engine) -> None:
    rules = Rules()
    rules.start = rules.rule("start")
    rules.define(rules.start, rules.terminal("A", e.guard(e.literal(b"a"), e.literal(b"ab"))))
    assert accepts(engine, rules, b"a")


@every_engine
@pytest.mark.parametrize("forbidden", [b"ab", b"bb"])
def test_a_terminal_does_not_begin_where_a_guard_forbids_the_rest_of_it(
    engine: Engine, forbidden: bytes
) -> None:
    """After `#(?!ab)` or `#(?!bb)`, what follows is `ab` once or more, `bb`, or nothing where that may be."""
    rules = Rules()
    first = rules.terminal("A", e.concat(e.literal(b"#"), e.guard(e.EPSILON, e.literal(forbidden))))
    many = rules.terminal("B", e.repeat(e.literal(b"ab"), 1, None))
    twice = rules.terminal("C", e.literal(b"bb"))
    rules.start = rules.rule("start")
    rules.define(rules.start, sequence(first, alternatives(many, twice, sequence())))
    matcher = engine(rules.program(), ()).matcher()
    assert matcher.accept_bytes(b"#")
    for following in (b"a", b"b"):
        assert matcher.fork().accept_bytes(following) is not forbidden.startswith(following)


@every_engine
def test_a_terminal_does_not_end_where_its_guard_forbids_all_that_may_follow(engine: Engine) -> None:
    rules = Rules()
    first = rules.terminal("A", e.concat(e.literal(b"#"), e.guard(e.EPSILON, e.literal(b"bb"))))
    rule = rules.rule("rule")
    rules.define(rule, first)
    rules.start = rules.rule("start")
    one, two, b, c = (rules.terminal(text.decode(), e.literal(text)) for text in (b"1", b"2", b"bb", b"c"))
    rules.define(rules.start, alternatives(sequence(one, rule, b), sequence(two, rule, c), one))
    matcher = engine(rules.program(), ()).matcher()
    assert matcher.fork().accept_bytes(b"2#c")
    assert not matcher.accept_bytes(b"1#")


@every_engine
def test_a_part_that_matches_nothing_makes_its_terminal_match_nothing(engine: Engine) -> None:
    """Decided without a search: the part before it alone has more states than a search may visit."""
    never = e.automaton(((False, ((97, 97, 0),)),))
    twelve_back = e.concat(e.byte_class(1 << 97), e.repeat(e.byte_range(97, 98), 12, 12))
    wide = e.both(*(e.complement(e.concat(e.repeat(e.ANY_BYTE, n, None), twelve_back)) for n in range(3)))
    rules = Rules()
    rules.start = rules.rule("start")
    rules.define(rules.start, rules.terminal("A", e.concat(wide, never)))
    with pytest.raises(GrammarError, match="no text at all"):
        engine(rules.program(), ())
