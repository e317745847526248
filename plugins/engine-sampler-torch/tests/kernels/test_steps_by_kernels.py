"""Steps that the kernels run, in Triton's interpreter: tokens and messages are those of the NumPy backend."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from engine_sampler_torch import TorchBackend
from engine_sampler_torch.kernels import replay
from engine_sampler_torch.running import edits, fused
from engine_sampler_torch.steps import Block, DeviceStep, Given
from interpreter import launch_compiled

from engine_sampler import SamplingParams, Scheduler, StepResult, Tokenizer
from engine_sampler.contract import Example, Param, Rows, Sampler
from tests.engines import registered

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the interpreter's, for NaN

SIZE, ROWS = 400, 6
TOKENIZER = Tokenizer([bytes([i % 256]) * (1 + i // 256) for i in range(SIZE)], [0])
CHAINS: tuple[dict[str, Any], ...] = (
    {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05},
    {"temperature": 0.0},
    {"temperature": 1.4},
    {"top_p": 0.9, "order": "koboldai", "repetition_penalty": 1.3, "logit_bias": {3: 4.0, 5: -9.0}},
    {"top_k": 12, "frequency_penalty": 0.5, "bad_words": [[1, 2], 7], "dry_multiplier": 0.8},
)


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Kernels run on the host; the chains that they run."""
    monkeypatch.setattr(fused, "DEVICE_TYPES", ["cpu"])
    fused.kernels_for.cache_clear()
    kernels_here = fused.kernels_for(torch.device("cpu"))
    assert kernels_here is not None
    seen: list[str] = []
    sample, narrow = kernels_here.sample, kernels_here.narrow

    def noting(*arguments: Any, **options: Any) -> Any:
        seen.append(" ".join(options["samplers"]))
        return sample(*arguments, **options)

    def noting_width(*arguments: Any, **options: Any) -> Any:
        seen.append(f"narrow to {options['width']}")
        return narrow(*arguments, **options)

    monkeypatch.setattr(kernels_here, "sample", noting)
    monkeypatch.setattr(kernels_here, "narrow", noting_width)
    yield seen
    fused.kernels_for.cache_clear()


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch, kernels: list[str]) -> list[str]:
    """Launches can be started again here; `kernels`, with "again" for every step that does."""
    kernels_here = fused.kernels_for(torch.device("cpu"))
    again = kernels_here.Replay.again

    def noting(*arguments: Any) -> Any:
        kernels.append("again")
        return again(*arguments)

    monkeypatch.setattr(replay, "launch", launch_compiled)
    monkeypatch.setattr(kernels_here, "repeatable", lambda device: True)
    monkeypatch.setattr(kernels_here.Replay, "again", noting)
    return kernels


def results(backend: Any, settings: dict[str, Any], logits: list[np.ndarray]) -> list[StepResult]:
    scheduler = Scheduler(SIZE, TOKENIZER, backend=backend)
    for seed in range(ROWS):
        scheduler.add(SamplingParams(**settings, seed=seed), [1, 2, 3, 1, 2, seed])
    return [scheduler.step(rows[: len(scheduler.request_ids)]) for rows in logits]


def equal_results(settings: dict[str, Any], logits: list[np.ndarray]) -> list[tuple[StepResult, StepResult]]:
    """The results on torch and on NumPy, whose tokens and errors are the same."""
    pairs = zip(results(TorchBackend(), settings, logits), results("numpy", settings, logits), strict=True)
    found = list(pairs)
    for one, other in found:
        assert one.token_ids.tolist() == other.token_ids.tolist()
        assert one.errors == other.errors
    return found


@pytest.mark.parametrize("settings", CHAINS, ids=str)
def test_tokens_and_errors_are_those_of_numpy(settings: dict[str, Any], kernels: list[str]) -> None:
    random = np.random.default_rng(len(str(settings)))
    logits = [random.normal(0, 3, (ROWS, SIZE)).astype(np.float32) for _ in range(3)]
    logits[1][2, 5] = np.nan
    logits[1][4] = -np.inf
    for one, other in equal_results(settings, logits):
        assert one.token_ids_on_device.tolist() == other.token_ids.tolist()
    assert len(kernels) == 3


@pytest.mark.parametrize("settings", CHAINS, ids=str)
def test_later_steps_start_the_same_launches_again(settings: dict[str, Any], replays: list[str]) -> None:
    random = np.random.default_rng(3)
    logits = [random.normal(0, 3, (ROWS, SIZE)).astype(np.float32) for _ in range(4)]
    logits[2] = np.round(logits[2])
    logits[3][2, 5] = np.nan
    logits[3][4] = -np.inf
    for one, other in equal_results(settings, logits):
        assert one.token_ids_on_device.tolist() == other.token_ids.tolist()
    assert replays[1:] == ["again"] * 3


