"""Functions and classes of Python as tools."""

from __future__ import annotations

import inspect
from typing import Any

from ..errors import quoted
from .docstrings import read_docstring
from .schemas import schema_of


def tool_of(described: Any) -> dict[str, Any]:
    """A function, or a type of arguments, as a tool in OpenAI's form.

    described  a function or method: its name, the beginning of its docstring, and an object of its arguments,
               each described as the docstring says (in Google's, NumPy's or Sphinx's style); a class such as
               a pydantic model, dataclass or TypedDict: its name, its docstring, and its members

    Raises ValueError for what has no name or no schema, and where pydantic is missing.
    """
    name = getattr(described, "__name__", None)
    if not isinstance(name, str):
        raise ValueError(f"{quoted(described)} is neither a function nor a class with members")
    text = read_docstring(inspect.getdoc(described) or "").text if _has_own_text(described) else ""
    function: dict[str, Any] = {"name": name}
    if text:
        function["description"] = text
    return {"type": "function", "function": {**function, "parameters": schema_of(described)}}


def _has_own_text(described: Any) -> bool:
    """Whether the docstring is of the programmer: a dataclass without one gets its signature."""
    text = getattr(described, "__doc__", None)
    return isinstance(text, str) and not text.startswith(f"{described.__name__}(")
