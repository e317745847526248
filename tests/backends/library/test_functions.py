"""Third-party samplers and selectors in chains that a library runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import cffi
import numpy as np
import pytest

from engine_sampler.backends.library import LibraryBackend
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.contract import (
    Backend,
    Batch,
    Chain,
    Param,
    Rows,
    Sampler,
    Selection,
    Selector,
    Truncation,
    Vocabulary,
)
from engine_sampler.registry import default_registry
from engine_sampler.requests.history import History
from engine_sampler.requests.slots import Slots
from engine_sampler.requests.state import RequestState
from engine_sampler.scheduler.report import report_group

from ...random_chains import run_fused
from .building import HERE, library, toy

CATALOGUE = default_registry().catalogue
VOCAB = 900


class Tilt(Sampler):
    """The Python twin of `tilt`."""

    name = "tilt"
    params = (Param("tilt", float, 0.0), Param("fee", float, 0.0), Param("label", str, ""))

    def new_state(self, params: Any, prompt_token_ids: np.ndarray) -> Any:
        return FFI.new("int64_t *")

    def accept(self, state: Any, token_ids: Sequence[int]) -> None:
        state[0] += len(token_ids)

    def rollback(self, state: Any, n: int) -> None:
        state[0] -= n

    def fork(self, state: Any) -> Any:
        return FFI.new("int64_t *", state[0])

    def row_state(self, state: Any) -> int:
        return int(FFI.cast("uintptr_t", state))

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        ids = np.arange(logits.shape[1])[None] if rows.ids is None else rows.ids
        sign = np.where(rows.draw() & np.uint64(1), np.float32(1), np.float32(-1))
        step = (sign * rows["tilt"].astype(np.float32))[:, None] * (ids % 7).astype(np.float32)
        counted = np.array([state[0] for state in rows.states], np.float32)
        fee = (rows["fee"].astype(np.float32) * counted)[:, None]
        logits[:] = logits + step - fee


class Recall(Sampler):
    """The Python twin of `recall`."""

    name = "recall"
    params = (Param("recall", bool, False),)

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        for i, row in enumerate(logits):
            for tokens, cost in ((rows.output_token_ids(i), 2), (rows.prompt_token_ids(i), 1)):
                mine = np.setdiff1d(tokens, rows.prompt_token_ids(i)) if cost == 2 else np.unique(tokens)
                row[rows.columns(i, mine)[0]] -= np.float32(cost)


class EvenOnly(Truncation):
    """Keeps tokens with even ids."""

    name = "even_only"

    def keep(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        ids = np.arange(logits.shape[1])[None] if rows.ids is None else rows.ids
        return np.broadcast_to(ids % 2 == 0, logits.shape)


class Failing(Sampler):
    """Raises for the rows whose parameter is set."""

    name = "failing"
    params = (Param("failing", bool, False),)
    error: ClassVar[type[BaseException]] = ValueError

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        if rows["failing"].any():
            raise self.error("as requested")


class Second(Selector):
    """Chooses the second best token."""

    name = "second"

    def select(self, logits: np.ndarray, rows: Rows) -> Selection:
        columns = np.argsort(-logits, axis=1, kind="stable")[:, 1]
        return Selection(columns, rows.draw().astype(np.float64))


FFI = cffi.FFI()
FFI.cdef("".join(f"int32_t {name}(void);" for name in ("tilt", "recall", "refuse")))


def in_c(sampler: type[Sampler], function: str | None = None) -> Sampler:
    """The sampler with its C function."""
    loaded = FFI.dlopen(str(library(HERE / "row_functions.c")))
    made = type(sampler.__name__, (sampler,), {"row_function": getattr(loaded, function or sampler.name)})()
    made.library = loaded
    return made


def built_in(*names: str) -> list[Sampler]:
    return [CATALOGUE.samplers[name] for name in names]


def requests(
    chain: Chain, settings: Sequence[dict[str, Any]], own: Sampler | Selector, vocab: int = VOCAB
) -> Rows:
    """A request for each of `settings`, with a history that its states have seen."""
    known = {**CATALOGUE.params, **{p.name: p for p in own.params}}
    slots = Slots(Vocabulary(vocab), known, capacity=2)
    numbers = []
    for seed, given in enumerate(settings):
        slot = RequestState(chain, History([1, 2, 3]))
        slot.open({name: p.neutral for name, p in known.items()} | given, slots.vocabulary)
        numbers.append(slots.put(slot, given, seed))
        slots.accept(numbers[-1], [5, 6, 2, 9][: seed + 1])
    return Rows(slots, np.array(numbers))


def logits_of(rows: Rows) -> np.ndarray:
    random = np.random.default_rng(4)
    return random.normal(0, 3, (len(rows), rows.vocabulary.size)).astype(np.float32)


def expect_equal(chain: Chain, rows: Rows, backend: Backend) -> Batch:
    """The backend gives what NumPy gives, bit for bit."""
    logits = logits_of(rows)
    expected = run_fused(chain, rows, logits)
    result = run_fused(chain, rows, logits, backend=backend)
    assert result.errors == expected.errors
    np.testing.assert_array_equal(result.token_ids, expected.token_ids)
    np.testing.assert_array_equal(result.notes, expected.notes)
    assert result.survivors.keys() == expected.survivors.keys()
    for row, (ids, values) in expected.survivors.items():
        np.testing.assert_array_equal(result.survivors[row][0], ids)
        np.testing.assert_array_equal(result.survivors[row][1], values)
    return result


SETTINGS = [{"tilt": 0.3}, {"tilt": -1.7, "fee": 0.25}, {"fee": 3.0}, {}]
MID_CHAIN = {
    "before a truncation": ([], ["top_k"]),
    "after one": (["top_k"], ["top_p"]),
    "last": (["top_k"], []),
}


def chain_with(own: Sampler, position: str) -> Chain:
    before, after = MID_CHAIN[position]
    return Chain((*built_in(*before), own, *built_in(*after)), CATALOGUE.selectors["dist"])


@pytest.mark.parametrize("position", MID_CHAIN)
@pytest.mark.parametrize("path", ["native", "toy"])
def test_a_python_sampler_in_mid_chain(position: str, path: str, packaged: Path) -> None:
    own = Tilt()
    chain = chain_with(own, position)
    rows = requests(chain, [{**s, "top_k": 20, "top_p": 0.9} for s in SETTINGS], own)
    expect_equal(chain, rows, LibraryBackend(packaged if path == "native" else toy()))


@pytest.mark.parametrize("position", MID_CHAIN)
def test_a_c_function_equals_its_python_twin(position: str, packaged: Path) -> None:
    own = in_c(Tilt)
    chain = chain_with(own, position)
    rows = requests(chain, [{**s, "top_k": 20, "top_p": 0.9} for s in SETTINGS], own)
    expect_equal(chain, rows, LibraryBackend(packaged))


@pytest.mark.parametrize("position", MID_CHAIN)
def test_a_c_function_sees_prompt_and_output(position: str, packaged: Path) -> None:
    own = in_c(Recall)
    chain = chain_with(own, position)
    expect_equal(chain, requests(chain, [{"top_k": 40, "recall": True}] * 4, own), LibraryBackend(packaged))


def test_a_c_function_is_called_in_place_of_apply(packaged: Path) -> None:
    class Broken(Tilt):
        def apply(self, logits: np.ndarray, rows: Rows) -> None:
            raise AssertionError("not called")

    own = in_c(Broken, "tilt")
    chain = chain_with(own, "last")
    rows = requests(chain, [{**s, "top_k": 20} for s in SETTINGS], own)
    batch = run_fused(chain, rows, logits_of(rows), backend=LibraryBackend(packaged))
    assert batch.errors == [None] * 4


def test_a_lazy_sampler_runs_apply_instead_of_its_c_function(packaged: Path) -> None:
    class Lazy(Tilt):
        lazy = True

    own = in_c(Lazy, "tilt")
    chain = chain_with(own, "last")
    expect_equal(chain, requests(chain, [{**s, "top_k": 9} for s in SETTINGS], own), LibraryBackend(packaged))


def test_the_state_of_a_c_function_follows_its_request(packaged: Path) -> None:
    own = in_c(Tilt)
    chain = chain_with(own, "last")
    rows = requests(chain, [{"tilt": 0.3, "fee": 0.5, "top_k": 5}] * 2, own)
    backend = LibraryBackend(packaged)
    expect_equal(chain, rows, backend)
    slots, first = rows.slots, int(rows.slot_numbers[0])
    slots.accept(first, [4, 4, 4])
    expect_equal(chain, rows, backend)
    slots.rollback(first, 2)
    expect_equal(chain, rows, backend)
    child = slots.put(slots.entries[first].fork(), slots.given(first), 77)  # the slots grow
    slots.accept(child, [8])
    expect_equal(chain, Rows(slots, np.array([first, child])), backend)


def test_a_python_truncation_removes_tokens(packaged: Path) -> None:
    own = EvenOnly()
    for position in MID_CHAIN:
        chain = chain_with(own, position)
        rows = requests(chain, [{"top_k": 30, "top_p": 0.9}] * 3, own)
        batch = expect_equal(chain, rows, LibraryBackend(packaged))
        assert not (batch.token_ids % 2).any()


def test_a_sampler_that_raises_ends_only_its_row_with_the_same_message(packaged: Path) -> None:
    own = Failing()
    chain = chain_with(own, "after one")
    rows = requests(chain, [{"top_k": 9, "failing": i == 1} for i in range(4)], own)
    batch = expect_equal(chain, rows, LibraryBackend(packaged))
    assert batch.errors[1] == "failing failed: ValueError: as requested"
    assert batch.errors.count(None) == 3


def test_a_c_function_that_fails_is_tried_again_on_the_host(packaged: Path) -> None:
    own = in_c(Recall, "refuse")
    chain = chain_with(own, "after one")
    expect_equal(chain, requests(chain, [{"top_k": 9, "recall": True}] * 3, own), LibraryBackend(packaged))


def test_an_interrupt_within_a_sampler_is_not_lost(packaged: Path) -> None:
    class Interrupted(Failing):
        error = KeyboardInterrupt

    own = Interrupted()
    chain = chain_with(own, "last")
    rows = requests(chain, [{"top_k": 9, "failing": True}], own)
    with pytest.raises(KeyboardInterrupt):
        run_fused(chain, rows, logits_of(rows), backend=LibraryBackend(packaged))


@pytest.mark.parametrize("path", ["native", "toy"])
def test_a_selector_on_the_host_chooses_among_the_survivors_of_the_library(path: str, packaged: Path) -> None:
    own = Second()
    chain = Chain(tuple(built_in("top_k", "temperature")), own)
    rows = requests(
        chain, [{"top_k": 7, "temperature": 0.5}, {"top_k": 3}, {"top_k": 9, "temperature": 2.0}], own
    )
    backend = LibraryBackend(packaged if path == "native" else toy())
    expect_equal(chain, rows, backend)
    assert not backend.supports(own)
    assert backend.supports(chain.samplers[0])


def test_rows_that_edits_move_beyond_raw_logits_stay_exact() -> None:
    bias = CATALOGUE.samplers["logit_bias"]
    chain = Chain((bias, *built_in("top_k")), CATALOGUE.selectors["dist"])  # the bias is the host's
    biases = [((3, 3e38),), ((3, -3e38), (4, 1.0)), ((3, 2.0),)]
    rows = requests(chain, [{"logit_bias": b, "top_k": 800} for b in biases], bias)
    expect_equal(chain, rows, LibraryBackend(toy()))


def test_the_test_sampler_changes_tokens_on_numpy() -> None:
    own = Tilt()
    rows = requests(chain_with(own, "last"), [{"tilt": 5.0, "top_k": 50}] * 4, own)
    logits = logits_of(rows)
    without = Chain(tuple(built_in("top_k")), CATALOGUE.selectors["dist"])
    with_it = run_fused(chain_with(own, "last"), rows, logits, backend=NumpyBackend())
    assert (with_it.token_ids != run_fused(without, rows, logits).token_ids).any()


def test_reports_say_whether_python_or_c_runs_a_part(packaged: Path) -> None:
    class Lazy(Tilt):
        lazy = True

    backend = LibraryBackend(packaged)
    top_k = built_in("top_k")[0]
    parts = (top_k, Tilt(), in_c(Tilt), in_c(Lazy, "tilt"))
    assert [backend.runs_as(part) for part in parts] == [backend.name, "Python", "C row function", "Python"]
    second = Second()
    chain = Chain((top_k, Tilt()), second)
    steps = report_group(chain, backend, []).steps
    assert steps == [("top_k", backend.name), ("tilt", "Python"), ("second", "numpy")]
