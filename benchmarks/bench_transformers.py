"""transformers' logits processors, then softmax and `torch.multinomial`, as its `generate` does."""

from __future__ import annotations

import pytest

from engine_sampler.cli.bench import rows
from engine_sampler.params import build_chain

from .cases import ALONE, CONTEXT, PEERS_STEPS, Shape, params_of
from .engines import Engine
from .measure import Work, measure
from .results import MULTINOMIAL, TRANSFORMERS

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
"""In transformers' own order. It has no frequency or presence penalties and no DRY."""
SUPPORTED = (
    "greedy",
    "min_p",
    "default chain",
    "penalties, DRY, default chain",
    "top_p",
    "temperature",
    "typical_p",
)


@pytest.mark.parametrize("shape", [s for s in ALONE + PEERS_STEPS if s.case in SUPPORTED], ids=str)
def bench_transformers(benchmark, shape):
    params = params_of(shape.case)
    ours = Engine.of(shape)
    names = build_chain(params).for_choice().samplers
    active = {sampler.name for sampler in names}
    processors = transformers.LogitsProcessorList(
        make(params) for name, make in PROCESSORS.items() if name in active
    )
    history = torch.tensor([rows.history(shape.vocab_size, CONTEXT)] * shape.batch)
    logits = torch.from_numpy(rows.batch(shape.vocab_size, shape.batch, shape.rows).copy())

    def choose():
        return logits.argmax(dim=-1)

    def draw():
        scores = processors(history, logits)
        return torch.multinomial(scores.softmax(dim=-1), num_samples=1)

    work = Work(choose if shape.case == "greedy" else draw)
    with torch.inference_mode():
        measure(benchmark, work, TRANSFORMERS, shape, {"ours": ours.run if shape.batch == 1 else ours.step})


@pytest.mark.parametrize("vocab_size", rows.VOCABULARIES)
def bench_multinomial(benchmark, vocab_size):
    """The draw alone, from precomputed probabilities."""
    probabilities = torch.from_numpy(rows.batch(vocab_size, 1).copy()).softmax(dim=-1)

    def draw():
        return torch.multinomial(probabilities, num_samples=1)

    shape = Shape("temperature", vocab_size)
    measure(benchmark, Work(draw), MULTINOMIAL, shape, {"ours": Engine.of(shape).run})
