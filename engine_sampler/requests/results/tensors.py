"""`ResultTensors`: what a step has drawn, as arrays of the library from which the logits came."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from ...base.errors import described


class ResultTensors(NamedTuple):
    """The tokens and logprobs of a step beside its logits: torch tensors on their device, or NumPy arrays.

    token_ids  int64 [rows], as in the result.
    logprob_token_ids  int64 [rows, 1 + k], the chosen token first, −1 where a row has no entry.
    logprobs   float32 [rows, 1 + k], NaN where a row has no entry.
    ranks      int64 [rows], as in the result's logprobs.
    The last three are None without logprobs.
    """

    token_ids: Any
    logprob_token_ids: Any = None
    logprobs: Any = None
    ranks: Any = None


class WithTensors:
    """A result of a step."""

    token_ids: np.ndarray
    logprobs: Any
    token_ids_on_device: Any

    def tensors(self, logits: Any) -> ResultTensors:
        """The result for an engine that goes on where its logits are.

        logits  those of the step, or anything else of their library on their device: torch gives tensors,
                NumPy the arrays of the result.

        Tokens that the backend has left on that device are not copied, and on the host tensors share the
        memory of the arrays; everything else is copied there. Raises TypeError for other libraries.
        """
        like = _placing(logits)
        there = self.token_ids_on_device
        is_there = there is not None and getattr(logits, "device", None) == there.device
        token_ids = there if is_there else like(self.token_ids)
        table = self.logprobs
        if table is None:
            return ResultTensors(token_ids)
        return ResultTensors(token_ids, *map(like, (table.token_ids, table.logprobs, table.ranks)))


def _placing(logits: Any) -> Any:
    """What puts an array beside `logits`."""
    torch = sys.modules.get("torch")  # never imported here
    if torch is not None and isinstance(logits, torch.Tensor):
        return lambda array: torch.from_numpy(array).to(logits.device)
    if isinstance(logits, np.ndarray):
        return lambda array: array
    raise TypeError(f"logits={described(logits)} is not allowed: a torch tensor or a NumPy array")
