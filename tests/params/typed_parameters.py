"""The text of `engine_sampler/params/typed.py`: `python -m tests.params.typed_parameters` writes it anew."""

from __future__ import annotations

from pathlib import Path

from engine_sampler.contract import Param
from engine_sampler.params import typed
from engine_sampler.registry import CORE_PARAMS, Registry

FILE = Path(typed.__file__)

HEAD = '''"""`Parameters`: the built-in parameters as type checkers see them, without those of plugins.

`python -m tests.params.typed_parameters` writes this file from the registry."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class Parameters(TypedDict, total=False):
    """The keywords of `SamplingParams`."""

'''


def text() -> str:
    """What the file should contain."""
    params = Registry(CORE_PARAMS).catalogue.params.values()
    return HEAD + "".join(f"    {param.name}: {annotation(param)}\n" for param in params)


def annotation(param: Param) -> str:
    """The type of a parameter: what is converted may be given in several forms."""
    if param.convert is not None:
        return "Any"
    plain = f"Literal[{', '.join(map(_literal, param.choices))}]" if param.choices else param.type.__name__
    return f"{plain} | None" if param.neutral is None else plain


def _literal(choice: object) -> str:
    return f'"{choice}"' if isinstance(choice, str) else repr(choice)


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8", newline="\n")
