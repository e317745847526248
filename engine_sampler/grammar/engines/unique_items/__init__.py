"""JSON texts in which no array repeats an item, where the schema says so of arrays.

A grammar cannot remember arbitrary items. In programs with such arrays (`Program.unique_items`) their bracket
may be followed by `UNIQUE_MARK`, a byte that no text has: whether the engine accepts it tells a
`UniqueItemsMatcher` that such an array has begun. It then remembers the items by value. Where one ends that
the array has, it shows the engine the mark again: arrays that may repeat items read it, others do not. So
each alternative of a schema has its own law, and an item is refused only if no alternative may repeat it.

It removes from masks the tokens after which an item would be repeated so, and those after which all that can
follow would: behind a token that may lead to nothing else it looks for a **way out**, bytes after which the
text can no longer repeat an item.
"""

from .matcher import UniqueItems, UniqueItemsMatcher
