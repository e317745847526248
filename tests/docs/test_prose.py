"""Every page can be read: short sentences, short cells of tables, few enough words for one sitting."""

from __future__ import annotations

from pathlib import Path

import pytest

from .pages import READ_BY_PEOPLE, name_of
from .prose import cells, percentile, sentences, words

MOST_WORDS = 1_200
"""Prose of a page. The reference is looked things up in, not read, and has no such bar."""

LONG_SENTENCE = 25
"""Words that 95 of 100 sentences of a page do not exceed."""

MOST_IN_A_CELL = 40
"""Words of a table's cell: what needs more is a paragraph."""

WHOLE_PAGES = [page for page in READ_BY_PEOPLE if page.parent.name != "reference"]


@pytest.mark.parametrize("page", WHOLE_PAGES, ids=name_of)
def test_a_page_is_read_in_one_sitting(page: Path) -> None:
    count = sum(map(words, sentences(page.read_text(encoding="utf-8"))))
    assert count <= MOST_WORDS


@pytest.mark.parametrize("page", WHOLE_PAGES, ids=name_of)
def test_sentences_are_short(page: Path) -> None:
    counts = {sentence: words(sentence) for sentence in sentences(page.read_text(encoding="utf-8"))}
    long = sorted(sentence for sentence, count in counts.items() if count > LONG_SENTENCE)
    assert percentile(list(counts.values()), 0.95) <= LONG_SENTENCE, long


@pytest.mark.parametrize("page", WHOLE_PAGES, ids=name_of)
def test_cells_of_tables_are_short(page: Path) -> None:
    long = [cell for cell in cells(page.read_text(encoding="utf-8")) if words(cell) > MOST_IN_A_CELL]
    assert not long


def test_a_sentence_is_counted_without_code_links_and_headings() -> None:
    page = (
        "# Five words that do not count\n\nOne [two](a-link.md) `three = 3`. Four\nfive:\n\n- six\n- seven\n"
    )
    assert [words(sentence) for sentence in sentences(page)] == [3, 2, 1, 1]


def test_fenced_code_and_tables_are_no_prose() -> None:
    page = "One.\n\n```python\nnot_prose = 1\n```\n\n| a | b |\n| --- | --- |\n| no | prose |\n\n    code\n"
    assert sentences(page) == ["One."]


def test_the_cells_of_a_table_are_what_stands_between_its_bars() -> None:
    page = "| name | meaning |\n| --- | --- |\n| `a \\| b` | two [words](link.md) |\n"
    assert cells(page) == ["name", "meaning", "code", "two words"]


def test_cells_in_fenced_code_do_not_count() -> None:
    assert cells("```text\n| a | b |\n```\n") == []
