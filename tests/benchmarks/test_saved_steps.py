"""The table of steps that drafts save."""

from __future__ import annotations

from benchmarks.generation.saved_steps import DRAFTERS, Run
from engine_sampler import Tokenizer

BYTES = Tokenizer([*(bytes([byte]) for byte in range(256)), b"</s>"], [256])


def test_drafts_save_steps_and_change_no_token() -> None:
    run = Run(BYTES, "compact", 1.0, 1)
    plain = run.count(())
    assert plain.drafted == plain.accepted == 0
    for drafters in DRAFTERS.values():
        drafted = run.count(drafters)
        assert drafted.tokens == plain.tokens
        assert drafted.steps + drafted.accepted == plain.steps
        assert drafted.accepted <= drafted.drafted


def test_without_noise_the_text_is_written() -> None:
    run = Run(BYTES, "blanks after comma and colon", 0.0, 1)
    run.noise *= 0
    [tokens] = run.count(("grammar",)).tokens
    assert BYTES.decode(tokens) == run.tasks[0].text[:400]
