"""The name of `mindie_llm.text_generator.utils.sampling_output`."""

from ...output import SamplingOutput

__all__ = ["SamplingOutput"]
