"""Requests whose grammars are compiled in the background: they wait, start when they can, and fail alone."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import FrameType
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, RequestError, SamplingParams, Scheduler, Tokenizer
from engine_sampler.contract import StoppingCriteria
from engine_sampler.grammar import (
    Grammar,
    GrammarCompiler,
    GrammarError,
    GrammarSource,
    clear_cache,
    clear_grammar_cache,
)

from ..interruptions.injecting import Injection

VOCAB = 27
TOKENIZER = Tokenizer([*(bytes([97 + i]) for i in range(26)), b"</s>"], [26])
SECONDS = 120


class ByHand:
    """Stands for a `GrammarCompiler`: compiles a grammar when the test says so."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []
        self.clients: list[Any] = []
        self._grammars: list[Any] = []

    def submit(self, grammar: Any, tokenizer: Tokenizer, *, client: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.futures.append(future)
        self.clients.append(client)
        self._grammars.append(grammar)
        return future

    def finish(self, number: int = -1) -> None:
        grammar = self._grammars[number]
        read = grammar.read() if isinstance(grammar, GrammarSource) else grammar
        self.futures[number].set_result(read.compile(TOKENIZER))

    def fail(self, number: int = -1) -> None:
        self.futures[number].set_exception(GrammarError("no such rule"))


@pytest.fixture
def compiler() -> ByHand:
    return ByHand()


@pytest.fixture
def scheduler(compiler: ByHand) -> Scheduler:
    return Scheduler(VOCAB, TOKENIZER, grammar_compiler=compiler)  # type: ignore[arg-type]


def logits(rows: int, step: int = 0) -> np.ndarray:
    row = np.random.default_rng(step).normal(0, 2, VOCAB).astype(np.float32)
    return np.tile(row, (rows, 1))


def step(scheduler: Scheduler, number: int = 0) -> Any:
    return scheduler.step(logits(len(scheduler.request_ids), number))


def finish(scheduler: Scheduler) -> None:
    """Step until no request is live; the row of a step depends on the length of each output only."""
    while ids := scheduler.request_ids:
        rows = [logits(1, len(scheduler.record(i).token_ids))[0] for i in ids]
        scheduler.step(np.stack(rows), ids)


def alone(add: Callable[[Scheduler], list[Any]]) -> list[Any]:
    """The tokens of requests that are added to a scheduler that compiles their grammars itself."""
    scheduler = Scheduler(VOCAB, TOKENIZER)
    ids = add(scheduler)
    finish(scheduler)
    return [scheduler.record(i).token_ids for i in ids]


REGEX = SamplingParams(regex="[a-f]{4,9}", seed=5)
PLAIN = SamplingParams(seed=6, max_tokens=12)


# --- waiting and starting -------------------------------------------------------------------------


def test_a_row_of_a_waiting_request_is_refused_also_if_its_id_was_skipped_before(
    scheduler: Scheduler,
) -> None:
    plain = scheduler.add(PLAIN)
    scheduler.add(PLAIN, request_id="taken twice")
    scheduler.remove("taken twice")
    ids = [plain, "taken twice"]
    assert list(scheduler.step(logits(2), ids).skipped) == [1]
    scheduler.add(REGEX, request_id="taken twice")
    with pytest.raises(RequestError, match="waits for its grammar"):
        scheduler.step(logits(2), ids)


def test_a_request_waits_for_its_grammar_while_others_are_stepped(
    scheduler: Scheduler, compiler: ByHand
) -> None:
    plain = scheduler.add(PLAIN)
    waiting = scheduler.add(REGEX, [1, 2])
    assert (scheduler.request_ids, scheduler.waiting_ids) == ([plain], [waiting])
    assert step(scheduler).request_ids == [plain]
    compiler.finish()
    assert scheduler.waiting_ids == [waiting]
    assert scheduler.request_ids == [plain, waiting]
    assert scheduler.waiting_ids == []
    assert step(scheduler).request_ids == [plain, waiting]


@pytest.mark.parametrize("after", [0, 1, 7])
@pytest.mark.parametrize(
    "params",
    [
        REGEX,
        SamplingParams(choice=["abc", "abd", "x"], seed=3),
        SamplingParams(regex="(ab)+", grammar_bias=4.0, seed=3, max_tokens=9),
        SamplingParams(regex="[a-z]{3,9}", logprobs=2, repetition_penalty=1.2, seed=9),
        SamplingParams(regex="[a-z]{3,9}", mirostat=2, seed=9),
    ],
)
def test_tokens_do_not_depend_on_when_a_grammar_is_ready(
    scheduler: Scheduler, compiler: ByHand, params: SamplingParams, after: int
) -> None:
    scheduler.add(PLAIN)
    request = scheduler.add(params, [3, 4], output_token_ids=[0], position=11)
    for number in range(after):
        step(scheduler, number)
    compiler.finish()
    finish(scheduler)
    [expected] = alone(lambda s: [s.add(params, [3, 4], output_token_ids=[0], position=11)])
    assert scheduler.record(request).token_ids == expected
    assert len(expected) > 2


def test_nothing_starts_between_reading_the_ids_and_the_step(scheduler: Scheduler, compiler: ByHand) -> None:
    plain, waiting = scheduler.add(PLAIN), scheduler.add(REGEX)
    rows = logits(len(scheduler.request_ids))
    compiler.finish()
    scheduler.prepare()
    assert scheduler.step(rows).request_ids == [plain]
    assert scheduler.request_ids == [plain, waiting]


def test_a_request_that_becomes_ready_during_a_step_starts_after_it(
    scheduler: Scheduler, compiler: ByHand
) -> None:
    seen: list[Any] = []

    def look(input_ids: Any, scores: Any) -> list[bool]:
        if not seen:
            compiler.finish()
            seen.append(scheduler.request_ids)
        return [False]

    plain = scheduler.add(PLAIN, stopping_criteria=[look])
    waiting = scheduler.add(REGEX)
    assert step(scheduler).request_ids == [plain]
    assert seen == [[plain]]
    assert scheduler.request_ids == [plain, waiting]


def test_the_order_of_the_live_requests_is_that_in_which_they_start(
    scheduler: Scheduler, compiler: ByHand
) -> None:
    first, second, third = scheduler.add(REGEX), scheduler.add(REGEX), scheduler.add(PLAIN)
    assert scheduler.waiting_ids == [first, second]
    compiler.finish(1)
    assert scheduler.request_ids == [third, second]
    compiler.finish(0)
    assert scheduler.request_ids == [third, second, first]


def test_a_record_of_a_waiting_request_has_its_prompt_and_seed(
    scheduler: Scheduler, compiler: ByHand
) -> None:
    request = scheduler.add(SamplingParams(regex="a+"), [1, 2], output_token_ids=[0])
    before = scheduler.record(request)
    assert (before.prompt_token_ids, before.token_ids, before.finish_reason) == ([1, 2], [0], None)
    compiler.finish()
    assert step(scheduler).seeds == [before.seed]


def test_prompts_are_read_when_a_request_is_added(scheduler: Scheduler, compiler: ByHand) -> None:
    prompt = [1, 2]
    request = scheduler.add(REGEX, prompt)
    prompt.append(99)
    compiler.finish()
    finish(scheduler)
    assert scheduler.record(request).prompt_token_ids == [1, 2]


def test_compiled_grammars_and_matchers_do_not_wait(scheduler: Scheduler, compiler: ByHand) -> None:
    compiled = Grammar.from_regex("a+").compile(TOKENIZER)
    ids = [scheduler.add(PLAIN, grammar=grammar) for grammar in (compiled, compiled.matcher(), None)]
    assert scheduler.request_ids == ids
    assert not compiler.futures


@pytest.mark.parametrize("grammar", ["arithmetic", 'start: "a"+', Grammar.from_regex("b+")])
def test_grammars_given_to_add_wait_too(scheduler: Scheduler, compiler: ByHand, grammar: Any) -> None:
    request = scheduler.add(PLAIN, grammar=grammar)
    assert scheduler.waiting_ids == [request]


# --- being told -----------------------------------------------------------------------------------


def test_an_engine_is_told_when_a_request_can_start() -> None:
    told = []
    compiler = ByHand()
    scheduler = Scheduler(
        VOCAB,
        TOKENIZER,
        grammar_compiler=compiler,  # type: ignore[arg-type]
        on_ready=lambda: told.append(scheduler.request_ids),
    )
    first, second, removed = (scheduler.add(REGEX) for _ in range(3))
    compiler.finish(0)
    compiler.fail(1)
    scheduler.remove(removed)
    assert told == [[first], [first, second]]


def test_an_engine_can_wait_until_a_request_can_start(scheduler: Scheduler, compiler: ByHand) -> None:
    assert not scheduler.wait_ready()
    scheduler.add(REGEX)
    assert not scheduler.wait_ready(0)
    timer = threading.Timer(0.01, compiler.finish)
    timer.start()
    assert scheduler.wait_ready(SECONDS)
    timer.join()
    assert scheduler.wait_ready(0)
    assert len(scheduler.request_ids) == 1
    assert not scheduler.wait_ready(0)


# --- faults ---------------------------------------------------------------------------------------


def test_a_grammar_that_fails_ends_its_request_in_the_next_step_and_no_other(
    scheduler: Scheduler, compiler: ByHand
) -> None:
    plain, bad = scheduler.add(PLAIN), scheduler.add(REGEX, output_token_ids=[0, 1])
    step(scheduler, 0)
    compiler.fail()
    result = scheduler.step(logits(2, 1), scheduler.request_ids)
    assert result.request_ids == [plain, bad]
    assert result.finish_reasons == [None, "error"]
    assert result.errors[1] == "the grammar failed: ParameterError: regex: no such rule"
    assert result.token_ids[1] == -1
    assert scheduler.request_ids == [plain]
    assert scheduler.record(bad).error == result.errors[1]
    finish(scheduler)
    assert scheduler.record(plain).token_ids == alone(lambda s: [s.add(PLAIN)])[0]


def test_a_failed_grammar_has_no_forced_tokens_and_no_drafts(scheduler: Scheduler, compiler: ByHand) -> None:
    for _ in range(2):
        scheduler.add(REGEX)
        compiler.fail()
    forced, drafted = scheduler.request_ids
    assert scheduler.forced_tokens(forced) == []
    result = scheduler.step(logits(4), draft_token_ids={drafted: [1, 2]})
    assert result.finish_reasons == ["error", "error"]


def test_output_that_the_grammar_refuses_ends_the_request(scheduler: Scheduler, compiler: ByHand) -> None:
    request = scheduler.add(REGEX, output_token_ids=[25])
    compiler.finish()
    assert scheduler.request_ids == [request]
    assert "the grammar refuses token 25" in step(scheduler).errors[0]


def test_a_grammar_that_the_vocabulary_cannot_use_ends_the_request(compiler: ByHand) -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER, grammar_compiler=compiler)  # type: ignore[arg-type]
    larger = Tokenizer([*TOKENIZER.token_bytes, b"more"], [26])
    scheduler.add(PLAIN, grammar=lambda tokenizer: None)
    compiler.futures[0].set_result(Grammar.from_regex("a").compile(larger))
    assert "it is compiled for 28 tokens" in step(scheduler).errors[0]


