"""GBNF, llama.cpp's language of grammars, read to the trees that lark builds of a grammar in its own.

    root   ::= item+                         a rule; the text is what `root` matches
    item   ::= "- " [^\\r\\n]{1,80} "\\n"       literals, character classes, repetitions
    number ::= ("-"? [0-9]+ | "." ) # text   groups, choices, comments; `.` is any character
    call   ::= <|tool|> <[12]>               special tokens, by name or id
    free   ::= (!</think> | !<[12]>)*        any token but this one; `<[^1,5-9]>` and `<[*]>` as in Lark

xgrammar's EBNF is read as well: a line that defines no rule continues the one before, names may have dots,
`{2,-1}` has no upper bound, and a look-ahead `(= x)`, which only speeds xgrammar up, is read and left out.
Its macros, such as `TagDispatch(...)`, are those of `macros`. The attributes of a rule, `name[...] ::=`, are
`capture`, sampling parameters, `lazy`, `max_tokens` and `max_chars`, as in Lark. A rule with one of the last
three is one terminal: it and the rules in it may lead back to themselves at their ends only.

Escapes are \\n \\r \\t \\\\ \\" \\[ \\] \\- \\xHH \\uHHHH \\UHHHHHHHH. A rule ends where
the next one begins.

Source: llama.cpp's grammars/README.md and its parser. They differ: there, text that spells the name of a
special token matches it as well, left recursion is refused (allowed here), and a repetition of 2000 or more
has no upper bound.
"""

from .reading import Gbnf, is_gbnf, read_gbnf
