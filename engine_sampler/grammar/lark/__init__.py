"""Grammars in Lark's language and in GBNF, read into `Rules` by lark's own loader, for both of its lexers.

gbnf        GBNF, rewritten to Lark's language
statements  splits a text into words and statements, and enforces limits before lark reads it
dialect     rewrites the forms beyond lark's syntax
library     what `%import` finds
messages    translates lark's errors to this package's, with the position in the user's text
grammar     "dynamic_complete": the trees of lark's loader as `Rules`; `rules` reads the rules, `terminals`
            the terminals, `lazy_terminals` the lazy ones among them, `substring` the substrings of a text
contextual/ "contextual": the tables of lark's LALR parser and its lexers
dead_ends/  whether a text that has been begun can still be finished
"""
