"""Draft trees: one path of each is accepted, and the tokens are those of a run without drafts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, RequestError, SamplingParams, Scheduler
from engine_sampler.backends.numpy import NumpyBackend
from tests.random_chains import ROUNDS, Random, random_settings

from ..engines import VOCAB, ToyMatcher, alone, make_scheduler, model_row, observed, outcome, snapshot

Tree = tuple[list[int], list[int]]

TREES = 1200
"""How many trees the law is tested on in one round, at least."""
REPEATS = 6
"""How often a request is tried with other trees."""

CONSTRAINTS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"regex": "(a|b| c)*"},
    {"regex": "[ab]{2,9}|(de)+", "logprobs": 1},
    {"stop": ["ab", "<11>"], "repetition_penalty": 1.2},
    {"thinking": {"start": [[5]], "end": [[6]]}, "thinking_token_budget": 2, "answer": {"temperature": 2.0}},
    {"phases": [{"tokens": 2, "params": {"logit_bias": {0: 3.0}}}, {"tokens": 3, "then": 0}]},
    {"logprobs": 2, "logprobs_mode": ("raw", "processed")},
)  # fmt: skip


class DrawsAhead(NumpyBackend):
    """Draws the rows of guesses before it is known which are right, and counts its runs."""

    name = "ahead"
    hosts_the_rest = True
    runs = 0

    def draws_ahead(self, plan: Any) -> bool:
        is_plain = {s.name for s in plan.samplers} <= {"top_k", "top_p", "min_p", "temperature", "xtc"}
        return is_plain and plan.selector.name in {"dist", "greedy"}

    def follows_drafts(self, plan: Any, tokens: int) -> bool:
        return plan.selector.name in {"dist", "greedy"}

    def run(self, batch: Any) -> None:
        self.runs += 1
        super().run(batch)


class Repeats(NumpyBackend):
    """Runs its last batch once more in other rows, but not each time."""

    name = "repeats"
    hosts_the_rest = follows_rows = True
    repeats = 0

    def run(self, batch: Any) -> None:
        self._last = batch
        super().run(batch)

    def repeated(self, cache: Any) -> Any:
        assert cache is self._last.cache
        return self._repeat

    def _repeat(self, rows: np.ndarray) -> bool:
        self.repeats += 1
        if self.repeats % 4 == 0:
            return False
        ends = np.cumsum([len(group.index) for group in self._last.groups])[:-1]
        parts = zip(self._last.groups, np.split(rows, ends), strict=True)
        groups = [replace(group, index=index) for group, index in parts]
        errors: list[Any] = [None] * len(self._last.errors)
        super().run(replace(self._last, groups=groups, errors=errors, cache={}))
        return not any(errors) and (self._last.token_ids[rows] >= 0).all()


class RepeatsTheRest(DrawsAhead, Repeats):
    """Runs rows once more that it has not drawn ahead."""

    name = "repeats the rest"


def random_tree(random: Random, truth: Sequence[int]) -> Tree:
    """A tree with some of `truth` as one of its paths, among wrong ones and copies."""
    nodes: Tree = ([], [])
    right = [-1]
    """The nodes of the true path so far."""
    for _ in range(random.integers(0, 14)):
        depth = len(right) - 1
        if depth < len(truth) and random.random() < 0.5:
            token, parent = truth[depth], right[-1]
            right.append(len(nodes[0]))
        else:
            token = (
                int(random.choice(truth)) if truth and random.random() < 0.5 else int(random.integers(VOCAB))
            )
            parent = int(random.integers(-1, len(nodes[0])))
        nodes[0].append(token)
        nodes[1].append(parent)
    return nodes


def rows_of(history: list[int], tree: Tree) -> list[np.ndarray]:
    """The model's rows: that after the history, and those after each node."""
    texts = [history]
    for token, parent in zip(*tree, strict=True):
        texts.append([*texts[parent + 1], token])
    return [model_row(text) for text in texts]


def right_path(tree: Tree, truth: Sequence[int]) -> list[int]:
    """The rows that a walk along `truth` goes through."""
    rows = [0]
    for token in truth:
        after = [i for i, (t, p) in enumerate(zip(*tree, strict=True)) if (t, p) == (token, rows[-1] - 1)]
        if not after:
            break
        rows.append(after[0] + 1)
    return rows


def step_with(scheduler: Scheduler, names: list[Any], trees: Sequence[Tree], chains: Any = None) -> Any:
    """A step of the model with a tree for each request, or a chain where `chains` has one."""
    logits = []
    for name, tree in zip(names, trees, strict=True):
        record = scheduler.record(name)
        logits += rows_of(record.prompt_token_ids + record.token_ids, tree)
    return scheduler.step(np.stack(logits), names, chains, draft_trees=trees)


