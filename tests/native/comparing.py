"""Native and NumPy side by side: random groups of requests, and their comparison."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from engine_sampler.arithmetic import LogitRows
from engine_sampler.backends.library import LibraryBackend, LibraryError
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.base.packaged import library_path
from engine_sampler.contract import Batch, Chain, Group, ParameterError, Rows
from engine_sampler.params import SamplingParams, build_chain
from engine_sampler.registry import default_registry
from engine_sampler.requests.history import History
from engine_sampler.requests.slots import Slots
from engine_sampler.requests.state import RequestState
from tests.random_chains import ROUNDS, Random, random_logits, vocabulary

NUMPY = NumpyBackend()

Survivors = tuple[np.ndarray, np.ndarray]
"""The ids of the tokens that are left of a row, and their logits."""


def times(n: int) -> int:
    """The number of trials: n per round, and a tenth of that for zero rounds."""
    return n * ROUNDS or max(1, n // 10)


# --- backends -------------------------------------------------------------------------------------


@functools.cache
def instruction_sets() -> Mapping[str, LibraryBackend]:
    """A backend for every instruction set that the library has and this machine runs; only the one
    that ENGINE_SAMPLER_ISA names, if it names one."""
    path, named = library_path(), os.environ.get("ENGINE_SAMPLER_ISA")
    backends = {}
    for isa in [named] if named else ["baseline", "avx2", "avx512", "neon", "portable"]:
        try:
            assert path is not None
            backends[isa] = LibraryBackend(path, isa=isa)
        except (AssertionError, LibraryError):
            continue
    return backends


# --- requests -------------------------------------------------------------------------------------

Draw = Callable[[Random], Any]


def _between(low: float, high: float) -> Draw:
    return lambda random: float(random.uniform(low, high))


def _spread(low: float, high: float) -> Draw:
    """Evenly over the orders of magnitude."""
    return lambda random: float(np.exp(random.uniform(np.log(low), np.log(high))))


def _count(low: int, high: int) -> Draw:
    return lambda random: int(random.integers(low, high + 1))


def _one_of(*values: Any) -> Draw:
    return lambda random: values[random.integers(len(values))]


VALUES: Mapping[str, Draw] = {
    "temperature": _spread(0.02, 20),
    "dynatemp_range": _between(0, 2),
    "dynatemp_exponent": _between(-3, 3),
    "smoothing_factor": _spread(0.01, 10),
    "smoothing_curve": _between(0.5, 3),
    "top_k": lambda random: int(_spread(1, 3000)(random)),
    "top_p": _between(0, 1),
    "top_p_cut": _one_of("reach", "exceed", "below"),
    "min_p": _spread(1e-6, 1),
    "min_keep": _count(0, 8),
    "typical_p": _between(0, 1),
    "tfs": _between(0, 1),
    "tfs_cut": _one_of("llama.cpp", "koboldai"),
    "top_a": _spread(1e-3, 10),
    "top_h": _between(0, 1),
    "top_n_sigma": _spread(0.01, 20),
    "p_less": _one_of(True, False),
    "p_less_norm": _one_of(True, False),
    "min_k_tau": _one_of(0.0, 3.0, 500.0),
    "epsilon_cutoff": _spread(1e-7, 0.5),
    "eta_cutoff": _spread(1e-7, 0.5),
    "xtc_probability": _between(0, 1),
    "xtc_threshold": _between(0, 0.6),
    "repetition_penalty": _spread(0.3, 3),
    "repetition_penalty_range": _count(-1, 40),
    "repetition_penalty_slope": _between(0, 5),
    "frequency_penalty": _between(-2, 2),
    "presence_penalty": _between(-2, 2),
    "penalty_last_n": _count(-1, 40),
    "penalty_decay_range": _one_of(0, 1, 2, 9, 50),
    "penalty_scope": _one_of("default", "all", "output"),
    "penalize_nl": _one_of(True, False),
    "no_repeat_ngram_size": _count(1, 5),
    "dry_multiplier": _spread(0.05, 5),
    "dry_base": _between(1, 4),
    "dry_allowed_length": _count(0, 5),
    "dry_penalty_last_n": _count(-1, 60),
    "dry_sequence_breakers": _one_of(None, (), ("\n",), ("b", "aab"), ("ab", (3, 2), 4)),
    "min_tokens": _count(1, 60),
    "grammar_bias": _between(-5, 5),
    "mirostat_tau": _between(0, 12),
    "mirostat_eta": _between(0, 1),
    "adaptive_target": _between(0, 1),
    "adaptive_decay": _between(0, 0.99),
}
"""Any value of a parameter; settings that are missing here are lists of ids."""


def varied(random: Random, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that enable the same samplers and selector, with other values for all their parameters."""
    catalogue = default_registry().catalogue
    changed = dict(settings)
    for part in (*catalogue.samplers.values(), *catalogue.selectors.values()):
        names = [param.name for param in part.params]
        if set(names) & set(settings):
            companions = [param.name for param in part.params if not param.switch]
            for name in (*(name for name in names if name in settings), *companions, "min_keep"):
                if name in VALUES and changed.get(name) != 0 and random.random() < 0.5:
                    changed[name] = VALUES[name](random)
    return changed