@pytest.mark.parametrize(
    "call",
    [
        lambda s, i: s.step(logits(1), [i]),
        lambda s, i: s.prepare([i]),
        lambda s, i: s.accept(i, [1]),
        lambda s, i: s.rollback(i, 0),
        lambda s, i: s.fork(i),
        lambda s, i: s.forced_tokens(i),
        lambda s, i: s.process(logits(1), [i]),
    ],
)
def test_a_waiting_request_cannot_be_used_yet(
    scheduler: Scheduler, compiler: ByHand, call: Callable[[Scheduler, Any], Any]
) -> None:
    request = scheduler.add(REGEX)
    with pytest.raises(RequestError, match="request 0 waits for its grammar, which is being compiled"):
        call(scheduler, request)
    compiler.finish()
    finish(scheduler)
    assert scheduler.record(request).token_ids == alone(lambda s: [s.add(REGEX)])[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prompt_token_ids": [99]}, "prompt_token_ids"),
        ({"grammar": "arithmetic"}, "grammar and regex are not allowed together"),
        ({"stopping_criteria": [7]}, "7"),
        ({"client": ["a"]}, r"client=\['a'\] is not allowed: a hashable value"),
    ],
)
def test_other_faults_are_raised_at_once_and_nothing_waits(
    scheduler: Scheduler, compiler: ByHand, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises((ParameterError, TypeError), match=message):
        scheduler.add(REGEX, **arguments)
    assert scheduler.waiting_ids == []
    assert all(future.cancelled() for future in compiler.futures)
    assert scheduler.request_ids == []


def test_the_id_of_a_waiting_request_is_taken(scheduler: Scheduler, compiler: ByHand) -> None:
    scheduler.add(REGEX, request_id="a")
    for params in (PLAIN, REGEX):
        with pytest.raises(RequestError, match="'a' is taken"):
            scheduler.add(params, request_id="a")
    assert scheduler.waiting_ids == ["a"]


def test_a_grammar_without_a_tokenizer_is_refused_at_once(compiler: ByHand) -> None:
    scheduler = Scheduler(VOCAB, grammar_compiler=compiler)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"regex.*tokenizer"):
        scheduler.add(REGEX)


