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
"""("text", letters, budget), ("literal", bytes), or ("sequence" | "or" | "star", trees)."""


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
        bodies = [body(part) for part in parts[0]]
        if kind == "star":
            rules.define(rule, r.repeated(r.sequence(*bodies)))
        else:
            rules.define(rule, (r.sequence if kind == "sequence" else r.alternatives)(*bodies))
        return rule

    rules.start = rules.rule("start")
    rules.define(rules.start, r.sequence(body(tree)))
    return rules


class Way(NamedTuple):
    """One way to read a text: a position in the tree's automaton, and the tokens that have begun in the text
    there, if it is one with a budget."""

    position: int
    spent: int = 0


class Definition:
    """What budgets mean, as plainly as possible: every way to read a text, with its own count."""

    def __init__(self, tree: Tree) -> None:
        self.steps: list[list[tuple[frozenset[int], int]]] = []
        self.jumps: list[list[int]] = []
        self.budgets: list[int] = []
        start = self._position()
        self.end = self._add(tree, start)
        self.ways = self._closed({Way(start)})
        self.exceeds = False

    def _position(self, budget: int = 0) -> int:
        self.steps.append([])
        self.jumps.append([])
        self.budgets.append(budget)
        return len(self.steps) - 1

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

    def _closed(self, ways: set[Way]) -> frozenset[Way]:
        found, waiting = set(ways), list(ways)
        while waiting:
            for target in self.jumps[waiting.pop().position]:
                if Way(target) not in found:
                    found.add(Way(target))
                    waiting.append(Way(target))
        return frozenset(found)

    def _read(self, ways: frozenset[Way], token: bytes, is_token: bool = True) -> frozenset[Way]:
        for index, byte in enumerate(token):
            first = int(is_token and not index)
            following = {
                Way(
                    target,
                    (way.spent if way.position == target else 0) + first if self.budgets[target] else 0,
                )
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

    def accept(self, token: bytes, *, is_token: bool = True) -> None:
        """Add a token to the text, or bytes."""
        ways = self._read(self.ways, token, is_token)
        rest = frozenset(way for way in ways if not 0 < self.budgets[way.position] <= way.spent)
        can_go_on = bool(self._mask(rest))
        self.exceeds |= len(rest) < len(ways) and not can_go_on
        self.ways = rest if can_go_on else ways


texts = st.tuples(st.just("text"), st.sampled_from([b"a", b"ab", b"ab()"]), st.integers(0, 3))
literals = st.tuples(st.just("literal"), st.sampled_from([b"a", b"(", b")", b")(", b"aa", b"b"]))
trees = st.recursive(
    texts | literals,
    lambda parts: st.tuples(
        st.sampled_from(["sequence", "or", "star"]), st.lists(parts, min_size=1, max_size=3)
    ),
    max_leaves=4,
)


@every_engine
@settings(quick, max_examples=100)
@given(trees, st.integers(0, 2**32))
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
    for budgets in ([1], [*program.budgets, 1], [-1] * len(program.budgets)):
        object.__setattr__(program, "budgets", r.array("i", budgets))
        with pytest.raises(ValueError, match="budgets are inconsistent"):
            ENGINES["native"](program, TOKENS, [EOS])
