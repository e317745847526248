"""The masks of all nodes of a draft tree at once are those of one node after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine_sampler import Tokenizer
from engine_sampler.contract import (
    ParameterError,
    UnfinishedError,
    Work,
    allocate_bitmask,
    fill_tree_bitmask,
)
from engine_sampler.contract.draft_trees import walk_tree
from engine_sampler.grammar import Grammar
from engine_sampler.grammar.compiled import CompiledGrammar
from engine_sampler.grammar.engines import native

from ..engines import EOS, TOKENIZER, VOCAB, ToyMatcher

PIECES = [b"[", b"]", b",", b"1", b'"a"', b'"b"', b"a", b'"']
JSON_TOKENIZER = Tokenizer([*PIECES, b"</s>"], [len(PIECES)])
UNIQUE = {"type": "array", "items": {"enum": ["a", "b", 1]}, "uniqueItems": True}


def of(grammar: Grammar, engine: str | None = None) -> Any:
    return CompiledGrammar(grammar.program, TOKENIZER, engine=engine).matcher()


MATCHERS: dict[str, Callable[[], Any]] = {
    "native": lambda: of(Grammar.from_regex("(a|b| c)*(de)?"), "native"),
    "reference": lambda: of(Grammar.from_regex("(a|b| c)*(de)?"), "reference"),
    "a toy": lambda: ToyMatcher({"start": {1: "one", 2: "two"}, "one": {0: "start"}, "two": {4: "start"}}),
}
needs_native = pytest.mark.skipif(native.load_library() is None, reason="there is no engine in C")


def plain_masks(matcher: Any, tokens: list[int], parents: list[int]) -> tuple[np.ndarray, list[bool]]:
    """Each node by a copy that goes there alone."""
    bitmask = np.zeros_like(allocate_bitmask(1 + len(tokens), VOCAB))
    copies = [matcher]
    matcher.fork().fill_bitmask(bitmask, 0)
    for i, (token, parent) in enumerate(zip(tokens, parents, strict=True)):
        before = copies[parent + 1]
        copy = None if before is None else before.fork()
        if copy is None or not copy.accept(token):
            copies.append(None)
            continue
        copy.fill_bitmask(bitmask, i + 1)
        copies.append(copy)
    return bitmask, [copy is not None for copy in copies[1:]]


def random_tree(random: np.random.Generator) -> tuple[list[int], list[int]]:
    count = int(random.integers(0, 20))
    tokens = random.choice([0, 1, 2, 3, 9, EOS], count).tolist()
    return tokens, [int(random.integers(-1, i)) for i in range(count)]


@pytest.mark.parametrize("name", MATCHERS)
@pytest.mark.parametrize("walks", [False, True])
def test_the_masks_of_a_tree_are_those_of_its_nodes(name: str, walks: bool) -> None:
    fill = walk_tree if walks else fill_tree_bitmask
    for number in range(60):
        random = np.random.default_rng(number)
        matcher = MATCHERS[name]()
        for token in random.choice([0, 1, 2], number % 4).tolist():
            matcher.accept(token)
        tokens, parents = random_tree(random)
        right, admitted = plain_masks(matcher, tokens, parents)
        before = np.zeros_like(right[:1])
        matcher.fork().fill_bitmask(before)
        bitmask = allocate_bitmask(3 + len(tokens), VOCAB)
        assert fill(matcher, tokens, parents, bitmask, 1).tolist() == admitted
        assert (bitmask[1:-1] == right).all()
        assert (bitmask[[0, -1]] == -1).all(), "it writes to other rows"
        after = np.zeros_like(before)
        matcher.fill_bitmask(after)
        assert (after == before).all(), "the matcher has moved"


@needs_native
def test_a_deep_tree_is_read_to_its_end() -> None:
    matcher = of(Grammar.from_regex("a*"))
    bitmask = allocate_bitmask(1025, VOCAB)
    assert matcher.fill_tree_bitmask([0] * 1024, range(-1, 1023), bitmask).all()
    assert matcher.accepted_calls == 0


@needs_native
def test_a_tree_that_takes_too_much_work_is_unfinished_and_changes_nothing() -> None:
    matcher = of(Grammar.from_regex("(a|b| c){3,9}"))
    bitmask = allocate_bitmask(3, VOCAB)
    with pytest.raises(UnfinishedError):
        matcher.fill_tree_bitmask([0, 1], [-1, 0], bitmask, 0, Work(1, 2))
    assert matcher.accepted_calls == 0
    assert matcher.fill_tree_bitmask([0, 1], [-1, 0], bitmask).tolist() == [True, True]


@needs_native
def test_a_glance_fills_what_is_known_already() -> None:
    matcher = of(Grammar.from_regex("a{2}[bc]{3,9}"))
    matcher.fill_tree_bitmask([0], [-1], allocate_bitmask(2, VOCAB))
    bitmask = allocate_bitmask(4, VOCAB)
    filled = matcher.glance_at_tree([0, 0, 1], [-1, 0, 1], bitmask, 0, Work(1, 100))
    assert filled.tolist()[:2] == [True, True]
    right, _ = plain_masks(matcher, [0, 0, 1], [-1, 0, 1])
    assert (bitmask[filled] == right[filled]).all()
    assert (bitmask[~filled] == 0).all()


@needs_native
def test_tokens_that_do_not_exist_are_refused() -> None:
    matcher = of(Grammar.from_regex("a*"))
    bitmask = allocate_bitmask(4, VOCAB)
    assert matcher.fill_tree_bitmask([-1, 2**40, 0], [-1, -1, -1], bitmask).tolist() == [False, False, True]


@needs_native
def test_items_that_must_differ_are_followed_along_each_path() -> None:
    matcher = CompiledGrammar(Grammar.from_json_schema(UNIQUE).program, JSON_TOKENIZER).matcher()
    tokens = [PIECES.index(text) for text in (b"[", b"1", b",", b'"a"', b",", b"1")]
    parents = [-1, 0, 1, 2, 3, 4]
    bitmask = allocate_bitmask(7, len(JSON_TOKENIZER))
    assert matcher.fill_tree_bitmask(tokens, parents, bitmask).tolist() == [True] * 5 + [False]


@needs_native
def test_a_bitmask_must_have_a_row_for_each_node() -> None:
    matcher = of(Grammar.from_regex("a*"))
    with pytest.raises(IndexError, match=r"row=1 is not allowed: 0..0 are"):
        matcher.fill_tree_bitmask([0, 0], [-1, -1], allocate_bitmask(3, VOCAB), 1)
    with pytest.raises(ParameterError, match=r"parents\[0\]=0 is not allowed: -1 to -1"):
        matcher.fill_tree_bitmask([0], [0], allocate_bitmask(3, VOCAB))
