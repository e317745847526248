"""The corpora: the documentation in every Python installation, and files."""

from __future__ import annotations

import sys

import pytest

from engine_sampler.demo import corpus


def test_the_embedded_corpus_is_large_and_the_same_every_time_and_reading_docstrings_imports_no_module():
    before = set(sys.modules)
    documents = corpus.embedded_corpus()
    assert set(sys.modules) - before <= {"pydoc_data", "pydoc_data.topics"} | {"asyncio"}
    assert sum(map(len, documents)) > 150_000
    assert len(documents) > 100
    assert documents == corpus.embedded_corpus()


def test_a_missing_language_reference_leaves_the_docstrings(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    assert sum(map(len, corpus.embedded_corpus())) > 50_000


def test_missing_modules_are_skipped(monkeypatch):
    monkeypatch.setattr(corpus, "DOCUMENTED_MODULES", ["no_such_module", "sys", "textwrap"])
    assert any("wrap" in document for document in corpus.embedded_corpus())


def test_prose_is_whole_sentences_without_code_and_headings():
    text = """
The "for" statement
*******************

The "for" statement is used to iterate over the *elements* of a ``sequence``
(such as a string, tuple or list) or other iterable object.

   for_stmt ::= "for" target_list "in" starred_list ":" suite
                ["else" ":" suite].

>>> print("this is an example of code that looks a bit like a sentence to a machine.")

* A list item that is long enough to be taken for a sentence, and so
  it is taken for one.
"""
    assert list(corpus.prose(text)) == [
        'The "for" statement is used to iterate over the elements of a sequence (such as a string, tuple or '
        "list) or other iterable object.",
        "A list item that is long enough to be taken for a sentence, and so it is taken for one.",
    ]


def test_paragraphs_are_joined_until_they_are_long_enough(monkeypatch):
    monkeypatch.setattr(corpus, "MIN_CHARACTERS", 10)
    assert list(corpus.joined(["12345", "67890", "abcdefghijk", "rest"])) == [
        "12345 67890",
        "abcdefghijk",
        "rest",
    ]


def test_a_file_is_split_into_its_paragraphs_unchanged(tmp_path):
    file = tmp_path / "poem.txt"
    file.write_text("One line,\nanother line.\n\n \n\n  Second\n", encoding="utf-8")
    assert corpus.read_corpus(file) == ["One line,\nanother line.", "Second"]


def test_a_file_that_is_not_valid_utf_8_is_still_read(tmp_path):
    file = tmp_path / "bytes"
    file.write_bytes(b"\xff\xfeabc")
    assert corpus.read_corpus(file) == ["\ufffd\ufffdabc"]


def test_a_file_without_text_is_refused(tmp_path):
    file = tmp_path / "empty.txt"
    file.write_text("\n \n")
    with pytest.raises(ValueError, match=r"empty\.txt contains no text to learn from"):
        corpus.read_corpus(file)


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        corpus.read_corpus(tmp_path / "none.txt")
