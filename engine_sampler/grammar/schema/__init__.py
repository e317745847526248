"""JSON Schema as grammars (draft 2020-12, with the forms of drafts 4 to 2019-09).

A schema passes through these modules, from its source to the arrays that the engines read:

    options     what a caller may choose
    document    the targets of `$ref`
    keywords    the meaning of each keyword (`keywords_array`, `keywords_object`, `keywords_scalar`), as a
                `formula` over one JSON type; `unevaluated` for the two that depend on other keywords
    clauses     formulas as disjunctions of plain assertions
    objects, arrays, strings, numbers    the values of one disjunct, in a form that can be emitted
    emitting    automata and rules, with the white space of `layout`; `ordering` for keys in order

Nothing is imported here, so that whoever needs only `options` does not load what reads schemas.
"""
