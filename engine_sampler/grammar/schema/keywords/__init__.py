"""The meaning of each keyword, as a formula over one JSON type.

all_types                 keywords for all types, and the table of all keywords
arrays, objects, scalars  keywords for one type
unevaluated               the two that depend on what other keywords have evaluated
contradictions            where keywords leave no value
without_effect            what a schema says in vain, and what is not a schema
"""
