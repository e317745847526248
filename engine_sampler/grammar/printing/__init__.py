"""Grammars as text: what a schema or a pattern stands for, in Lark's language."""
