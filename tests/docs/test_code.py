"""The code of every page runs unchanged, all blocks of a page one after the other."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from .pages import DOCS, PAGES, READ_BY_PEOPLE, blocks_of, given_names, name_of, sketches_of

PRINTED = {
    "coming-from/atb.md": "(2, 1) float16",
    "coming-from/koboldai.md": "1.1 1024 koboldai koboldai",
    "coming-from/llama.cpp.md": "100 1.1 40 0.8",
    "coming-from/vllm.md": "vllm [a-z]+",
    "criteria/index.md": "[ True]",
    "embed.md": "[122, 122]",
    "bodies.md": "50 2 vllm",
    "parameters.md": "0.95 0.0\n",
    "plugins.md": "test_nothing_rests_on_libm the result differs with another np.exp",
    "plugins/criteria.md": "None 1\n-1 sentences\n",
}
"""What comments on a page say that its code prints, divided by bars."""

VALUE = r"(?:True|False|None|-?\d+(?:\.\d+)?)"
CLAIM = re.compile(rf"^(?:print\(.*)?\)  # ({VALUE}(?: {VALUE})*|\[.*\]|\{{.*\}})(?=$|[,:;])", re.MULTILINE)
"""A comment behind a call of `print` that says which values it prints."""


def spaced_once(text: str) -> str:
    """A text with single blanks, and none behind a bracket, where NumPy aligns columns."""
    return " ".join(text.split()).replace("[ ", "[")


WITH_CODE = [page for page in READ_BY_PEOPLE if blocks_of(page) and page.parent.name != "notebooks"]
"""`test_notebooks.py` runs the notebooks."""


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_the_code_of_a_page_runs(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sent: list[Any] = []
    names = given_names(sent)
    for block in blocks_of(page):
        exec(compile(block, name_of(page), "exec", dont_inherit=True), names)
    assert all(finish_reason in (None, "stop", "length") for _, _, finish_reason in sent)
    printed = capsys.readouterr().out
    rest = spaced_once(printed)
    for claim in (claim for block in blocks_of(page) for claim in CLAIM.findall(block)):
        _, found, rest = rest.partition(spaced_once(claim))
        assert found, claim
    assert all(text in printed for text in PRINTED.get(name_of(page), "").split("|"))


def test_every_sampler_and_criterion_is_shown_in_code() -> None:
    pages = [page for page in PAGES if page.parent.name in ("samplers", "criteria") and page.stem != "index"]
    assert pages
    assert all(blocks_of(page) for page in pages)


def test_what_is_expected_to_be_printed_is_on_pages() -> None:
    assert all((DOCS / name).exists() for name in PRINTED)


def module_of(name: str) -> ModuleType:
    if name == "engine_sampler.cli.serve.asgi":
        pytest.importorskip("fastapi")
        pytest.importorskip("uvicorn")
    return importlib.import_module(name)


def imported(tree: ast.Module) -> dict[str, Any]:
    """What a block imports from this package, by the name that it has there."""
    return {
        alias.asname or alias.name: getattr(module_of(node.module or ""), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "engine_sampler"
        for alias in node.names
    }


SKETCHES = [page for page in READ_BY_PEOPLE if page.parent.name != "reference" and sketches_of(page)]


@pytest.mark.parametrize("page", SKETCHES, ids=name_of)
def test_code_that_needs_another_system_uses_names_and_keywords_that_exist(page: Path) -> None:
    for sketch in sketches_of(page):
        tree = ast.parse(sketch)
        names = imported(tree)
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in names
            ):
                assert hasattr(names[node.value.id], node.attr)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                keywords = {keyword.arg: None for keyword in node.keywords if keyword.arg}
                inspect.signature(names[node.func.id]).bind_partial(**keywords)
