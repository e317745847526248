"""Random groups of rows for the kernels: chains of the four samplers in every order, and every kind of
logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from engine_sampler import SamplingParams
from engine_sampler.contract import Chain, Rows, Sampler
from engine_sampler.for_backends import default_registry
from engine_sampler.testing import make_rows
from tests.random_chains import random_logits, run_fused, vocabulary

Random = np.random.Generator

NAMES = ("temperature", "top_k", "top_p", "min_p")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@dataclass
class Case:
    """A group of rows: its chain without edits, the rows, logits [rows, ≥ vocab] and what else a step has."""

    chain: Chain
    rows: Rows
    logits: torch.Tensor
    bitmask: np.ndarray | None = None
    edits: tuple[np.ndarray, np.ndarray] | None = None


def rows_of(params: Sequence[SamplingParams], chain: Chain, vocab_size: int, seeds: Sequence[int]) -> Rows:
    """One request for each of `params`; all of them run `chain`."""
    tokenizer = vocabulary(vocab_size).tokenizer
    return make_rows(chain.selector, params, vocab_size, seeds=seeds, eos_token_ids=(0,), tokenizer=tokenizer)


def chain_of(names: Sequence[str], selector: str) -> Chain:
    catalogue = default_registry().catalogue
    return Chain(tuple(catalogue.samplers[name] for name in names), catalogue.selectors[selector])


def random_params(random: Random, names: Sequence[str], size: int) -> SamplingParams:
    """Values that make every one of `names` active, for one row."""
    pick = lambda *values: values[random.integers(len(values))]  # noqa: E731
    settings: dict[str, Any] = {}
    if "temperature" in names:
        settings["temperature"] = pick(0.0, 0.3, 0.7, 0.7, 1.5, 1e6, 1e-4)
    if "top_k" in names:
        settings["top_k"] = int(pick(1, 2, 40, 40, 64, size, max(1, size - 1), 1024))
    if "top_p" in names:
        settings["top_p"] = float(pick(0.0, 0.5, 0.9, 0.95, 0.999, 1.0, random.random()))
        settings["top_p_cut"] = pick("reach", "reach", "exceed", "below")
    if "min_p" in names:
        settings["min_p"] = float(pick(1e-6, 0.01, 0.05, 0.3, 1.0))
    settings["min_keep"] = int(pick(0, 0, 0, 1, 2, 17, size + 3))
    return SamplingParams(**settings)


def random_case(random: Random, size: int, n: int = 8, **fixed: Any) -> Case:
    """`n` rows; `fixed` may give names, selector, dtype, masked, edited."""
    names = fixed.get("names")
    if names is None:
        names = random.permutation(NAMES)[: random.integers(0, 5)].tolist()
    selector = fixed.get("selector") or ("dist", "dist", "dist", "greedy")[random.integers(4)]
    chain = chain_of(names, selector)
    rows = rows_of([random_params(random, names, size) for _ in range(n)], chain, size,
                   random.integers(0, 2**63, n).tolist())  # fmt: skip
    values = _values(random, n, size)
    dtype = fixed.get("dtype") or DTYPES[random.integers(3)]
    case = Case(chain, rows, torch.from_numpy(values).to(dtype))
    if fixed.get("masked", random.random() < 0.4):
        case.bitmask = _bitmask(random, n, size)
    if fixed.get("edited", random.random() < 0.4):
        case.edits = _edits(random, n, size)
    return case


def _values(random: Random, n: int, size: int) -> np.ndarray:
    values = random_logits(random, n, size)
    values[random.random(values.shape) < random.choice([0.0, 0.0, 0.3])] = -np.inf
    if random.random() < 0.3:  # few distinct logits: ties
        values = np.round(values)
    if random.random() < 0.2:
        row, column = random.integers(n), random.integers(size)
        values[row, column] = random.choice([np.nan, np.inf, -np.nan, 3e38, 2.0**100, -3e38, 0.0, -0.0])
    if random.random() < 0.1:
        values[random.integers(n)] = random.choice([-np.inf, -3e38, 0.0])
    return values


def _bitmask(random: Random, n: int, size: int) -> np.ndarray:
    """Words of every density; a row may be allowed nothing."""
    density = random.choice([0.0, 0.01, 0.5, 0.99, 1.0], (n, 1), p=[0.1, 0.2, 0.3, 0.2, 0.2])
    bits = random.random((n, -(-size // 32) * 32)) < density
    return np.packbits(bits, axis=1, bitorder="little").view(np.int32)


def _edits(random: Random, n: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Up to twenty edited ids a row: ascending, then padding."""
    most = int(min(size, random.choice([1, 3, 20]))) + 1
    ids = np.full((n, most), size, np.int64)
    values = np.full((n, most), 7.0, np.float32)
    for i in range(n):
        chosen = np.sort(random.choice(size, random.integers(0, most), replace=False))
        ids[i, : len(chosen)] = chosen
        values[i, : len(chosen)] = random.choice([-np.inf, 0.0, -3.0, 5.0, 30.0, 3e38], len(chosen))
    return ids, values


class Edited(Sampler):
    """An edit for the NumPy backend: the values that the kernels are given as sparse edits."""

    name = "edits"
    role = "edit"

    def __init__(self, rows: Rows, edits: tuple[np.ndarray, np.ndarray]) -> None:
        self.by_seed = {seed: pair for seed, *pair in zip(rows.seed.tolist(), *edits, strict=True)}

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        for i, seed in enumerate(rows.seed.tolist()):
            ids, values = self.by_seed[seed]
            inside = ids < rows.vocabulary.size
            columns, which = rows.columns(i, ids[inside])
            alive = logits[i, columns] > -np.inf
            logits[i, columns[alive]] = values[inside][which[alive]]


def expected(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """(token ids, faults) of the NumPy backend."""
    chain = case.chain
    if case.edits is not None:
        chain = Chain((Edited(case.rows, case.edits), *chain.samplers), chain.selector)
    batch = run_fused(chain, case.rows, case.logits, case.bitmask)
    return batch.token_ids, np.array([_fault(error) for error in batch.errors])


def _fault(error: str | None) -> int:
    if error is None:
        return 0
    starts = ("the row's greatest logit is", "every logit of the row", "the grammar leaves", "edits leaves")
    return 1 + next(i for i, start in enumerate(starts) if error.startswith(start))