def random_group(random: Random, size: int, n: int, settings: Mapping[str, Any]) -> tuple[Chain, Rows]:
    """n requests of one chain, each with its own parameters, history, state and seed."""
    known = vocabulary(size)
    kinds = _kinds(random, settings)
    chain = kinds[0][1]
    slots = Slots(known, default_registry().catalogue.params)
    index = []
    for seed in random.integers(0, 2**63, n).tolist():
        params, own = kinds[random.integers(len(kinds))]
        slot = RequestState(own, History(*(_history(random, size) for _ in range(2))))
        try:
            slot.open(params, known)
        except ParameterError:  # breakers that this vocabulary lacks
            params, own = kinds[0]
            slot = RequestState(own, slot.history)
            slot.open(params, known)
        number = slots.put(slot, params.given, seed)
        slots.accept(number, [int(random.integers(size))], [float(random.uniform(0, 8))])
        index.append(number)
    return chain, Rows(slots, np.array(index, np.int64))


def group_of(params: SamplingParams, histories: Sequence[History], size: int) -> tuple[Chain, Rows]:
    """A request with the same parameters for each history."""
    known, chain = vocabulary(size), build_chain(params)
    slots = Slots(known, default_registry().catalogue.params)
    numbers = []
    for seed, history in enumerate(histories):
        slot = RequestState(chain, history)
        slot.open(params, known)
        numbers.append(slots.put(slot, params.given, seed))
    return chain, Rows(slots, np.array(numbers, np.int64))


def _kinds(random: Random, settings: Mapping[str, Any]) -> list[tuple[SamplingParams, Chain]]:
    """Parameters that make the chain of `settings`: these first, and a few variations."""
    params = SamplingParams(**settings)
    kinds = [(params, build_chain(params))]
    for _ in range(4):
        try:
            params = SamplingParams(**varied(random, settings))
        except ParameterError:  # values that are not allowed together
            continue
        if (chain := build_chain(params)) == kinds[0][1]:
            kinds.append((params, chain))
    return kinds


def _history(random: Random, size: int) -> list[int]:
    """Mostly from few tokens, so that n-grams recur; sometimes long, often short or empty."""
    lengths = (0, random.integers(0, 10), random.integers(0, 80), 300)
    length = int(random.choice(lengths, p=[0.1, 0.3, 0.5, 0.1]))
    few = random.integers(0, min(size, random.integers(2, 9)), length)
    return np.where(random.random(length) < 0.9, few, random.integers(0, size, length)).tolist()


def accept_tokens(random: Random, rows: Rows, batch: Batch) -> None:
    """Every request accepts its token with its note, or another token if it has none."""
    slots = rows.slots
    elsewhere = random.integers(0, rows.vocabulary.size, len(rows)).tolist()
    drawn = zip(rows.slot_numbers.tolist(), batch.token_ids.tolist(), batch.notes.tolist(), strict=True)
    for (slot, token, note), other in zip(drawn, elsewhere, strict=True):
        slots.accept(slot, [other if token < 0 else token], [np.nan if token < 0 else note])


# --- logits ---------------------------------------------------------------------------------------


def random_block(random: Random, n: int, size: int, faults: float = 0.03) -> np.ndarray:
    """float32 [n, size]: rows of every kind, tiny numbers and ties among them, and some faulty ones."""
    logits = random_logits(random, n, size)
    unusual = random.random(n)
    logits[unusual < 0.1] *= np.float32(1e-41)
    coarse = unusual > 0.8
    logits[coarse] = np.round(logits[coarse] * 4) / 4
    for row in np.flatnonzero(random.random(n) < faults):
        spoiled = random.integers(size)
        fault = random.integers(5)
        if fault == 4:
            logits[row] = -np.inf
        else:
            logits[row, spoiled] = (np.nan, np.inf, 2.0**101, -np.inf)[fault]
    return logits


def halves(logits: np.ndarray) -> np.ndarray:
    """float16 [n, size] near `logits`, in its range; NaN and infinities stay."""
    most = np.finfo(np.float16).max
    return np.where(np.isfinite(logits), np.clip(logits, -most, most), logits).astype(np.float16)


