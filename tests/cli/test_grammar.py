"""`engine-sampler grammar`, and grammars as options of `generate` and `explain`."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from engine_sampler import hookimpl
from engine_sampler.cli.main import main
from engine_sampler.grammar import Grammar, library_names

from ..engines import registered_plugin
from .test_main import corpus, needs_extra, run

__all__ = ["corpus"]

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, which contains grammars and texts."""
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "odd.json").write_text('{"type": "array", "uniqueItems": true}')
    (tmp_path / "list.lark").write_text('start: "x" ("," "x")*')
    (tmp_path / "parts.lark").write_text('%import .list.start -> list\nstart: list ";"')
    (tmp_path / "text").write_text('start: "x" ("," "x")*')
    (tmp_path / "whole.txt").write_text('{"a": 1}')
    (tmp_path / "half.txt").write_text('{"a": 1')
    (tmp_path / "wrong.txt").write_text('{"a":\n x}')
    (tmp_path / "latin1.txt").write_bytes(b"caf\xe9")
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Output:
    """Runs `engine-sampler grammar` and captures its output."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def of(self, *arguments: str) -> tuple[int, str, str]:
        """(exit status, stdout, stderr) of `engine-sampler grammar`, in this process."""
        try:
            status = main(["grammar", *arguments])
        except SystemExit as stop:  # how argparse ends
            status = int(str(stop.code))
        out, err = self._capsys.readouterr()
        return status, out, err


@pytest.fixture
def output(folder: Path, capsys: pytest.CaptureFixture[str]) -> Output:
    return Output(capsys)


# --- printing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "inside", "outside"),
    [
        (["--schema", "schema.json"], '{ "a" : 7 }', '{"b": 7}'),
        (["--lark", "list.lark"], "x,x", "x,"),
        (["--lark", "parts.lark"], "x,x;", "x,x"),
        (["--lark", "text"], "x,x", "x,"),
        (["--regex", r"(red|blue)\d{2}"], "blue42", "blue4"),
        (["--name", "json"], '{"a": [1, null]}', "[01]"),
    ],
)
def test_a_grammar_is_printed_as_equivalent_lark_text(
    output: Output, source: list[str], inside: str, outside: str
) -> None:
    status, text, errors = output.of(*source)
    assert (status, errors) == (0, "")
    printed = Grammar.from_lark(text)
    assert printed.check(inside).valid
    assert not printed.check(outside).valid


def test_the_command_runs_as_a_program(folder: Path) -> None:
    done = run("grammar", "--schema", folder / "schema.json", "--text", folder / "wrong.txt")
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (1, 1, "")


class Grammars:
    @hookimpl
    def register_grammars(self, register) -> None:  # type: ignore[no-untyped-def]
        register("numerals", 'start: ("I" | "V")+')
        register("digits", Grammar.from_regex(r"\d+"))
        register("odd", lambda tokenizer: None)


def test_a_registered_grammar_is_found_by_name(output: Output) -> None:
    with registered_plugin(Grammars()):
        for name, inside in (("numerals", "IV"), ("digits", "42")):
            status, text, _ = output.of("--name", name)
            assert status == 0
            assert Grammar.from_lark(text).check(inside).valid
        status, _, error = output.of("--name", "odd")
    assert (status, error.count("\n")) == (2, 1)
    assert "odd is a custom constraint, not a grammar: it cannot be printed or checked" in error


# --- texts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status", "printed"),
    [
        (["whole.txt"], 0, "the text is valid\n"),
        (["half.txt"], 1, "line 1, column 8: the text is not finished; expected "),
        (["wrong.txt"], 1, "line 2, column 2: 'x' is not allowed here; expected "),
        (["whole.txt", "--complete"], 0, "\n"),
        (["half.txt", "--complete"], 0, "}\n"),
        (["wrong.txt", "--complete"], 1, "no completion exists for this text\n"),
        (["whole.txt", "--repair"], 0, '{"a": 1}\n'),
        (["half.txt", "--repair"], 0, '{"a": 1}\n'),
    ],
)
def test_a_text_is_checked_completed_and_repaired(
    output: Output, arguments: list[str], status: int, printed: str
) -> None:
    found, text, errors = output.of("--schema", "schema.json", "--text", *arguments)
    assert (found, errors) == (status, "")
    assert text.startswith(printed)
    assert text.count("\n") == 1


def test_a_repaired_text_is_in_the_language(output: Output) -> None:
    status, text, _ = output.of("--schema", "schema.json", "--text", "wrong.txt", "--repair")
    assert status == 0
    assert set(json.loads(text)) == {"a"}


def test_a_text_may_come_from_standard_input(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    for text, status in (("aaa", 0), ("aa", 1)):
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        assert output.of("--regex", "a{3}", "--text", "-")[0] == status


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "one of the arguments --schema --lark --gbnf --regex --name is required"),
        (["--regex", "a", "--name", "json"], "argument --name: not allowed with argument --regex"),
        (["--regex", "a", "--text", "half.txt", "--complete", "--repair"], "--repair: not allowed with"),
        (["--regex", "a", "--complete"], "--complete needs a text: --text FILE"),
        (["--regex", "a", "--repair"], "--repair needs a text: --text FILE"),
        (["--regex", "("], "not a regular expression: missing )"),
        (["--schema", "absent.json"], "No such file or directory: 'absent.json'"),
        (["--schema", "list.lark"], "the JSON Schema is not JSON"),
        (["--schema", "odd.json"], "uniqueItems is not supported here"),
        (["--lark", "schema.json"], "Expecting rule or terminal definition (line 1, column 1)"),
        (["--name", "jsn"], "grammar='jsn' is not allowed: Lark text, or one of arithmetic, csv"),
        (["--regex", "a", "--text", "absent.txt"], "No such file or directory: 'absent.txt'"),
        (["--regex", "a", "--text", "latin1.txt"], "can't decode byte 0xe9 in position 3"),
        (["--regex", "a", "--unsupported", "ignore"], "argument --unsupported: invalid choice: 'ignore'"),
        (["--regex", "a", "--top-k", "4"], "unexpected argument '--top-k'"),
    ],
)
def test_an_error_that_the_user_can_fix_is_reported_in_one_line(
    output: Output, arguments: list[str], message: str
) -> None:
    status, text, error = output.of(*arguments)
    assert (status, text, error.count("\n")) == (2, "", 1)
    assert message in error


def test_each_ignored_keyword_is_reported_in_a_line_of_its_own(output: Output) -> None:
    status, text, errors = output.of("--schema", "odd.json", "--unsupported", "warn")
    assert (status, errors.count("\n")) == (0, 1)
    assert errors.startswith("engine-sampler: ignored: uniqueItems is not supported here")
    assert Grammar.from_lark(text).check("[1, 1]").valid


# --- the other commands --------------------------------------------------------------------------


def test_plugins_lists_the_grammars_of_the_package() -> None:
    done = run("plugins", "--json")
    listed = {entry["name"]: entry for entry in json.loads(done.stdout)["grammars"]}
    assert set(library_names()) <= set(listed)
    assert listed["json"]["summary"] == "Strict JSON (RFC 8259): no comments, no trailing commas, no NaN."
    assert listed["json"]["origin"].startswith("engine-sampler ")


@pytest.mark.parametrize(
    ("options", "accepts"),
    [
        (
            ["--json-schema", json.dumps({"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2})],
            json.loads,
        ),
        (
            ["--regex", "(The|A) (cat|rat) sat"],
            {"The cat sat", "The rat sat", "A cat sat", "A rat sat"}.__contains__,
        ),
        (["--choice", '["cat", "rat"]'], {"cat", "rat"}.__contains__),
        (["--grammar", "json"], json.loads),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_generate_follows_a_grammar(corpus: Path, options: list[str], accepts: object) -> None:
    needs_extra()
    done = run("generate", "--prompt", "The", "--corpus", corpus, "--seed", "3", *options)
    assert (done.returncode, done.stderr.count("\n")) == (0, 2)
    assert callable(accepts)
    assert accepts(done.stdout.rstrip("\n")) is not False
    assert "stop (end of text)" in done.stderr


def test_generate_reports_an_invalid_grammar_in_one_line(corpus: Path) -> None:
    needs_extra()
    done = run("generate", "--prompt", "The", "--corpus", corpus, "--regex", "(")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "regex: not a regular expression" in done.stderr


def test_explain_shows_the_grammar_as_a_step(corpus: Path, tmp_path: Path) -> None:
    needs_extra()
    done = run("explain", "--prompt", "The", "--corpus", corpus, "--regex", " cat", "--top-k", "3")
    assert done.returncode == 0
    assert "grammar" in done.stdout
    np.save(tmp_path / "row.npy", np.zeros(9, np.float32))
    done = run("explain", "--logits", tmp_path / "row.npy", "--regex", "a")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "needs a tokenizer" in done.stderr
