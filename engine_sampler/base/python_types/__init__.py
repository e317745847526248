"""Types, functions and patterns of Python as JSON Schemas, tools, texts and patterns.

pydantic is used where it is installed, and imported when the first type needs it."""

from .choices import choice_texts
from .functions import tool_of
from .patterns import pattern_text
from .schemas import schema_of

__all__ = ["choice_texts", "pattern_text", "schema_of", "tool_of"]
