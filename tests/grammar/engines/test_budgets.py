"""Budgets: how many tokens may begin in a terminal, for every engine."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sampler.grammar.errors import GrammarLimitError
from engine_sampler.grammar.program import expression as e
from engine_sampler.grammar.program import rules as r
from engine_sampler.grammar.program.rules import Rules

from ..both_engines import ENGINES, Engine, allowed, every_engine
from ..random_grammars import quick

TOKENS = [b"a", b"b", b"ab", b"ba", b"aab", b"(", b")", b"a)", b")(", b")(a", b"(a)", b"aa", b"<eos>"]
EOS = len(TOKENS) - 1

Tree: TypeAlias = "tuple[Any, ...]"
"""("text", letters, budget), ("literal", bytes), ("part", tree, budget), ("sequence" | "or" | "star", trees).
Budget 0 is none."""


def text(letters: bytes, budget: int) -> Tree:
    return ("text", letters, budget)


def literal(data: bytes) -> Tree:
    return ("literal", data)


def rules_of(tree: Tree) -> Rules:
    """The rules of a tree; each text is a terminal."""
    rules = Rules()

    def body(tree: Tree) -> r.Body:
        kind, *parts = tree
        if kind == "text":
            letters = e.byte_class(sum(1 << byte for byte in set(parts[0])))
            return rules.terminal("TEXT", e.repeat(letters), budget=parts[1])
        if kind == "literal":
            return rules.terminal("LITERAL", e.literal(parts[0]))
        rule = rules.rule(kind)
        bodies = [body(part) for part in ([parts[0]] if kind == "part" else parts[0])]
        if kind == "part":
            rules.part_budgets[rule] = parts[1]
        if kind == "star":
            rules.define(rule, r.repeated(r.sequence(*bodies)))
        else:
            rules.define(rule, (r.alternatives if kind == "or" else r.sequence)(*bodies))
        return rule

    rules.start = rules.rule("start")
    rules.define(rules.start, r.sequence(body(tree)))
    return rules


class Way(NamedTuple):
    """One way to read a text: a position in the tree's automaton, and the tokens that have begun in each text
    and part that it is within."""

    position: int
    spent: tuple[int, ...] = ()


class Within(NamedTuple):
    """A text, or a part, with a budget."""

    number: int
    budget: int


class Definition:
    """What budgets mean, as plainly as possible: every way to read a text, with its own counts."""

    def __init__(self, tree: Tree) -> None:
        self.steps: list[list[tuple[frozenset[int], int]]] = []
        self.jumps: list[list[int]] = []
        self.within: list[tuple[Within, ...]] = []
        self._around: tuple[Within, ...] = ()
        start = self._position()
        self.end = self._add(tree, start)
        self.ways = self._closed({Way(start)})
        self.exceeds = False

    def _position(self, budget: int = 0) -> int:
        self.steps.append([])
        self.jumps.append([])
        number = len(self.steps) - 1
        self.within.append((*self._around, Within(number, budget)) if budget else self._around)
        return number

    def _add(self, tree: Tree, start: int) -> int:
        """Add the paths of a tree from `start` on; returns where they end."""
        kind, *parts = tree
        end = self._position()
        if kind == "text":
            inside = self._position(parts[1])
            self.steps[start].append((frozenset(parts[0]), inside))
            self.steps[inside].append((frozenset(parts[0]), inside))
            self.jumps[start].append(end)
            self.jumps[inside].append(end)
        elif kind == "part":
            around, begin = self._around, self._position(parts[1])
            self._around = self.within[begin]
            self.jumps[start].append(begin)
            self.jumps[self._add(parts[0], begin)].append(end)
            self._around = around
        elif kind == "literal":
            for byte in parts[0][:-1]:
                middle = self._position()
                self.steps[start].append((frozenset((byte,)), middle))
                start = middle
            self.steps[start].append((frozenset(parts[0][-1:]), end))
        elif kind == "or":
            for part in parts[0]:
                begin = self._position()
                self.jumps[start].append(begin)
                self.jumps[self._add(part, begin)].append(end)
        else:
            begin = at = self._position()
            self.jumps[start].append(begin)
            for part in parts[0]:
                at = self._add(part, at)
            self.jumps[at].append(begin if kind == "star" else end)
            if kind == "star":
                self.jumps[begin].append(end)
        return end

    def _moved(self, way: Way, target: int, first: int = 0) -> Way:
        """The way at another position, with `first` more tokens."""
        before, after = self.within[way.position], self.within[target]
        kept = [spent for spent, one, other in zip(way.spent, before, after, strict=False) if one == other]
        return Way(target, tuple(spent + first for spent in kept + [0] * (len(after) - len(kept))))

    def _closed(self, ways: set[Way]) -> frozenset[Way]:
        closed, waiting = set(ways), list(ways)
        while waiting:
            way = waiting.pop()
            for target in self.jumps[way.position]:
                if (moved := self._moved(way, target)) not in closed:
                    closed.add(moved)
                    waiting.append(moved)
        return frozenset(closed)

    def _read(self, ways: frozenset[Way], token: bytes, is_token: bool = True) -> frozenset[Way]:
        for index, byte in enumerate(token):
            first = int(is_token and not index)
            following = {
                self._moved(way, target, first)
                for way in ways
                for letters, target in self.steps[way.position]
                if byte in letters
            }
            ways = self._closed(following)
        return ways

    def _mask(self, ways: frozenset[Way]) -> set[int]:
        found = {i for i, token in enumerate(TOKENS) if i != EOS and self._read(ways, token)}
        return found | ({EOS} if Way(self.end) in ways else set())

    def mask(self) -> set[int]:
        """The tokens that may follow."""
        return self._mask(self.ways)

    def _is_over(self, way: Way) -> bool:
        within = self.within[way.position]
        return any(spent >= one.budget for spent, one in zip(way.spent, within, strict=True))

    def accept(self, token: bytes, *, is_token: bool = True) -> None:
        """Add a token to the text, or bytes."""
        ways = self._read(self.ways, token, is_token)
        rest = frozenset(way for way in ways if not self._is_over(way))
        can_go_on = bool(self._mask(rest))
        self.exceeds |= len(rest) < len(ways) and not can_go_on
        self.ways = rest if can_go_on else ways


texts = st.tuples(st.just("text"), st.sampled_from([b"a", b"ab", b"ab()"]), st.integers(0, 3))
literals = st.tuples(st.just("literal"), st.sampled_from([b"a", b"(", b")", b")(", b"aa", b"b"]))


def _joined(parts: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    kinds = st.sampled_from(["sequence", "or", "star"])
    return st.tuples(kinds, st.lists(parts, min_size=1, max_size=3))


trees = st.recursive(texts | literals, _joined, max_leaves=4)
trees_of_parts = st.recursive(
    texts | literals,
    lambda parts: _joined(parts) | st.tuples(st.just("part"), parts, st.integers(1, 4)),
    max_leaves=5,
)


@every_engine
@settings(quick, max_examples=100)
@given(trees | trees_of_parts, st.integers(0, 2**32))
def test_masks_are_what_the_ways_to_read_a_text_allow(engine: Engine, tree: Tree, seed: int) -> None:
    definition, choices = Definition(tree), random.Random(seed)
    matcher = engine(rules_of(tree).program(), TOKENS, [EOS]).matcher()
    with suppress(GrammarLimitError):  # the reference engine does not follow ever more ways to read a text
        for _ in range(5):
            mask = definition.mask()
            assert allowed(matcher, len(TOKENS)) == mask
            forced = matcher.forced_tokens()
            assert matcher.validate(forced) == len(forced)
            if not mask - {EOS}:
                break
            token = choices.choice(sorted(mask - {EOS}))
            is_token = choices.random() < 0.9
            assert matcher.accept(token) if is_token else matcher.accept_bytes(TOKENS[token])
            definition.accept(TOKENS[token], is_token=is_token)


BRACKETS = ("star", [literal(b"("), text(b"ab", 2), literal(b")")])
"""Letters in brackets: at most two tokens within each pair."""


def after(engine: Engine, tree: Tree, *tokens: bytes) -> Any:
    matcher = engine(rules_of(tree).program(), TOKENS, [EOS]).matcher()
    for token in tokens:
        assert matcher.accept(TOKENS.index(token))
    return matcher


def follow(matcher: Any) -> set[bytes]:
    return {TOKENS[i] for i in allowed(matcher, len(TOKENS))}


ENDS = {b")", b")(", b")(a"}
LETTERS = {b"a", b"b", b"ab", b"ba", b"aab", b"a)", b"aa"}


@every_engine
def test_a_terminal_ends_when_its_budget_is_spent(engine: Engine) -> None:
    assert follow(after(engine, BRACKETS, b"(", b"a")) == LETTERS | ENDS
    assert follow(after(engine, BRACKETS, b"(", b"a", b"aa")) == ENDS
    assert follow(after(engine, BRACKETS, b"(", b"a", b"a)")) == {b"(", b"(a)", b"<eos>"}


@every_engine
def test_a_token_in_which_a_terminal_begins_does_not_count_unless_it_is_the_first_there(
    engine: Engine,
) -> None:
    assert follow(after(engine, BRACKETS, b"(", b"a", b")(a", b"b")) == LETTERS | ENDS
    assert follow(after(engine, BRACKETS, b"(", b"a", b")(a", b"b", b"b")) == ENDS
    assert follow(after(engine, BRACKETS, b"(", b"a", b")(", b"b", b"b")) == ENDS


@every_engine
def test_rollback_forks_and_drafts_keep_the_count(engine: Engine) -> None:
    matcher = after(engine, BRACKETS, b"(", b"a")
    other = matcher.fork()
    a, two, end = TOKENS.index(b"a"), TOKENS.index(b"ab"), TOKENS.index(b")")
    assert matcher.validate([a, a, end]) == 1
    assert matcher.validate([a, end, a]) == 2
    assert matcher.accept(two)
    assert not matcher.accept(two)
    assert other.accept(two)
    matcher.rollback(1)
    assert follow(matcher) == LETTERS | ENDS
    matcher.rollback(2)
    assert follow(matcher) == {b"(", b"(a)", b"<eos>"}
    assert follow(other) == ENDS


@every_engine
def test_bytes_that_are_no_token_spend_nothing(engine: Engine) -> None:
    matcher = after(engine, BRACKETS, b"(", b"a")
    assert matcher.accept_bytes(b"bbbb")
    assert matcher.accept_bytes(b"")
    assert follow(matcher) == LETTERS | ENDS
    assert matcher.accept(0)
    assert matcher.accept_bytes(b")(ab")
    assert follow(matcher) == LETTERS | ENDS


@every_engine
def test_what_must_come_next_is_known_where_a_budget_ends(engine: Engine) -> None:
    tree = ("sequence", [text(b"a", 2), literal(b"(a)")])
    matcher = after(engine, tree, b"a")
    assert (matcher.forced_bytes(), matcher.forced_tokens()) == (b"", [])
    assert matcher.accept(0)
    assert (matcher.forced_bytes(), matcher.next_bytes()) == (b"(a)", b"(")
    assert matcher.forced_tokens() == [TOKENS.index(b"(a)")]


@every_engine
def test_of_several_ways_to_read_a_text_the_one_that_has_spent_least_counts(engine: Engine) -> None:
    tree = ("star", [text(b"ab", 2), literal(b"a")])  # each "a" may also be the end of a part
    assert follow(after(engine, tree, *[b"a"] * 6)) == LETTERS - {b"a)"} | {b"<eos>"}
    assert follow(after(engine, tree, b"a", b"a", b"b")) == LETTERS - {b"a)"}  # "b" may begin a part
    assert follow(after(engine, tree, b"a", b"b", b"b")) == {b"a", b"ab", b"aab", b"aa"}


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], int]:
    """How many warnings of an exceeded budget there have been."""
    caplog.set_level(logging.WARNING, "engine_sampler")
    return lambda: sum("exceeds max_tokens" in record.message for record in caplog.records)


@every_engine
def test_a_text_that_cannot_end_goes_on_until_it_can_with_one_warning(
    engine: Engine, warnings: Callable[[], int]
) -> None:
    rules = Rules()
    pairs = rules.terminal("PAIRS", e.repeat(e.literal(b"ab")), budget=1)
    rules.start = rules.rule("start")
    rules.define(rules.start, r.repeated(r.sequence(pairs, rules.terminal(")", e.literal(b")")))))
    matcher = engine(rules.program(), TOKENS, [EOS]).matcher()
    assert matcher.validate([0, 1]) == 2
    assert warnings() == 0
    assert matcher.accept(0)
    assert warnings() == 1
    assert follow(matcher) == {b"b", b"ba"}
    for token in (b"ba", b"b", b")", b"a"):
        assert matcher.accept(TOKENS.index(token))
    assert warnings() == 1
    assert matcher.fork().accept(1)
    assert warnings() == 1


@every_engine
def test_a_text_goes_on_where_no_token_writes_its_end(engine: Engine, warnings: Callable[[], int]) -> None:
    rules = rules_of(("sequence", [text(b"ab", 1), literal(b"(")]))
    matcher = engine(rules.program(), [b"a", b"b", b"b(", b"<eos>"], [3]).matcher()
    assert matcher.accept(0)
    assert (allowed(matcher, 4), warnings()) == ({0, 1, 2}, 1)
    assert matcher.accept(2)
    assert allowed(matcher, 4) == {3}


@every_engine
def test_a_token_that_is_also_named_as_such_is_read_both_ways(engine: Engine) -> None:
    rules = rules_of(("star", [text(b"a", 1), literal(b"b")]))
    named = rules.special("A", [0])
    start, rules.start = rules.start, rules.rule("either")
    rules.define(rules.start, r.alternatives(start, r.sequence(named, named, start)))
    matcher = engine(rules.program(), TOKENS, [EOS]).matcher()
    assert matcher.accept(0)
    assert follow(matcher) == {b"a", b"b", b"ba"}
    assert matcher.accept(0)
    assert follow(matcher) == {b"a", b"b", b"ab", b"ba", b"aab", b"aa", b"<eos>"}


@pytest.mark.skipif("native" not in ENGINES, reason="the engine in C is not there")
def test_budgets_that_do_not_fit_the_program_are_refused() -> None:
    program = rules_of(BRACKETS).program()
    for budgets in (
        [1],
        [*program.budgets, 1],
        [-(2**31)] * len(program.budgets),
        [1] * 9 * len(program.budgets),
    ):
        object.__setattr__(program, "budgets", r.array("i", budgets))
        with pytest.raises(ValueError, match="budgets are inconsistent"):
            ENGINES["native"](program, TOKENS, [EOS])


def part(budget: int, inside: Tree) -> Tree:
    return ("part", inside, budget)


LIST = ("sequence", [literal(b"a"), ("star", [literal(b"("), literal(b"b")])])
"""Letters with brackets between them, over several terminals."""


@every_engine
def test_a_part_of_several_terminals_ends_when_its_budget_is_spent(engine: Engine) -> None:
    tree = ("star", [part(3, LIST), literal(b")")])
    assert follow(after(engine, tree, b"a", b"(")) == {b"b"}
    assert follow(after(engine, tree, b"a", b"(", b"b")) == {b")"}
    matcher = after(engine, tree, b"a", b"(", b"b", b")", b"a")
    assert follow(matcher) == {b"(", b")"}
    matcher.rollback(2)
    assert follow(matcher.fork()) == {b")"}


@every_engine
def test_each_part_has_its_own_budget_also_where_they_follow_each_other(engine: Engine) -> None:
    letters = ("star", [literal(b"a")])
    tree = ("sequence", [part(2, letters), part(2, letters)])
    assert follow(after(engine, tree, b"a", b"a")) == {b"a", b"aa", b"<eos>"}
    assert follow(after(engine, tree, b"a", b"a", b"a")) == {b"a", b"aa", b"<eos>"}
    assert follow(after(engine, tree, b"a", b"a", b"a", b"a")) == {b"<eos>"}


@every_engine
def test_a_part_within_another_one_is_bounded_by_both(engine: Engine) -> None:
    tree = part(
        4, ("sequence", [literal(b"("), ("star", [part(2, ("star", [text(b"a", 0)])), literal(b")")])])
    )
    assert follow(after(engine, tree, b"(", b"a", b"a")) == {b")"}
    assert follow(after(engine, tree, b"(", b"a", b")", b"a")) >= {b")"}


@every_engine
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("looks", [False, True])
def test_ignored_text_alone_is_no_way_to_go_on(engine: Engine, ends: bool, looks: bool) -> None:
    """A text that has spent its budget may have ignored text behind it only where it can end."""
    rules = Rules()
    rules.start, part = rules.rule("start"), rules.rule("part")
    first = e.literal(b"a")
    begin = rules.terminal("A", e.concat(first, e.guard(e.EPSILON, e.literal(b"((("))) if looks else first)
    rest = rules.terminal("B", e.literal(b"b"))
    rules.define(part, r.sequence(begin, r.repeated(rest, 0, 1) if ends else rest))
    rules.define(rules.start, r.sequence(part))
    rules.part_budgets[part] = 1
    rules.ignore.append(rules.terminal("BRACKETS", e.literal(b"(")))
    matcher = engine(rules.program(), TOKENS, [EOS]).matcher()
    assert matcher.accept(TOKENS.index(b"a"))
    found = {TOKENS[i] for i in allowed(matcher, len(TOKENS))}
    assert found == ({b"(", b"<eos>"} if ends else {b"(", b"b"})


@every_engine
def test_special_tokens_count_in_parts(engine: Engine) -> None:
    rules = Rules()
    tokens = rules.rule("tokens")
    rules.define(
        tokens, r.repeated(r.alternatives(rules.special("T", [0]), rules.terminal("B", e.literal(b"b"))))
    )
    rules.part_budgets[tokens] = 2
    rules.start = rules.rule("start")
    rules.define(rules.start, r.sequence(tokens, rules.terminal("END", e.literal(b")"))))
    matcher = engine(rules.program(), TOKENS, [EOS]).matcher()
    for token in (0, 1):
        assert follow(matcher) == {b"a", b"b", b")"}
        assert matcher.accept(token)
    assert follow(matcher) == {b")"}


@every_engine
def test_a_rule_that_contains_itself_is_bounded_as_a_whole(engine: Engine) -> None:
    rules = Rules()
    nested = rules.rule("nested")
    brackets = [rules.terminal(one, e.literal(one.encode())) for one in "()"]
    rules.define(nested, r.repeated(r.sequence(brackets[0], nested, brackets[1])))
    rules.part_budgets[nested] = 4
    rules.start = rules.rule("start")
    rules.define(rules.start, r.sequence(nested, rules.terminal("A", e.literal(b"a"))))
    matcher = engine(rules.program(), TOKENS, [EOS]).matcher()
    for token in (b"(", b"(", b")", b")"):
        assert b"(" in follow(matcher)
        assert matcher.accept(TOKENS.index(token))
    assert follow(matcher) == {b"a", b"aa", b"aab", b"ab"} - {b"aa", b"aab", b"ab"}


@every_engine
def test_too_many_parts_within_each_other_are_refused_by_name(engine: Engine) -> None:
    tree: Tree = literal(b"a")
    for budget in range(1, 6):
        tree = part(budget, ("star", [tree]))
    with pytest.raises(GrammarLimitError, match="the rule part: more than 4 rules with max_tokens"):
        engine(rules_of(tree).program(), TOKENS, [EOS])
