"""SGLang as these tests use it: configured for a CPU, with this package registered."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest


class _NoImages:
    """A finder of torchvision where there is none for the installed torch: SGLang imports names of it for
    models that see, and nothing here calls them."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, _NoImages, is_package=True) if name.split(".")[0] == "torchvision" else None

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        return _AnyNames(spec.name)

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        pass


class _AnyNames(ModuleType):
    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


if importlib.util.find_spec("sglang") and not importlib.util.find_spec("torchvision"):
    import transformers.utils

    assert not transformers.utils.is_torchvision_available()  # asked first: it is not to use this one
    sys.meta_path.append(_NoImages)


@pytest.fixture(scope="module", autouse=True)
def _sglang() -> Iterator[None]:
    """The smallest configuration of a process of SGLang's, and one process group."""
    import torch
    from sglang.srt import runtime_context
    from sglang.srt.server_args import ServerArgs

    arguments = ServerArgs(model_path="none")
    arguments.device, arguments.random_seed = "cpu", 5
    arguments.sampling_backend = arguments.grammar_backend = "engine_sampler"
    runtime_context._CONTEXT.set_server_args(arguments)
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    with torch.compiler.set_stance("force_eager"):  # nothing here is worth compiling
        yield
    torch.distributed.destroy_process_group()


@pytest.fixture(autouse=True)
def registered() -> Iterator[Any]:
    """The package, registered."""
    import engine_sampler_sglang

    engine_sampler_sglang.register()
    yield engine_sampler_sglang
    engine_sampler_sglang.unregister()
