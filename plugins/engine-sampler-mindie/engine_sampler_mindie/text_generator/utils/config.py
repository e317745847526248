"""The names of `mindie_llm.text_generator.utils.config` that a sampler is made with."""

from ...config import HandlingBackend, SamplerConfig

__all__ = ["HandlingBackend", "SamplerConfig"]
