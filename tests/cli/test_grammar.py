"""`engine-sampler grammar`, and grammars as options of `generate` and `explain`."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from engine_sampler.cli.main import main
from engine_sampler.contract import hookimpl
from engine_sampler.grammar import Grammar, library_names
from engine_sampler.grammar.engines.native import load_library
from engine_sampler.grammar.engines.reference import ReferenceMatcher

from ..engines import registered_plugin
from .running import needs_extra, run, run_apart

needs_both_engines = pytest.mark.skipif(load_library() is None, reason="the native library is missing")

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
    (tmp_path / "odd.json").write_text('{"items": {"type": "array"}, "minItems": 2, "uniqueItems": true}')
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
    ("source", "first"),
    [
        (["--lark", "list.lark"], 'start: "x" ("," "x")*'),
        (["--lark", "parts.lark"], "%import .list.start -> list"),
        (["--regex", r"(red|blue)\d{2}"], "start:"),
        (["--schema", "schema.json"], "json:"),
    ],
)
def test_a_grammar_is_printed_as_it_was_read_or_as_its_rules(
    output: Output, source: list[str], first: str
) -> None:
    status, text, errors = output.of(*source)
    assert (status, errors) == (0, "")
    assert text.splitlines()[0] == first


def test_the_command_runs_as_a_program(folder: Path) -> None:
    done = run_apart("grammar", "--schema", folder / "schema.json", "--text", folder / "wrong.txt")
    assert (done.returncode, done.stdout.count("\n"), done.stderr) == (1, 1, "")


class Grammars:
    @hookimpl
    def register_grammars(self, register) -> None:  # type: ignore[no-untyped-def]
        register("numerals", 'start: ("I" | "V")+')
        register("digits", Grammar.from_regex(r"\d+"))
        register("odd", lambda tokenizer: None)


def test_a_registered_grammar_is_found_by_name(output: Output) -> None:
    with registered_plugin(Grammars()):
        for name, printed in (("numerals", 'start: ("I" | "V")+'), ("digits", "[0-9]")):
            status, text, _ = output.of("--name", name)
            assert (status, printed in text) == (0, True)
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
    ],
)
def test_a_text_is_checked_and_completed(
    output: Output, arguments: list[str], status: int, printed: str
) -> None:
    found, text, errors = output.of("--schema", "schema.json", "--text", *arguments)
    assert (found, errors) == (status, "")
    assert text.startswith(printed)
    assert text.count("\n") == 1


def test_a_text_may_come_from_standard_input(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    for text, status in (("aaa", 0), ("aa", 1)):
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        assert output.of("--regex", "a{3}", "--text", "-")[0] == status


# --- masks ---------------------------------------------------------------------------------------


def test_a_mask_is_printed_with_the_readings_of_the_text(output: Output) -> None:
    Path("words.json").write_text(json.dumps(["{", '{"', '"', "a", '":', '": ', "1", "12", "}", " "]))
    status, text, errors = output.of("schema.json", "--mask", '{"a": 1', "--tokenizer", "words.json")
    assert (status, errors) == (0, "")
    lines = text.splitlines()
    assert lines[:5] == [
        "after 7 bytes: '{\"a\": 1'",
        lines[1],
        "  6:1  7:12  8:}  9:␣",
        "the text cannot end here",
        r"next byte: [\t\n\r 0-9}]",
    ]
    assert lines[1].startswith("4 of 10 tokens may follow (")
    assert "reading 1: within NUMBER after row " in text
    assert "  object in state 7 (bits 1), begun in row 0: next NUMBER" in lines
    assert "row 0: OBJECT_BEGIN, WHITESPACE may come next" in lines
    assert lines[-1].endswith(("the same bytes on the way, and the same mask", "to compare with"))


@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_a_beginning_that_cannot_be_read_shows_what_could_follow(output: Output, engine: str) -> None:
    status, text, _ = output.of("--schema", "schema.json", "--mask", '{"b', "--engine", engine)
    assert status == 1
    assert text.startswith("byte 2 cannot follow: 'b'\nafter 2 bytes: '{\"'\n1 of 256 tokens may follow (")
    assert "\nmust follow: 'a\"'\n" in text


def test_many_tokens_are_described_by_those_that_are_left_out(output: Output) -> None:
    _, text, _ = output.of("--regex", "[^a-e]+", "--mask", "x" * 80)
    assert text.startswith("after 80 bytes: …'" + "x" * 60 + "'\n")
    assert "  all but 97:a  98:b  99:c  100:d  101:e  128:" in text
    assert "  … and " in text
    assert "\nthe text may end here\n" in text


def test_a_mask_of_an_lalr_parser_shows_its_stack(output: Output) -> None:
    Path("sum.lark").write_text('start: start "+" N | N\nN: /[0-9]/\n')
    status, text, _ = output.of("sum.lark", "--lexer", "contextual", "--mask", "1+")
    assert status == 0
    assert "\n  stack: start  PLUS  state " in text


def test_rows_that_are_left_out_are_counted(output: Output) -> None:
    Path("deep.lark").write_text('start: "[" start "]" | "x"')
    _, text, _ = output.of("deep.lark", "--mask", "[" * 40)
    assert "\nand 21 more rows\n" in text


@needs_both_engines
def test_where_engines_differ_is_printed(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReferenceMatcher, "next_bytes", lambda self: b"b")
    _, text, _ = output.of("--regex", "a", "--mask", "a")
    assert "the engines differ: after 0 bytes, native alone allows the bytes b'a'" in text
    assert "the engines differ: after 0 bytes, reference alone allows the bytes b'b'" in text


def test_rules_are_printed_state_by_state(output: Output) -> None:
    status, text, _ = output.of("list.lark", "--rules")
    assert status == 0
    assert text.startswith('start:\n  0: "x" → ')
    assert text.endswith('"x": x\n",": ,\n')


@pytest.mark.parametrize("name", ["schema.json", "list.lark", "list.gbnf", "list.grammar"])
def test_the_name_of_a_file_says_what_it_is(output: Output, name: str) -> None:
    Path("list.gbnf").write_text('root ::= "x" ("," "x")*')
    Grammar.from_file("list.lark").save("list.grammar")
    Path("text").write_text('{"a": 1}' if name == "schema.json" else "x,x")
    assert output.of(name, "--text", "text")[:2] == (0, "the text is valid\n")


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "one of the arguments FILE --schema --lark --gbnf --regex --name is required"),
        (["list.lark", "--regex", "a"], "argument --regex: not allowed with argument FILE"),
        (["half.txt"], "half.txt is not allowed: a file .json, .lark, .gbnf or .grammar"),
        (["schema.json", "--mask", "", "--complete"], "--complete: not allowed with argument --mask"),
        (["schema.json", "--mask", "", "--rules"], "--rules: not allowed with argument --mask"),
        (["schema.json", "--mask", "", "--engine", "steam"], "argument --engine: invalid choice: 'steam'"),
        (
            ["schema.json", "--engine", "native"],
            "--tokenizer and --engine need a beginning of a text: ",
        ),
        (["schema.json", "--mask", "", "--tokenizer", "odd.json"], "--tokenizer odd.json is not allowed: a "),
        (["--lark", "list.lark", "--lexer", "basic"], "argument --lexer: invalid choice: 'basic'"),
        (["--regex", "a", "--name", "json"], "argument --name: not allowed with argument --regex"),
        (["--regex", "a", "--text", "half.txt", "--complete", "--rules"], "--rules: not allowed with"),
        (["--regex", "a", "--complete"], "--complete needs a text: --text FILE"),
        (["--schema", "absent.json"], "No such file or directory: 'absent.json'"),
        (["--name", "jsn"], "grammar='jsn' is not allowed: Lark text, or one of arithmetic, csv"),
        (["--regex", "a", "--text", "absent.txt"], "No such file or directory: 'absent.txt'"),
        (["--regex", "a", "--text", "latin1.txt"], "can't decode byte 0xe9 in position 3"),
        (["--regex", "a", "--unsupported", "drop"], "argument --unsupported: invalid choice: 'drop'"),
        (["--regex", "a", "--top-k", "4"], "unexpected argument '--top-k'"),
    ],
)
def test_an_error_that_the_user_can_fix_is_reported_in_one_line(
    output: Output, arguments: list[str], message: str
) -> None:
    status, text, error = output.of(*arguments)
    assert (status, text, error.count("\n")) == (2, "", 1)
    assert message in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--regex", "("], "not a regular expression: missing )"),
        (["--schema", "list.lark"], "the JSON Schema is not JSON"),
        (["--schema", "odd.json"], "uniqueItems is not supported here"),
        (["--lark", "schema.json"], "Expecting rule or terminal definition (line 1, column 1)"),
    ],
)
def test_an_error_in_a_text_is_followed_by_the_line_and_its_place(
    output: Output, arguments: list[str], message: str
) -> None:
    status, text, error = output.of(*arguments)
    first, _, caret, rest = error.split("\n")
    assert (status, text, caret.strip(), rest) == (2, "", "^", "")
    assert message in first


def test_each_ignored_keyword_is_reported_in_a_line_of_its_own(output: Output) -> None:
    Path("text").write_text("[[], []]")
    status, text, errors = output.of("--schema", "odd.json", "--unsupported", "warn", "--text", "text")
    assert (status, errors.count("\n")) == (0, 1)
    assert errors.startswith("engine-sampler: ignored: uniqueItems is not supported here")
    assert text == "the text is valid\n"


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


def test_generate_reports_an_invalid_grammar_and_its_place(corpus: Path) -> None:
    needs_extra()
    done = run("generate", "--prompt", "The", "--corpus", corpus, "--regex", "(")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 3)
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
