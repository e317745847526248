"""What `engine-sampler grammar` does."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

from ..grammar.errors import GrammarError
from ..grammar.grammar import Grammar


def language_of(arguments: argparse.Namespace) -> Grammar:
    """The grammar that the command line names. Raises GrammarError, and OSError for files."""
    if arguments.schema is not None:
        return _schema(Path(arguments.schema).read_text(encoding="utf-8"), arguments.unsupported)
    if arguments.lark is not None:
        return (
            Grammar.from_file(arguments.lark) if arguments.lark.endswith(".lark") else _lark(arguments.lark)
        )
    if arguments.regex is not None:
        return Grammar.from_regex(arguments.regex)
    return _named(arguments.name)


def _schema(text: str, unsupported: Any) -> Grammar:
    """The grammar of a JSON Schema; each keyword that is left out is a line on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        grammar = Grammar.from_json_schema(text, unsupported=unsupported)
    for warning in caught:
        print(f"engine-sampler: left out: {warning.message}", file=sys.stderr)
    return grammar


def _lark(path: str) -> Grammar:
    return Grammar.from_lark(Path(path).read_text(encoding="utf-8"), path=path)


def _named(name: str) -> Grammar:
    from ..grammar.constraints import grammar_named

    found: Any = grammar_named(name)
    if isinstance(found, str):
        return Grammar.from_lark(found)
    if not isinstance(found, Grammar):
        raise GrammarError(f"{name} is a constraint of its own kind: it cannot be printed or tried here")
    return found


def try_text(language: Grammar, text: str, action: str) -> bool:
    """Check, complete or repair `text` and print the outcome; True if there is none."""
    if action == "check":
        found = language.check(text)
        print(found.message)
        return not found.valid
    if action == "complete":
        rest = language.complete(text)
        print("nothing completes this text" if rest is None else rest)
        return rest is None
    print(language.repair(text).text)
    return False
