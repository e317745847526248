"""SGLang as these tests use it: configured for a CPU, with this package registered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


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
