"""transformers' logits processors, then softmax and `torch.multinomial`, as its `generate` does."""

from __future__ import annotations

import pytest

from engine_sampler.chain import build_chain

from . import rows
from .cases import CONTEXT, PEERS, params_of
from .measure import measure

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
torch.set_num_threads(1)

PROCESSORS = {
    "penalties": lambda p: transformers.RepetitionPenaltyLogitsProcessor(p.repetition_penalty),
    "temperature": lambda p: transformers.TemperatureLogitsWarper(p.temperature),
    "top_k": lambda p: transformers.TopKLogitsWarper(p.top_k),
    "top_p": lambda p: transformers.TopPLogitsWarper(p.top_p),
    "min_p": lambda p: transformers.MinPLogitsWarper(p.min_p),
    "typical_p": lambda p: transformers.TypicalLogitsWarper(p.typical_p),
}
"""In its own order where it has one. It has no frequency and presence penalties, and no DRY."""
KNOWN = (
    "greedy",
    "min_p",
    "default chain",
    "penalties, DRY, default chain",
    "top_p",
    "temperature",
    "typical_p",
)


@pytest.mark.parametrize(("vocab_size", "batch", "case"), [s for s in PEERS if s[2] in KNOWN])
def bench_transformers(benchmark, vocab_size, batch, case):
    params = params_of(case)
    names = build_chain(params).for_choice().samplers
    active = {sampler.name for sampler in names}
    processors = transformers.LogitsProcessorList(
        make(params) for name, make in PROCESSORS.items() if name in active
    )
    history = torch.tensor([rows.history(vocab_size, CONTEXT)] * batch)
    logits = torch.from_numpy(rows.batch(vocab_size, batch).copy())

    def choose():
        return logits.argmax(dim=-1)

    def draw():
        scores = processors(history, logits)
        return torch.multinomial(scores.softmax(dim=-1), num_samples=1)

    work = choose if case == "greedy" else draw
    with torch.inference_mode():
        measure(benchmark, work, "transformers", case=case, vocab_size=vocab_size, batch=batch)


@pytest.mark.parametrize(("vocab_size", "batch"), [(v, b) for v in rows.VOCABULARIES for b in (1, 64)])
def bench_multinomial(benchmark, vocab_size, batch):
    """The draw alone, of ready probabilities."""
    probabilities = torch.from_numpy(rows.batch(vocab_size, batch).copy()).softmax(dim=-1)

    def draw():
        return torch.multinomial(probabilities, num_samples=1)

    measure(benchmark, draw, "torch.multinomial", case="multinomial", vocab_size=vocab_size, batch=batch)
