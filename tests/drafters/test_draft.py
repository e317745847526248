"""`Scheduler.draft`: no token depends on it, and no request or call ends by it."""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, RequestError, SamplingParams, Scheduler
from engine_sampler.contract import Drafter, hookimpl
from engine_sampler.drafters.ngram import Ngram
from engine_sampler.scheduler import drafting

from ..engines import (
    CONFIGURATIONS,
    EOS,
    TOKENIZER,
    VOCAB,
    make_scheduler,
    model_row,
    model_step,
    outcome,
    registered_plugin,
)

PROMPT = [1, 2, 1, 3, 1, 2]
LOOP: Mapping[str, Any] = {"temperature": 0.0, "logit_bias": {1: 90.0}, "ignore_eos": True}
GRAMMARS: tuple[Mapping[str, Any], ...] = (
    {},
    {"regex": "(abab(de|b)aa\\n){1,6}"},
    {"json_schema": {"enum": ["ab", "aab"]}},
    {"choice": ["abdede", "abdea"]},
    {"regex": "(ab|de){2,9}", "thinking": {"start": "\n", "end": " c"}},
)
BOTH = ("grammar", "ngram")


class Fixed(Drafter):
    """Drafts whatever it is told to."""

    name = "fixed"

    def __init__(self, draft: Any) -> None:
        self.given = draft
        self.calls = 0

    def draft(self, state: Any, text: Any, count: int) -> Any:
        self.calls += 1
        return self.given(text, count) if callable(self.given) else self.given


@contextlib.contextmanager
def added(*drafters: Drafter) -> Iterator[None]:
    class Plugin:
        @hookimpl
        def register_drafters(self, register: Any) -> None:
            for drafter in drafters:
                register(drafter)

    with registered_plugin(Plugin()):
        yield


def drafted_step(scheduler: Scheduler, **arguments: Any) -> tuple[Any, list[list[int]]]:
    ids = scheduler.request_ids
    drafts = scheduler.draft(ids, **arguments)
    listed = [drafts.get(i, []) for i in ids]
    return model_step(scheduler, ids, listed if drafts else None), listed


def run_drafted(scheduler: Scheduler, **arguments: Any) -> int:
    for steps in itertools.count():
        if not scheduler.request_ids:
            return steps
        drafted_step(scheduler, **arguments)
    raise AssertionError


# --- the law --------------------------------------------------------------------------------------


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("given", GRAMMARS, ids=str)
def test_tokens_are_those_of_a_run_without_drafts(given: Mapping[str, Any], backend: str) -> None:
    plain, drafted = make_scheduler(backend=backend), make_scheduler(backend=backend)
    for number, configuration in enumerate(CONFIGURATIONS):
        stops = {"stop": ["ba", "dede"]} if number % 3 == 0 else {}
        params = {**configuration, **given, **stops, "seed": number, "max_tokens": 24}
        if given and ({"allowed_token_ids", "bad_words"} & set(configuration)):
            continue  # they may leave nothing of the grammar
        plain.add(SamplingParams(**params), PROMPT, request_id=number)
        drafted.add(SamplingParams(**params, drafter=BOTH), PROMPT, request_id=number)
    ids = plain.request_ids
    expected, steps = run_drafted(plain), run_drafted(drafted, max_tokens=5)
    for request_id in ids:
        assert outcome(drafted.record(request_id)) == outcome(plain.record(request_id))
    assert steps <= expected


def test_siblings_are_drafted_each_for_itself() -> None:
    texts = []
    for drafter in ([], BOTH):
        scheduler = make_scheduler()
        params = SamplingParams(n=3, seed=5, max_tokens=20, top_k=3, drafter=drafter)
        ids = scheduler.add_group(params, PROMPT)
        run_drafted(scheduler)
        texts.append([outcome(scheduler.record(request_id)) for request_id in ids])
    assert texts[0] == texts[1]


def test_explain_names_the_drafters() -> None:
    scheduler = make_scheduler()
    for drafter in (None, "ngram", BOTH):
        scheduler.add(SamplingParams(drafter=drafter), PROMPT)
    [group] = scheduler.explain()
    assert group.drafters == ("ngram", "grammar")
    assert str(group).endswith("; drafts: ngram, grammar")


def test_a_loop_takes_a_fraction_of_the_steps() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(**LOOP, max_tokens=90, drafter="ngram"))
    assert run_drafted(scheduler, max_tokens=8) < 20


# --- what is drafted -------------------------------------------------------------------------------


def test_requests_that_name_no_drafter_have_that_of_the_call() -> None:
    scheduler = make_scheduler()
    for name, params in (("own", {"drafter": "ngram"}), ("none", {"drafter": []}), ("other", {})):
        scheduler.add(SamplingParams(**params), PROMPT, request_id=name)
    assert scheduler.draft(max_tokens=3) == {"own": [1, 3, 1]}
    assert scheduler.draft(max_tokens=3, drafter=BOTH) == {"own": [1, 3, 1], "other": [1, 3, 1]}
    assert scheduler.draft(["other"], drafter="ngram", max_tokens=1) == {"other": [1]}


