"""Lark grammars as lark's LALR parser with its contextual lexer reads them: `lexer="contextual"`.

    reading           a loaded grammar becomes the tables of the parser and its lexers
    expansion_bounds  bounds the size of the rules that lark writes out for them
    lalr_tables       the tables of the parser; `lalr_analysis` finds their states
    lexer_order       in which order the lexers try terminals, and which are keywords
    lexer_dead_ends   terminals after whose longest match the parser cannot go on
    ways_on           with which terminals the texts of the parser go on to an end
    lexer_endings     how the terminals of a lexer end, and what may follow them then: first roughly, by
                      bytes; then exactly, by derivatives, where the rough view finds something suspicious

`Grammar.from_lark` alone comes in here, by `rules_from_lalr`.
"""

from .reading import rules_from_lalr
