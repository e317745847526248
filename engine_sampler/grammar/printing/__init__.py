"""Grammars as text: print a grammar, such as that of a schema, in Lark's language."""