def random_bitmask(random: Random, n: int, size: int) -> np.ndarray:
    """int32 [n, words], as grammars give them: any, all tokens, nearly none, few; sometimes none."""
    words = random.integers(-(2**31), 2**31, (n, -(-size // 32)), np.int64).astype(np.int32)
    kind = random.integers(0, 6, n)
    words[kind == 1] = -1
    words[kind == 2] &= words[kind == 2][::-1] & random.integers(0, 2**8, words.shape[1], np.int32)
    words[kind == 3, 1:] = 0
    words[kind == 4] = words[kind == 4] == words.max()
    return words


# --- running and comparing ------------------------------------------------------------------------


def run(
    backend: Any,
    chain: Chain,
    rows: Rows,
    logits: Any,
    bitmask: np.ndarray | None = None,
    *,
    processed: bool = True,
) -> Batch:
    """One step of one group."""
    n = len(rows)
    group = Group(chain, np.arange(n), rows, masked=bitmask is not None, want_processed=processed)
    given = LogitRows(logits, rows.vocabulary.size)
    batch = Batch(given, [group], np.full(n, -1, np.int64), np.full(n, np.nan), [None] * n, bitmask)
    backend.run(batch)
    return batch


def bits_of(values: np.ndarray) -> np.ndarray:
    """float32 or float64 `values` as integers; every NaN is the same."""
    plain = np.where(np.isnan(values), values.dtype.type(np.nan), values)
    return plain.view(np.int32 if values.dtype == np.float32 else np.int64)


def _alike(rows: Mapping[int, Survivors], others: Mapping[int, Survivors]) -> bool:
    """Whether the same rows have the same survivors: all compared at once, and False where in doubt."""
    lengths = {i: len(ids) for i, (ids, _) in rows.items()}
    if not lengths or lengths != {i: len(ids) for i, (ids, _) in others.items()}:
        return False
    (ids, right_ids), (values, right_values) = (
        [np.concatenate([each[i][part] for i in lengths]) for each in (rows, others)] for part in (0, 1)
    )
    same = len(values) == len(ids) and values.dtype == right_values.dtype and np.array_equal(ids, right_ids)
    return same and np.array_equal(bits_of(values), bits_of(right_values))


def differences(batch: Batch, expected: Batch) -> list[str]:
    """The differences between the rows of two batches, as text."""
    texts = []
    for i, (error, right) in enumerate(zip(batch.errors, expected.errors, strict=True)):
        if error != right:
            texts.append(f"row {i}: error {error!r}, not {right!r}")
    for i in np.flatnonzero(batch.token_ids != expected.token_ids).tolist():
        texts.append(f"row {i}: token {batch.token_ids[i]}, not {expected.token_ids[i]}")
    for i in np.flatnonzero(bits_of(batch.notes) != bits_of(expected.notes)).tolist():
        texts.append(f"row {i}: note {batch.notes[i].hex()}, not {expected.notes[i].hex()}")
    if _alike(batch.survivors, expected.survivors):
        return texts
    for i, (ids, values) in batch.survivors.items():
        right_ids, right_values = expected.survivors.get(i, (np.empty(0), np.empty(0, np.float32)))
        if not np.array_equal(ids, right_ids):
            texts.append(f"row {i}: survivors {ids}, not {right_ids}")
        elif not np.array_equal(bits_of(values), bits_of(right_values)):
            wrong = np.flatnonzero(bits_of(values) != bits_of(right_values))
            texts.append(f"row {i}: tokens {ids[wrong]} have {values[wrong]}, not {right_values[wrong]}")
    if batch.survivors and set(batch.survivors) != set(expected.survivors):
        texts.append(f"rows processed: {sorted(batch.survivors)}, not {sorted(expected.survivors)}")
    return texts


def both_ways(backend: Any, *arguments: Any) -> Iterator[Batch]:
    """The step for its tokens alone, and with the processed rows, which may take another path."""
    for processed in (False, True):
        yield run(backend, *arguments, processed=processed)


def expect_equal(backends: Mapping[str, Any], chain: Chain, *arguments: Any) -> Batch:
    """Run `chain` with `arguments` (rows, logits, bitmask) on every backend, and compare with NumPy's batch,
    which is returned."""
    expected = run(NUMPY, chain, *arguments)
    for name, backend in backends.items():
        for batch in both_ways(backend, chain, *arguments):
            found = differences(batch, expected)
            assert not found, f"{name}, {chain}: {len(found)} differences, such as {'; '.join(found[:5])}"
    return expected
