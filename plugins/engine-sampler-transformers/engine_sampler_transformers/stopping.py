"""`stopping_criteria`: our stopping criteria as one of transformers' stopping criteria."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from engine_sampler import ParameterError, SamplingParams
from engine_sampler.contract import StoppingCriteria, Vocabulary, flags_like, token_rows
from engine_sampler.for_backends import default_registry
from engine_sampler.for_bridges import CalledCriteria, as_criterion, entries_of, integer_of, newest_logprobs

from .caller import prompt_columns_of_generate
from .following import Follower, listed, tokenizer_of

if TYPE_CHECKING:
    import torch  # type: ignore[import-not-found]

UNKNOWN_VOCAB_SIZE = 2**31 - 1
"""More tokens than any vocabulary has: criteria see no logits to take the size from."""

_COMPARED = 256
"""The last tokens by which a row is known to go on: no criterion tells rows apart that differ before."""

_OTHER_PARAMS = ("ignore_eos", "min_tokens", "skip_special_tokens")
"""Parameters of other components that affect when a request ends."""


def stopping_criteria(
    params: SamplingParams | Sequence[SamplingParams],
    tokenizer: Any = None,
    *,
    criteria: Sequence[Callable[..., Any]] = (),
    eos_token_ids: Sequence[int] = (),
    prompt_length: int | None = None,
) -> Stops:
    """The stopping criteria of `params` as one criterion for `generate(stopping_criteria=[…])`.

    params         one `SamplingParams` for all rows, or one per prompt: its max_tokens, stop strings,
                   stop_token_ids, max_time and those of plugins, with min_tokens and ignore_eos.
    tokenizer      a `Tokenizer` or a fast tokenizer of transformers, for stop strings.
    criteria       further criteria for all rows: ours, as in `Scheduler.add`, and transformers' or any other
                   `(input_ids, scores, **kwargs) -> bool [rows]`. The latter are called with what this
                   criterion is called with; within a row's min_tokens their answer does not count.
    eos_token_ids  default: the tokenizer's.
    prompt_length  columns of the prompts; default: what `generate` knows of them, in assisted generation
                   too; in other loops all but the last column of the first call.

    A row is done at the token where the scheduler would end it, and stays done. max_time counts from the
    first call. Criteria that use logprobs (`assistant_confidence_threshold`) take them from the scores, which
    `generate` passes with return_dict_in_generate=True, output_scores=True: without these they raise
    ValueError. `generate` writes padding after a row's end only if it has an EOS id itself; otherwise the
    tokens it writes there are meaningless.
    """
    return Stops(params, tokenizer, criteria, eos_token_ids, prompt_length)


class Stops:
    """`stops(input_ids int64 [rows, length], scores) -> bool [rows]`, on the device of input_ids.

    Built by `stopping_criteria`. Each call of `generate` is a generation. In other loops, a call with other
    prompts begins a new one, and so does `reset()`; if `prompt_length` is not given, also a call with more
    than one new token.
    """

    def __init__(
        self,
        params: SamplingParams | Sequence[SamplingParams],
        tokenizer: Any,
        criteria: Sequence[Callable[..., Any]],
        eos_token_ids: Sequence[int],
        prompt_length: int | None,
    ) -> None:
        stops = [_only_stops(p) for p in listed(params)]
        adapted = [as_criterion(c) for c in entries_of("criteria", criteria, "a list of criteria")]
        if prompt_length is not None:
            integer_of("prompt_length", prompt_length, 0)
        own = [c for c in adapted if not isinstance(c, CalledCriteria)]
        self._called = [c.criterion for c in adapted if isinstance(c, CalledCriteria)]
        self._done: set[int] = set()
        """The rows that the criteria in `_called` have ended."""
        _check_confidences(stops, own)
        self._wants_logprobs = any(map(_uses_logprobs, stops)) or any(c.wants_logprobs for c in own)
        self._follower = Follower(
            stops,
            tokenizer=tokenizer_of(tokenizer),
            eos_token_ids=eos_token_ids,
            stopping_criteria=own,
            compared=_COMPARED,
        )
        self._prompt_length = prompt_length

    def reset(self) -> None:
        """Make the next call the first of a new generation."""
        self._follower.reset()

    def __call__(self, input_ids: torch.LongTensor, scores: Any = None, **kwargs: Any) -> torch.BoolTensor:
        """Which rows are done.

        scores  [rows, vocab], or a tuple of the scores of all steps; only criteria that use them need them.
        """
        columns = token_rows(input_ids)
        length = columns.shape[1]
        prompt = prompt_columns_of_generate() if self._prompt_length is None else self._prompt_length
        restarted = self._follower.follow(
            columns,
            min(length - 1 if prompt is None else prompt, length),
            UNKNOWN_VOCAB_SIZE,
            is_width_known=prompt is not None,
            logprobs=partial(_logprobs, columns, scores) if self._wants_logprobs else None,
        )
        self._done.difference_update(restarted)
        for criterion in self._called:
            self._done.update(self._ended_by(criterion(input_ids, scores, **kwargs), len(columns)))
        live = set(self._follower.live) - self._done
        return flags_like(input_ids, [row not in live for row in range(len(columns))])

    def _ended_by(self, answer: Any, rows: int) -> list[int]:
        """The rows that a criterion's answer ends: it is a bool for all rows, or one for each."""
        on_host = answer.detach().cpu() if hasattr(answer, "detach") else answer
        flags = np.broadcast_to(np.asarray(on_host, bool), rows)
        return [row for row in range(rows) if flags[row] and self._follower.has_min_tokens(row)]


def _logprobs(columns: np.ndarray, scores: Any, count: int) -> np.ndarray:
    """[rows, count]: the logprobs of the last columns under the scores of as many last steps."""
    steps = scores[-count:] if isinstance(scores, (tuple, list)) else [scores]
    newest = columns[:, columns.shape[1] - count :]
    if len(steps) < count:
        raise ValueError(f"scores of {len(steps)} steps are not allowed: {count} tokens are new")
    by_step = [
        newest_logprobs("assistant_confidence_threshold", *step) for step in zip(newest.T, steps, strict=True)
    ]
    return np.stack(by_step, axis=1)


def _only_stops(params: SamplingParams) -> SamplingParams:
    """The `params` that affect when a request ends."""
    criteria = default_registry().catalogue.stopping_criteria.values()
    names = {param.name for criterion in criteria for param in criterion.params}.union(_OTHER_PARAMS)
    return SamplingParams(**{name: value for name, value in params.given.items() if name in names})


def _check_confidences(params: Sequence[SamplingParams], criteria: Sequence[StoppingCriteria]) -> None:
    """Raise `ParameterError` for criteria that take the confidences of rows, which `generate` does not keep
    for beams that swap rows."""
    registered = default_registry().catalogue.stopping_criteria.values()
    vocabulary = Vocabulary(UNKNOWN_VOCAB_SIZE)
    for one in params:
        active = [c for c in registered if c.is_active(one, vocabulary)]
        for criterion in (*active, *criteria):
            if criterion.confidence_top_k(one):
                raise ParameterError(f"{criterion.name} is not allowed here: it follows a Scheduler's steps")


def _uses_logprobs(params: SamplingParams) -> bool:
    """Whether a registered criterion that `params` switch on takes logprobs."""
    registered = default_registry().catalogue.stopping_criteria.values()
    vocabulary = Vocabulary(UNKNOWN_VOCAB_SIZE)
    return any(c.wants_logprobs and c.is_active(params, vocabulary) for c in registered)