def test_a_token_on_the_device_stays_when_launches_are_started_again(replays: list[str]) -> None:
    random = np.random.default_rng(4)
    logits = [random.normal(0, 3, (ROWS, SIZE)).astype(np.float32) for _ in range(40)]
    found = results(TorchBackend(), CHAINS[2], logits)
    assert replays.count("again") == 39
    for step in found:
        assert step.token_ids_on_device.tolist() == step.token_ids.tolist()


def layouts(random: np.random.Generator, rows: int) -> Iterator[torch.Tensor]:
    """Logits with other types, strides and alignments, and of each some twice."""
    for _ in range(2):
        yield torch.from_numpy(random.normal(0, 3, (rows, SIZE)).astype(np.float32))
        yield torch.from_numpy(random.normal(0, 3, (rows, SIZE)).astype(np.float32)).to(torch.float16)
        padded = torch.from_numpy(random.normal(0, 3, (rows, SIZE + 24)).astype(np.float32))
        yield padded
        yield padded[:, 3 : SIZE + 3]  # the address is not a multiple of 16


def test_other_layouts_are_launched_anew_and_every_one_is_kept(replays: list[str]) -> None:
    both = [Scheduler(SIZE, TOKENIZER, backend=backend) for backend in (TorchBackend(), "numpy")]
    for seed in range(ROWS):
        for scheduler in both:
            scheduler.add(SamplingParams(**CHAINS[0], seed=seed), [1, 2, seed])
    for logits in layouts(np.random.default_rng(6), ROWS):
        found, right = (scheduler.step(logits).token_ids.tolist() for scheduler in both)
        assert found == right
    assert [seen == "again" for seen in replays] == [False] * 4 + [True] * 4


def test_launches_are_noted_anew_when_requests_join_and_leave(replays: list[str]) -> None:
    both = [Scheduler(SIZE, TOKENIZER, backend=backend) for backend in (TorchBackend(), "numpy")]
    random = np.random.default_rng(8)
    for seed, top_k in enumerate((20, 30, 90, 20, 50)):
        for scheduler in both:
            scheduler.add(
                SamplingParams(temperature=0.7, top_k=top_k, seed=seed, regex="[a-z]{50}"),
                [1],
                request_id=seed,
            )
            if seed == 3:
                scheduler.remove(1)
        for _ in range(2):
            logits = random.normal(0, 3, (len(both[0].request_ids), SIZE)).astype(np.float32)
            found, right = (scheduler.step(logits).token_ids.tolist() for scheduler in both)
            assert found == right
    assert [seen == "again" for seen in replays] == [False, True] * 5


def test_no_logits_are_held_from_one_step_to_the_next(replays: list[str]) -> None:
    scheduler = Scheduler(SIZE, TOKENIZER, backend=TorchBackend())
    scheduler.add(SamplingParams(temperature=0.7, seed=1), [1])
    held = []
    for _ in range(3):
        logits = np.zeros((1, SIZE), np.float32)
        held.append(weakref.ref(logits))
        scheduler.step(torch.from_numpy(logits))
        del logits
    gc.collect()
    assert [array() for array in held] == [None] * 3
    assert replays[1:] == ["again"] * 2


def test_an_edit_that_leaves_no_token_is_named(kernels: list[str]) -> None:
    settings = {"bad_words": [5, 6], "temperature": 0.7}
    logits = np.full((ROWS, SIZE), -np.inf, np.float32)
    logits[:, 5:8] = 1
    logits[3, 7] = -np.inf
    found, right = (results(b, settings, [logits])[0] for b in (TorchBackend(), "numpy"))
    assert found.errors == right.errors
    assert found.errors[3] == "bad_words leaves no token"
    assert found.token_ids.tolist() == right.token_ids.tolist()
    assert found.token_ids_on_device is None
    assert kernels == ["temperature"]


