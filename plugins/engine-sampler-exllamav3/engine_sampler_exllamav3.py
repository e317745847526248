"""exllamav3: `ChainSampler` for `Job(sampler=…)`, and `GrammarFilter` for `Job(filters=[…])`.

    from engine_sampler_exllamav3 import ChainSampler, GrammarFilter

    job = Job(input_ids, sampler=ChainSampler(SamplingParams(min_p=0.05, dry_multiplier=0.8, seed=7)))

Both belong to one job at a time.
"""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import numpy as np

from engine_sampler import Grammar, RowSampler, SamplingParams, Tokenizer
from engine_sampler.for_bridges import BridgeSampler, EngineRequest, PeerPlaces, tokens_beside

PLACES = PeerPlaces("exllamav3", "engine-sampler-exllamav3")

with PLACES.compared():
    import torch
    from exllamav3.generator.filter.filter import Filter
    from exllamav3.generator.sampler.sampler import Sampler

logger = logging.getLogger("engine_sampler")

SIGNATURES = {
    "Sampler.forward": "self logits sequence_ids rand_u32 tokenizer blocked_tokens allowed_tokens "
    "return_state",
    "Filter.__init__": "self tokenizer trigger_token prefix_str eos_after_completed",
    "Filter.attach": "self job",
    "Filter.feed": "self token",
    "Filter.rewind": "self num_tokens",
    "Filter.rollback_tokens": "self num_tokens",
    "Filter.reset": "self",
    "Filter.accept_token": "self token",
    "Filter.get_next_logit_mask": "self",
    "Filter.is_completed": "self",
    "Filter.use_background_worker": "self",
}
"""The parameters of what is overridden and called."""


def check_exllama(sampler: type, filters: type) -> None:
    """Raise `PeerError`, which names every difference, unless exllamav3's base classes have these methods."""
    PLACES.check([(SimpleNamespace(Sampler=sampler, Filter=filters), SIGNATURES)])


check_exllama(Sampler, Filter)


