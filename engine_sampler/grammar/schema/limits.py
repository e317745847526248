"""Limits on the compilation of a JSON Schema: schemas may come from untrusted clients."""

from __future__ import annotations

MAX_DEPTH = 100
"""Maximum nesting depth of subschemas that apply to the same value (allOf, not, $ref, ...)."""

MAX_TEXT = 4_000_000
"""Maximum length of a schema given as text, in characters."""

MAX_REFERENCE = 50_000
"""Maximum length of a reference, and of a URI, in characters."""

MAX_VALUES = 5_000
"""Maximum number of combinations of subschemas that values may have to satisfy."""

MAX_CLAUSES = 1_024
"""Maximum number of alternatives for one value after anyOf, oneOf, not and if are multiplied out."""

MAX_WEIGHT = 10_000
"""Maximum number of assertions that one subschema may produce for one type of value."""

MAX_PATTERNS = 32
"""Maximum number of patterns against which the keys of one object are matched."""

MAX_CELLS = 64
"""Maximum number of sets of keys, or kinds of items, that are distinguished in one object or array."""

MAX_ITEM_STATES = 3_000
"""Maximum number of states of one array whose counts cannot be left to registers."""

MAX_NUMBER_STATES = 20_000
"""Maximum number of states of one number's automaton."""

MAX_DIGITS = 400
"""Maximum number of digits of a number in a schema, and of zeros that its exponent implies."""
