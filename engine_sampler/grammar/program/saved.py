"""Grammars as text: plain JSON, the same on every machine."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import GrammarError
from .rules import PROGRAM_ARRAYS, Program
from .settings import loaded_settings, saved_settings
from .special_names import Binding

_FORMAT = "engine_sampler grammar 1"
_FLAGS = ("unique_keys", "unique_items", "indexed_items")


def saved_text(kind: str, program: Program, special_names: Sequence[str | Binding]) -> str:
    """A grammar as text."""
    content: dict[str, Any] = {"format": _FORMAT, "kind": kind, "special": special_names}
    content |= {name: getattr(program, name).tolist() for name in PROGRAM_ARRAYS}
    rest = ("start", "terminal_names", "rule_names", *_FLAGS, "unenforced", "captures", "skipped")
    content |= {name: getattr(program, name) for name in rest} | saved_settings(program)
    return json.dumps(content, separators=(",", ":"))


def read_saved(path: str | Path) -> tuple[str, Program, list[str | Binding]]:
    """The grammar in a file: its kind, its program and the special tokens that it names. Raises GrammarError
    for any other file."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if content.pop("format") != _FORMAT:
            raise ValueError("its format is of another version")
        kind, special = content.pop("kind"), content.pop("special")
        content.setdefault("budgets", [])  # older files have none
        members: dict[str, Any] = {name: array("i", content[name]) for name in PROGRAM_ARRAYS}
        members |= {name: tuple(content[name]) for name in ("terminal_names", "rule_names")}
        members |= {name: bool(content.get(name, False)) for name in _FLAGS}
        members["unenforced"] = tuple(map(str, content.get("unenforced", ())))
        members["captures"] = tuple((int(rule), str(name)) for rule, name in content.get("captures", ()))
        members["skipped"] = tuple(map(int, content.get("skipped", ())))
        members |= loaded_settings(content)
        names = [name if isinstance(name, str) else Binding(*name) for name in special]
        return kind, Program(start=int(content["start"]), **members), names
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise GrammarError(f"{path} is not a saved grammar: {error}") from None
