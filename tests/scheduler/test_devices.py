"""Logits on a device: which backend reads them there, what is copied for the others, and what stays there."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from engine_sampler import BackendError, SamplingParams, Scheduler, process_logits, sample
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.contract import Batch

from ..engines import EOS, TOKENIZER, VOCAB, observed
from ..far_away import FarAway

LOGITS = np.random.default_rng(3).normal(0, 3, (4, VOCAB)).astype(np.float32)
ROW = LOGITS[0].nbytes


class Near(NumpyBackend):
    """The reference, which claims to read logits on `far` where they lie, and records what it is given."""

    name = "near"

    def __init__(self) -> None:
        super().__init__()
        self.prepared: list[tuple[list[int], str]] = []
        self.given: list[Any] = []

    def reads_from(self, device: str) -> bool:
        return device.startswith("far")

    def prepare_masks(self, bitmask: np.ndarray, rows: Any, device: str) -> Any:
        self.prepared.append((list(rows), device))
        return bitmask.copy()

    def run(self, batch: Batch) -> None:
        prepared = batch.prepared_masks
        self.given.append(None if prepared is None else sorted(prepared.changed))
        if prepared is not None:
            assert batch.bitmask is not None
            same = np.delete(np.arange(len(batch.bitmask)), sorted(prepared.changed))
            np.testing.assert_array_equal(batch.bitmask[same], prepared.handle[same])
        super().run(batch)
        batch.token_ids_on_device = FarAway(batch.token_ids.copy())

    def process(self, batch: Batch) -> Any:
        if any("xtc" in group.plan.key for group in batch.groups):
            raise RuntimeError("no xtc")
        out = np.full((len(batch.logits), batch.logits.vocab_size), np.nan, np.float32)
        for group in batch.groups:
            rows = np.stack([batch.logits.row(i) for i in group.index.tolist()])
            self.apply(group.plan, rows, group.rows)
            out[group.index] = rows
        batch.errors[0] = "the first row is odd"
        return FarAway(out)


def scheduler_of(backend: Any, *settings: dict[str, Any]) -> Scheduler:
    scheduler = Scheduler(VOCAB, TOKENIZER, eos_token_ids=[EOS], backend=backend)
    for seed, given in enumerate(settings or ({},) * len(LOGITS)):
        scheduler.add(SamplingParams(seed=seed, **given), [1, 2])
    return scheduler


# --- copies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_a_host_backend_gets_all_logits_in_one_copy(backend: str) -> None:
    scheduler, far = scheduler_of(backend), FarAway(LOGITS)
    tokens = scheduler.step(far).token_ids.tolist()
    assert far.copies == [LOGITS.shape]
    assert tokens == scheduler_of(backend).step(LOGITS).token_ids.tolist()


def test_logits_that_cannot_be_copied_change_nothing() -> None:
    class Lost(FarAway):
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
            raise RuntimeError("the device is lost")

    scheduler = scheduler_of("numpy")
    with pytest.raises(TypeError, match="logits of type Lost cannot be read as an array"):
        scheduler.step(Lost(LOGITS))
    expected = scheduler_of("numpy").step(LOGITS).token_ids.tolist()
    assert scheduler.step(LOGITS).token_ids.tolist() == expected


def test_a_backend_that_reads_from_the_device_decides_what_is_copied() -> None:
    far = FarAway(LOGITS)
    scheduler_of(Near()).step(far)
    assert far.copies == [(1, VOCAB)] * len(LOGITS)


def test_missing_logprobs_are_computed_from_one_copy_of_their_rows() -> None:
    class Elsewhere(Near):
        """Draws without reading."""

        def run(self, batch: Batch) -> None:
            batch.token_ids[:] = 5

    far = FarAway(LOGITS)
    raw = {"logprobs": 1, "logprobs_mode": "raw"}
    result = scheduler_of(Elsewhere(), raw, {}, raw, {}).step(far)
    assert far.copies == [(2, VOCAB)]
    assert result.logprobs.token_ids[2, 0] == 5  # type: ignore[union-attr]


def test_measures_count_the_copied_bytes() -> None:
    with observed("step_measured") as seen:
        scheduler_of("numpy").step(FarAway(LOGITS))
        scheduler_of("numpy").step(LOGITS)
    assert [measures.copied_bytes for measures in seen] == [LOGITS.nbytes, 0]


def test_the_calls_without_a_scheduler_take_such_logits_too() -> None:
    params = [SamplingParams(seed=i, top_k=3) for i in range(len(LOGITS))]
    assert sample(FarAway(LOGITS), params).token_ids.tolist() == sample(LOGITS, params).token_ids.tolist()
    np.testing.assert_array_equal(process_logits(FarAway(LOGITS), params), process_logits(LOGITS, params))


# --- tokens that stay there -----------------------------------------------------------------------


def test_a_host_backend_leaves_no_tokens_on_a_device() -> None:
    assert scheduler_of("numpy").step(FarAway(LOGITS)).token_ids_on_device is None


def test_tokens_on_the_device_are_those_of_the_step() -> None:
    logits = LOGITS.copy()
    logits[1] = np.nan
    result = scheduler_of(Near()).step(FarAway(logits))
    assert result.token_ids_on_device.values.tolist() == result.token_ids.tolist()
    assert result.token_ids[1] == -1


def test_tokens_that_do_not_count_leave_none_on_the_device() -> None:
    class Stubborn(Near):
        """Draws what no grammar allows."""

        def run(self, batch: Batch) -> None:
            super().run(batch)
            batch.token_ids[:] = 7
            batch.token_ids_on_device = FarAway(batch.token_ids.copy())

    result = scheduler_of(Stubborn(), {"regex": "a+"}, {}).step(FarAway(LOGITS[:2]))
    assert result.finish_reasons == ["error", None]
    assert result.token_ids_on_device is None


def test_rounds_of_drafts_leave_none_on_the_device() -> None:
    scheduler = scheduler_of(Near(), {"temperature": 0.0})
    best = LOGITS.argmax(axis=1).tolist()
    result = scheduler.step(FarAway(LOGITS[:3]), draft_token_ids=[best[:2]])
    assert result.token_ids.tolist() == best[:3]
    assert result.token_ids_on_device is None
    first = scheduler.step(FarAway(LOGITS[:2]), draft_token_ids=[[best[0] ^ 1]])
    assert first.token_ids_on_device.values.tolist() == first.token_ids.tolist() == [best[0], -1]


def test_beam_searches_leave_none_on_the_device() -> None:
    scheduler = scheduler_of(Near(), {})
    scheduler.add_group(SamplingParams(use_beam_search=True, beam_width=2, max_tokens=3), [1])
    assert scheduler.step(FarAway(LOGITS[:3])).token_ids_on_device is None


def test_a_backend_that_fails_leaves_none_on_the_device() -> None:
    class Failing(Near):
        def run(self, batch: Batch) -> None:
            super().run(batch)
            raise RuntimeError("after the draw")

    result = scheduler_of(Failing()).step(FarAway(LOGITS))
    assert result.token_ids.tolist() == [-1] * len(LOGITS)
    assert result.token_ids_on_device is None


# --- masks ----------------------------------------------------------------------------------------


def test_masks_are_prepared_for_the_device_of_the_last_step() -> None:
    backend = Near()
    scheduler = scheduler_of(backend, {"regex": "[abc de]+"}, {}, {"regex": "(a|b)+"})
    scheduler.prepare()
    assert backend.prepared == []  # nobody knows yet where the logits will be
    for _ in range(2):
        scheduler.step(FarAway(LOGITS[:3]))
        scheduler.prepare()
        scheduler.prepare()
    assert backend.prepared == [([0, 2], "far:0")] * 2
    scheduler.step(FarAway(LOGITS[:3]))
    assert backend.given == [None, [], []]
    scheduler.step(FarAway(LOGITS[:3]))
    assert backend.given[-1] is None


def test_masks_that_change_after_they_were_prepared_are_named() -> None:
    backend = Near()
    scheduler = scheduler_of(backend, {"regex": "[abc de]+"}, {}, {"regex": "(a|b)+"})
    scheduler.step(FarAway(LOGITS[:3]))
    scheduler.prepare()
    scheduler.accept(2, [0])
    scheduler.step(FarAway(LOGITS[:3]))
    assert backend.given[-1] == [2]


def test_masks_are_not_prepared_for_other_requests() -> None:
    backend = Near()
    scheduler = scheduler_of(backend, {"regex": "[abc de]+"}, {"regex": "[abc de]+"})
    scheduler.step(FarAway(LOGITS[:2]))
    scheduler.prepare()
    scheduler.step(FarAway(LOGITS[:2]), [1, 0])
    assert backend.given[-1] is None


def test_a_backend_that_fails_to_prepare_masks_gets_them_in_the_step(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(Near):
        def prepare_masks(self, bitmask: np.ndarray, rows: Any, device: str) -> Any:
            raise RuntimeError("no memory")

    backend = Failing()
    scheduler = scheduler_of(backend, {"regex": "[abc de]+"})
    scheduler.step(FarAway(LOGITS[:1]))
    with caplog.at_level(logging.ERROR, "engine_sampler"):
        scheduler.prepare()
    assert "backend near failed: RuntimeError: no memory" in caplog.text
    assert scheduler.step(FarAway(LOGITS[:1])).errors == [None]
    assert backend.given == [None, None]


# --- process --------------------------------------------------------------------------------------


def test_process_may_leave_its_result_on_the_device(caplog: pytest.LogCaptureFixture) -> None:
    settings = ({"top_k": 3}, {"min_p": 0.2}, {"top_k": 3}, {"temperature": 0.0})
    right = scheduler_of("numpy", *settings).process(LOGITS)
    found = scheduler_of(Near(), *settings).process(FarAway(LOGITS), on_device=True)
    assert isinstance(found, FarAway)
    np.testing.assert_array_equal(found.values, right)
    assert "request 0: the first row is odd" in caplog.text


def test_process_gives_an_array_unless_it_is_asked_for_the_device() -> None:
    assert isinstance(scheduler_of(Near()).process(FarAway(LOGITS)), np.ndarray)
    assert isinstance(scheduler_of("numpy").process(FarAway(LOGITS), on_device=True), np.ndarray)


def test_process_goes_to_the_host_if_the_device_fails(caplog: pytest.LogCaptureFixture) -> None:
    settings = ({"xtc_probability": 1.0}, {"min_p": 0.2})
    right = scheduler_of("numpy", *settings).process(LOGITS[:2])
    found = scheduler_of(Near(), *settings).process(FarAway(LOGITS[:2]), on_device=True)
    np.testing.assert_array_equal(found, right)
    assert "backend near failed: RuntimeError: no xtc" in caplog.text


def test_a_backend_error_passes_through_process() -> None:
    class Broken(Near):
        def process(self, batch: Batch) -> Any:
            raise BackendError("the device is lost")

    with pytest.raises(BackendError, match="the device is lost"):
        scheduler_of(Broken()).process(FarAway(LOGITS), on_device=True)


# --- steps in two halves --------------------------------------------------------------------------

MIXTURE: tuple[dict[str, Any], ...] = (
    {"temperature": 0.8, "top_p": 0.9},
    {"temperature": 0, "logprobs": 2},
    {"repetition_penalty": 1.3, "stop": ["a"]},
    {"max_tokens": 3, "choice": ["ab", "abab"]},
)


class Late(NumpyBackend):
    """The reference, which draws when a step is finished and not when it begins."""

    name = "late"

    def begin(self, batch: Batch) -> Any:
        batch.token_ids_on_device = "tokens"
        return lambda: self.run(batch)


def rows_for(scheduler: Scheduler, number: int) -> np.ndarray:
    ids = [int(str(request_id)) for request_id in scheduler.request_ids]
    return np.array([np.random.default_rng((number, i)).normal(0, 3, VOCAB) for i in ids], np.float32)


def lives(backend: Any, *, halves: bool) -> list[Any]:
    """What happens to the requests of the mixture in ten steps, in one piece each or begun and finished."""
    scheduler = Scheduler(VOCAB, TOKENIZER, eos_token_ids=[EOS], backend=backend)
    for i, settings in enumerate(MIXTURE):
        scheduler.add(SamplingParams(seed=i, **settings), [1, 2], request_id=str(i))
    seen: list[Any] = []
    for number in range(10):
        logits = rows_for(scheduler, number)
        drafts = [[1, 2]] * len(logits) if number == 4 else None
        if drafts:
            logits = np.repeat(logits, 3, axis=0)
        if halves:
            begun = scheduler.begin(logits, None, drafts)
            if number == 5:
                scheduler.add(SamplingParams(seed=9), [3], request_id="9")
            result = begun.finish()
        else:
            result = scheduler.step(logits, None, drafts)
            if number == 5:
                scheduler.add(SamplingParams(seed=9), [3], request_id="9")
        seen.append((result.token_ids.tolist(), result.finish_reasons, result.text, result.request_ids))
        if not scheduler.request_ids:
            break
    return seen


@pytest.mark.parametrize("backend", ["numpy", "native", Late()], ids=["numpy", "native", "late"])
def test_a_step_in_two_halves_is_a_step(backend: Any) -> None:
    assert lives(backend, halves=True) == lives("numpy", halves=False)


def test_a_begun_step_has_the_tokens_on_the_device_before_it_is_finished() -> None:
    scheduler = scheduler_of(Late())
    begun = scheduler.begin(LOGITS)
    assert begun.token_ids_on_device == "tokens"
    assert begun.finish().token_ids_on_device == "tokens"


def test_while_a_step_has_begun_requests_are_added_and_removed_and_no_other_step_runs() -> None:
    scheduler = scheduler_of(Late())
    first, *others = scheduler.request_ids
    begun = scheduler.begin(LOGITS)
    for call in (lambda: scheduler.step(LOGITS), lambda: scheduler.begin(LOGITS), scheduler.prepare):
        with pytest.raises(RuntimeError, match="has begun, and is not finished"):
            call()
    late = scheduler.add(SamplingParams(), [1])
    scheduler.remove(first)
    result = begun.finish()
    assert result.request_ids == [first, *others]
    assert scheduler.request_ids == [*others, late]


def test_a_step_is_finished_once() -> None:
    begun = scheduler_of(Late()).begin(LOGITS)
    begun.finish()
    with pytest.raises(RuntimeError, match="it can be finished once"):
        begun.finish()


@pytest.mark.parametrize("drop", ["given up", "forgotten"])
def test_a_begun_step_that_is_not_finished_has_not_been_done(drop: str) -> None:
    whole, scheduler = scheduler_of("numpy"), scheduler_of(Late())
    begun: Any = scheduler.begin(LOGITS)
    scheduler.remove(scheduler.request_ids[0])
    if drop == "given up":
        begun.give_up()
    del begun
    whole.remove(whole.request_ids[0])
    assert scheduler.step(LOGITS[1:]).token_ids.tolist() == whole.step(LOGITS[1:]).token_ids.tolist()


def test_wrong_arguments_to_begin_leave_the_scheduler_as_it_was() -> None:
    scheduler = scheduler_of(Late())
    with pytest.raises(ValueError, match="the requests and drafts need 4"):
        scheduler.begin(LOGITS[:2])
    assert len(scheduler.step(LOGITS).token_ids) == 4


def test_a_backend_that_fails_as_it_begins_ends_the_requests_when_the_step_is_finished() -> None:
    class Failing(NumpyBackend):
        name = "failing"

        def begin(self, batch: Batch) -> Any:
            raise ValueError("no")

    scheduler = scheduler_of(Failing())
    result = scheduler.begin(LOGITS).finish()
    assert result.errors == ["backend failing failed: ValueError: no"] * 4
