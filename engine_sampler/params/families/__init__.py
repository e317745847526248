"""How families of models write thoughts and calls of tools: one entry for each. To add a family, add an entry
to the module of those that write arguments alike."""

from .family import PLACES, THINK, Family, Reasoning, check_reasoning
from .json_calls import JSON_FAMILIES
from .python_calls import PYTHON_FAMILIES
from .tagged_calls import TAGGED_FAMILIES

__all__ = ["PLACES", "THINK", "TOOL_FAMILIES", "Family", "Reasoning", "check_reasoning"]

TOOL_FAMILIES: dict[str, Family] = {**JSON_FAMILIES, **TAGGED_FAMILIES, **PYTHON_FAMILIES}
"""The families by name: those of xgrammar under its names, and others that vLLM, SGLang or llama.cpp read."""
