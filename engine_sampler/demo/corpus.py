"""Training text: the documentation in every Python installation, or a file that the user supplies.

The text is split into short documents. The model learns an end-of-text token after each of them, so that
requests can end on their own.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

DOCUMENTED_MODULES = (
    "argparse ast asyncio bdb calendar cmd collections configparser contextlib copy csv datetime difflib "
    "doctest email enum fileinput fractions functools gettext heapq imaplib inspect ipaddress json logging "
    "mailbox mimetypes optparse pathlib pdb pickle pkgutil platform pydoc queue random sched shlex shutil "
    "smtplib socket socketserver statistics string subprocess tarfile tempfile textwrap threading timeit "
    "tkinter traceback typing unittest uuid weakref zipfile"
).split()
"""Standard library modules with much prose in their docstrings; missing ones are skipped."""

MAX_CHARACTERS = 8_000_000
"""How much of a file is read; more would slow down the start."""

MIN_CHARACTERS = 1500
"""Paragraphs are joined into documents of about this length: a few hundred tokens."""

_BLANK_LINES = re.compile(r"\n[ \t]*\n")
_MARKUP = re.compile(r"``|(?<!\w)\*(?=\w)|(?<=\w)\*(?!\w)")


def read_corpus(path: str | Path | None = None) -> list[str]:
    """Documents: the paragraphs of the file at `path`, or the embedded corpus.

    Raises OSError if the file cannot be read, ValueError if it contains no text.
    """
    if path is None:
        return embedded_corpus()
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read(MAX_CHARACTERS)
    paragraphs = [p.strip() for p in _BLANK_LINES.split(text) if p.strip()]
    if not paragraphs:
        raise ValueError(f"{path} contains no text to learn from")
    return paragraphs


def embedded_corpus() -> list[str]:
    """Prose of the language reference and of the standard library's docstrings, each paragraph once."""
    texts = (*_language_reference(), *_docstrings())
    return list(joined(dict.fromkeys(paragraph for text in texts for paragraph in prose(text))))


def prose(text: str) -> Iterator[str]:
    """The paragraphs of `text` that are sentences, each on one line: no code, tables or headings."""
    for block in _BLANK_LINES.split(text):
        is_code = block[:1].isspace() and not block.lstrip().startswith(("*", "-"))
        paragraph = _MARKUP.sub("", " ".join(block.split())).lstrip("*- ")
        letters = sum(c.isalpha() or c == " " for c in paragraph)
        is_sentence = paragraph.endswith((".", "!", "?")) and letters > 0.85 * len(paragraph)
        if is_sentence and not is_code and len(paragraph) > 60 and ">>>" not in paragraph:
            yield paragraph


def joined(paragraphs: Iterable[str]) -> Iterator[str]:
    """Consecutive paragraphs, joined until they reach `MIN_CHARACTERS`."""
    document = ""
    for paragraph in paragraphs:
        document = f"{document} {paragraph}" if document else paragraph
        if len(document) >= MIN_CHARACTERS:
            yield document
            document = ""
    if document:
        yield document


def _language_reference() -> list[str]:
    try:
        topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    except ImportError:  # some distributions package it separately
        return []
    return list(topics.values())


def _docstrings() -> Iterator[str]:
    """Docstrings parsed from the modules' source, without importing them."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for name in DOCUMENTED_MODULES:
        for node in ast.walk(ast.parse(_source(name))):
            if isinstance(node, kinds) and (docstring := ast.get_docstring(node)):
                yield docstring


def _source(module: str) -> str:
    spec = importlib.util.find_spec(module)
    get_source = getattr(spec.loader, "get_source", None) if spec else None
    return (get_source(module) if get_source else None) or ""