def test_the_compiler_hears_whose_grammar_it_is(scheduler: Scheduler, compiler: ByHand) -> None:
    scheduler.add(REGEX, client="tenant 7")
    scheduler.add_group(GROUP, client=("tenant", 8))
    scheduler.add(REGEX)
    assert compiler.clients == ["tenant 7", ("tenant", 8), None]


# --- removing -------------------------------------------------------------------------------------


def test_removing_a_waiting_request_cancels_its_compilation(scheduler: Scheduler, compiler: ByHand) -> None:
    request = scheduler.add(REGEX)
    assert scheduler.remove(request).finish_reason == "abort"
    assert (scheduler.waiting_ids, scheduler.request_ids) == ([], [])
    assert compiler.futures[0].cancelled()


def test_a_request_that_is_removed_once_it_can_start_does_not_start(
    scheduler: Scheduler, compiler: ByHand
) -> None:
    request = scheduler.add(REGEX)
    compiler.finish()
    scheduler.remove(request)
    assert scheduler.request_ids == []
    assert scheduler.add(PLAIN, request_id=request) == request


# --- groups ---------------------------------------------------------------------------------------

GROUP = SamplingParams(regex="[a-f]{4,9}", seed=5, n=3)
BEAMS = SamplingParams(regex="[a-f]{2,4}", seed=5, use_beam_search=True, beam_width=2, max_tokens=6)


