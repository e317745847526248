"""How often a draft is accepted, by how it was drawn: python -m benchmarks.generation.drafts

Prints a Markdown table; --write also writes it into docs/benchmarks. Nothing is timed.

The draft model's logits are the model's with noise N(0, σ). Both go through the same chain. A draft is
accepted if it is what the model's row draws: with the same seed and position both draws take the same random
number. Rejection sampling, which needs the draft's distribution q and whose tokens depend on drafts, accepts
Σ min(p, q) = 1 − TV(p, q) of them (Leviathan et al., 2023; Chen et al., 2023).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from engine_sampler import SamplingParams, process_logits, sample
from engine_sampler.cli.bench import rows

from ..render import table, write_between

DEFAULT = {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8}
CASES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "temperature 1": ("peaked", {"temperature": 1.0}),
    "top_p 0.95": ("peaked", {"top_p": 0.95}),
    "default chain": ("peaked", DEFAULT),
    "default chain, flat rows": ("flat", DEFAULT),
    "temperature 1, flat rows": ("flat", {"temperature": 1.0}),
}
"""Name → (kind of rows, parameters)."""
NOISES = (0.1, 0.3, 1.0)
"""Standard deviations of the draft's logits from the model's."""
COLUMNS = ("the same seed and position", "its best token", "another seed", "rejection sampling")
START, END = "<!-- drafts -->", "<!-- end of drafts -->"

Logits = npt.NDArray[np.float32]


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.generation.drafts", description="Count accepted drafts."
    )
    parser.add_argument("--vocabulary", type=int, default=32_000, help="the number of tokens")
    parser.add_argument("--rows", type=int, default=500, help="per line")
    parser.add_argument("--write", action="store_true", help="write the table into docs/benchmarks")
    given = parser.parse_args()
    text = report(given.vocabulary, given.rows)
    print(text)
    if given.write:
        write_between(START, END, text)


def report(vocab_size: int, count: int) -> str:
    """The table, for `count` rows of `vocab_size` tokens in each line."""
    lines = []
    for case, (kind, parameters) in CASES.items():
        model = rows.batch(vocab_size, count, kind)
        for noise in NOISES:
            rng = np.random.default_rng([count, int(1000 * noise)])
            draft = model + noise * rng.standard_normal(model.shape, np.float32)
            shares = accepted(model, draft, parameters)
            lines.append([f"{case}, σ = {noise:g}", *(f"{share:.0%}" for share in shares)])
    return table(["accepted drafts", *COLUMNS], lines)


def accepted(model: Logits, draft: Logits, parameters: Mapping[str, Any]) -> tuple[float, ...]:
    """The shares of accepted drafts in the order of `COLUMNS`; `model`, `draft`: [rows, vocab]."""
    positions = range(len(model))
    params = [SamplingParams(**parameters, seed=i) for i in positions]
    others = [SamplingParams(**parameters, seed=i + len(model)) for i in positions]
    drawn = sample(model, params, positions=positions).token_ids
    p, q = (_probabilities(logits, params[0]) for logits in (model, draft))
    return (
        float(np.mean(drawn == sample(draft, params, positions=positions).token_ids)),
        float(np.mean(drawn == draft.argmax(axis=1))),
        float(np.mean(drawn == sample(draft, others, positions=positions).token_ids)),
        float(np.minimum(p, q).sum(axis=1).mean()),
    )


def _probabilities(logits: Logits, params: SamplingParams) -> npt.NDArray[np.float64]:
    """float64 [rows, vocab], what the chain leaves of each row."""
    processed = process_logits(logits, params).astype(np.float64)
    weights = np.exp(processed - processed.max(axis=1, keepdims=True))
    normal: npt.NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return normal


if __name__ == "__main__":
    main()
