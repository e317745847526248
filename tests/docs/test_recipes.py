"""Recipes are short; `test_code.py` runs them."""

from __future__ import annotations

import re

from docs.generate.recipes import FOLDER, PAGES

from .pages import blocks_of, sketches_of

MOST_LINES = 25


def test_every_recipe_has_one_short_block_of_code() -> None:
    recipes = 0
    for page in PAGES:
        path = FOLDER / f"{page}.md"
        _, *sections = re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert all(section.count("```py") == 1 for section in sections)
        blocks = [*blocks_of(path), *sketches_of(path)]
        assert all(len(block.splitlines()) <= MOST_LINES for block in blocks)
        recipes += len(sections)
    assert recipes >= 30


def test_every_page_of_recipes_is_listed() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == {"index", *PAGES}
