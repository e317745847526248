"""A vocabulary of all bytes and some longer tokens, with a toy model and both grammar engines."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from engine_sampler import Record, SamplingParams, Scheduler, Tokenizer
from engine_sampler.grammar import prepare
from engine_sampler.grammar.engines import native
from engine_sampler.registry import default_registry

LONGER = [b"ab", b'{"', b'":', b'", "', b"tr", b"true", "é".encode(), b"  ", b"<tool>", b"red"]
PIECES = [*(bytes((byte,)) for byte in range(256)), *LONGER, b"</s>", b"<|call|>"]
EOS, CALL = len(PIECES) - 2, len(PIECES) - 1
VOCAB = len(PIECES)

ENGINES = ["reference", *(["native"] if native.load_library() is not None else [])]
BACKENDS = [name for name in ("numpy", "native") if not default_registry().catalogue.backends[name].reason]

every_engine = pytest.mark.parametrize("engine", ENGINES)
every_backend = pytest.mark.parametrize("backend", BACKENDS)
needs_native_engine = pytest.mark.skipif("native" not in ENGINES, reason="the library has no grammar engine")


def fresh_tokenizer() -> Tokenizer:
    return Tokenizer(PIECES, [EOS], [CALL])


@functools.cache
def tokenizer_for(engine: str) -> Tokenizer:
    """A tokenizer whose grammars run on `engine`."""
    tokenizer = fresh_tokenizer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENGINE_SAMPLER_MASK_ENGINE", engine)
        prepare(tokenizer)
    return tokenizer


TOKENIZER = tokenizer_for(ENGINES[-1])


def model_row(token_ids: Sequence[int]) -> np.ndarray:
    """float32 logits [vocab] from the last three tokens and the length; closing tokens are likely."""
    random = np.random.default_rng([len(token_ids), *token_ids[-3:]])
    row = random.normal(0, 2, VOCAB).astype(np.float32)
    row[[EOS, *b'"}]']] += 4
    return row


def model_rows(scheduler: Scheduler, drafts: Sequence[Sequence[int]] | None = None) -> np.ndarray:
    """The model's logits for all live requests, with a row for every draft."""
    rows = []
    for i, request_id in enumerate(scheduler.request_ids):
        record = scheduler.record(request_id)
        history = record.prompt_token_ids + record.token_ids
        guesses = list(drafts[i]) if drafts is not None else []
        rows += [model_row(history + guesses[:j]) for j in range(len(guesses) + 1)]
    return np.stack(rows)


def run_to_end(scheduler: Scheduler, max_steps: int = 600) -> None:
    """Step until no request is live."""
    for _ in range(max_steps):
        if not scheduler.request_ids:
            return
        scheduler.step(model_rows(scheduler))
    raise AssertionError(f"requests are still live after {max_steps} steps")


def generate(
    params: SamplingParams | Iterable[SamplingParams], tokenizer: Tokenizer = TOKENIZER, **keywords: Any
) -> list[Record]:
    """The records of requests that run together; `keywords` go to `Scheduler.add`, except `backend`."""
    scheduler = Scheduler(VOCAB, tokenizer, backend=keywords.pop("backend", "auto"))
    params_list = [params] if isinstance(params, SamplingParams) else list(params)
    ids = [scheduler.add(each, **keywords) for each in params_list]
    run_to_end(scheduler)
    return [scheduler.record(request_id) for request_id in ids]


def allowed(matcher: Any, vocab_size: int = VOCAB) -> list[int]:
    """The tokens that the matcher's mask allows, ascending."""
    bitmask = np.zeros((1, -(-vocab_size // 32)), np.int32)
    matcher.fill_bitmask(bitmask, 0)
    return np.flatnonzero(np.unpackbits(bitmask.view(np.uint8)[0], bitorder="little")).tolist()
