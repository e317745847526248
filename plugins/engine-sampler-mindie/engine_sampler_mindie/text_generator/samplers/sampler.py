"""The name of `mindie_llm.text_generator.samplers.sampler`."""

from ...sampler import Sampler

__all__ = ["Sampler"]
