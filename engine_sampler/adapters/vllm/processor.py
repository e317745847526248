"""`Processor`: both of vLLM's processor interfaces in one class, without vLLM's base classes."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from .persistent import PersistentBatch
from .requests import Requests
from .settings import settings_of
from .slots import Slots


class Processor:
    """What `EngineSampler` does. V1's runner makes it as cls(vllm_config, device, is_pin_memory), V2's as
    cls(vllm_config, req_states)."""

    def __init__(self, vllm_config: Any, *state: Any) -> None:
        requests = Requests(vllm_config)
        self._batch = PersistentBatch(requests)
        self._slots = Slots(requests, state[0])

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Raise ValueError (`ParameterError`; HTTP 400) for keys of `extra_args` that are ours and wrong."""
        settings_of(sampling_params)

    def apply(self, logits: Any, ctx: Any = None) -> Any:
        """`logits` [rows, vocab] float32, with the rows edited in place whose requests asked for it."""
        with _sync_allowed():
            return self._batch.apply(logits) if ctx is None else self._slots.apply(logits, ctx)

    # --- V1 --------------------------------------------------------------------------------------

    def is_argmax_invariant(self) -> bool:
        """False: penalties, DRY, XTC and others can change the best token."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Follow the changes of the persistent batch; None for none."""
        self._batch.update(batch_update)

    # --- V2 --------------------------------------------------------------------------------------

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """A request takes the slot `req_idx`; whether it asks for our samplers."""
        return self._slots.add(req_idx, sampling_params)

    def apply_staged_writes(self) -> None:
        """Nothing is staged: all our state is on the host."""


def _sync_allowed() -> AbstractContextManager[Any]:
    """vLLM's leave to wait for the device, where it watches for that (VLLM_GPU_SYNC_CHECK)."""
    watch = sys.modules.get("vllm.utils.gpu_sync_debug")
    return nullcontext() if watch is None else watch.gpu_sync_allowed()
