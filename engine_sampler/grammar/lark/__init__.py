"""Lark text and GBNF, read into rules: by lark's own loader, for both of its lexers."""