NARROWED: tuple[dict[str, Any], ...] = (
    {"top_k": 30, "typical_p": 0.8, "temperature": 1.2, "logprobs": 3, "logprobs_mode": "processed"},
    {"temperature": 0.7, "top_k": 70, "min_p": 0.02, "xtc_probability": 0.9, "order": "transformers"},
    {"top_k": 40, "tfs": 0.9, "min_p": 0.01, "adaptive_target": 0.3, "repetition_penalty": 1.2},
    {"top_k": 9, "temperature": 1.5, "dynatemp_range": 0.7, "bad_words": [7, 8], "regex": "[a-f]+"},
    {"top_k": 5, "epsilon_cutoff": 0.02, "logit_bias": {2: 3.0}, "top_a": 0.1},
    {"top_k": 12, "infill": True},
)
"""Chains that go on with steps, or on the host, behind a top_k."""


@pytest.mark.parametrize("settings", NARROWED, ids=str)
def test_other_samplers_behind_a_top_k_get_the_kernels_candidates(
    settings: dict[str, Any], kernels: list[str]
) -> None:
    random = np.random.default_rng(len(str(settings)))
    logits = [random.normal(0, 3, (ROWS, SIZE)).astype(np.float32) for _ in range(3)]
    logits[1] = np.round(logits[1])
    logits[1][2, 5] = np.inf
    logits[2][1] = -np.inf
    for one, other in equal_results(settings, logits):
        if other.logprobs is not None:
            assert np.array_equal(one.logprobs.logprobs, other.logprobs.logprobs, equal_nan=True)
            assert one.logprobs.ranks.tolist() == other.logprobs.ranks.tolist()
    assert kernels == [f"narrow to {128 if settings['top_k'] > 64 else 64}"] * 3


AFTER_STEPS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"typical_p": 0.8}, ""),
    ({"temperature": 0.8, "top_p": 0.9, "top_k": 40, "logprobs": 3}, "top_k top_p temperature"),
    ({"smoothing_factor": 0.4, "min_p": 0.05, "temperature": 1.2, "repetition_penalty": 1.3}, "temperature"),
    ({"typical_p": 0.9, "top_p": 0.8, "regex": "[a-f]+", "logprobs": 2, "order": "transformers"}, ""),
    ({"temperature": 0.0, "top_n_sigma": 1.0, "frequency_penalty": 0.4, "logprobs": 1,
      "logprobs_mode": "penalized"}, ""),
    ({"typical_p": 0.95, "top_k": 30, "xtc_probability": 0.9, "xtc_threshold": 0.01,
      "order": ["typical_p", "top_k", "xtc", "temperature"]}, "narrow to 64"),
    ({"top_k": 30, "typical_p": 0.8, "temperature": 1.2, "logprobs": 3}, "narrow to 64"),
)  # fmt: skip
"""Chains that begin with steps over whole rows, or whose raw logits are needed, and what the kernels run."""


@pytest.mark.parametrize(("settings", "run"), AFTER_STEPS, ids=str)
def test_kernels_go_on_where_steps_have_changed_whole_rows(
    settings: dict[str, Any], run: str, kernels: list[str]
) -> None:
    random = np.random.default_rng(len(str(settings)))
    logits = [random.normal(0, 3, (ROWS, SIZE)).astype(np.float32) for _ in range(3)]
    logits[1] = np.round(logits[1])
    logits[2][1, 7], logits[2][3] = np.nan, -np.inf
    for one, other in equal_results(settings, logits):
        if other.logprobs is not None:
            assert np.array_equal(one.logprobs.logprobs, other.logprobs.logprobs, equal_nan=True)
            assert one.logprobs.ranks.tolist() == other.logprobs.ranks.tolist()
    assert kernels == [run] * 3


def test_a_selector_of_its_own_kind_is_left_to_the_steps(kernels: list[str]) -> None:
    equal_results({"min_p": 0.1, "mirostat": 2}, [np.random.default_rng(1).normal(0, 3, (ROWS, SIZE))
                  .astype(np.float32)])  # fmt: skip
    assert kernels == []


def test_many_edits_change_whole_rows_first(kernels: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edits, "_ALWAYS_FEW", 16)
    settings = {"repetition_penalty": 1.3, "frequency_penalty": 0.2, "top_k": 9, "temperature": 0.9}
    random = np.random.default_rng(2)
    both = [Scheduler(SIZE, TOKENIZER, backend=backend) for backend in (TorchBackend(), "numpy")]
    for seed in range(ROWS):
        prompt = random.integers(1, SIZE, 90).tolist()
        for scheduler in both:
            scheduler.add(SamplingParams(**settings, seed=seed), prompt)
    for _ in range(3):
        logits = random.normal(0, 3, (ROWS, SIZE)).astype(np.float32)
        found, right = (scheduler.step(logits).token_ids.tolist() for scheduler in both)
        assert found == right
    assert kernels == ["top_k temperature"] * 3


