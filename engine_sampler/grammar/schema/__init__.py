"""JSON Schema as grammars (draft 2020-12, with the forms of drafts 4 to 2019-09).

A schema goes through these modules, from what is written to what the engines read:

    document    what `$ref` leads to
    keywords    of each keyword what it says (`keywords_array`, `keywords_object`, `keywords_scalar`), as a
                `formula` over one JSON type; `unevaluated` for the two that look at others
    clauses     formulas as alternatives of plain assertions
    objects, arrays, strings, numbers    what an alternative says, ready to be written
    emitting    automata and rules
"""

from .compiling import add_schema, rules_from_schema

__all__ = ["add_schema", "rules_from_schema"]
