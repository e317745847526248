"""The grammars that `%import` finds: those in import paths, this package's library and lark's own.

A library grammar is imported by `%import engine_sampler.json (value)`, or by the shorter
`%import json (value)` if lark has no grammar of that name. Lark reads only the imported definitions and those
that they use: to read the whole of `common` would take longer than to compile most grammars.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable

from lark.load_grammar import PackageResource, stdlib_loader

from ...base.packaged import GRAMMAR_FOLDER, PACKAGE, grammar_text
from .statements import Scan, Statement

Source = Callable[[object, str], "tuple[PackageResource, str]"]


def library_source(scan: Scan, whole: bool) -> Source:
    """An import path for lark's loader: the libraries, reduced to the definitions that `scan` imports.

    whole   not reduced: other files, which are unknown here, may import from them as well
    """
    imported: dict[str, set[str]] = {}
    _add_imports(scan.statements, imported)

    def source(base_path: object, grammar_path: str) -> tuple[PackageResource, str]:
        if isinstance(base_path, str):
            raise OSError("a relative import is resolved next to the importing file")
        resource, library_scan = _library_scan(grammar_path)
        if whole:
            return resource, library_scan.text
        _add_imports(library_scan.statements, imported)
        names = frozenset(imported.get(_dotted(grammar_path), ()))
        # Lark identifies a text by its resource, so each reduced text needs its own.
        reduced = PackageResource(resource.pkg_name, f"{resource.path}:{','.join(sorted(names))}")
        return reduced, _reduced(library_scan, names)

    return source


def _dotted(grammar_path: str) -> str:
    return grammar_path.removesuffix(".lark").replace(os.sep, ".")


@functools.lru_cache(maxsize=64)
def _library_scan(grammar_path: str) -> tuple[PackageResource, Scan]:
    """A library grammar by its path, such as `json.lark`. Raises OSError if there is none."""
    name = _dotted(grammar_path)
    if not name.startswith(f"{PACKAGE}."):
        try:
            resource, text = stdlib_loader(None, grammar_path)
            return resource, Scan(text)
        except OSError:
            pass
    name = name.removeprefix(f"{PACKAGE}.")
    return PackageResource(PACKAGE, f"{GRAMMAR_FOLDER}/{name}.lark"), Scan(grammar_text(name))


def library_definitions(path: str) -> list[str]:
    """The names that a library grammar such as `common` defines; none if there is no such grammar."""
    try:
        return [one.defines for one in _library_scan(f"{path}.lark")[1].statements if one.defines]
    except (OSError, ValueError):
        return []


def _add_imports(statements: Iterable[Statement], imported: dict[str, set[str]]) -> None:
    """Add the names that the %import statements take to those of their grammar in `imported`."""
    for statement in statements:
        if statement.kind != "%import":
            continue
        arrow = next((i for i, word in enumerate(statement.words) if word.kind == "arrow"), None)
        words = statement.words[1:arrow]
        bracket = next((i for i, word in enumerate(words) if word.text == "("), None)
        path = [word.text for word in words[:bracket] if word.kind == "name"]
        names = [path.pop()] if bracket is None and path else []
        names += [word.text for word in words[bracket:] if word.kind == "name"] if bracket is not None else []
        imported.setdefault(".".join(path), set()).update(names)


def _reduced(scan: Scan, names: Iterable[str]) -> str:
    """The definitions of `names` and of the names that they use, and all other statements except %ignore."""
    definitions: dict[str, list[Statement]] = {}
    for statement in scan.statements:
        if statement.defines:
            definitions.setdefault(statement.defines, []).append(statement)
    statements = [s for s in scan.statements if not s.defines and s.kind != "%ignore"]
    seen, waiting = set(names), list(names)
    while waiting:
        for statement in definitions.get(waiting.pop(), ()):
            statements.append(statement)
            new = set(statement.uses) - seen
            seen |= new
            waiting += new
    statements.sort(key=lambda statement: statement.words[0].start)
    return "\n".join(scan.text[s.words[0].start : s.words[-1].end] for s in statements)
