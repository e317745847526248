"""`stopping_criteria`: our stopping criteria as one of transformers' stopping criteria."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...contract import StoppingCriteria, flags_like, token_rows
from ...params import SamplingParams
from ...registry import default_registry
from .following import Follower, listed, tokenizer_of

if TYPE_CHECKING:
    import torch  # type: ignore[import-not-found]

UNKNOWN_VOCAB_SIZE = 2**31 - 1
"""More tokens than any vocabulary has: criteria see no logits to take the size from."""

_OTHER_PARAMS = ("ignore_eos", "min_tokens", "skip_special_tokens")
"""Parameters of other components that affect when a request ends."""


def stopping_criteria(
    params: SamplingParams | Sequence[SamplingParams],
    tokenizer: Any = None,
    *,
    criteria: Sequence[StoppingCriteria] = (),
    eos_token_ids: Sequence[int] = (),
    prompt_length: int | None = None,
) -> Stops:
    """The stopping criteria of `params` as one criterion for `generate(stopping_criteria=[…])`.

    params         one `SamplingParams` for all rows, or one per prompt: its max_tokens, stop strings,
                   stop_token_ids, max_time and those of plugins, with min_tokens and ignore_eos.
    tokenizer      a `Tokenizer` or a fast tokenizer of transformers, for stop strings.
    criteria       further criteria of ours for all rows, as in `Scheduler.add`.
    eos_token_ids  default: the tokenizer's.
    prompt_length  columns of the prompts; default: all but the last column of the first call, which is
                   correct in `generate`.

    A row is done at the token where the scheduler would end it, and stays done. max_time counts from the
    first call. Criteria that use logprobs get none here. `generate` writes padding after a row's end only if
    it has an EOS id itself; otherwise the tokens it writes there are meaningless.
    """
    return Stops(params, tokenizer, criteria, eos_token_ids, prompt_length)


class Stops:
    """`stops(input_ids int64 [rows, length], scores) -> bool [rows]`, on the device of input_ids.

    Built by `stopping_criteria`. A call with other prompts, or with more than one new token, begins
    a new generation, and so does `reset()`.
    """

    def __init__(
        self,
        params: SamplingParams | Sequence[SamplingParams],
        tokenizer: Any,
        criteria: Sequence[StoppingCriteria],
        eos_token_ids: Sequence[int],
        prompt_length: int | None,
    ) -> None:
        self._follower = Follower(
            [_only_stops(p) for p in listed(params)],
            tokenizer=tokenizer_of(tokenizer),
            eos_token_ids=eos_token_ids,
            stopping_criteria=criteria,
        )
        self._prompt_length = prompt_length

    def reset(self) -> None:
        """Make the next call the first of a new generation."""
        self._follower.reset()

    def __call__(self, input_ids: torch.LongTensor, scores: Any = None, **kwargs: Any) -> torch.BoolTensor:
        """Which rows are done; `scores` are ignored."""
        columns = token_rows(input_ids)
        length = columns.shape[1]
        width = length - 1 if self._prompt_length is None else min(self._prompt_length, length)
        self._follower.follow(columns, width, UNKNOWN_VOCAB_SIZE)
        live = set(self._follower.live)
        return flags_like(input_ids, [row not in live for row in range(len(columns))])


def _only_stops(params: SamplingParams) -> SamplingParams:
    """The `params` that affect when a request ends."""
    criteria = default_registry().catalogue.stopping_criteria.values()
    names = {param.name for criterion in criteria for param in criterion.params}.union(_OTHER_PARAMS)
    return SamplingParams(**{name: value for name, value in params.given.items() if name in names})
