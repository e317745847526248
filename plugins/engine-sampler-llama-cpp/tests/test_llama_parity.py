"""Random bodies compared with chains of llama.cpp's own samplers, built as its server builds them.

On our side a body goes through `from_request` and `process_logits`. On the other side its values and the
server's defaults go straight to the samplers, in the server's order. Where the two may differ, and why, is
listed in tests/parity/test_llama_cpp.py; every difference must be one that float32 cannot decide, as defined
there. xtc draws its coin from different generators, so its probability is 0 or 1 here; a mirostat draw is
not compared, only the row that it draws from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llama_cpp")

from engine_sampler_llama_cpp import candidates, from_request

from engine_sampler import SamplingParams, process_logits
from engine_sampler.params import build_chain
from engine_sampler.testing import apply_sampler
from tests.parity import llama
from tests.parity.test_llama_cpp import DOUBTFUL, IN_DOUBT, KINDS, agree, make_history, make_row

Random = np.random.Generator
ROWS = 120

SERVER: Mapping[str, Any] = {
    "temperature": 0.8, "dynatemp_range": 0.0, "dynatemp_exponent": 1.0, "top_k": 40, "top_p": 0.95,
    "min_p": 0.05, "typical_p": 1.0, "top_n_sigma": -1.0, "xtc_probability": 0.0, "xtc_threshold": 0.1,
    "min_keep": 0, "repeat_penalty": 1.0, "repeat_last_n": 64, "frequency_penalty": 0.0,
    "presence_penalty": 0.0, "dry_multiplier": 0.0, "dry_base": 1.75, "dry_allowed_length": 2,
    "dry_penalty_last_n": 64, "logit_bias": [],
}  # fmt: skip
"""The server's defaults."""

ORDER = ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]
"""The server's order."""


def random_body(random: Random, vocab_size: int, removing: bool) -> dict[str, Any]:
    """About half of the keys; `removing` adds keys that leave removed tokens among llama.cpp's candidates."""
    choice = random.choice
    values = {
        "temperature": choice([0.0, 0.4, 1.0, 1.7]),
        "top_k": int(choice([0, -1, 1, 5, 100, 9000])),
        "top_p": choice([0.3, 0.9, 1.0, 1.5]),
        "min_p": choice([0.0, 0.01, 0.2]),
        "typical_p": choice([0.5, 0.9, 1.0]),
        "xtc_probability": choice([0.0, 1.0]),
        "xtc_threshold": choice([0.05, 0.2, 0.6]),
        "min_keep": int(choice([0, 1, 4])),
        "repeat_penalty": choice([0.9, 1.0, 1.4]),
        "repeat_last_n": int(choice([0, 1, 16, 64, 500])),
        "frequency_penalty": choice([-0.3, 0.0, 0.5]),
        "presence_penalty": choice([0.0, 0.8]),
        "logit_bias": [[int(i), float(random.normal() * 4)] for i in random.permutation(vocab_size)[:3]],
        "dry_multiplier": choice([0.0, 0.8]),
        "dry_base": choice([0.5, 1.3, 2.0]),
        "dry_allowed_length": int(choice([1, 2, 4])),
        "dry_penalty_last_n": int(choice([0, 12, 300])),
    }
    dynamic = {"dynatemp_range": choice([0.0, 0.5]), "dynatemp_exponent": choice([0.5, 1.0, 2.0])}
    body = {key: value for key, value in values.items() if random.random() < 0.5}
    if random.random() < 0.3:
        body |= {"temperature": 1.2, **dynamic}
    if removing:
        body["top_n_sigma"] = choice([-1.0, 0.7, 2.0])
        body["logit_bias"] = [[int(random.integers(vocab_size)), False]]
    if random.random() < 0.5:
        if not removing and body.get("temperature") == 0:
            body["temperature"] = 0.4  # 0 leaves removed tokens to the samplers listed after it
        body["samplers"] = [str(n) for n in random.permutation(ORDER)[: random.integers(0, len(ORDER) + 1)]]
    return body


