"""The `engine-sampler grammar` command."""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

from ..grammar.errors import GrammarError
from ..grammar.grammar import Grammar
from .options import read_text

_SOURCES = ("schema", "lark", "gbnf", "regex", "name")
"""The options that give a grammar."""


def grammar_of(arguments: argparse.Namespace) -> Grammar:
    """The grammar given on the command line. Raises GrammarError, OSError for a file, and ValueError for
    none and for two of them."""
    options = [name for name in _SOURCES if getattr(arguments, name) is not None]
    if arguments.file is not None:
        if options:
            raise ValueError(f"argument --{options[0]}: not allowed with argument FILE")
        return _of_file(arguments.file, arguments)
    if not options:
        raise ValueError(f"one of the arguments FILE --{' --'.join(_SOURCES)} is required")
    if arguments.schema is not None:
        return _schema(read_text(arguments.schema), arguments.unsupported)
    if arguments.lark is not None:
        return _lark(arguments.lark, arguments.lexer)
    if arguments.gbnf is not None:
        return Grammar.from_gbnf(read_text(arguments.gbnf))
    if arguments.regex is not None:
        return Grammar.from_regex(arguments.regex)
    return _named(arguments.name)


def _schema(text: str, unsupported: Any) -> Grammar:
    """The grammar of a JSON Schema; each ignored keyword is reported in a line on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        grammar = Grammar.from_json_schema(text, unsupported=unsupported)
    for warning in caught:
        print(f"engine-sampler: ignored: {warning.message}", file=sys.stderr)
    return grammar


def _of_file(path: str, arguments: argparse.Namespace) -> Grammar:
    """The grammar of a file, whose name says what it is."""
    if path.endswith(".json"):
        return _schema(read_text(path), arguments.unsupported)
    if path.endswith(".lark"):
        return _lark(path, arguments.lexer)
    if path.endswith(".gbnf"):
        return Grammar.from_gbnf(read_text(path))
    if path.endswith(".grammar"):
        return Grammar.load(path)
    raise GrammarError(f"{path} is not allowed: a file .json, .lark, .gbnf or .grammar")


def _lark(path: str, lexer: Any) -> Grammar:
    return Grammar.from_lark(read_text(path), path=path, lexer=lexer)


def _named(name: str) -> Grammar:
    from ..grammar.plugin.constraints import grammar_named

    constraint: Any = grammar_named(name)
    if isinstance(constraint, str):
        return Grammar.from_lark(constraint)
    if not isinstance(constraint, Grammar):
        raise GrammarError(f"{name} is a custom constraint, not a grammar: it cannot be printed or checked")
    return constraint


def print_rules(grammar: Grammar, as_read: bool) -> None:
    """Print rules and terminals: the text that they were read from, if that is wanted and there is one, or as
    engines read them."""
    from ..grammar.printing.listing import Listing

    print(grammar.text if as_read and grammar.text is not None else Listing(grammar.program).text())


def print_mask(grammar: Grammar, beginning: str, tokenizer: str | None, engine: str) -> bool:
    """Print what may follow the beginning of a text; True if it cannot be read."""
    from ..explain import explain_mask, mask_lines
    from .tokenizers import tokenizer_from

    vocabulary = tokenizer_from(tokenizer)
    explanation = explain_mask(grammar, vocabulary, beginning.encode(), engine)
    print(*mask_lines(explanation, vocabulary), sep="\n")
    return explanation.refused is not None


def process_text(grammar: Grammar, text: str, action: str) -> bool:
    """Check or complete `text` and print the outcome; True if it is invalid or has no completion."""
    if action == "check":
        result = grammar.check(text)
        print(result.message)
        return not result.valid
    completion = grammar.complete(text)
    print("no completion exists for this text" if completion is None else completion)
    return completion is None
