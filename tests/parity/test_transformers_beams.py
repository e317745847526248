"""Beam search finds the same sequences as transformers', on the logits of small random models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def small_model(vocab_size: int, seed: int) -> Any:
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=vocab_size, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=64, initializer_range=0.6,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("seed", range(24))
def test_the_best_sequences_are_the_same(seed: int) -> None:
    random = np.random.default_rng(seed)
    vocab_size, width, length = (int(random.integers(*span)) for span in ((12, 60), (2, 6), (3, 14)))
    penalty = float(random.choice([0.0, 1.0, 0.5, 2.0, -1.0]))
    stopping = [False, True, "never"][random.integers(3)]
    repetition = float(random.choice([1.0, 1.3]))
    count = int(random.integers(1, width + 1))
    eos = [0] if seed % 3 else [0, 1]
    prompt = random.integers(2, vocab_size, 5).tolist()
    model = small_model(vocab_size, seed)

    theirs = model.generate(
        torch.tensor([prompt]), num_beams=width, do_sample=False, length_penalty=penalty,
        early_stopping=stopping, num_return_sequences=count, eos_token_id=eos, pad_token_id=0,
        max_new_tokens=length, repetition_penalty=repetition, return_dict_in_generate=True,
        output_scores=True,
    )  # fmt: skip
    scheduler = Scheduler(vocab_size, eos_token_ids=eos)
    params = SamplingParams(
        use_beam_search=True, beam_width=width, n=count, length_penalty=penalty, max_tokens=length,
        early_stopping=stopping, repetition_penalty=repetition, order="transformers",
    )  # fmt: skip
    ids = scheduler.add_group(params, prompt)
    sequences = dict.fromkeys(ids, prompt)
    while scheduler.request_ids:
        with torch.no_grad():
            logits = model(torch.tensor([sequences[i] for i in ids])).logits[:, -1]
        result = scheduler.step(logits)
        sequences = {
            i: [*sequences[parent], int(token)]
            for i, parent, token in zip(ids, result.parent_ids, result.token_ids, strict=True)
        }

    for k, request_id in enumerate(scheduler.best(ids)):
        record = scheduler.record(request_id)
        padded = theirs.sequences[k, len(prompt) :].tolist()
        assert padded[: len(record.token_ids)] == record.token_ids
        assert set(padded[len(record.token_ids) :]) <= {0}
        # transformers adds up in float32, and a negative penalty multiplies its error: compare the sums.
        scores = (record.score, theirs.sequences_scores[k].item())
        total, their_total = (score * len(record.token_ids) ** penalty for score in scores)
        assert total == pytest.approx(their_total, abs=5e-5)