def their_chain(body: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The names and the values with which the server builds its chain."""
    values = {**SERVER, **body}
    biases = [(i, -np.inf if b is False else b) for i, b in values["logit_bias"]]
    settings = {
        **values,
        "logit_bias": biases,
        "temperature": max(0.0, values["temperature"]),
        "top_k": max(0, values["top_k"]),
        "top_p": min(1.0, values["top_p"]),
        "repetition_penalty": values["repeat_penalty"],
        "penalty_last_n": values["repeat_last_n"],
        "dry_base": values["dry_base"] if values["dry_base"] >= 1 else 1.75,
        "dry_sequence_breakers": [],
    }
    names = [{"typ_p": "typical_p"}.get(name, name) for name in values.get("samplers", ORDER)]
    if not (values["dry_multiplier"] and values["dry_penalty_last_n"]):
        names = [name for name in names if name != "dry"]  # without a model only an active dry works
    return ["logit_bias"] * bool(biases) + names, settings


def in_doubt(params: SamplingParams, row: np.ndarray, history: list[int]) -> bool:
    """Whether float32 cannot decide at least one step of the chain."""
    doubt = False
    for sampler in build_chain(params).samplers:
        doubt |= sampler.name in IN_DOUBT and IN_DOUBT[sampler.name](row, params)
        row = apply_sampler(sampler, row, params, outputs=[history])
    return doubt


def same_probabilities(ours: np.ndarray, theirs: np.ndarray, params: SamplingParams) -> bool:
    """Whether both rows have the same candidates with the same probabilities."""
    our_candidates = candidates(ours)
    with llama.opened("dist", {}, len(theirs)) as sampler:
        other = sampler.apply(theirs)
    return (
        agree(ours, theirs, params)
        and np.array_equal(our_candidates.ids, other.ids)
        and np.allclose(our_candidates.p, other.p, rtol=2e-3, atol=1e-6)
    )


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "tied"])
@pytest.mark.parametrize("removing", [False, True], ids=["whole", "step by step"])
def test_a_body_leaves_the_candidates_that_the_server_leaves(kind: str, removing: bool) -> None:
    random = np.random.default_rng([list(KINDS).index(kind), removing])
    doubtful = 0
    for _ in range(ROWS):
        row = make_row(kind, random)
        history = make_history(random, len(row))
        split = len(history) // 2
        body = random_body(random, len(row), removing)
        params = from_request(body)
        ours = process_logits(
            row[None], params, prompt_token_ids=[history[:split]], output_token_ids=[history[split:]]
        )[0]
        if np.isnan(ours).any():
            continue  # a bias of false may leave nothing
        names, settings = their_chain(body)
        theirs = row
        for part in [[name] for name in names] if removing else [names]:
            with llama.chain(part, settings, len(row)) as chain:
                chain.accept(history)
                theirs = chain.apply(theirs).row(len(row))
        if not same_probabilities(ours, theirs, params):
            assert in_doubt(params, row, history), f"{body} differs"
            doubtful += 1
    assert doubtful <= DOUBTFUL * ROWS


@pytest.mark.parametrize("version", [1, 2])
def test_mirostat_draws_from_the_row_that_the_server_gives_it(version: int) -> None:
    random = np.random.default_rng(version)
    for _ in range(ROWS):
        row = make_row("peaked", random)
        history = make_history(random, len(row))
        body = random_body(random, len(row), False) | {"mirostat": version}
        params = from_request(body)
        ours = process_logits(row[None], params, prompt_token_ids=[history])[0]
        names, settings = their_chain({**body, "dynatemp_range": 0.0})
        with llama.chain(
            [n for n in names if n == "logit_bias"] + ["temperature"], settings, len(row)
        ) as chain:
            theirs = chain.apply(row).row(len(row))
        assert agree(ours, theirs, params)