def test_rows_with_values_that_no_model_gives_go_to_the_host(kernels: list[str]) -> None:
    everything = {token: -1e35 + 1e33 * (token % 5) for token in range(SIZE)}
    random = np.random.default_rng(5)
    both = [Scheduler(SIZE, TOKENIZER, backend=backend) for backend in (TorchBackend(), "numpy")]
    for scheduler in both:
        for seed in range(ROWS):
            bias = everything if seed == 2 else {3: 1e33} if seed == 4 else {3: 1.0}
            params = SamplingParams(typical_p=0.9, logit_bias=bias, seed=seed, logprobs=2)
            scheduler.add(params, [1])
    for _ in range(3):
        logits = random.normal(0, 3, (ROWS, SIZE)).astype(np.float32)
        one, other = (scheduler.step(logits) for scheduler in both)
        assert one.token_ids.tolist() == other.token_ids.tolist()
        assert one.errors == other.errors == [None] * ROWS
        assert np.array_equal(one.logprobs.logprobs, other.logprobs.logprobs)
        assert one.token_ids[4] == 3
    assert kernels == [""] * 3


class First100Step(DeviceStep):
    name = "first_100"

    def apply(self, block: Block, tensors: Given, fixed: Any) -> None:
        block.keep(block.columns < 100)
        block.narrow(100)


class First100(Sampler):
    """Keep the first hundred tokens; on a device, their columns only."""

    name = "first_100"
    params = (Param("first_100", bool, neutral=False),)
    examples = (Example((1.0, 2.0), {"first_100": True}, (1.0, 2.0)),)

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        logits[:, 100:] = -np.inf

    def torch_step(self) -> DeviceStep:
        return First100Step()


def test_a_step_that_cuts_columns_itself_is_followed_by_steps(kernels: list[str]) -> None:
    settings = {
        "first_100": True,
        "top_k": 30,
        "temperature": 0.7,
        "order": ["first_100", "top_k", "temperature"],
    }
    random = np.random.default_rng(9)
    with registered(First100()):
        equal_results(settings, [random.normal(0, 3, (ROWS, SIZE)).astype(np.float32) for _ in range(2)])
    assert kernels == []


def test_the_workspace_grows_with_the_requests_that_join(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    kernels = fused.kernels_for(torch.device("cpu"))
    room = kernels.Workspace

    def noted(device: torch.device, *needs: int) -> Any:
        made.append(needs)
        return room(device, *needs)

    monkeypatch.setattr(kernels, "Workspace", noted)
    both = [Scheduler(SIZE, TOKENIZER, backend=backend) for backend in (TorchBackend(), "numpy")]
    random = np.random.default_rng(7)
    for seed, top_k in enumerate((20, 30, 90, 20, 50, 20)):
        logits = random.normal(0, 3, (seed + 1, SIZE)).astype(np.float32)
        for scheduler in both:
            scheduler.add(SamplingParams(temperature=0.7, top_k=top_k, seed=seed), [1, seed])
        found, right = (scheduler.step(logits).token_ids.tolist() for scheduler in both)
        assert found == right
    assert made == [(1, SIZE, 64), (2, SIZE, 64), (4, SIZE, 128), (8, SIZE, 128)]


def test_edits_that_leave_a_row_as_it_is_if_it_had_no_token_run_beside_the_logits(kernels: list[str]) -> None:
    """EOS and repeated n-grams are removed in the pass over the logits; rows of these alone keep them."""
    chain = {"top_k": 12, "ignore_eos": True, "min_tokens": 3, "no_repeat_ngram_size": 1}
    both = [Scheduler(SIZE, TOKENIZER, backend=backend) for backend in (TorchBackend(), "numpy")]
    for scheduler in both:
        for seed in range(ROWS):
            scheduler.add(SamplingParams(seed=seed, temperature=0.7, **chain), [1, 2, 3, 1])
    random = np.random.default_rng(3)
    for _ in range(3):
        rows = np.round(random.normal(0, 2, (len(both[0].request_ids), SIZE))).astype(np.float32)
        rows[0], rows[1], rows[2, 4:] = -np.inf, -np.inf, -np.inf
        rows[0, 0], rows[1, :2] = 1.0, 2.0
        found, right = (scheduler.step(torch.from_numpy(rows)) for scheduler in both)
        assert found.token_ids.tolist() == right.token_ids.tolist()
        assert found.errors == right.errors
    assert kernels == ["top_k temperature"] * 3
