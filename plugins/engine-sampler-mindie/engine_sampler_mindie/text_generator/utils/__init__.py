"""The data that `mindie_llm.text_generator.utils` describes a batch with."""

from .sampling_output import SamplingOutput

__all__ = ["SamplingOutput"]
