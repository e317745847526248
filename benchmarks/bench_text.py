"""The time that text and stop strings add to a step."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

import numpy as np

from engine_sampler import SamplingParams, Scheduler, Tokenizer

from .cases import TINY, Shape
from .measure import Work, measure
from .results import STEP, TEXT

REQUESTS = 64
STEPS = 200
"""Different steps, repeated in a cycle."""
STOP = ["\nUser:", "</tool_call>", "<|im_end|>"]
PIECES = " the of and in \n User : < / tool _call > <| im e n d | s t ing er é 日 🐈 ( ) { } , . 0 1 2".split(
    " "
)


def _tokenizer() -> Tokenizer:
    """Words, punctuation, beginnings of the stop strings, and bytes that are not whole characters."""
    pieces = [piece.encode() or b" " for piece in PIECES]
    pieces += [b"\xf0", b"\x9f", b"\x90\x88", b"\xc3"]
    pieces += [f" word{i}".encode() for i in range(TINY - len(pieces))]
    return Tokenizer(pieces)


def _stepper(tokenizer: Tokenizer | None, **parameters: object) -> Callable[[], object]:
    """The step of a new scheduler. Each step has different tokens, the same for every scheduler."""
    scheduler = Scheduler(TINY, tokenizer)
    for _ in range(REQUESTS):
        scheduler.add(SamplingParams(temperature=0, **parameters))
    random = np.random.default_rng(0)
    batches = cycle(random.normal(0, 3, (STEPS, REQUESTS, TINY)).astype(np.float32))

    def step() -> None:
        scheduler.step(next(batches))
        assert len(scheduler.request_ids) == REQUESTS

    return step


def bench_step_with_text_and_stop_strings(benchmark):
    without = Work(_stepper(None))
    text = Work(_stepper(_tokenizer()))
    stopping = Work(_stepper(_tokenizer(), stop=STOP))
    measure(benchmark, stopping, STEP, Shape(TEXT, TINY, REQUESTS), {"without": without, "text": text})