def test_a_request_without_drafts_has_no_state_for_them() -> None:
    scheduler = make_scheduler()
    request = scheduler.add(SamplingParams(), PROMPT)
    model_step(scheduler)
    assert scheduler.draft() == {}
    assert scheduler._requests.find(request).drafting is None


@pytest.mark.parametrize(
    ("params", "draft"),
    [
        ({}, [1, 3, 1, 2, 1, 3, 1, 2]),
        ({"max_tokens": 4}, [1, 3, 1]),
        ({"max_tokens": 1}, []),
        ({"allowed_token_ids": [1, 3]}, [1, 3, 1]),
        ({"bad_words": [[2, 1, 3]]}, [1]),
        ({"bad_words": [1]}, []),
    ],
)
def test_a_draft_ends_where_a_mask_refuses_a_token_or_the_length_is_reached(
    params: Mapping[str, Any], draft: list[int]
) -> None:
    scheduler = make_scheduler()
    request = scheduler.add(SamplingParams(drafter="ngram", **params), PROMPT)
    assert scheduler.draft().get(request, []) == draft


@pytest.mark.parametrize(
    ("params", "draft"), [({}, [EOS]), ({"ignore_eos": True}, []), ({"min_tokens": 1}, [])]
)
def test_a_draft_ends_behind_eos_or_before_it(params: Mapping[str, Any], draft: list[int]) -> None:
    scheduler = make_scheduler()
    request = scheduler.add(SamplingParams(drafter="ngram", **params), [1, 2, EOS, 3, 1, 2])
    assert scheduler.draft().get(request, []) == draft


def test_a_draft_ends_one_token_before_the_models_length() -> None:
    scheduler = make_scheduler(max_model_len=len(PROMPT) + 3)
    request = scheduler.add(SamplingParams(drafter="ngram"), PROMPT)
    assert scheduler.draft() == {request: [1, 3]}


def test_a_draft_ends_where_the_grammar_refuses_a_token_and_another_drafter_goes_on() -> None:
    scheduler = make_scheduler()
    params = SamplingParams(regex="ab\\nb(a|b)", drafter=("ngram", "grammar"))
    request = scheduler.add(params, [9, 0, 1, 5, 9])
    assert scheduler.draft() == {request: [0, 1, 3, 1]}


def test_what_a_phase_forces_is_drafted_first() -> None:
    scheduler = make_scheduler()
    phases = [{"name": "thoughts", "until": ["\n"], "tokens": 2, "force": "abab\n"}, {"name": "answer"}]
    request = scheduler.add(SamplingParams(phases=phases, temperature=0, drafter="ngram"), PROMPT)
    while not scheduler.forced_tokens(request):
        model_step(scheduler)
    assert scheduler.draft()[request] == scheduler.forced_tokens(request)


def test_beams_and_requests_that_have_left_have_no_drafts() -> None:
    scheduler = make_scheduler()
    searching = SamplingParams(use_beam_search=True, n=2, drafter="ngram", max_tokens=9)
    beams = scheduler.add_group(searching, PROMPT)
    left = scheduler.add(SamplingParams(drafter="ngram"), PROMPT)
    scheduler.remove(left)
    assert scheduler.draft() == scheduler.draft([*beams, left]) == {}
    with pytest.raises(RequestError, match="unknown"):
        scheduler.draft(["nobody"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"max_tokens": 0}, "max_tokens=0 is not allowed"),
        ({"max_tokens": 129}, "max_tokens=129 is not allowed"),
        ({"drafter": "guess"}, "drafter='guess' is not allowed: some of grammar, ngram"),
        ({"drafter": 5}, "drafter=5 is not allowed"),
    ],
)
def test_wrong_arguments_are_named(arguments: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        make_scheduler().draft(**arguments)


# --- states follow the tokens ----------------------------------------------------------------------


def test_states_follow_rollback_fork_suspension_and_moves() -> None:
    scheduler = make_scheduler()
    request = scheduler.add(SamplingParams(drafter=BOTH), [1, 2, 3])
    scheduler.accept(request, [4, 1, 2])
    assert scheduler.draft(max_tokens=2) == {request: [3, 4]}
    child = scheduler.fork(request)
    scheduler.rollback(request, 2)
    scheduler.accept(request, [3, 4])
    assert scheduler.draft(max_tokens=2) == {request: [3, 4], child: [3, 4]}
    scheduler.suspend(child)
    scheduler.resume(child)
    state = scheduler.export(child)
    other = make_scheduler()
    assert other.draft([other.add_exported(state)], max_tokens=2) == {child: [3, 4]}
    assert scheduler.draft([child], max_tokens=2) == {child: [3, 4]}


def test_a_state_is_read_on_where_it_was_and_not_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    accept = Ngram.accept
    monkeypatch.setattr(
        Ngram, "accept", lambda self, state, ids: (read.append(len(ids)), accept(self, state, ids))[1]
    )
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(**LOOP, max_tokens=50, drafter="ngram"), range(30))
    run_drafted(scheduler, max_tokens=1)
    assert sum(read) <= 30 + 2 * 50


