"""Lists of penalties and biases that stay on the device: tokens are those of NumPy, and uploads are small."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from engine_sampler_torch import TorchBackend
from engine_sampler_torch.kernels import revise_tables
from engine_sampler_torch.running import edits, fused, tables, transfer

from engine_sampler import SamplingParams, Scheduler, StepResult, Tokenizer

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the interpreter's, for NaN

SIZE, ROWS = 90, 4
TOKENIZER = Tokenizer([bytes([i % 256]) for i in range(SIZE)])
SETTINGS: tuple[dict[str, Any], ...] = (
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.7, "frequency_penalty": 0.4, "presence_penalty": -0.3},
    {"frequency_penalty": 0.9, "penalty_scope": "all", "penalty_last_n": 5},
    {"repetition_penalty": 1.9, "repetition_penalty_range": 3, "presence_penalty": 1.0},
    {"repetition_penalty": 1e-45, "penalty_scope": "output", "penalty_last_n": 2},
    {"logit_bias": {3: 4.0, 5: -9.0, 7: float("-inf"), 9: 0.0}},
    {"logit_bias": {3: 1e38, 5: -9.0}, "repetition_penalty": 1e38, "frequency_penalty": 1e39},
    {"repetition_penalty_range": 0, "repetition_penalty": 2.0, "frequency_penalty": 0.5},
)


@pytest.fixture(autouse=True)
def revised(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Kernels run on the host; the launches over tables."""
    monkeypatch.setattr(fused, "DEVICE_TYPES", ["cpu"])
    fused.kernels_for.cache_clear()
    kernels, seen = fused.kernels_for(torch.device("cpu")), []

    def noting(*arguments: Any) -> None:
        seen.append(arguments[1].tolist())
        revise_tables(*arguments)

    monkeypatch.setattr(kernels, "revise_tables", noting)
    yield seen
    fused.kernels_for.cache_clear()


def pair() -> tuple[Scheduler, Scheduler]:
    return Scheduler(SIZE, TOKENIZER, backend=TorchBackend()), Scheduler(SIZE, TOKENIZER, backend="numpy")


def add(both: tuple[Scheduler, Scheduler], settings: dict[str, Any], seed: int) -> None:
    chain = {"temperature": 0.9, "top_k": 12} | settings
    for scheduler in both:
        scheduler.add(SamplingParams(seed=seed, **chain), [1, 2, 3, 1, seed % SIZE, 3], request_id=seed)


def step(both: tuple[Scheduler, Scheduler], random: np.random.Generator, **options: Any) -> StepResult:
    """A step on torch, which is as that on NumPy."""
    rows = len(options.get("request_ids") or both[0].request_ids)
    rows += sum(map(len, options.get("draft_token_ids", ())))
    logits = random.normal(0, 2, (rows, SIZE)).astype(np.float32)
    found, right = (scheduler.step(logits, **options) for scheduler in both)
    assert found.errors == right.errors
    assert found.token_ids.tolist() == right.token_ids.tolist()
    return found


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_tokens_are_those_of_numpy(settings: dict[str, Any], revised: list[Any]) -> None:
    both, random = pair(), np.random.default_rng(len(str(settings)))
    for seed in range(ROWS):
        add(both, settings, seed)
    for _ in range(8):
        step(both, random)
    assert len(revised) == 8


def test_different_penalties_of_one_configuration_share_a_launch(revised: list[Any]) -> None:
    both, random = pair(), np.random.default_rng(1)
    for seed, settings in enumerate(SETTINGS[:5]):
        add(both, settings, seed)
    for _ in range(6):
        step(both, random)
    assert len(revised) == 6


def test_histories_that_change_elsewhere_are_followed(revised: list[Any]) -> None:
    both, random = pair(), np.random.default_rng(2)
    for seed in range(3):
        add(both, SETTINGS[1], seed)
    for _ in range(2):
        step(both, random)
    for scheduler in both:
        scheduler.accept(0, [4, 4, 9])
        scheduler.rollback(1, 1)
        scheduler.accept(2, [7] * 20)
        scheduler.fork(0, new_request_id=9, seed=5)
    add(both, SETTINGS[2], 4)
    for _ in range(2):
        step(both, random)
    for scheduler in both:
        scheduler.remove(1)
    step(both, random)
    step(both, random, request_ids=[9, 4])
    step(both, random)
    both[0].remove(9), both[1].remove(9)
    add(both, SETTINGS[3], 30)
    for _ in range(2):
        step(both, random)


def test_drafts_that_are_right_and_wrong_are_followed() -> None:
    both, random = pair(), np.random.default_rng(3)
    for seed in range(2):
        add(both, SETTINGS[1] | {"top_k": 2}, seed)
    for _ in range(4):
        step(both, random, draft_token_ids=[[int(random.integers(SIZE))], [1, 2]])
    logits = np.zeros((6, SIZE), np.float32)
    logits[:, 5] = 90
    results = [
        scheduler.step(logits, draft_token_ids=[[5, 5], [5, 1]]).token_ids.tolist() for scheduler in both
    ]
    assert results[0] == results[1]
    assert results[0][:3] == [5, 5, 5]
    step(both, random)


