"""Types, functions and patterns of Python as JSON Schemas, tools, texts and patterns.

pydantic reads the types, and is imported when the first of them needs it."""

from .schemas import schema_of
from .texts import choice_texts, pattern_text
from .tools import tool_of
