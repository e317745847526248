"""The kernels, in Triton's interpreter, give the tokens and faults of the NumPy backend."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from engine_sampler_torch.kernels import (
    KernelOutcome,
    Workspace,
    WorkspaceShape,
    covers,
    few,
    narrow,
    sample,
)
from engine_sampler_torch.kernels.launching import listening
from engine_sampler_torch.kernels.plan import KernelPlan
from kernel_cases import DTYPES, NAMES, Case, chain_of, expected, random_case, random_params, rows_of
from kernel_driver import run

from engine_sampler import SamplingParams
from engine_sampler.arithmetic import LogitRows, RowFault, checked_row, first_columns
from engine_sampler.contract import unpack_bitmask
from tests.random_chains import ROUNDS

ORDERS = [list(order) for n in range(5) for order in itertools.permutations(NAMES, n)]
"""Every chain of the four samplers, each in every place."""

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def outcome_of(case: Case, **given: Any) -> KernelOutcome:
    return run(case.chain, case.rows, case.logits, bitmask=case.bitmask, edits=case.edits, **given)


def expect_equal(case: Case, **given: Any) -> None:
    token_ids, faults = expected(case)
    outcome = outcome_of(case, **given)
    np.testing.assert_array_equal(outcome.faults.numpy(), faults, err_msg=str(case.chain))
    np.testing.assert_array_equal(outcome.token_ids.numpy(), token_ids, err_msg=str(case.chain))


# --- random rows ----------------------------------------------------------------------------------


@pytest.mark.parametrize("names", ORDERS, ids=lambda names: "-".join(names) or "none")
def test_every_order_gives_the_tokens_of_numpy(names: list[str]) -> None:
    random = np.random.default_rng([len(names), *(NAMES.index(name) for name in names)])
    for size in (1, 2, 31, 33, 130, 300)[: 6 * ROUNDS]:
        selector = "greedy" if random.random() < 0.15 else "dist"
        expect_equal(random_case(random, size, n=5, names=names, selector=selector))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [1500, 5000])
def test_wider_rows_of_every_type_do_too(size: int, dtype: torch.dtype) -> None:
    random = np.random.default_rng(size)
    for _ in range(2 * ROUNDS):
        expect_equal(random_case(random, size, n=4, dtype=dtype))


@pytest.mark.parametrize("spread", [0.0, 0.3, 1.0])
def test_flat_rows_are_cut_at_top_p_without_a_search(spread: float) -> None:
    random = np.random.default_rng(5)
    for names in (["top_p"], ["temperature", "top_p"], ["min_p", "top_p", "temperature"]):
        chain = chain_of(names, "dist")
        settings = {"temperature": 0.9} if "temperature" in names else {}
        settings |= {"min_p": 1e-4} if "min_p" in names else {}
        params = [SamplingParams(top_p=p, **settings) for p in (0.9, 0.999, 0.6)]
        rows = rows_of(params, chain, 3000, [1, 2, 3])
        logits = torch.from_numpy(random.normal(0, spread, (3, 3000)).astype(np.float32))
        expect_equal(Case(chain, rows, logits), shape=WorkspaceShape(3000, 1024, 4, 512))


def test_narrow_misses_nothing_that_a_temperature_has_driven_to_the_ends() -> None:
    random = np.random.default_rng(9)
    logits = random.normal(0, 1, (2, 700)).astype(np.float32)
    logits[0, 30:] = np.float32(-1e30)
    logits[1] = np.float32(-1e30) * random.integers(1, 3, 700) / 2
    logits[1, :9] = np.float32(1e30)
    k = torch.tensor([40, 40])
    block = narrow(torch.from_numpy(logits), torch.arange(2), 700, k, width=64,
                   scale=torch.full((2,), 1e9), workspace=Workspace("cpu", 2, 700))  # fmt: skip
    heated = torch.clamp(torch.from_numpy(logits) * 1e9, -FLT_MAX, FLT_MAX).numpy()
    for i in range(2):
        ids = np.sort(np.argsort(-heated[i], kind="stable")[:40])
        np.testing.assert_array_equal(block.ids[i, :40], ids)


FLT_MAX = float(np.finfo(np.float32).max)


@pytest.mark.parametrize("side", [-1, 1], ids=["behind it", "before it"])
@pytest.mark.parametrize("names", [["top_p"], ["top_p", "temperature"]], ids="-".join)
def test_flat_rows_whose_sample_misses_the_cut_are_looked_through_again(
    names: list[str], side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    aimed = few.interval_around

    def missing(*arguments: Any) -> tuple[Any, Any]:
        nearer, farther = aimed(*arguments)
        wide = nearer - farther
        return nearer + side * wide, farther + side * wide

    def listen(kernel: Any, grid: Any, arguments: Any, *rest: Any) -> None:
        if kernel.fn.__name__ == "resolve":
            left.append(int((arguments[8] < 0).sum()))

    monkeypatch.setattr(few, "interval_around", missing)
    left: list[int] = []
    params = SamplingParams(top_p=0.8, **({"temperature": 0.9} if "temperature" in names else {}))
    chain = chain_of(names, "dist")
    logits = torch.from_numpy(np.random.default_rng(5).normal(0, 1, (2, 3000)).astype(np.float32))
    with listening(listen):
        expect_equal(Case(chain, rows_of([params] * 2, chain, 3000, [1, 2]), logits))
    assert left == [0]


def test_a_row_of_several_tiles_and_a_whole_vocabulary_agree() -> None:
    random = np.random.default_rng(8)
    for names in (["top_k", "top_p", "min_p", "temperature"], ["temperature"], ["temperature", "top_p"]):
        case = random_case(random, 40_000, n=2, names=names, selector="dist", dtype=torch.bfloat16)
        case.rows = rows_of(
            [SamplingParams(top_k=40, top_p=0.95, min_p=0.05, temperature=0.8)] * 2,
            case.chain,
            40_000,
            [4, 5],
        )
        case.logits = torch.from_numpy(random.normal(0, 3, (2, 40_000)).astype(np.float32)).to(torch.bfloat16)
        expect_equal(case)


# --- edges ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [np.nan, -np.nan, np.inf, 2.0**101, 2.0**100, -np.inf, -(2.0**101), 0.0, -0.0]
)
def test_a_strange_logit_means_the_same_and_does_not_disturb_its_neighbours(value: float) -> None:
    random = np.random.default_rng(3)
    for names in ([], ["temperature"], ["top_k", "top_p"], ["top_p"]):
        case = random_case(random, 300, n=3, names=names, selector="dist", masked=False, edited=False)
        case.logits = torch.from_numpy(random.normal(0, 2, (3, 300)).astype(np.float32))
        case.logits[1, 7] = value
        expect_equal(case)
        case.logits[1] = value
        expect_equal(case)


def bfloat16_of(bits: np.ndarray) -> torch.Tensor:
    """The logits of int16 `bits`."""
    return torch.from_numpy(bits.astype(np.int16)).view(torch.bfloat16)


DENORMAL = np.r_[0x01:0x80, 0x8001 - 65536 : 0x8080 - 65536]
"""Of bfloat16, as int16."""


@pytest.mark.parametrize(("names", "selector"), [([], "greedy"), (["top_k"], "dist")])
def test_denormal_logits_of_bfloat16_are_told_apart(names: list[str], selector: str) -> None:
    random = np.random.default_rng(4)
    case = random_case(random, 254, n=4, names=names, selector=selector, masked=False, edited=False)
    case.logits = bfloat16_of(np.stack([random.permutation(DENORMAL) for _ in range(4)]))
    expect_equal(case)


def test_logits_of_bfloat16_are_read_bit_by_bit() -> None:
    bits = np.r_[DENORMAL, -32768:32768:86, 0]
    bits = bits[np.abs((bits << 16).astype(np.int32).view(np.float32)) <= 2.0**100]
    n = len(bits)
    block = narrow(bfloat16_of(bits[None]), torch.tensor([0]), n, torch.tensor([n]), width=1024,
                   workspace=Workspace("cpu", 1, n))  # fmt: skip
    assert len(DENORMAL) < n <= 1024
    expected = np.where(bits & 0x7FFF == 0, 0, bits << 16).astype(np.int32)  # −0 is 0
    np.testing.assert_array_equal(block.values[0, :n].view(torch.int32), expected)


def test_faults_carry_the_greatest_raw_logit() -> None:
    logits = torch.zeros(3, 40)
    logits[0, 3], logits[1, 9], logits[2, 1] = np.nan, 2.0**101, 5.0
    case = Case(
        chain_of([], "dist"), rows_of([SamplingParams()] * 3, chain_of([], "dist"), 40, [1, 2, 3]), logits
    )
    outcome = outcome_of(case)
    np.testing.assert_array_equal(outcome.peaks.numpy(), np.array([np.nan, 2.0**101, 5.0], np.float32))
    assert outcome.faults.tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    "view", ["every second", "backwards", "one row for all", "wider than the vocabulary"]
)
def test_rows_may_lie_anywhere(view: str) -> None:
    random = np.random.default_rng(9)
    case = random_case(random, 260, n=4, names=["top_k", "temperature"], selector="dist", edited=False)
    base = torch.from_numpy(random.normal(0, 2, (8, 300)).astype(np.float32))
    if view == "backwards":  # torch has no negative strides: the step's row order has
        index = np.array([3, 2, 1, 0])
        outcome = run(case.chain, case.rows, base[:4, :260], index=index, bitmask=case.bitmask)
        case.logits = base[[3, 2, 1, 0], :260]
        np.testing.assert_array_equal(outcome.token_ids.numpy(), expected(case)[0])
        return
    views = {
        "every second": base[::2, :260],
        "one row for all": base[2, 1:261].expand(4, 260),
        "wider than the vocabulary": base[:4],
    }
    case.logits = views[view]
    if view == "wider than the vocabulary":
        case.logits[:, 260:] = np.nan
    expect_equal(case)


def test_rows_of_temperature_0_among_others_take_their_best_token() -> None:
    random = np.random.default_rng(2)
    for names in (["temperature"], ["top_p", "temperature", "top_k"], ["temperature", "min_p"]):
        chain = chain_of(names, "dist")
        settings = {"top_p": 0.9, "top_k": 5, "min_p": 0.1}
        kept = {name: settings[name] for name in names if name in settings}
        params = [SamplingParams(temperature=t, **kept) for t in (0.0, 0.8, 0.0)]
        logits = torch.from_numpy(np.round(random.normal(0, 2, (3, 400))).astype(np.float32))
        expect_equal(Case(chain, rows_of(params, chain, 400, [7, 8, 9]), logits))


@pytest.mark.parametrize(
    "names", [["top_k"], ["top_p"], ["min_p"], ["top_k", "temperature", "top_p"]], ids="-".join
)
def test_a_row_of_equal_logits_is_cut_by_id(names: list[str]) -> None:
    chain = chain_of(names, "dist")
    params = SamplingParams(top_k=900, top_p=0.4, min_p=1.0, temperature=0.5)
    kept = SamplingParams(**{name: params[name] for name in names})
    logits = torch.zeros(3, 4000)
    logits[1, 5], logits[2, 3000] = 0.5, -1.0
    expect_equal(Case(chain, rows_of([kept] * 3, chain, 4000, [7, 8, 9]), logits))


# --- narrow ---------------------------------------------------------------------------------------


def first_of(row: np.ndarray, k: int, words: np.ndarray | None) -> np.ndarray:
    """The ids that a top_k leaves; none of a faulty row."""
    try:
        row = checked_row(row).copy()
    except RowFault:
        return np.zeros(0, np.int64)
    if words is not None:
        row[~unpack_bitmask(words, len(row)).astype(bool)] = -np.inf
    ids = np.sort(first_columns(row[None], min(k, len(row)))[0])
    return ids[row[ids] > -np.inf]


@pytest.mark.parametrize("width", [64, 128, 1024])
def test_narrow_gives_what_a_top_k_leaves_by_id(width: int) -> None:
    random = np.random.default_rng(width)
    for size in (1, 100, 700, 3000):
        for _ in range(2 * ROUNDS):
            case = random_case(random, size, n=4, names=["top_k"], selector="dist", edited=False)
            k = random.integers(1, width + 1, 4)
            mask = None if case.bitmask is None else torch.from_numpy(case.bitmask)
            block = narrow(case.logits, torch.arange(4), size, torch.from_numpy(k), width=width, bitmask=mask,
                           workspace=Workspace("cpu", 4, size))  # fmt: skip
            logits = LogitRows(case.logits, size)
            for i in range(4):
                ids = first_of(logits.row(i), int(k[i]), None if case.bitmask is None else case.bitmask[i])
                padding = width - len(ids)
                np.testing.assert_array_equal(block.ids[i], np.r_[ids, np.full(padding, size)])
                np.testing.assert_array_equal(
                    block.values[i], np.r_[logits.row(i)[ids], np.full(padding, -np.inf)]
                )
                assert (block.faults[i] != 0) == (len(ids) == 0)


# --- what a step costs ----------------------------------------------------------------------------


def launches_of(case: Case) -> list[str]:
    """The kernels that one step launches."""
    launched: list[str] = []
    with listening(lambda kernel, *rest: launched.append(kernel.fn.__name__)):
        outcome_of(case)
    return launched


ORDINARY = {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8}


@pytest.mark.parametrize("unit", [1e-30, 1e-3, 1.0, 1e20], ids=str)
@pytest.mark.parametrize("highest", [0.0, 5.0, 60.0, -7.0])
def test_little_more_than_the_wanted_candidates_pass_the_bound(highest: float, unit: float) -> None:
    """Also where the greatest logit and the last wanted one have different signs, or little else between
    them."""
    random = np.random.default_rng(6)
    body = -9.0 - random.permutation(3000) * 0.004
    rows = np.stack([body, body])
    rows[0, 7], rows[1, 7:9] = highest, (highest, highest - 0.5)
    chain, room = chain_of(["top_k"], "dist"), Workspace("cpu", 2, 3000)
    logits = torch.from_numpy((rows * unit).astype(np.float32))
    case = Case(chain, rows_of([SamplingParams(top_k=40)] * 2, chain, 3000, [1, 2]), logits)
    expect_equal(case, workspace=room)
    assert ((room.counts >= 40) & (room.counts <= 56)).all()


@pytest.mark.parametrize(
    ("names", "selector", "most"),
    [
        pytest.param([], "greedy", 2, id="greedy"),
        pytest.param(["temperature"], "dist", 4, id="a draw from whole rows"),
        pytest.param(["top_k", "top_p", "min_p", "temperature"], "dist", 2, id="llama.cpp's chain"),
        pytest.param(["temperature", "top_k", "top_p"], "dist", 2, id="a top_k behind the temperature"),
        pytest.param(["temperature", "top_p"], "dist", 7, id="top_p alone"),
        pytest.param(["top_p", "temperature"], "dist", 9, id="a temperature behind top_p"),
        pytest.param(["top_p", "top_k"], "dist", 6, id="a top_k behind top_p"),
    ],
)
@pytest.mark.parametrize("n", [1, 3])
def test_a_step_launches_few_kernels_and_one_more_with_edits(
    names: list[str], selector: str, most: int, n: int
) -> None:
    random = np.random.default_rng(1)
    for edited in (False, True):
        case = random_case(random, 300, n=n, names=names, selector=selector, edited=edited)
        params = SamplingParams(**{name: ORDINARY[name] for name in names})
        case.rows = rows_of([params] * n, case.chain, 300, list(range(n)))
        assert len(launches_of(case)) == most + edited


def test_a_workspace_is_small_beside_the_logits_and_used_again() -> None:
    for vocab_size, size_of_logit, wanted in ((32_000, 4, 512), (32_000, 4, 1024), (131_072, 2, 1024)):
        assert Workspace("meta", 64, vocab_size, wanted).nbytes < 64 * vocab_size * size_of_logit
    for vocab_size, wanted, kibibytes in ((131_072, 256, 113), (131_072, 1024, 149), (32_000, 256, 49)):
        assert Workspace("meta", 64, vocab_size, wanted).nbytes >> 16 == kibibytes
    case = random_case(
        np.random.default_rng(0), 500, n=4, names=["top_p"], selector="dist", masked=False, edited=False
    )
    with pytest.raises(
        ValueError, match="is for 2 rows of 500 tokens with 1024 candidates, not 4 rows of 500"
    ):
        outcome_of(case, workspace=Workspace("cpu", 2, 500))
    with pytest.raises(ValueError, match="of 500 tokens with 64 candidates, not 4 rows of 500 with 512"):
        outcome_of(case, workspace=Workspace("cpu", 4, 500, 64))
    used = Workspace("cpu", 4, 500)
    for name, tensor in vars(used).items():
        if isinstance(tensor, torch.Tensor) and name != "none":
            tensor.fill_(-1 if tensor.dtype != torch.bool else 1)  # whatever an earlier step has left
    expect_equal(case, workspace=used)


# --- what is covered ------------------------------------------------------------------------------


def test_chains_with_other_parts_or_a_dynamic_temperature_are_not_covered() -> None:
    fixed = {"temperature": (False, False), "top_k": 64, "top_p": None, "min_p": None}
    assert covers(["top_k", "temperature"], "dist", fixed)
    assert covers([], "greedy", {})
    assert not covers(["top_k", "typical_p"], "dist", fixed)
    assert not covers(["top_k"], "mirostat", fixed)
    assert not covers(["temperature"], "dist", {"temperature": (True, False)})
    assert not covers(["top_k", "top_k"], "dist", fixed)


def test_a_top_k_up_to_1024_says_how_many_candidates_are_gathered() -> None:
    plan = KernelPlan.of(
        ["temperature", "top_k", "top_p"], "dist", {"temperature": (False, True), "top_k": 128}
    )
    assert (plan.wanted, plan.asked, plan.weighed, plan.heated, plan.flat) == (128, True, False, True, False)
    wide = KernelPlan.of(["top_k", "top_p"], "dist", {"top_k": None})
    assert (wide.asked, wide.weighed) == (False, True)


def test_params_of_cases_are_active() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        params = random_params(random, NAMES, 100)
        assert params["top_k"] > 0
        assert params["min_p"] > 0


def test_without_rows_nothing_is_launched() -> None:
    empty = torch.empty(0, dtype=torch.int64)
    outcome = sample(torch.zeros(1, 5), empty, 5, samplers=[], selector="dist", tensors={}, fixed={},
                     draws=empty,
                     workspace=Workspace("cpu", 1, 5))  # fmt: skip
    assert len(outcome.token_ids) == 0
