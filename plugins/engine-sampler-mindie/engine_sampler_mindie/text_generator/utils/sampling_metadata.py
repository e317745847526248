"""The names of `mindie_llm.text_generator.utils.sampling_metadata`."""

from ...inputs import SamplingData, SamplingParam
from ...metadata import SamplingMetadata

__all__ = ["SamplingData", "SamplingMetadata", "SamplingParam"]