@pytest.mark.parametrize("params", [GROUP, BEAMS, GROUP.replace(best_of=4)])
def test_a_group_waits_and_starts_together(
    scheduler: Scheduler, compiler: ByHand, params: SamplingParams
) -> None:
    ids = scheduler.add_group(params, [1])
    assert (scheduler.waiting_ids, scheduler.request_ids) == (ids, [])
    assert len(compiler.futures) == 1
    compiler.finish()
    assert scheduler.request_ids == ids
    finish(scheduler)
    assert [scheduler.record(i).token_ids for i in ids] == alone(lambda s: s.add_group(params, [1]))
    assert scheduler.best(ids)


def test_a_removed_sibling_does_not_start_and_the_others_do(scheduler: Scheduler, compiler: ByHand) -> None:
    ids = scheduler.add_group(GROUP)
    scheduler.remove(ids[0])
    assert scheduler.waiting_ids == ids[1:]
    compiler.finish()
    finish(scheduler)
    assert [scheduler.record(i).token_ids for i in ids[1:]] == alone(lambda s: s.add_group(GROUP))[1:]


def test_a_removed_beam_ends_its_waiting_search(scheduler: Scheduler, compiler: ByHand) -> None:
    first, second = scheduler.add_group(BEAMS)
    scheduler.remove(second)
    assert scheduler.waiting_ids == []
    assert compiler.futures[0].cancelled()
    assert scheduler.record(first).finish_reason == "abort"


@pytest.mark.parametrize("params", [GROUP, BEAMS])
def test_all_requests_of_a_group_end_with_the_error_of_its_grammar(
    scheduler: Scheduler, compiler: ByHand, params: SamplingParams
) -> None:
    ids = scheduler.add_group(params)
    compiler.fail()
    result = step(scheduler)
    assert result.request_ids == ids
    assert result.finish_reasons == ["error"] * len(ids)
    assert all("regex: no such rule" in error for error in result.errors)
    assert scheduler.request_ids == []


# --- at random ------------------------------------------------------------------------------------

