"""engine-sampler on torch: logits stay on their device, with the same tokens."""

from __future__ import annotations

from typing import Any

from engine_sampler import hookimpl

from .backend import TorchBackend

__all__ = ["TorchBackend", "register_backends"]


@hookimpl
def register_backends(register: Any) -> None:
    register(TorchBackend())
