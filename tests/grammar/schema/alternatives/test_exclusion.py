"""Which subschemas exclude each other."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler.grammar.schema.alternatives.exclusion import Exclusion
from engine_sampler.grammar.schema.document import Document
from engine_sampler.grammar.schema.keywords.all_types import KEYWORDS
from engine_sampler.grammar.schema.nodes import Expander


def _excluded(*schemas: Any) -> bool:
    document = Document({"allOf": list(schemas)})
    expander = Expander(document, KEYWORDS, "error", "assert", None)
    return Exclusion(expander).impossible(expander.literal(one, document.root, ()) for one in schemas)


@pytest.mark.parametrize(
    "schemas",
    [
        ({"type": "string", "pattern": "^A$"}, {"type": "string", "pattern": "^B$"}),
        ({"const": "a"}, {"pattern": "^b"}),
        ({"enum": [f"k{number}" for number in range(40)]}, {"maxLength": 1}),
        ({"type": "string"}, {"type": "integer"}),
        ({"type": "string", "pattern": "^(ab)+$"}, {"maxLength": 3}, {"minLength": 3}),
    ],
    ids=["patterns", "a-constant", "a-list", "types", "lengths"],
)
def test_nothing_satisfies_both(schemas: tuple[Any, ...]) -> None:
    assert _excluded(*schemas)


@pytest.mark.parametrize(
    "schemas",
    [
        ({"type": "string", "pattern": "^A"}, {"type": "string", "pattern": "B$"}),
        ({"pattern": "^A$"}, {"pattern": "^B$"}),
        ({"enum": ["a", 1]}, {"minimum": 1}),
        ({"type": "array"}, {"items": {"type": "string"}}),
        ({"not": {"const": "a"}}, {"not": {"const": "b"}}),
        ({"type": "string", "not": {"enum": ["a"]}}, {"not": {"enum": ["b"]}}),
    ],
    ids=["patterns", "other-types", "numbers", "arrays", "negations", "strings-without-some"],
)
def test_something_may_satisfy_both(schemas: tuple[Any, ...]) -> None:
    assert not _excluded(*schemas)