RANDOM = [REGEX, PLAIN, GROUP, BEAMS, SamplingParams(choice=["abc", "abd", "x"], seed=3)]


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_events_gives_every_request_its_own_tokens_or_its_own_error(
    scheduler: Scheduler, compiler: ByHand, seed: int
) -> None:
    random = np.random.default_rng(seed)
    added: list[tuple[SamplingParams, list[Any], Future[Any] | None]] = []
    removed: set[Any] = set()
    for _ in range(60):
        event = random.integers(6)
        pending = [i for i, future in enumerate(compiler.futures) if not future.done()]
        if event <= 1:
            params, count = RANDOM[random.integers(len(RANDOM))], len(compiler.futures)
            ids = scheduler.add_group(params, [1])
            added.append((params, ids, compiler.futures[-1] if len(compiler.futures) > count else None))
        elif event == 2 and pending:
            compiler.finish(random.choice(pending))
        elif event == 3 and pending and random.random() < 0.3:
            compiler.fail(random.choice(pending))
        elif event == 4 and (waiting := scheduler.waiting_ids) and random.random() < 0.5:
            gone = waiting[random.integers(len(waiting))]
            scheduler.remove(gone)
            removed.add(gone)
        elif ids := scheduler.request_ids:
            rows = [logits(1, len(scheduler.record(i).token_ids))[0] for i in ids]
            scheduler.step(np.stack(rows), ids)
    for i, future in enumerate(compiler.futures):
        if not future.done():
            compiler.finish(i)
    finish(scheduler)
    assert not scheduler.waiting_ids
    for params, ids, future in added:
        assert_ended_alone(scheduler, params, ids, removed, future)


def assert_ended_alone(
    scheduler: Scheduler,
    params: SamplingParams,
    ids: list[Any],
    removed: set[Any],
    future: Future[Any] | None,
) -> None:
    """The requests of one group have ended as they would alone, or as its grammar or a removal explains."""
    failed = future is not None and not future.cancelled() and future.exception() is not None
    aborted = params is BEAMS and not removed.isdisjoint(ids)
    for request_id, tokens in zip(ids, alone(lambda s: s.add_group(params, [1])), strict=True):
        if request_id in removed:
            with pytest.raises(RequestError, match="unknown"):
                scheduler.record(request_id)
            continue
        record = scheduler.record(request_id)
        if aborted:
            assert record.finish_reason == "abort"
        elif failed:
            assert "regex: no such rule" in (record.error or "") or "choice: no such" in (record.error or "")
        else:
            assert record.error is None or params is BEAMS
            assert record.token_ids == tokens


# --- with worker processes ------------------------------------------------------------------------


def test_a_scheduler_with_workers_draws_the_tokens_of_one_without() -> None:
    requests = [
        SamplingParams(regex="[a-f]{4,9}", seed=1),
        SamplingParams(choice=["abc", "xyz"], seed=2),
        SamplingParams(regex="(", seed=3),
        SamplingParams(grammar='start: "ab"+ "c"', seed=4, max_tokens=30),
        SamplingParams(grammar='start: "ab"+ "c"', seed=5, max_tokens=30),
        SamplingParams(seed=6, max_tokens=5),
    ]
    clear_grammar_cache()
    clear_cache(TOKENIZER)
    with GrammarCompiler() as compiler:
        scheduler = Scheduler(VOCAB, TOKENIZER, grammar_compiler=compiler)
        ids = [scheduler.add(params) for params in requests]
        finish(scheduler)
        while scheduler.wait_ready(SECONDS):
            finish(scheduler)
        records = [scheduler.record(i) for i in ids]
        again = scheduler.add(requests[0])
        assert again in scheduler.request_ids  # its grammar is known
    assert not scheduler.waiting_ids
    assert [r.finish_reason == "error" for r in records] == [False, False, True, False, False, False]
    assert "regex: not a regular expression" in (records[2].error or "")
    for params, record in zip(requests, records, strict=True):
        if record.error is None:
            assert record.token_ids == alone(lambda s, p=params: [s.add(p)])[0]  # type: ignore[misc]


