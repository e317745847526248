"""`ChainLogitsProcessor`: any chain of ours among transformers' logits processors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from engine_sampler import ParameterError, SamplingParams
from engine_sampler.contract import Backend, token_rows
from engine_sampler.for_backends import default_registry
from engine_sampler.for_bridges import dtype_name, like, not_allowed, rows_of_nan

from .caller import prompt_columns_of_generate, prompt_lengths_of_generate
from .following import Follower, listed, tokenizer_of

if TYPE_CHECKING:
    import torch  # type: ignore[import-not-found]

NEUTRAL = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
"""Keywords that keep `generate(do_sample=True, **NEUTRAL)` from truncating a second time."""


class ChainLogitsProcessor:
    """The samplers of `params`, in their order and after the mask of a grammar, for `generate`.

    `processor(input_ids int64 [rows, length], scores [rows, width]) -> scores`: a new tensor of the same
    dtype on the same device, −inf = removed; columns beyond a tokenizer's vocabulary are removed.
    transformers draws the token: the selector (dist, mirostat) is left out, and temperature 0 leaves
    only the best token.

    params          one `SamplingParams` for all rows, or one per prompt; the rows that
                    `num_return_sequences` or beams make of a prompt share it.
    prompt_lengths  length of each prompt, if prompts are padded on the left: `attention_mask.sum(1)`. By
                    default as the `generate` that calls knows them, if there is one.
    pad_token_id    instead of the lengths: leading tokens with this id are padding. Padding belongs to
                    no history.
    tokenizer       a `Tokenizer` or a fast tokenizer of transformers, for parameters given as text.
    eos_token_ids   default: the tokenizer's. They affect min_tokens, ignore_eos and grammars.
    grammar         as in `Scheduler.add`, one for all rows or a list with one per prompt.

    Called by `generate`, each of its calls is a generation. In other loops, the columns of the first call are
    the prompts; a call with other prompts, or with more than one new token, begins a new generation, and so
    does `reset()`. `generate` alone ends rows: limits are
    ignored, and a row continues after a stop. After the end of its grammar a row gets only EOS.

    Raises ValueError naming the row if no token is left to draw or the chain failed. Settings that do not fit
    the vocabulary, and a grammar without EOS ids, raise `ParameterError`.
    """

    supports_continuous_batching = False

    def __init__(
        self,
        params: SamplingParams | Sequence[SamplingParams],
        *,
        prompt_lengths: Sequence[int] | None = None,
        pad_token_id: int | None = None,
        tokenizer: Any = None,
        eos_token_ids: Sequence[int] = (),
        grammar: Any = None,
        backend: str | Backend = "auto",
    ) -> None:
        self._tokenizer = tokenizer_of(tokenizer)
        self._follower = Follower(
            [_without_limits(p) for p in listed(params)],
            prompt_lengths=prompt_lengths,
            pad_token_id=pad_token_id,
            tokenizer=self._tokenizer,
            eos_token_ids=eos_token_ids,
            grammar=grammar,
            backend=backend,
        )
        self._completed: set[int] = set()
        """Rows whose grammar has ended."""

    def reset(self) -> None:
        """Make the next call the first of a new generation."""
        self._follower.reset()

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """The scores after the chain; see the class."""
        import torch

        if not isinstance(scores, torch.Tensor) or scores.ndim != 2:
            raise not_allowed("scores", scores, "a tensor [rows, width]")
        self._follow(token_rows(input_ids), scores.shape[1])
        live = self._follower.live
        processed = self._processed(scores, live) if live else None
        if processed is not None and processed.shape == scores.shape:
            return processed
        out = torch.full_like(scores, -torch.inf)
        if processed is not None:
            out[live, : processed.shape[1]] = processed
        for row in self._completed:
            ends = list(self._follower.scheduler.vocabulary.eos_token_ids)
            out[row, ends] = scores[row, ends]
        return out

    def _processed(self, scores: torch.FloatTensor, live: Sequence[int]) -> Any:
        """The rows `live` of the scores after their chains, [rows, vocab]."""
        given = scores if len(live) == len(scores) else scores[live]
        processed = self._follower.scheduler.process(given, live, on_device=True)
        for i in rows_of_nan(processed).nonzero()[0].tolist():
            raise ValueError(f"row {live[i]} has no token to draw; engine_sampler's log says why")
        return like(scores, processed, dtype_name(scores))

    def _follow(self, columns: np.ndarray, width: int) -> None:
        """Bring the requests up to `columns`; ended requests continue, unless their grammar has ended."""
        follower = self._follower
        if self._tokenizer is not None:
            width = min(width, len(self._tokenizer))
        prompt = prompt_columns_of_generate()
        restarted = follower.follow(
            columns,
            columns.shape[1] if prompt is None else prompt,
            width,
            is_width_known=prompt is not None,
            prompt_lengths=prompt_lengths_of_generate,
        )
        self._completed.difference_update(restarted)
        grammars = [row for row in range(len(columns)) if follower.has_grammar(row)]
        if grammars and not follower.scheduler.vocabulary.eos_token_ids:
            raise ParameterError(
                f"eos_token_ids is empty; row {grammars[0]} has a grammar, which needs an EOS id"
            )
        ended = set(range(len(columns))).difference(follower.live, self._completed)
        for row in ended:
            record = follower.scheduler.record(row)
            if follower.has_grammar(row) and (record.error is not None or record.stop_reason is None):
                self._completed.add(row)
            else:
                follower.reopen(row)


def _without_limits(params: SamplingParams) -> SamplingParams:
    """`params` without limits of length and time."""
    limits = (c for c in default_registry().catalogue.stopping_criteria.values() if c.is_limit)
    return params.replace(**{param.name: param.neutral for c in limits for param in c.params})