def test_long_prompts_are_read_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafting, "READ_AT_ONCE", 100)
    scheduler = make_scheduler()
    for _ in range(2):
        scheduler.add(SamplingParams(drafter="ngram"), [1, 2] * 75)
    assert [len(scheduler.draft()) for _ in range(3)] == [0, 1, 2]


def test_an_interrupted_state_is_made_anew() -> None:
    class Interrupted(Ngram):
        """Is interrupted in its second change."""

        name, params = "interrupted", ()
        changes = 0

        def new_state(self, params: Any, vocabulary: Any) -> Any:
            return super().new_state({"prompt_lookup_min": 2, "prompt_lookup_max": 4}, vocabulary)

        def accept(self, state: Any, token_ids: Sequence[int]) -> None:
            self.changes += 1
            super().accept(state, token_ids)
            if self.changes == 2:
                raise KeyboardInterrupt

    with added(Interrupted()):
        scheduler = make_scheduler()
        request = scheduler.add(SamplingParams(drafter="interrupted"), PROMPT)
        assert scheduler.draft(max_tokens=2) == {request: [1, 3]}
        scheduler.accept(request, [1])
        with pytest.raises(KeyboardInterrupt):
            scheduler.draft()
        assert scheduler.draft(max_tokens=2) == {request: [3, 1]}


# --- drafters of plugins ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draft",
    [
        [VOCAB],
        [-1],
        ["a"],
        [1.5],
        None,
        lambda text, count: 1 / 0,
        lambda text, count: np.zeros((2, 2)),
    ],
    ids=lambda draft: "a call" if callable(draft) else str(draft),
)
def test_a_drafter_that_fails_is_logged_once_and_no_request_ends(
    draft: Any, caplog: pytest.LogCaptureFixture
) -> None:
    drafter = Fixed(draft)
    with added(drafter), caplog.at_level(logging.ERROR, "engine_sampler"):
        scheduler = make_scheduler()
        for number in range(3):
            params = SamplingParams(seed=number, max_tokens=6, drafter=("fixed", "ngram"))
            scheduler.add(params, PROMPT, request_id=number)
        assert scheduler.draft(max_tokens=2) == {0: [1, 3], 1: [1, 3], 2: [1, 3]}
        run_drafted(scheduler)
        assert drafter.calls == 3  # once a request
    assert all(scheduler.record(number).error is None for number in range(3))
    assert [record.message.partition(":")[0] for record in caplog.records] == ["the drafter fixed failed"]


def test_an_endless_draft_is_cut() -> None:
    with added(Fixed(lambda text, count: itertools.repeat(1))):
        scheduler = make_scheduler()
        request = scheduler.add(SamplingParams(drafter="fixed"), PROMPT)
        assert scheduler.draft() == {request: [1] * 8}


@pytest.mark.parametrize("method", ["rollback", "fork"])
def test_a_drafter_whose_state_cannot_follow_is_left_out(method: str) -> None:
    def fail(self: Any, *arguments: Any) -> None:
        raise ValueError("no")

    failing = type("Failing", (Ngram,), {"name": "failing", "params": (), method: fail})
    failing.new_state = lambda self, params, vocabulary: Ngram.new_state(
        self, {"prompt_lookup_min": 2, "prompt_lookup_max": 4}, vocabulary
    )
    with added(failing()):
        scheduler = make_scheduler()
        request = scheduler.add(SamplingParams(drafter="failing"), PROMPT, output_token_ids=[1])
        assert scheduler.draft([request], max_tokens=1) == {request: [3]}
        if method == "fork":
            request = scheduler.fork(request)
        else:
            scheduler.rollback(request, 1)
        assert scheduler.draft([request]) == {}
        model_step(scheduler)
        assert scheduler.record(request).error is None


def test_a_drafter_sees_prompt_output_and_draft() -> None:
    seen: list[list[int]] = []

    def draft(text: Any, count: int) -> list[int]:
        seen.append(text.token_ids.tolist())
        return [len(text.draft)] if len(text.draft) < 2 else []

    with added(Fixed(draft)):
        scheduler = make_scheduler()
        request = scheduler.add(SamplingParams(drafter="fixed"), [5, 6], output_token_ids=[7])
        assert scheduler.draft() == {request: [0, 1]}
    assert seen == [[5, 6, 7], [5, 6, 7, 0], [5, 6, 7, 0, 1]]


def test_a_drafter_cannot_write_to_the_history() -> None:
    def draft(text: Any, count: int) -> list[int]:
        text.history[:] = 0
        return [1]

    with added(Fixed(draft)):
        scheduler = make_scheduler()
        request = scheduler.add(SamplingParams(drafter="fixed"), PROMPT)
        assert scheduler.draft() == {}
        assert scheduler.record(request).prompt_token_ids == PROMPT


def test_steps_of_a_model_can_be_drafted_without_a_tokenizer() -> None:
    scheduler = Scheduler(VOCAB, eos_token_ids=[EOS])
    request = scheduler.add(SamplingParams(drafter=BOTH, max_tokens=5), PROMPT)
    assert scheduler.draft(max_tokens=2) == {request: [1, 3]}
    assert len(TOKENIZER) == len(model_row(PROMPT))
