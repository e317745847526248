"""Whole schedulers with logits on the simulated chip: `ascend` has NumPy's tokens, whatever fails."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from ascend_arrays import NpuArray
from ascend_building import vendor_library
from ascend_harness import BFLOAT16, FORMS, Chip, as_elements, as_floats, nothing_left
from engine_sampler_ascend import AscendBackend

from engine_sampler import SamplingParams, Scheduler, Tokenizer
from engine_sampler.arithmetic import OnStream

VOCAB = 512
LOST, NO_MEMORY = 507018, 207001

MIXTURE: tuple[dict[str, Any], ...] = (
    {"temperature": 0.0},
    {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05},
    {"temperature": 0.7, "top_k": 5, "order": "vllm"},
    {"top_k": 3, "xtc_probability": 0.5, "xtc_threshold": 0.05},
    {"temperature": 0.9, "top_p": 0.9},
    {"repetition_penalty": 1.2, "top_k": 20},
    {"temperature": 0.0, "logprobs": 3},
    {"top_k": 10, "logprobs": 2, "logprobs_mode": "processed"},
    {"mirostat": 2},
    {"top_k": 2000},
    {"temperature": 0.0, "logit_bias": {7: 3.0}},
)


@pytest.fixture
def backend(chip: Chip) -> AscendBackend:
    return AscendBackend("ascend", library=vendor_library())


def new_scheduler(backend: Any, settings: Sequence[dict[str, Any]] = MIXTURE) -> Scheduler:
    scheduler = Scheduler(VOCAB, backend=backend)
    for seed, given in enumerate(settings):
        scheduler.add(SamplingParams(seed=seed, **given), [1, 2, 3])
    return scheduler


def logits_of(rows: int, step: int, form: str = "float32") -> np.ndarray:
    logits = np.random.default_rng((rows, step)).normal(0, 3, (rows, VOCAB)).astype(np.float32)
    logits[step % rows, 9:12] = logits[step % rows].max()  # ties
    return as_elements(logits, form)


def on_npu(scheduler: Scheduler, chip: Chip, elements: np.ndarray) -> Any:
    array = NpuArray(chip, elements)
    try:
        return scheduler.step(array)
    finally:
        array.free()


def expect_equal(
    chip: Chip, backend: Any, settings: Sequence[dict[str, Any]], form: str, steps: int = 4
) -> None:
    ours, reference = new_scheduler(backend, settings), new_scheduler("numpy", settings)
    for number in range(steps):
        elements = logits_of(len(settings), number, form)
        result, expected = on_npu(ours, chip, elements), reference.step(as_floats(elements))
        assert result.token_ids.tolist() == expected.token_ids.tolist()
        assert result.errors == expected.errors
        for found, wanted in zip(listed(result), listed(expected), strict=True):
            np.testing.assert_array_equal(found, wanted)


def listed(result: Any) -> list[np.ndarray]:
    return [] if result.logprobs is None else [result.logprobs.token_ids, result.logprobs.logprobs]


@pytest.fixture(autouse=True)
def clean(chip: Chip) -> Iterator[None]:
    """Nothing is left when the schedulers and the backend are gone."""
    yield
    gc.collect()
    live = chip.live()
    assert {name: live[name] for name in ("tensors", "executors", "queued")} == {
        "tensors": 0,
        "executors": 0,
        "queued": 0,
    }
    assert chip.misuse() == ""


@pytest.mark.parametrize("form", FORMS)
def test_the_tokens_are_those_of_the_reference(chip: Chip, backend: AscendBackend, form: str) -> None:
    # Raw logprobs are read from the array itself, and NumPy has no bfloat16.
    settings = [given for given in MIXTURE if form != BFLOAT16 or "logprobs" not in given]
    expect_equal(chip, backend, settings, form)


def test_grammars_forbid_tokens_among_the_best(chip: Chip, backend: AscendBackend) -> None:
    words = [bytes([97 + i % 26, 97 + i // 26]) for i in range(255)]
    tokenizer = Tokenizer([*(bytes([i]) for i in range(256)), *words, b"<eos>"], eos_token_ids=[511])
    settings = (
        {"regex": "[a-z ]+", "temperature": 0.0},
        {"regex": "(ab|cd)+", "top_k": 4, "temperature": 0.7},
        {"top_k": 4},
        {"choice": ["yes", "no"], "top_p": 0.9},
    )
    schedulers = [Scheduler(VOCAB, tokenizer, backend=each) for each in (backend, "numpy")]
    for scheduler in schedulers:
        for seed, given in enumerate(settings):
            scheduler.add(SamplingParams(seed=seed, **given), [97], request_id=str(seed))
    ours, reference = schedulers
    for number in range(3):
        elements = logits_of(len(ours.request_ids), number)
        result, expected = on_npu(ours, chip, elements), reference.step(elements)
        assert (result.token_ids.tolist(), result.text) == (expected.token_ids.tolist(), expected.text)
        assert ours.request_ids == reference.request_ids


def test_only_rows_that_the_chip_does_not_cut_are_copied_as_a_whole(
    chip: Chip, backend: AscendBackend
) -> None:
    settings = ({"temperature": 0.0}, {"top_k": 40, "top_p": 0.9, "temperature": 0.8}, {"top_p": 0.9})
    row = VOCAB * 4
    for count, expected in ((2, 0), (3, 1)):
        scheduler = new_scheduler(backend, settings[:count])
        on_npu(scheduler, chip, logits_of(count, 0))
        before = chip.counters().bytes_down
        array = NpuArray(chip, logits_of(count, 1))
        scheduler.step(array)
        down = chip.counters().bytes_down - before
        assert array.read == 0
        assert expected * row <= down < expected * row + count * (64 * 12 + 5 * 64)
        array.free()


def test_a_step_of_the_exact_chain_is_one_wait_and_allocates_nothing(
    chip: Chip, backend: AscendBackend
) -> None:
    settings = ({"top_k": 40, "top_p": 0.9, "temperature": 0.8},) * 8
    scheduler = new_scheduler(backend, settings)
    on_npu(scheduler, chip, logits_of(8, 0))
    array = NpuArray(chip, logits_of(8, 1))
    before = chip.counters()
    scheduler.step(array)
    after = chip.counters()
    array.free()
    assert after.waits - before.waits == 1
    assert after.copies_down - before.copies_down == 1
    assert after.allocations == before.allocations
    assert after.device_synchronisations == before.device_synchronisations == 0
    assert after.pageable_copies == before.pageable_copies


def test_the_next_forward_pass_is_queued_before_anybody_waits(chip: Chip, backend: AscendBackend) -> None:
    stream = chip.new_stream()
    scheduler = new_scheduler(backend, MIXTURE[:2])
    reference = new_scheduler("numpy", MIXTURE[:2])
    for number in range(3):
        elements = logits_of(2, number)
        array = NpuArray(chip, elements)
        before = chip.counters().waits
        begun = scheduler.begin(OnStream(array, stream=stream))
        assert chip.counters().waits == before
        assert chip.live()["queued"] > 0
        result = begun.finish()
        assert result.token_ids.tolist() == reference.step(elements).token_ids.tolist()
        array.free()
    chip.destroy_stream(stream)


def test_bad_rows_end_their_requests_only(chip: Chip, backend: AscendBackend) -> None:
    logits = logits_of(5, 0)
    logits[1, 4], logits[2] = np.nan, -np.inf
    settings = ({"temperature": 0.0}, {"top_k": 4}, {"top_k": 4}, {"temperature": 0.0}, {"top_k": 9})
    result = on_npu(new_scheduler(backend, settings), chip, logits)
    expected = new_scheduler("numpy", settings).step(logits)
    assert result.token_ids.tolist() == expected.token_ids.tolist()
    assert result.errors == expected.errors
    assert result.finish_reasons == expected.finish_reasons


FAILING = (
    "aclCreateTensor", "aclnnReduceSumGetWorkspaceSize", "aclnnTopkGetWorkspaceSize", "aclnnTopk",
    "aclrtMemcpyAsync", "aclrtRecordEvent", "aclrtSynchronizeEvent", "aclrtCreateEvent", "aclrtMalloc",
    "aclrtMallocHost",
)  # fmt: skip
CODES = [(function, code) for function in FAILING for code in (LOST, NO_MEMORY)]
CODES += [("aclnnTopkGetWorkspaceSize", 161002), ("aclnnTopkGetWorkspaceSize", 561103)]


@pytest.mark.quick_share(4)
@pytest.mark.parametrize(("function", "code"), CODES)
def test_the_host_takes_over_from_any_failure_with_the_same_tokens(
    chip: Chip, backend: AscendBackend, function: str, code: int
) -> None:
    settings = MIXTURE[:4]
    ours, reference = new_scheduler(backend, settings), new_scheduler("numpy", settings)
    for number in range(3):
        elements = logits_of(4, number)
        if number == FAILING.index(function) % 2:
            chip.fail(function, code)
        result = on_npu(ours, chip, elements)
        assert result.token_ids.tolist() == reference.step(elements).token_ids.tolist()
        assert result.errors == [None] * 4


def test_a_lost_chip_is_not_called_again_until_it_is_opened_again(chip: Chip, backend: AscendBackend) -> None:
    settings = MIXTURE[:2]
    ours, reference = new_scheduler(backend, settings), new_scheduler("numpy", settings)
    for number in range(4):
        elements = logits_of(2, number)
        if number == 1:
            chip.fail("aclrtSynchronizeEvent", LOST)
        if number == 3:
            backend.opened.reopen()
        before = chip.calls("aclnnTopk")
        result = on_npu(ours, chip, elements)
        assert result.token_ids.tolist() == reference.step(elements).token_ids.tolist()
        assert (chip.calls("aclnnTopk") > before) == (number != 2)
    assert not backend.opened.lost


def test_a_310p_leaves_everything_to_the_host(chip: Chip) -> None:
    chip.reset("Ascend310P3")
    expect_equal(chip, AscendBackend("ascend", library=vendor_library()), MIXTURE, "float32", steps=2)
    assert chip.calls("aclnnTopk") == 0


def test_nothing_is_loaded_before_logits_on_an_npu_are_asked_about(
    chip: Chip, backend: AscendBackend
) -> None:
    assert backend.name == "ascend"
    assert backend.exact
    assert backend.score("npu:0") == 0
    assert backend.target == ""
    assert not backend.reads_from("cuda:0")
    assert "opened" not in vars(backend)
    assert backend.reads_from("npu:0")
    assert backend.target == "Ascend910B3, exact"


def test_logits_of_the_host_run_on_the_host(chip: Chip, backend: AscendBackend) -> None:
    logits = logits_of(4, 0)
    tokens = new_scheduler(backend, MIXTURE[:4]).step(logits).token_ids.tolist()
    assert tokens == new_scheduler("numpy", MIXTURE[:4]).step(logits).token_ids.tolist()


def test_a_backend_that_is_gone_leaves_nothing(chip: Chip) -> None:
    with nothing_left(chip):
        backend: Any = AscendBackend("ascend", library=vendor_library())
        scheduler: Any = new_scheduler(backend, MIXTURE[:3])
        on_npu(scheduler, chip, logits_of(3, 0))
        del backend, scheduler
        gc.collect()
