"""`score_prompt`: the logprobs of prompts, whose rows no step sees."""

from __future__ import annotations

from abc import ABC
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
        """The logprobs of a prompt, from the rows that the forward pass has for it: for clients that ask for
        `prompt_logprobs`, or for those of certain tokens (`prompt_logprob_token_ids`).

            for rows in chunks:  # of the prefill, without the prompt's last row
                scores = scheduler.score_prompt(request_id, rows)

        logits  [rows, ≥ vocab], as in `step`: the next rows of the prompt. The first call begins with row
                `prompt_logprob_start`; row r predicts token r + 1 of the prompt.

        Nothing is kept: the result has these rows alone. Logprobs are those of the model, whatever
        `logprobs_mode` is. A faulty row has no logprobs (NaN), and rank 0. One call for a prompt does for all requests of
        `add_group`, and for forks. The rows of a request that moves to another scheduler are scored there
        anew, if at all.

        Raises `RequestError` for a request that asks for no such logprobs, ValueError for more rows than are
        left, and TypeError for other arrays, before anything changes.
        """
        with self._step_lock:
            scoring = self._requests.find(request_id).prompt_scoring
            if scoring is None:
                raise RequestError(
                    f"request {quoted(request_id)} asks for no logprobs of its prompt (prompt_logprobs, "
                    "prompt_logprob_token_ids)"
                )
            rows = LogitRows(logits, self.vocabulary.size)
            return scoring.score(rows, self._runner.backend_for(rows.device))
