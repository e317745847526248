"""The `engine-sampler grammar` command."""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

from ..grammar.errors import GrammarError
from ..grammar.grammar import Grammar
from .options import read_text


def grammar_of(arguments: argparse.Namespace) -> Grammar:
    """The grammar given on the command line. Raises GrammarError, and OSError for a file."""
    if arguments.schema is not None:
        return _schema(read_text(arguments.schema), arguments.unsupported)
    if arguments.lark is not None:
        return (
            Grammar.from_file(arguments.lark) if arguments.lark.endswith(".lark") else _lark(arguments.lark)
        )
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


def _lark(path: str) -> Grammar:
    return Grammar.from_lark(read_text(path), path=path)


def _named(name: str) -> Grammar:
    from ..grammar.constraints import grammar_named

    constraint: Any = grammar_named(name)
    if isinstance(constraint, str):
        return Grammar.from_lark(constraint)
    if not isinstance(constraint, Grammar):
        raise GrammarError(f"{name} is a custom constraint, not a grammar: it cannot be printed or checked")
    return constraint


def process_text(grammar: Grammar, text: str, action: str) -> bool:
    """Check, complete or repair `text` and print the outcome; True if it is invalid or has no completion."""
    if action == "check":
        result = grammar.check(text)
        print(result.message)
        return not result.valid
    if action == "complete":
        completion = grammar.complete(text)
        print("no completion exists for this text" if completion is None else completion)
        return completion is None
    print(grammar.repair(text).text)
    return False