def test_threads_add_and_remove_while_an_engine_steps() -> None:
    clear_grammar_cache()
    clear_cache(TOKENIZER)
    ready = threading.Event()
    results: dict[Any, SamplingParams] = {}
    with GrammarCompiler(2) as compiler:
        scheduler = Scheduler(VOCAB, TOKENIZER, grammar_compiler=compiler, on_ready=ready.set)

        def client(number: int) -> None:
            for i in range(8):
                params = SamplingParams(regex=f"[a-f]{{{3 + i},12}}", seed=100 * number + i)
                request_id = scheduler.add(params, request_id=(number, i))
                if i % 4 == number:
                    scheduler.remove(request_id)
                else:
                    results[request_id] = params
            ready.set()

        clients = [threading.Thread(target=client, args=(number,)) for number in range(3)]
        for thread in clients:
            thread.start()
        while any(thread.is_alive() for thread in clients) or scheduler.waiting_ids or scheduler.request_ids:
            finish(scheduler)
            ready.wait(0.1)
            ready.clear()
    assert len(results) == 18
    for request_id, params in results.items():
        expected = alone(lambda s, p=params: [s.add(p)])[0]  # type: ignore[misc]
        assert scheduler.record(request_id).token_ids == expected


# --- removed meanwhile ----------------------------------------------------------------------------


def test_waiting_ends_when_the_last_waiting_request_is_removed(
    scheduler: Scheduler, compiler: ByHand
) -> None:
    request = scheduler.add(REGEX)
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(scheduler.wait_ready(SECONDS)), daemon=True)
    thread.start()
    scheduler.remove(request)
    thread.join(5)
    assert results == [False]


def test_removing_one_of_two_waiting_requests_lets_nobody_start(
    scheduler: Scheduler, compiler: ByHand
) -> None:
    first, second = scheduler.add(REGEX), scheduler.add(REGEX)
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(scheduler.wait_ready(SECONDS)), daemon=True)
    thread.start()
    scheduler.remove(first)
    assert scheduler.waiting_ids == [second]
    compiler.finish()
    thread.join(5)
    assert results == [True]
    assert scheduler.request_ids == [second]


def test_a_beam_search_does_not_start_between_the_steps_of_removing_one_of_its_requests(
    scheduler: Scheduler, compiler: ByHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = scheduler.add_group(REGEX.replace(use_beam_search=True, beam_width=2))
    compiler.finish()
    drop_removed, threads = scheduler._waiting.drop_removed, []

    def after_another_thread() -> None:
        threads.append(threading.Thread(target=lambda: scheduler.request_ids))
        threads[0].start()
        threads[0].join(0.1)
        drop_removed()

    monkeypatch.setattr(scheduler._waiting, "drop_removed", after_another_thread)
    scheduler.remove(ids[0])
    threads[0].join()
    assert scheduler.request_ids == []
    assert scheduler.record(ids[1]).finish_reason == "abort"


def test_a_request_that_is_removed_while_it_starts_does_not(scheduler: Scheduler, compiler: ByHand) -> None:
    class Removes(StoppingCriteria):
        calls = 0

        def new_state(self, params: Any, prompt_token_ids: Any, vocabulary: Any) -> None:
            self.calls += 1
            if self.calls == 2:
                scheduler.remove("leaves")

        def check(self, state: Any, token_ids: Any, text: Any) -> None:
            return None

    scheduler.add(REGEX, request_id="leaves", stopping_criteria=[Removes()])
    compiler.finish()
    assert scheduler.request_ids == []
    assert scheduler.waiting_ids == []
    with pytest.raises(RequestError, match="unknown"):
        scheduler.record("leaves")


class Anywhere(Injection):
    """Raises within the locks of the standard library, too."""

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename == threading.__file__:
            self._traced[frame.f_code] = True
        return super()._enter(frame, event, argument)


def test_waiting_that_is_interrupted_keeps_no_other_thread_from_it(
    scheduler: Scheduler, compiler: ByHand
) -> None:
    scheduler.add(REGEX)
    for at in itertools.count():
        injection = Anywhere(KeyboardInterrupt, at, opcodes=True)
        injection.during(lambda: scheduler.wait_ready(0))
        thread = threading.Thread(target=lambda: scheduler.wait_ready(0), daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive(), injection.where
        if not injection.passed:
            break
    compiler.finish()
    assert scheduler.wait_ready(SECONDS)
