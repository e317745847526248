"""The notebooks run, and print what their pages say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .notebooks import NOTEBOOKS, run

PANDAS = {"draws"}


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_notebook_prints_what_its_page_says(page: Path) -> None:
    pytest.importorskip("matplotlib")
    if page.stem in PANDAS:
        pytest.importorskip("pandas")
    assert run(page) == page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
@pytest.mark.filterwarnings("ignore:Proactor event loop", "ignore:unclosed", "ignore::DeprecationWarning")
def test_a_notebook_runs_in_jupyter(page: Path) -> None:
    pytest.importorskip("pandas")
    jupytext = pytest.importorskip("jupytext")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = jupytext.read(page)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    pictures = re.findall(r"\]\(pictures/", page.read_text(encoding="utf-8"))
    assert sum("image/png" in output.get("data", ()) for output in outputs) == len(pictures)


def test_every_picture_of_a_notebook_is_there_and_used() -> None:
    shown = {
        page.parent / name
        for page in NOTEBOOKS
        for name in re.findall(r"\]\((pictures/[^)]*)\)", page.read_text(encoding="utf-8"))
    }
    assert shown == set((NOTEBOOKS[0].parent / "pictures").iterdir())


def test_every_picture_follows_the_cell_that_draws_it() -> None:
    for page in NOTEBOOKS:
        text = page.read_text(encoding="utf-8")
        assert (
            len(re.findall(r"plt\.show\(\)\n```\n\n!\[", text))
            == text.count("plt.show()")
            == text.count("![")
        )
