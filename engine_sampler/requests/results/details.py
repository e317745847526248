"""`StepDetails`: what a request wants to know of each of its steps beside its logprobs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...contract import Vocabulary
from ...params import SamplingParams


@dataclass(frozen=True, eq=False)
class StepDetails:
    """What a request wants to know of each of its steps beside its logprobs.

    mask_cap   how many ids a row of its sampling mask lists at most, −1: any number; 0: it has no mask.
    given_ids  int64 [k], the tokens whose logprobs it names.
    modes      the kinds of these.
    """

    mask_cap: int
    given_ids: np.ndarray
    modes: tuple[str, ...]

    @classmethod
    def of(cls, params: SamplingParams, vocabulary: Vocabulary) -> StepDetails | None:
        """None for parameters that ask for none. Raises `ParameterError` for ids that do not exist."""
        mask_cap, named = params["return_sampling_mask"], params["logprob_token_ids"]
        if not mask_cap and named is None:
            return None
        token_ids = named or ()
        vocabulary.check_ids("logprob_token_ids", token_ids)
        return cls(mask_cap, np.array(token_ids, np.int64), modes_of(params) if token_ids else ())

    @property
    def of_survivors(self) -> bool:
        """Whether the rows after their chains are needed."""
        return bool(self.mask_cap) or "processed" in self.modes


def modes_of(params: SamplingParams) -> tuple[str, ...]:
    """The kinds of logprobs that are reported, if any are."""
    mode = params.logprobs_mode
    return (mode,) if isinstance(mode, str) else tuple(mode)
