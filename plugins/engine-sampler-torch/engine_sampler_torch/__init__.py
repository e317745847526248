"""engine-sampler on torch: logits stay on their device, with the same tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine_sampler.contract import DeferredBackend, hookimpl

if TYPE_CHECKING:
    from .backend import TorchBackend
    from .warming import warm_up

__all__ = ["TorchBackend", "register_backends", "warm_up"]


@hookimpl
def register_backends(register: Any) -> None:
    register(DeferredBackend("torch", "engine_sampler_torch.backend:TorchBackend", hosts_the_rest=True))


def __getattr__(name: str) -> Any:
    if name == "TorchBackend":  # when it is first needed: it imports torch
        from .backend import TorchBackend

        return TorchBackend
    if name == "warm_up":
        from .warming import warm_up

        return warm_up
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