def test_a_step_uploads_the_tokens_that_have_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    pack = transfer.Upload.pack

    def noted(upload: transfer.Upload) -> None:
        sizes.append(sum(array.nbytes for array in upload._arrays))
        pack(upload)

    monkeypatch.setattr(transfer.Upload, "pack", noted)
    both, random = pair(), np.random.default_rng(4)
    for seed in range(ROWS):
        add(both, SETTINGS[1], seed)
    for _ in range(3):
        step(both, random)
    assert sizes[-2:] == [5 * 8 * ROWS] * 2


def test_lists_that_outgrow_their_tables_get_larger_ones(
    monkeypatch: pytest.MonkeyPatch, revised: list[Any]
) -> None:
    monkeypatch.setattr(tables, "_SPARE", 1)
    size = 300
    both = tuple(Scheduler(size, backend=backend) for backend in (TorchBackend(), "numpy"))
    random = np.random.default_rng(5)
    for scheduler in both:
        scheduler.add(SamplingParams(seed=1, repetition_penalty=1.4, top_k=5), list(range(254)))
        scheduler.add(SamplingParams(seed=2, repetition_penalty=1.4, top_k=5), [3])
    monkeypatch.setattr(edits, "_ALWAYS_FEW", 262)
    for number in range(12):
        logits = random.normal(0, 2, (2, size)).astype(np.float32)
        logits[0, 254 + number] = 20
        found, right = (scheduler.step(logits).token_ids.tolist() for scheduler in both)
        assert found == right
    assert 4 < len(revised) < 12


def test_what_is_exempt_or_fades_is_left_to_the_steps(revised: list[Any]) -> None:
    tokenizer = Tokenizer([b"\n" if i == 3 else bytes([i + 100]) for i in range(SIZE)])
    both = tuple(Scheduler(SIZE, tokenizer, backend=backend) for backend in (TorchBackend(), "numpy"))
    random = np.random.default_rng(6)
    sloped = {"repetition_penalty": 1.3, "repetition_penalty_slope": 0.7, "repetition_penalty_range": 9}
    fading = {
        "repetition_penalty": 1.3,
        "presence_penalty": 0.5,
        "penalty_last_n": 2,
        "penalty_decay_range": 5,
    }
    for seed, settings in enumerate((sloped, fading, {"repetition_penalty": 1.3, "penalize_nl": False})):
        add(both, settings, seed)
    for _ in range(3):
        step(both, random)
    assert revised == []


def test_a_step_that_fails_leaves_no_lists_behind(
    monkeypatch: pytest.MonkeyPatch, revised: list[Any]
) -> None:
    both, random = pair(), np.random.default_rng(7)
    for seed in range(2):
        add(both, SETTINGS[1], seed)
    step(both, random)
    kernels = fused.kernels_for(torch.device("cpu"))
    right = kernels.revise_tables

    def failing(*arguments: Any) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(kernels, "revise_tables", failing)
    step(both, random)
    monkeypatch.setattr(kernels, "revise_tables", right)
    add(both, SETTINGS[1], 5)
    for _ in range(2):
        step(both, random)
    assert len(revised) == 3


DENORMAL = float(np.float32(1e-45))


@pytest.mark.parametrize("factor", [1.0, 1.1, 3.0, 6.0, 0.3, 2.0**-20, 1e38, DENORMAL, 3.4028234663852886e38])
def test_a_quotient_is_rounded_once(factor: float) -> None:
    random = np.random.default_rng(8)
    bits = random.integers(0, 0x7F000000, 1500)
    values = np.concatenate(
        (bits.astype(np.int32).view(np.float32), np.arange(1, 500) * np.float32(DENORMAL))
    )
    values = np.minimum(values, np.float32(2.0**100)).astype(np.float32)[:1992]
    factors = np.full(1, factor, np.float32)
    with np.errstate(all="ignore"):
        right = np.minimum(values / factors, np.finfo(np.float32).max)
        inverses = 1 / factors.astype(np.float64)
    width = 2048
    ids = np.full((2, width), 0x7FFFFFFF, np.int32)
    ids[0, : len(values)] = np.arange(len(values))
    lists = [
        ids,
        np.ones((2, width), np.int32),
        np.zeros((2, width), np.int32),
        np.zeros((2, width), np.float32),
    ]
    written = torch.zeros(1, width, dtype=torch.int64), torch.zeros(1, width)
    parameters = [torch.from_numpy(array) for array in (factors, inverses, np.zeros(1), np.zeros(1))]
    revise_tables(
        torch.from_numpy(values)[None],
        torch.tensor([[1 << 32], [-1], [-1], [-1]]),
        torch.zeros(1, dtype=torch.int64),
        [torch.from_numpy(array) for array in lists],
        written,
        parameters,
        len(values),
    )
    np.testing.assert_array_equal(written[1][0, : len(values)].numpy(), right)