def random_requests(random: Random) -> list[SamplingParams]:
    requests: list[SamplingParams] = []
    while len(requests) < 4:
        constraint = CONSTRAINTS[random.integers(len(CONSTRAINTS))]
        without = ("grammar_bias", "infill", "logits_processors", *((
            "allowed_token_ids", "bad_words", "logit_bias") if "regex" in constraint else ()))  # fmt: skip
        settings = random_settings(random, VOCAB, without=without)
        try:
            params = SamplingParams(
                **{**settings, "seed": int(random.integers(2**40)), "max_tokens": 9, **constraint}
            )
            make_scheduler().add(params)
        except ParameterError:
            continue
        requests.append(params)
    return requests


BACKENDS = {
    "native": lambda: "native",
    "numpy": lambda: "numpy",
    "ahead": DrawsAhead,
    "repeats": Repeats,
    "repeats the rest": RepeatsTheRest,
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_tokens_are_those_of_a_run_without_drafts(backend: str) -> None:
    tried, number = 0, 0
    while tried < TREES * ROUNDS // len(BACKENDS):
        random = np.random.default_rng([number, len(backend)])
        number += 1
        everyone = random_requests(random)
        expected = [alone(params, [1, 2, 1]) for params in everyone]
        scheduler = make_scheduler(backend=BACKENDS[backend]())
        for i, params in enumerate(everyone):
            for again in range(REPEATS):
                scheduler.add(params, [1, 2, 1], request_id=(i, again))
        while names := scheduler.request_ids:
            rest = [expected[n[0]].token_ids[len(scheduler.record(n).token_ids) :] for n in names]
            trees = [random_tree(random, truth) for truth in rest]
            result = step_with(scheduler, names, trees)
            tried += len(names)
            for i, (tree, truth) in enumerate(zip(trees, rest, strict=True)):
                if truth:  # else it ends with an error
                    rows = right_path(tree, truth)[: len(truth)]
                    assert result.accepted_rows(i) == rows
                    assert result.tokens(i) == truth[: len(rows)]
        for i, again in itertools.product(range(len(everyone)), range(REPEATS)):
            assert outcome(scheduler.record((i, again))) == outcome(expected[i])


def test_a_chain_as_a_tree_is_a_chain() -> None:
    params = SamplingParams(seed=3, repetition_penalty=1.2, logprobs=2)
    expected = alone(params.replace(max_tokens=4), [1])
    results = []
    for given in ({"draft_token_ids": [expected.token_ids[:3]]},
                  {"draft_trees": [(expected.token_ids[:3], np.array([-1, 0, 1]))]}):  # fmt: skip
        scheduler = make_scheduler()
        scheduler.add(params, [1])
        rows = rows_of([1], (expected.token_ids[:3], [-1, 0, 1]))
        results.append(scheduler.step(np.stack(rows), **given))
    one, other = results
    assert one.tokens(0) == other.tokens(0) == expected.token_ids
    assert one.logprobs.entry_logprobs.tobytes() == other.logprobs.entry_logprobs.tobytes()


def test_the_rows_of_the_path_have_tokens_and_logprobs_and_no_others() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(temperature=0, logprobs=1))
    logits = np.zeros((6, VOCAB), np.float32)
    logits[range(6), [7, 3, 4, 5, 8, 6]] = 9
    # 9, 7 → 3, 2;  7, 2 → 1
    result = scheduler.step(logits, draft_trees=[([9, 7, 4, 2, 1], [-1, -1, 1, 1, 3])])
    assert result.token_ids.tolist() == [7, -1, 4, 5, -1, -1]
    assert result.accepted_rows(0) == [0, 2, 3]
    assert [int(row[0]) for row in result.logprobs.token_ids] == [7, -1, 4, 5, -1, -1]


def test_chains_and_trees_share_a_step() -> None:
    params = SamplingParams(temperature=0)
    truth = alone(params.replace(max_tokens=3)).token_ids
    scheduler = make_scheduler()
    for name in "abcd":
        scheduler.add(params, request_id=name)
    trees: list[Tree] = [([0, truth[0], truth[1]], [-1, -1, 1]), (truth[:2], [-1, 0]), ([], []), ([], [])]
    logits = np.stack([row for tree in trees for row in rows_of([], tree)])
    result = scheduler.step(logits, None, {"b": truth[:2]}, draft_trees={"a": trees[0], "c": None, "d": ()})
    assert [result.tokens(i) for i in range(4)] == [truth, truth, truth[:1], truth[:1]]
    assert [result.accepted_rows(i) for i in range(4)] == [[0, 2, 3], [0, 1, 2], [0], [0]]


def test_of_children_with_the_same_token_the_first_counts() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(temperature=0))
    logits = np.zeros((4, VOCAB), np.float32)
    logits[range(4), [7, 3, 4, 5]] = 9
    result = scheduler.step(logits, draft_trees=[([7, 7, 4], [-1, -1, 1])])
    assert result.token_ids.tolist() == [7, 3, -1, -1]


