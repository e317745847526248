"""engine-sampler on torch: logits stay on their device, with the same tokens."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from engine_sampler.contract import DeferredBackend, hookimpl

if TYPE_CHECKING:
    from .backend import TorchBackend
    from .replaying import ReplayRecord, replay
    from .warming import warm_up

__all__ = ["ReplayRecord", "TorchBackend", "register_backends", "replay", "warm_up"]


@hookimpl
def register_backends(register: Any) -> None:
    register(DeferredBackend("torch", "engine_sampler_torch.backend:TorchBackend", hosts_the_rest=True))


_MODULES = {
    "ReplayRecord": "replaying",
    "TorchBackend": "backend",
    "replay": "replaying",
    "warm_up": "warming",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:  # when it is first needed: they import torch
        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
