"""A block keeps what it knows of its rows in step with them; faulty rows disturb no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from engine_sampler_torch import arithmetic
from engine_sampler_torch.steps import Block, DeviceSelector, DeviceStep, selector_of, step_of
from torch_chains import NEG_INF, apply_step, block_of, given_to, whole_rows

from engine_sampler.arithmetic import FLT_MAX
from engine_sampler.contract import Sampler, Selector
from engine_sampler.for_backends import default_registry
from engine_sampler.testing import make_rows
from tests.random_chains import SAMPLERS, tokenizer

RANDOM = np.random.default_rng(11)
ROWS = RANDOM.normal(0, 3, (4, 40)).astype(np.float32)
IDS = np.sort(RANDOM.permuted(np.tile(np.arange(100), (4, 1)), axis=1)[:, :40], axis=1)
EVERY_OTHER = torch.arange(40) % 2 == 0


def block(*, narrow: bool = False) -> Block:
    return block_of(ROWS, 100, IDS) if narrow else block_of(ROWS, 40)


# --- what is known ---------------------------------------------------------------------------------


def expect_known(current: Block) -> None:
    """What the block knows is what is computed from its values anew, wherever tokens remain."""
    values = current.values
    alive = values > NEG_INF
    assert torch.equal(current.distances, arithmetic.distances(values))
    assert torch.equal(current.weights, arithmetic.weights(arithmetic.distances(values)))
    assert torch.equal(current.total, current.weights.sum(1))
    assert torch.equal(current.alive, alive.sum(1))
    assert torch.equal(current.best, values.argmax(1))
    fresh = arithmetic.descending(values)
    for i, count in enumerate(current.alive.tolist()):
        assert torch.equal(current.order()[i, :count], fresh[i, :count])


@pytest.mark.parametrize("narrow", [False, True])
def test_cuts_and_edits_leave_nothing_outdated(narrow: bool) -> None:
    current = block(narrow=narrow)
    expect_known(current)
    for count in (30, 17, 17, 5):
        current.keep_leading(torch.full((4,), count))
        expect_known(current)
    current.keep(EVERY_OTHER.expand(4, 40) | (current.columns == current.best[:, None]))
    expect_known(current)
    current.replace(current.values * 2)
    expect_known(current)
    current.narrow(9)
    assert current.width == 9
    expect_known(current)


def test_a_cut_that_takes_the_best_token_is_no_upper_one() -> None:
    current = block()
    expect_known(current)
    current.keep(current.columns != current.best[:, None])
    expect_known(current)


def test_a_longer_order_replaces_a_shorter_one() -> None:
    current = block()
    assert current.order(3).shape[1] < 40
    assert torch.equal(current.order(), arithmetic.descending(current.values))


# --- changes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("narrow", [False, True])
def test_the_callers_logits_are_never_written_to(narrow: bool) -> None:
    before = ROWS.copy()
    for change in (
        lambda b: b.keep(EVERY_OTHER.expand(4, 40)),
        lambda b: b.store(
            torch.zeros(4, 1, dtype=torch.int64), torch.ones(4, 1, dtype=torch.bool), b.values[:, :1] + 1
        ),
        lambda b: b.fail(torch.ones(4, dtype=torch.bool), torch.ones(4, dtype=torch.int64), b.values.amax(1)),
        lambda b: b.narrow(4),
    ):
        current = block(narrow=narrow)
        assert not current.owned
        change(current)
        assert current.owned
        np.testing.assert_array_equal(ROWS, before)


def test_values_that_somebody_keeps_are_left_alone() -> None:
    current = block()
    current.keep_leading(torch.full((4,), 20))
    current.owned = False
    kept = current.values
    before = kept.clone()
    current.keep_leading(torch.full((4,), 2))
    assert torch.equal(kept, before)


def test_narrowing_keeps_the_first_columns_with_ascending_ids() -> None:
    current = block(narrow=True)
    expected = np.where(arithmetic_ranks(ROWS) < 7, ROWS, -np.inf)
    current.narrow(7)
    assert (current.ids[:, 1:] > current.ids[:, :-1]).all()
    whole = whole_rows(current)
    np.testing.assert_array_equal(np.take_along_axis(whole, IDS, axis=1), expected)


def arithmetic_ranks(rows: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(-rows, axis=1, kind="stable"), axis=1, kind="stable")


def test_absent_entries_change_nothing_wherever_they_point() -> None:
    columns = torch.tensor([[0, 5, 0, 9], [3, 3, 3, 3], [1, 2, 3, 4], [7, 6, 6, 7]])
    present = torch.tensor([[0, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0]], dtype=torch.bool)
    values = torch.tensor(
        [[9.0, 1.0, 8.0, 7.0], [9.0, 9.0, 9.0, 9.0], [1.0, 2.0, 3.0, 4.0], [9.0, 5.0, 5.0, 9.0]]
    )
    expected = ROWS.copy()
    expected[0, 5], expected[2, 1:5], expected[3, 6] = 1.0, [1, 2, 3, 4], 5.0
    current = block()
    current.store(columns, present, values)
    np.testing.assert_array_equal(current.values, expected)


def test_ids_are_found_and_padding_is_not() -> None:
    wanted = torch.tensor([[int(IDS[i, 3]), 100, int(IDS[i, 39]), 99] for i in range(4)], dtype=torch.int32)
    columns, present = block(narrow=True).columns_of(wanted)
    found = np.where(present, np.take_along_axis(IDS, columns.numpy(), axis=1), -1)
    has_99 = (IDS == 99).any(axis=1)
    np.testing.assert_array_equal(found[:, [0, 2]], IDS[:, [3, 39]])
    np.testing.assert_array_equal(present, np.stack([[True] * 4, [False] * 4, [True] * 4, has_99], axis=1))
    padded = block_of(ROWS[:1], 100, np.where(np.arange(40) < 30, np.arange(40), 100)[None])
    assert not padded.columns_of(torch.tensor([[100]]))[1].item()


@pytest.mark.parametrize("narrow", [False, True])
def test_a_bitmask_allows_the_tokens_of_its_bits(narrow: bool) -> None:
    size = 100 if narrow else 40
    bits = RANDOM.random((4, 128)) < 0.5
    words = torch.from_numpy(np.packbits(bits, axis=1, bitorder="little").view(np.int32))
    ids = IDS if narrow else np.tile(np.arange(40), (4, 1))
    found = block(narrow=narrow).allowed_by(words[:, : -(-size // 32)])
    np.testing.assert_array_equal(found, np.take_along_axis(bits, ids, axis=1))


# --- faults ----------------------------------------------------------------------------------------


def test_rows_without_a_finite_greatest_logit_are_faults_and_the_first_one_counts() -> None:
    rows = ROWS.copy()
    rows[0], rows[1, 3], rows[2, 3] = -np.inf, np.nan, np.inf
    rows[3, 5] = FLT_MAX
    current = block_of(rows, 40)
    current.check(6)
    assert current.faults.tolist() == [13, 14, 14, 0]
    assert current.peaks is not None
    np.testing.assert_array_equal(current.peaks, np.array([-np.inf, np.nan, np.inf, 0], np.float32))
    current.keep(torch.zeros(4, 40, dtype=torch.bool))
    current.check(7)
    assert current.faults.tolist() == [13, 14, 14, 15]


def test_a_faulty_row_goes_on_as_one_token() -> None:
    current = block()
    current.fail(torch.tensor([True, False, True, False]), torch.full((4,), 3), current.values.amax(1))
    single = np.full(40, -np.inf, np.float32)
    single[0] = 0.0
    np.testing.assert_array_equal(current.values, np.stack([single, ROWS[1], single, ROWS[3]]))


# --- steps -----------------------------------------------------------------------------------------


def test_third_parties_give_a_step_of_their_own() -> None:
    class Ours(DeviceStep):
        name = "theirs"

    class TheirSelector(DeviceSelector):
        name = "theirs"

    class Theirs(Sampler):
        name = "theirs"

        def torch_step(self) -> DeviceStep:
            return Ours()

    class Chooser(Selector):
        name = "theirs"

        def torch_selector(self) -> DeviceSelector:
            return TheirSelector()

    assert isinstance(step_of(Theirs()), Ours)
    assert isinstance(selector_of(Chooser()), TheirSelector)
    assert Ours.may_fail


def test_a_subclass_of_a_built_in_one_has_no_step_since_it_may_do_anything() -> None:
    catalogue = default_registry().catalogue
    min_p, dist = type(catalogue.samplers["min_p"]), type(catalogue.selectors["dist"])
    assert step_of(type("Mine", (min_p,), {})()) is None
    assert selector_of(type("Mine", (dist,), {})()) is None


STEPS = [(s, step_of(s)) for s in default_registry().catalogue.samplers.values() if step_of(s) is not None]


def rows_for(sampler: Any, size: int) -> Any:
    random = np.random.default_rng(5)
    outputs = [random.integers(0, 6, 12).tolist() for _ in range(6)]
    params = [SAMPLERS[sampler.name](random, size) for _ in outputs]
    return make_rows(sampler, params, size, outputs=outputs, eos_token_ids=[0], tokenizer=tokenizer(size))


@pytest.mark.parametrize(("sampler", "step"), STEPS, ids=lambda part: getattr(part, "name", ""))
def test_inputs_are_plain_arrays_and_those_of_parameters_stay_the_same_objects(
    sampler: Any, step: Any
) -> None:
    rows = rows_for(sampler, 64)
    first, second = step.inputs(rows), step.inputs(rows)
    assert {str(array.dtype) for array in first.values()} <= {"float64", "float32", "int64", "int32", "bool"}
    assert step.fixed(rows) == step.fixed(rows)
    hash(step.fixed(rows))
    new = {name for name in first if first[name] is not second[name]}
    histories = {
        "ids",
        "penalties",
        "factors",
        "repeated_ids",
        "counted_ids",
        "shifts",
        "early",
        "favoured",
        "heads",
    }
    assert new <= histories
    if sampler.name in {"logit_bias", "allowed_token_ids", "ignore_eos"}:
        assert not new


@pytest.mark.parametrize(
    ("sampler", "step"),
    [(s, p) for s, p in STEPS if p.sparse_ids],
    ids=lambda part: getattr(part, "name", ""),
)
def test_a_sparse_step_needs_no_other_logits_than_those_of_its_ids(sampler: Any, step: Any) -> None:
    rows = rows_for(sampler, 64)
    logits = RANDOM.normal(0, 3, (6, 64)).astype(np.float32)
    inputs = given_to(step, rows)
    whole = block_of(logits, 64)
    step.apply(whole, inputs, step.fixed(rows))
    listed = np.concatenate([inputs[name].numpy() for name in step.sparse_ids], axis=1)
    for i in range(6):
        ids = np.unique([*listed[i], 64])[:-1].astype(np.int64)
        values = np.append(logits[i, ids], np.float32(-np.inf))
        some = block_of(values[None], 64, np.append(ids, 64)[None])
        some.is_partial = True
        step.apply(some, {name: tensor[i : i + 1] for name, tensor in inputs.items()}, step.fixed(rows))
        merged = logits[i].copy()
        merged[ids] = some.values[0, :-1].numpy()
        np.testing.assert_array_equal(merged, whole.values[i])


@pytest.mark.parametrize(
    ("k", "width"), [(1, 64), (64, 64), (65, 128), (1000, 1024), (1024, 1024), (1025, 3000)]
)
def test_a_top_k_of_up_to_1024_narrows_the_block_down(k: int, width: int) -> None:
    sampler = default_registry().catalogue.samplers["top_k"]
    rows = make_rows(sampler, [{"top_k": 1}, {"top_k": k}], 3000)
    current = block_of(RANDOM.normal(0, 1, (2, 3000)).astype(np.float32), 3000)
    apply_step(sampler, current, rows)
    assert current.width == width
    assert current.alive.tolist() == [1, k]
