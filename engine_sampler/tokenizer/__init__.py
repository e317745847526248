"""The bytes of every token, and where they come from: one module per source.

A module imports the library it is named after only when it is called."""

from .tokenizer import Tokenizer

__all__ = [
    "Tokenizer",
]
