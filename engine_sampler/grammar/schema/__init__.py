"""JSON Schema as grammars (draft 2020-12, with the forms of drafts 4 to 2019-09).

A schema passes through these modules, from its source to the arrays that the engines read:

    options     what a caller may choose
    document    the targets of `$ref`
    keywords/   the meaning of each keyword, as a `formula` over one JSON type
    clauses     formulas as disjunctions of plain assertions
    objects, arrays, scalars/    the values of one disjunct, in a form that can be emitted
    emitting    automata and rules, with the white space of `layout`; `ordering` for keys in order

Nothing is imported here, so that whoever needs only `options` does not load what reads schemas.
"""
