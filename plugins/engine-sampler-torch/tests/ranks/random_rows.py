"""Random rows with parameters that vocabulary-parallel sampling knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from engine_sampler_torch.ranks import VocabularyParallelSampler
from random_life import DTYPES, random_shards
from rank_pool import Place

from engine_sampler import SamplingParams, bitmask_words, sample

ORDERS = [
    "llama.cpp",
    "vllm",
    "transformers",
    "mlx",
    "koboldai",
    "mindie",
    ["penalties", "min_p", "top_p", "top_k", "temperature"],
]
VOCAB_SIZES = [1, 2, 5, 40, 300, 1500, 6000]
SCALES = [0.01, 1.0, 4.0, 30.0]


def random_params(rng: np.random.Generator, vocab_size: int) -> SamplingParams:
    """Any of the samplers, in any order."""
    own: dict[str, Any] = {"seed": int(rng.integers(2**63)), "order": ORDERS[int(rng.integers(len(ORDERS)))]}
    if rng.random() < 0.5:
        own["temperature"] = float(rng.choice([0, 0.3, 0.8, 1.7, 1e-5, 900]))
    if rng.random() < 0.4:
        own["top_k"] = int(rng.integers(1, 129))
    if rng.random() < 0.5:
        own["top_p"] = float(rng.choice([0, 0.1, 0.5, 0.9, 0.95, 0.999, 0.99999999]))
    if rng.random() < 0.4:
        own["min_p"] = float(rng.choice([1e-30, 0.001, 0.05, 0.5, 1]))
    if rng.random() < 0.3:
        own["top_p_cut"] = str(rng.choice(["reach", "exceed", "below"]))
    if rng.random() < 0.3:
        ids = rng.choice(vocab_size, min(vocab_size, 4), replace=False)
        own["logit_bias"] = dict(zip(ids.tolist(), (rng.normal(size=4) * 5).tolist(), strict=False))
    if rng.random() < 0.1:
        own["logit_bias"] = {0: -np.inf, vocab_size - 1: 3e38}
    if rng.random() < 0.3:
        own |= {"repetition_penalty": 1.3, "penalty_last_n": int(rng.choice([-1, 4]))}
    if rng.random() < 0.3:
        own |= {"frequency_penalty": float(rng.choice([0.4, -1e39])), "presence_penalty": -0.2}
    return SamplingParams(**own)


def random_logits(rng: np.random.Generator, rows: int, vocab_size: int) -> np.ndarray:
    """Peaked and flat rows, with ties, removed tokens, and sometimes a fault."""
    logits = rng.normal(size=(rows, vocab_size)) * rng.choice(SCALES, (rows, 1))
    if rng.random() < 0.4:
        logits = np.round(logits)
    logits[rng.random(logits.shape) < 0.1] = -np.inf
    faults = [np.nan, np.inf, 2e30, -np.inf, -3e38, -0.0]
    logits[0, 0] = faults[int(rng.integers(len(faults)))]
    return logits.astype(np.float32)


def random_rows(place: Place, seed: int, batches: int, rows: int) -> tuple[int, list[list[int]]]:
    """Batches of random rows; returns how many there were, and their tokens."""
    drawn = []
    for number in range(batches):
        rng = np.random.default_rng([seed, number])
        vocab_size = VOCAB_SIZES[int(rng.integers(len(VOCAB_SIZES)))]
        shards = random_shards(rng, vocab_size, place.size)
        sampler = VocabularyParallelSampler(shards, group=place.group)
        params = [random_params(rng, vocab_size) for _ in range(rows)]
        lengths = rng.integers(0, 20, (2, rows))
        prompts, outputs = ([rng.integers(0, vocab_size, n).tolist() for n in part] for part in lengths)
        whole = torch.from_numpy(random_logits(rng, rows, vocab_size)).to(DTYPES[number % 3])
        own = sampler.rows(params, prompt_token_ids=prompts, output_token_ids=outputs)
        result = sampler.sample(place.shard(shards, whole), own)
        drawn.append(result.token_ids.tolist())
        if place.rank == number % place.size:
            wanted = sample(whole, params, prompt_token_ids=prompts, output_token_ids=outputs)
            assert drawn[-1] == wanted.token_ids.tolist(), (seed, number, shards)
            assert result.errors == wanted.errors, (seed, number, shards)
    return batches * rows, drawn


def masked_rows(place: Place, allowed_share: float) -> list[int]:
    """Rows under masks, compared with rows whose forbidden tokens are removed."""
    rng = np.random.default_rng(3)
    vocab_size, rows = 500, 24
    shards = random_shards(rng, vocab_size, place.size)
    sampler = VocabularyParallelSampler(shards, group=place.group)
    params = [SamplingParams(seed=i, top_p=0.9, top_k=20 * (i % 2), temperature=i % 3) for i in range(rows)]
    logits = rng.normal(size=(rows, vocab_size)).astype(np.float32)
    allowed = rng.random((rows, vocab_size)) < allowed_share
    allowed[:, 17] = True
    allowed[5] = False
    padded = np.zeros((rows, 32 * bitmask_words(vocab_size)), bool)
    padded[:, :vocab_size] = allowed
    own = sampler.rows(params)
    own.bitmask = np.packbits(padded, axis=1, bitorder="little").view(np.int32)
    result = sampler.sample(place.shard(shards, logits), own)
    logits[~allowed] = -np.inf
    logits[5] = 0
    wanted = sample(logits, params).token_ids
    wanted[5] = -1
    assert result.token_ids.tolist() == wanted.tolist()
    assert result.errors == [None] * 5 + ["the grammar leaves no token"] + [None] * 18
    return result.token_ids.tolist()
