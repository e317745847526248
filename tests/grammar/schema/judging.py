"""Check which texts the grammar of a JSON Schema accepts."""

from __future__ import annotations

import json
from typing import Any

from engine_sampler.grammar.correction.correction import BYTES
from engine_sampler.grammar.engines.unique_items import UniqueItems
from engine_sampler.grammar.schema.compiling import rules_from_schema
from engine_sampler.grammar.schema.options import SchemaOptions

from ..both_engines import FASTEST


class Judge:
    """The grammar of a schema."""

    def __init__(self, schema: Any, **options: Any) -> None:
        program = rules_from_schema(schema, SchemaOptions(**options)).program()
        matcher = FASTEST(program, ()).matcher()
        self._matcher = UniqueItems(program, BYTES).matcher(matcher) if program.unique_items else matcher

    def accepts(self, text: str | bytes) -> bool:
        """Whether a whole text is accepted."""
        matcher = self._matcher.fork()
        data = text.encode() if isinstance(text, str) else text
        return bool(matcher.accept_bytes(data) and matcher.is_accepting())

    def accepts_value(self, value: Any) -> bool:
        """Whether a value is accepted, as `json.dumps` writes it."""
        return self.accepts(json.dumps(value))

    def begins(self, text: str) -> bool:
        """Whether a text is a prefix of an accepted one."""
        return bool(self._matcher.fork().accept_bytes(text.encode()))


def accepted(schema: Any, *texts: str, **options: Any) -> list[str]:
    """The texts that the schema's grammar accepts."""
    judge = Judge(schema, **options)
    return [text for text in texts if judge.accepts(text)]
