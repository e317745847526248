"""Measured tables go to the page that has their place."""

from pathlib import Path

import pytest

from benchmarks import render


def test_a_table_takes_the_place_of_the_one_between_its_markers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "PAGES", tmp_path)
    (tmp_path / "a.md").write_text("none")
    (tmp_path / "b.md").write_text("before <!-- x -->\n\nold\n\n<!-- end of x --> after")
    render.write_between("<!-- x -->", "<!-- end of x -->", "new")
    assert (tmp_path / "b.md").read_text() == "before <!-- x -->\n\nnew\n\n<!-- end of x --> after"
    assert (tmp_path / "a.md").read_text() == "none"


@pytest.mark.parametrize(
    "name",
    ["results", "reads", "generation", "peers", "drafts", "saved steps", "overlap", "grammars", "corpus"],
)
def test_every_table_has_one_place(name: str) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in render.PAGES.glob("*.md"))
    assert text.count(f"<!-- {name} -->") == text.count(f"<!-- end of {name} -->") == 1
