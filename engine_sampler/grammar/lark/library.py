"""Where `%import` finds grammars: import paths, this package's library, lark's own.

`%import engine_sampler.json (value)`, or shorter `%import json (value)` where lark has no grammar of
that name. Of a library grammar lark is given only the definitions that are wanted, and what they use:
reading the whole of `common` would take longer than compiling most grammars.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable

from lark.load_grammar import PackageResource, stdlib_loader

from ...packaged import GRAMMAR_FOLDER, PACKAGE, grammar_text
from .lexer import Scan, Statement

Source = Callable[[object, str], "tuple[PackageResource, str]"]


def library(scan: Scan, whole: bool) -> Source:
    """An import path for lark's loader: the libraries, cut to what `scan` imports from them.

    whole   not cut: other files, which are not known here, may import from them as well
    """
    wanted: dict[str, set[str]] = {}
    _note_imports(scan.statements, wanted)

    def source(base_path: object, grammar_path: str) -> tuple[PackageResource, str]:
        if isinstance(base_path, str):
            raise OSError("an import relative to a file is found beside it")
        place, library_scan = _library_scan(grammar_path)
        if whole:
            return place, library_scan.text
        _note_imports(library_scan.statements, wanted)
        names = frozenset(wanted.get(_dotted(grammar_path), ()))
        # The place is what lark knows a text by, so each cut needs its own.
        return PackageResource(place.pkg_name, f"{place.path}:{','.join(sorted(names))}"), _cut(
            library_scan, names
        )

    return source


def _dotted(grammar_path: str) -> str:
    return grammar_path.removesuffix(".lark").replace(os.sep, ".")


@functools.lru_cache(maxsize=64)
def _library_scan(grammar_path: str) -> tuple[PackageResource, Scan]:
    """A library grammar by its path, `json.lark`. Raises OSError if there is none."""
    name = _dotted(grammar_path)
    if not name.startswith(f"{PACKAGE}."):
        try:
            place, text = stdlib_loader(None, grammar_path)
            return place, Scan(text)
        except OSError:
            pass
    name = name.removeprefix(f"{PACKAGE}.")
    return PackageResource(PACKAGE, f"{GRAMMAR_FOLDER}/{name}.lark"), Scan(grammar_text(name))


def _note_imports(statements: Iterable[Statement], wanted: dict[str, set[str]]) -> None:
    """Add to `wanted` which names the %import statements take from which grammar."""
    for statement in statements:
        if statement.kind != "%import":
            continue
        arrow = next((i for i, word in enumerate(statement.words) if word.text == "-"), None)
        words = statement.words[1:arrow]
        bracket = next((i for i, word in enumerate(words) if word.text == "("), None)
        path = [word.text for word in words[:bracket] if word.kind == "name"]
        names = [path.pop()] if bracket is None and path else []
        names += [word.text for word in words[bracket:] if word.kind == "name"] if bracket is not None else []
        wanted.setdefault(".".join(path), set()).update(names)


def _cut(scan: Scan, names: Iterable[str]) -> str:
    """The definitions of `names` and of all that they use; all other statements but %ignore."""
    definitions: dict[str, list[Statement]] = {}
    for statement in scan.statements:
        if statement.defines:
            definitions.setdefault(statement.defines, []).append(statement)
    kept = [s for s in scan.statements if not s.defines and s.kind != "%ignore"]
    seen, waiting = set(names), list(names)
    while waiting:
        for statement in definitions.get(waiting.pop(), ()):
            kept.append(statement)
            new = set(statement.uses) - seen
            seen |= new
            waiting += new
    kept.sort(key=lambda statement: statement.words[0].start)
    return "\n".join(scan.text[s.words[0].start : s.words[-1].end] for s in kept)
