"""JSON Schema as grammars (draft 2020-12, with the forms of drafts 4 to 2019-09)."""

from .compiling import add_schema, rules_from_schema

__all__ = ["add_schema", "rules_from_schema"]
