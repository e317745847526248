"""The bytes of every token, read from other libraries: one module per source.

A module imports the library that it is named after only when it is called."""

from .tokenizer import Tokenizer, check_tokenizer