class ChainSampler(Sampler):  # type: ignore[misc]
    """The whole chain of `params`, draw included: each token is that of a scheduler whose request has this
    history, seed and position. exllamav3's random numbers are not used.

    params     all but limits, stops and grammars, which are exllamav3's; `order` and `seed` hold.
    tokenizer  for parameters given as text.

    The tokens of the first call are the prompt. Tokens that exllamav3 takes back (banned strings) or adds are
    followed; a text that does not begin with that prompt is a new one. A faulty row (NaN, nothing left) is
    logged and gets the likeliest token that is a number. Raises `ParameterError`.
    """

    def __init__(self, params: SamplingParams, tokenizer: Tokenizer | None = None) -> None:
        super().__init__()
        RowSampler.check(params)
        self.reqs_past_ids = True
        self._params, self._prompt = params, None
        self._bridge = BridgeSampler("exllamav3", tokenizer)

    def forward(
        self,
        logits: torch.Tensor,
        sequence_ids: torch.Tensor | None = None,
        rand_u32: int | None = None,
        tokenizer: Any = None,
        blocked_tokens: list[int] | None = None,
        allowed_tokens: list[int] | None = None,
        return_state: bool = False,
        *,
        logit_mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """One token: int64 of the shape of `logits` [1, 1, width] without its last dimension, on its device.

        sequence_ids  int64 [1, length], prompt and output so far.
        logit_mask    half [1, columns], which is added, or int32 [1, words], bit t % 32 of word t // 32 set
                      for allowed tokens. Tokens beyond it are removed.
        """
        if return_state:
            raise NotImplementedError("return_state: this sampler has no steps to return")
        row = logits.reshape(-1, logits.shape[-1])
        if len(row) != 1:
            raise ValueError(
                f"logits have {len(row)} rows; a job with several sequences has no single history"
            )
        width = row.shape[1] if tokenizer is None else min(row.shape[1], tokenizer.actual_vocab_size)
        row, bits = _masked(row[:, :width], logit_mask, blocked_tokens, allowed_tokens)
        self._follow([] if sequence_ids is None else sequence_ids.flatten().tolist())
        drawn = self._bridge.draw(row, [self._request], mask=bits)
        return tokens_beside(drawn, row).reshape(logits.shape[:-1])

    def _follow(self, token_ids: list[int]) -> None:
        """Take these as prompt and output."""
        if self._prompt is None or token_ids[: len(self._prompt)] != self._prompt:
            self._prompt = token_ids
            self._request = EngineRequest(self._params, token_ids)
        self._request.output = token_ids[len(self._prompt) :]


def _masked(
    row: torch.Tensor,
    mask: torch.Tensor | None,
    blocked: list[int] | None,
    allowed: list[int] | None,
) -> tuple[torch.Tensor, np.ndarray | None]:
    """The row [1, width] after what exllamav3 removes, and the bits int32 [1, words] of what it masks."""
    width = row.shape[1]
    if blocked or allowed is not None or (mask is not None and mask.dtype != torch.int32):
        row = row.float().clone()
    if blocked:
        row[0, blocked] = -torch.inf
    if allowed is not None:
        kept = row[0, allowed]
        row.fill_(-torch.inf)
        row[0, allowed] = kept
    if mask is None:
        return row, None
    mask = mask.reshape(1, -1)
    if mask.dtype != torch.int32:
        columns = min(width, mask.shape[1])
        row[:, :columns] += mask[:, :columns].to(row.device)
        row[:, columns:] = -torch.inf
        return row, None
    bits = np.zeros((1, (width + 31) // 32), np.int32)
    words = min(bits.shape[1], mask.shape[1])
    bits[:, :words] = mask[:, :words].cpu().numpy()
    return row, bits


class GrammarFilter(Filter):  # type: ignore[misc]
    """A grammar as a filter.

    tokenizer   exllamav3's.
    vocabulary  our tokenizer with the same tokens.
    trigger_token, eos_after_completed  as for exllamav3's filters.
    prefix      text with which the constrained text begins, which the grammar has to match as well.

    It is completed when nothing can follow but the end. A token that the grammar refuses, which exllamav3 can
    only have forced, leaves the state as it was and is logged.
    """

    def __init__(
        self,
        tokenizer: Any,
        grammar: Grammar,
        vocabulary: Tokenizer,
        trigger_token: int | None = None,
        prefix: str | None = None,
        eos_after_completed: bool = True,
    ) -> None:
        super().__init__(tokenizer, trigger_token, prefix, eos_after_completed)
        self._compiled = grammar.compile(vocabulary)
        self._ends = np.zeros((len(vocabulary) + 31) // 32, np.uint32)
        for token in vocabulary.eos_token_ids:
            self._ends[token // 32] |= np.uint32(1 << token % 32)
        self._mask = torch.zeros((1, len(self._ends)), dtype=torch.int32)
        self.reset()

    def reset(self) -> None:
        self._matcher = self._compiled.matcher()
        if self.prefix_str and not self._matcher.accept_bytes(self.prefix_str.encode()):
            raise ValueError(f"the grammar does not match the prefix {self.prefix_str[:60]!r}")
        self._accepted: list[bool] = []
        self._is_filled = False

    def accept_token(self, token: int) -> None:
        taken = self._matcher.accept(token)
        if not taken:
            logger.error("exllamav3: token %d is not in the grammar here", token)
        self._accepted.append(taken)
        self._is_filled = False

    def rollback_tokens(self, num_tokens: int) -> bool:
        if num_tokens > len(self._accepted):
            return False
        self._matcher.rollback(sum(self._accepted[len(self._accepted) - num_tokens :]))
        del self._accepted[len(self._accepted) - num_tokens :]
        self._is_filled = False
        return True

    def get_next_logit_mask(self) -> torch.Tensor:
        """int32 [1, words]. The same tensor in every call."""
        if not self._is_filled:
            self._matcher.fill_bitmask(self._mask.numpy())
            self._is_filled = True
        return self._mask

    def is_completed(self) -> bool:
        if self._matcher.is_terminated():
            return True
        if not self._matcher.is_accepting():
            return False
        return not (self.get_next_logit_mask().numpy().view(np.uint32) & ~self._ends).any()

    def use_background_worker(self) -> bool:
        return False  # a mask takes microseconds
