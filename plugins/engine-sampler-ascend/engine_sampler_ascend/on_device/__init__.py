"""What needs an NPU, in one command: `python -m engine_sampler_ascend`."""

from .command import main

__all__ = ["main"]
