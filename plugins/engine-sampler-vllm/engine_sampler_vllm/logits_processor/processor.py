"""`Processor`: both of vLLM's processor interfaces in one class, without vLLM's base classes."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from .persistent import PersistentBatch
from .requests import Requests
from .settings import settings_of
from .slots import RequestSlots


class Processor:
    """Implements `EngineSampler`. V1's runner calls cls(vllm_config, device, is_pin_memory), V2's
    cls(vllm_config, req_states)."""

    def __init__(self, vllm_config: Any, *state: Any) -> None:
        requests = Requests(vllm_config)
        self._batch = PersistentBatch(requests)
        self._slots = RequestSlots(requests, state[0])

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Raise ValueError (`ParameterError`; HTTP 400) for invalid keys of ours in `extra_args`."""
        settings_of(sampling_params)

    def apply(self, logits: Any, ctx: Any = None) -> Any:
        """`logits` [rows, vocab] float32, processed in place where a row's request enables our samplers."""
        with _sync_allowed():
            return self._batch.apply(logits) if ctx is None else self._slots.apply(logits, ctx)

    # --- V1 --------------------------------------------------------------------------------------

    def is_argmax_invariant(self) -> bool:
        """False: penalties, DRY, XTC and others can change the best token."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Apply the changes of the persistent batch; None for no change."""
        self._batch.update(batch_update)

    # --- V2 --------------------------------------------------------------------------------------

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Assign slot `req_idx` to a request; returns whether it enables our samplers."""
        return self._slots.add(req_idx, sampling_params)

    def apply_staged_writes(self) -> None:
        """Nothing to apply: all our state is on the host."""


def _sync_allowed() -> AbstractContextManager[Any]:
    """vLLM's permission to wait for the device, if it checks for that (VLLM_GPU_SYNC_CHECK)."""
    sync_check = sys.modules.get("vllm.utils.gpu_sync_debug")
    return nullcontext() if sync_check is None else sync_check.gpu_sync_allowed()
