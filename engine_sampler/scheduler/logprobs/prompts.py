"""`score_prompt`: the logprobs of prompts, whose rows no step sees."""

from __future__ import annotations

from abc import ABC
from functools import partial
from typing import Any

from ...arithmetic import LogitRows
from ...base.errors import quoted
from ...contract import Vocabulary
from ...requests.ending import RequestError
from ...requests.results import PromptScores, RequestId
from ..membership.live_requests import LiveRequests
from ..membership.step_lock import StepLock
from ..runner import StepRunner


class _ScoresPrompts(ABC):
    """What gives clients the logprobs of their prompts."""

    vocabulary: Vocabulary
    _requests: LiveRequests
    _step_lock: StepLock
    _runner: StepRunner

    def score_prompt(self, request_id: RequestId, logits: Any) -> PromptScores:
        """The logprobs that `prompt_logprobs` and `prompt_logprob_token_ids` ask for.

        logits  [rows, ≥ vocab]: the next rows of the prompt, chunk by chunk from `prompt_logprob_start` on;
                the prompt's last row belongs to the first step.

        Nothing is kept, and siblings and forks share what is done. Raises `RequestError` for other requests,
        ValueError for more rows than are left.
        """
        with self._step_lock:
            scoring = self._requests.find(request_id).prompt_scoring
            if scoring is None:
                raise RequestError(
                    f"request {quoted(request_id)} asks for no logprobs of its prompt (prompt_logprobs, "
                    "prompt_logprob_token_ids)"
                )
            rows = LogitRows(logits, self.vocabulary.size)
            self._step_lock.if_interrupted(partial(setattr, scoring, "done", scoring.done))
            return scoring.score(rows, self._runner.backend_for(rows.device))