def test_a_step_in_halves_has_trees() -> None:
    params = SamplingParams(temperature=0, regex="(a|b| c)*")
    truth = alone(params.replace(max_tokens=3)).token_ids
    scheduler = make_scheduler()
    scheduler.add(params)
    tree = ([0, 1, 2, *truth[:2]], [-1, 0, 1, -1, 3])
    begun = scheduler.begin(np.stack(rows_of([], tree)), draft_trees={0: tree})
    assert begun.token_ids_on_device is None
    assert begun.finish().tokens(0) == truth


def test_nothing_follows_a_stop() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(temperature=0, stop_token_ids=[7]))
    logits = np.zeros((3, VOCAB), np.float32)
    logits[range(3), [3, 7, 4]] = 50
    result = scheduler.step(logits, draft_trees=[([3, 7], [-1, 0])])
    assert result.token_ids.tolist() == [3, 7, -1]
    assert result.finish_reasons == ["stop"]


def test_a_matcher_of_the_engines_own_constrains_a_tree() -> None:
    table = {"start": {1: "one", 2: "two"}, "one": {3: "start"}, "two": {4: "start"}}
    scheduler, plain = make_scheduler(), make_scheduler()
    for one in (scheduler, plain):
        one.add(SamplingParams(seed=1, max_tokens=6), grammar=ToyMatcher(table))
    while plain.request_ids:
        plain.step(model_row([])[None])
    truth = plain.record(0).token_ids
    tree = ([9, *truth[:4]], [-1, -1, 1, 2, 3])
    result = scheduler.step(np.stack([model_row([])] * 6), draft_trees=[tree])
    assert result.tokens(0) == truth[:5]


def test_trees_are_measured_by_depth() -> None:
    scheduler = make_scheduler()
    for name in "ab":
        scheduler.add(SamplingParams(temperature=0), request_id=name)
    logits = np.zeros((9, VOCAB), np.float32)
    logits[range(9), [7, 3, 4, 5, 7, 7, 1, 1, 1]] = 9
    trees = [([8, 7, 4], [-1, -1, 1]), ([1, 2, 7, 7], [-1, 0, -1, 1])]
    with observed("step_measured") as seen:
        scheduler.step(logits, draft_trees=trees)
    assert (seen[0].drafted, seen[0].accepted) == ((2, 2, 1), (2, 1))
    assert (seen[0].rows, seen[0].tokens) == (9, 5)


def test_a_step_with_a_beam_search_has_no_trees() -> None:
    scheduler = make_scheduler()
    scheduler.add_group(SamplingParams(use_beam_search=True, n=2, max_tokens=4), [1])
    with pytest.raises(RequestError, match="draft_trees are not allowed in a step with a beam search"):
        scheduler.step(np.zeros((2, VOCAB), np.float32), draft_trees=[None, None])


@pytest.mark.parametrize(
    ("trees", "error", "words"),
    [
        ([([1, 2], [-1])], ParameterError, "there are 1 parents for 2 token_ids"),
        ([([1, 2], [-1, 1])], ParameterError, r"parents\[1\]=1 is not allowed: -1 to 0"),
        ([([1], [-2])], ParameterError, r"parents\[0\]=-2 is not allowed: -1 to -1"),
        ([([VOCAB], [-1])], ParameterError, f"draft_trees names token id {VOCAB}"),
        ([([1.5], [-1])], ParameterError, "token_ids=.* is not allowed: a list of token ids"),
        ([([1], ["a"])], ParameterError, "parents=.* is not allowed: a list of integers"),
        ([([1] * 1025, [-1] * 1025)], ParameterError, "1025 nodes is not allowed: 1024 are the most"),
        ([7], ParameterError, "draft_trees=7 is not allowed: .token_ids, parents."),
        ([[1]], ParameterError, "is not allowed: .token_ids, parents."),
        ([None, None], RequestError, "draft_trees has 2 entries for 1 requests"),
        ({"x": None}, RequestError, "draft_trees names 'x', which has no rows"),
        ([([1], [-1])], ValueError, "logits have 1 rows; the requests and drafts need 2"),
    ],
)
def test_wrong_trees_are_refused_before_anything_changes(trees: Any, error: Any, words: str) -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(mirostat=2, seed=1))
    scheduler.step(model_row([])[None])
    before = snapshot(scheduler)
    with pytest.raises(error, match=words):
        scheduler.step(np.zeros((1, VOCAB), np.float32), draft_trees=trees)
    assert snapshot(scheduler) == before


def test_a_request_has_a_chain_or_a_tree() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(), request_id="a")
    with pytest.raises(RequestError, match="request 'a' has draft_token_ids and a tree in draft_trees"):
        scheduler.step(np.zeros((3, VOCAB), np.float32), None, [[1]], draft_trees=[([1, 2], [-1, -1])])
