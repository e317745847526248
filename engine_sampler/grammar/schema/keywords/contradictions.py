"""Where in a schema its keywords leave no value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...errors import GrammarError
from ...work import spend
from .objects import required_keys

if TYPE_CHECKING:
    from ..nodes import Expander
    from ..values import Literals, Values


def no_value(values: Values, literals: Literals) -> GrammarError:
    """The error for literals that no value satisfies. Its place is what rules all values out, as far as it is
    easily found: in a member that is needed, in one of its members, and so on."""
    expander = values.expander
    seen: set[Literals] = set()
    while literals not in seen:
        seen.add(literals)
        needed = [other.literals for other in values.missing(values.get(literals)) or ()]
        needed += [frozenset((one,)) for one in _needed(expander, literals)]
        spend(10 + 4 * len(needed))
        literals = next((n for n in needed if n not in seen and not values.is_productive(n)), literals)
    error = GrammarError("no value is valid under the JSON Schema")
    error.place = _place(expander, literals)
    return error


def _needed(expander: Expander, literals: Literals) -> list[int]:
    """The literals of the members that subschemas both require and describe."""
    needed = []
    for node in expander.schemas(literals):
        said = dict(node.items)
        members = said.get("properties", {})
        needed += [expander.child(node, members[name]) for name in _required(said) if name in members]
    return needed


def _place(expander: Expander, literals: Literals) -> tuple[Any, str] | None:
    """A subschema with the keyword that rules all values out: `enum`, `const`, or `required` of a key that is
    forbidden; or else the first subschema."""
    nodes = expander.schemas(literals)
    for node in nodes:
        said = dict(node.items)
        names = {*said.get("properties", ()), *said.get("patternProperties", ())}
        is_closed = said.get("additionalProperties") is False and not names.issuperset(_required(said))
        found = [name for name in ("enum", "const") if name in said] + ["required"] * is_closed
        if found:
            return node.value, found[0]
    return (nodes[0].value, "") if nodes else None


def _required(said: Mapping[str, Any]) -> list[str]:
    """The keys that the keywords of a subschema require."""
    return required_keys(said.get("required", True))
