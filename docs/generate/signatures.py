"""Signatures of public objects, and what only their source says: the docstrings of attributes."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Callable
from enum import Enum
from types import ModuleType
from typing import Any, ForwardRef, Protocol

from .tables import source

WIDTH = 84
"""The most characters of a signature on one line, so that it fits the column of the site."""


def class_line(cls: type, name: str) -> str:
    """A class as its definition begins: what it is constructed from; of an exception or enumeration, the
    bases."""
    if issubclass(cls, (BaseException, Enum)):
        bases = ", ".join(base.__name__ for base in cls.__bases__)
        return f"class {name}({bases})"
    return f"class {call_line(constructor, name)}" if (constructor := _constructor(cls)) else f"class {name}"


def call_line(function: Callable[..., Any], name: str) -> str:
    """The call of a function or method, with types and defaults; on several lines if it is long."""
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    parts = _parts(parameters)
    result = "" if signature.return_annotation in _NOTHING else f" -> {_type(signature.return_annotation)}"
    line = f"{name}({', '.join(parts)}){result}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){result}"])


_NOTHING = (inspect.Signature.empty, None, "None")


def _constructor(cls: type) -> Callable[..., Any] | None:
    """What takes the arguments of a class; None if it is not constructed, or by no code of this package."""
    if getattr(cls, "_is_protocol", False) and Protocol in cls.__bases__:
        return None
    for function in (cls.__init__, cls.__new__):
        if inspect.isfunction(function):
            return function
    return None


def _parts(parameters: list[inspect.Parameter]) -> list[str]:
    """The parameters as they are written, with the marks `*` and `/`."""
    kinds = inspect.Parameter
    parts, starred = [], False
    for parameter in parameters:
        if parameter.kind is kinds.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        starred = starred or parameter.kind is kinds.VAR_POSITIONAL
        parts.append(_parameter(parameter))
        following = parameters[len([p for p in parts if p not in "*/"]) :]
        is_last = not following or following[0].kind is not kinds.POSITIONAL_ONLY
        if parameter.kind is kinds.POSITIONAL_ONLY and is_last:
            parts.append("/")
    return parts


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    text = stars.get(parameter.kind, "") + parameter.name
    has_type = parameter.annotation is not inspect.Parameter.empty
    if has_type:
        text += f": {_type(parameter.annotation)}"
    if parameter.default is inspect.Parameter.empty:
        return text
    return f"{text}{' = ' if has_type else '='}{_default(parameter.default)}"


def _type(annotation: Any) -> str:
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(value: Any) -> str:
    """A default; one without a useful repr as an ellipsis."""
    text = source(value) if isinstance(value, str) else repr(value)
    return "…" if re.search(r" at 0x|^<", text) or len(text) > 40 else text


# --- what the source says ------------------------------------------------------------------------


@functools.cache
def attribute_docs(owner: type | ModuleType) -> dict[str, tuple[str, str]]:
    """The attributes of a class or constants of a module that are declared in its source, by name: the type
    and the value as written, ": int = 1", and the docstring below, empty if there is none."""
    if isinstance(owner, ModuleType):
        return _assignments(_parsed(owner), owner)
    module = sys.modules[owner.__module__]
    for node in _parsed(module).body:
        if isinstance(node, ast.ClassDef) and node.name == owner.__name__:
            return _assignments(node, module)
    return {}


def constant(module: ModuleType, name: str) -> tuple[str, str]:
    """The value of a constant as it is written where it is defined, " = 1", and its docstring."""
    for node in ast.walk(_parsed(module)):  # names that load lazily are imported for type checkers
        names = {a.asname or a.name: a.name for a in node.names} if isinstance(node, ast.ImportFrom) else {}
        if name in names and isinstance(node, ast.ImportFrom):
            package = module.__name__ if hasattr(module, "__path__") else module.__package__
            origin = importlib.import_module("." * node.level + (node.module or ""), package)
            return constant(origin, names[name])
    return attribute_docs(module)[name]


@functools.cache
def _parsed(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def _assignments(owner: ast.Module | ast.ClassDef, module: ModuleType) -> dict[str, tuple[str, str]]:
    text = inspect.getsource(module)
    assignments = {}
    for node, after in zip(owner.body, [*owner.body[1:], None], strict=True):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, parts = node.targets[0].id, [(" = ", node.value)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name, parts = node.target.id, [(": ", node.annotation), (" = ", node.value)]
        else:
            continue
        written = (f"{mark}{ast.get_source_segment(text, part)}" for mark, part in parts if part)
        assignments[name] = "".join(written), _docstring(after)
    return assignments


def _docstring(node: ast.stmt | None) -> str:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return inspect.cleandoc(node.value.value) if is_text else ""  # type: ignore[union-attr, attr-defined]
