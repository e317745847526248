"""Bridges into engines stay short: what any of them needs is in `engine_sampler.for_bridges`."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"

MOST = {"engine-sampler-exllamav3": 400, "engine-sampler-sglang": 400, "engine-sampler-vllm": 800}
"""The most lines of code. vLLM has two model runners with interfaces of their own, grammars, and a processor
of logits besides."""

NO_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


def lines_of_code(text: str) -> int:
    """The lines of a module that are neither blank nor only a comment or part of a docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            assert node.end_lineno is not None
            lines.difference_update(range(node.lineno, node.end_lineno + 1))
    return len(lines)


def test_comments_and_docstrings_are_no_code() -> None:
    assert lines_of_code('"""One.\n\nTwo."""\n\n# three\nfour = (\n    5,\n)  # six\n') == 3


@pytest.mark.parametrize("name", MOST)
def test_a_bridge_is_short(name: str) -> None:
    modules = [path for path in (PLUGINS / name).rglob("engine_sampler_*.py") if path.parent.name == name]
    modules += (PLUGINS / name / name.replace("-", "_")).rglob("*.py")
    assert 0 < sum(lines_of_code(path.read_text(encoding="utf-8")) for path in modules) <= MOST[name]
