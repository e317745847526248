"""JSON texts in which no array repeats an item, where the schema says so of arrays.

A grammar cannot remember arbitrary items. In programs with such arrays (`Program.unique_items`) their bracket
may be followed by `UNIQUE_MARK`, a byte that no text has: whether the engine accepts it tells a
`NestedItemsMatcher` that such an array has begun. It then remembers the items, by value: `1` and `1.0`, `"a"`
and `"\\u0061"`, `{"a": 1, "b": 2}` and `{"b": 2, "a": 1}` are equal. It removes the tokens after which an
item would occur twice, and those after which all that can follow would: behind such a token it looks for an
item that is left, and the first that it finds decides.
"""

from .matcher import NestedItemsMatcher

__all__ = ["NestedItemsMatcher"]
