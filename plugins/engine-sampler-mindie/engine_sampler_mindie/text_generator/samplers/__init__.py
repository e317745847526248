"""The sampler of `mindie_llm.text_generator.samplers`."""

from .sampler import Sampler

__all__ = ["Sampler"]
