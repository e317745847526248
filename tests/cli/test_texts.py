"""Texts in and out of the command line: encodings, grammars in GBNF, repeated options, logprobs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine_sampler import __version__
from engine_sampler.cli.token_log import TokenLog
from engine_sampler.grammar import Grammar
from engine_sampler.params import SamplingParams
from engine_sampler.scheduler import Scheduler
from engine_sampler.tokenizer import Tokenizer

from .running import needs_extra, run, run_apart

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
"""An environment in which Python takes arguments and streams for ASCII."""

GBNF = 'root ::= "the " ("cat" | "rat")\n'


def run_bytes(*arguments: str | bytes | Path, stdin: bytes = b"", **environment: str):
    command = [sys.executable, "-m", "engine_sampler", *arguments]
    env = {**os.environ, "ENGINE_SAMPLER_PLUGINS": "", **environment}
    return subprocess.run(command, input=stdin, capture_output=True, timeout=120, check=False, env=env)


# --- the command ---------------------------------------------------------------------------------


def test_the_version_is_printed():
    done = run_apart("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"engine-sampler {__version__}\n", "")


@pytest.mark.parametrize(
    "command", [["generate", "--prompt", "The"], ["explain", "--prompt", "The"], ["demo"]]
)
def test_a_library_that_cannot_be_loaded_is_reported_in_one_line(corpus, command):
    needs_extra()
    done = run(*command, "--corpus", corpus, "--backend", "library:/nofile")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "engine-sampler: /nofile: no such file\n"


@pytest.mark.parametrize("command", [["generate", "--prompt", "The"], ["explain", "--prompt", "The"]])
def test_a_library_of_the_environment_that_cannot_be_loaded_is_reported_in_one_line(corpus, command):
    needs_extra()
    done = run_apart(*command, "--corpus", corpus, ENGINE_SAMPLER_BACKEND="library:/nofile")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "engine-sampler: /nofile: no such file\n"


@pytest.mark.parametrize("option", ["--temp", "--temp=0.5"])
def test_an_abbreviated_option_gets_a_suggestion(option):
    done = run("generate", "--prompt", "x", option)
    assert done.returncode == 2
    assert "unknown parameter 'temp'; did you mean 'temperature'?" in done.stderr


# --- encodings -----------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="arguments are not bytes here")
@pytest.mark.parametrize("environment", [{}, ASCII], ids=["utf-8", "ascii"])
def test_an_argument_that_is_not_utf_8_is_reported_in_one_line(corpus, environment):
    needs_extra()
    done = run_bytes("generate", "--prompt", b"caf\xe9", "--corpus", corpus, **environment)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert rb"'caf\udce9' is not UTF-8" in done.stderr


@pytest.mark.parametrize(
    "command", [("generate", "--prompt"), ("explain", "--prompt"), ("generate", "--prompt", "x", "--stop")]
)
def test_every_argument_that_is_not_utf_8_is_reported_in_one_line(corpus, command):
    needs_extra()
    done = run(*command, "caf\udce9", "--corpus", corpus)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert r"'caf\udce9' is not UTF-8" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="arguments are not bytes here")
def test_a_prompt_in_utf_8_is_read_in_any_locale(corpus):
    needs_extra()
    options = ("--corpus", corpus, "--temperature", "0", "--max-tokens", "4")
    outputs = [
        run_bytes("generate", "--prompt", "Thé cat".encode(), *options, **environment)
        for environment in ({}, ASCII)
    ]
    assert outputs[0].returncode == outputs[1].returncode == 0
    assert outputs[0].stdout == outputs[1].stdout


@pytest.mark.parametrize("environment", [{}, ASCII], ids=["utf-8", "ascii"])
def test_standard_input_that_is_not_utf_8_names_its_byte(environment):
    done = run_bytes("grammar", "--regex", "caf.", "--text", "-", stdin=b"caf\xe9", **environment)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert b"can't decode byte 0xe9 in position 3" in done.stderr


@pytest.mark.parametrize("environment", [{}, ASCII], ids=["utf-8", "ascii"])
def test_standard_input_in_utf_8_is_read_in_any_locale(environment):
    done = run_bytes("grammar", "--regex", "caf.", "--text", "-", stdin="café".encode(), **environment)
    assert (done.returncode, done.stdout) == (0, b"the text is valid\n")


# --- GBNF ----------------------------------------------------------------------------------------


def test_a_grammar_in_gbnf_is_printed_and_checked(tmp_path):
    (tmp_path / "g.gbnf").write_text(GBNF)
    printed = run("grammar", "--gbnf", tmp_path / "g.gbnf")
    assert printed.returncode == 0
    assert Grammar.from_text(printed.stdout).check("the rat").valid
    for text, status in (("the cat", 0), ("the dog", 1)):
        (tmp_path / "text").write_text(text)
        done = run("grammar", "--gbnf", tmp_path / "g.gbnf", "--text", tmp_path / "text")
        assert done.returncode == status


def test_generate_follows_a_grammar_in_gbnf(corpus, tmp_path):
    needs_extra()
    (tmp_path / "g.gbnf").write_text(GBNF)
    done = run("generate", "--prompt", "The", "--corpus", corpus, "--gbnf", tmp_path / "g.gbnf")
    assert done.returncode == 0
    assert done.stdout in ("the cat\n", "the rat\n")


@pytest.mark.parametrize(
    ("text", "options", "message", "lines"),
    [
        ("root = (", (), "GBNF: expected '::='", 3),
        (GBNF, ("--grammar", "json"), "--gbnf is not allowed with --grammar", 1),
        (GBNF, ("--regex", "a"), "regex", 1),
    ],
)
def test_a_faulty_use_of_gbnf_is_reported(corpus, tmp_path, text, options, message, lines):
    needs_extra()
    (tmp_path / "g.gbnf").write_text(text)
    done = run("generate", "--prompt", "x", "--corpus", corpus, "--gbnf", tmp_path / "g.gbnf", *options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", lines)
    assert message in done.stderr


# --- logprobs ------------------------------------------------------------------------------------


def test_generate_prints_the_logprobs_of_every_token(corpus):
    needs_extra()
    options = ("--corpus", corpus, "--max-tokens", "3", "--ignore-eos", "--temperature", "0")
    done = run("generate", "--prompt", "The", *options, "--logprobs", "2")
    lines = done.stderr.splitlines()
    assert lines[3].startswith("3 tokens")
    for line in lines[:3]:
        chosen, others = line.split(" (rank 1): ")
        assert others.split("  ")[0] == chosen
        assert len(others.split("  ")) == 2
    assert "rank" not in run("generate", "--prompt", "The", *options).stderr


LETTERS = Tokenizer([b"a", b"b", b" ", b"<end>"], eos_token_ids=[3])


def log_of(params: SamplingParams, rows: list[list[float]]) -> list[str]:
    scheduler, log = Scheduler(4, LETTERS), TokenLog(LETTERS)
    request_id = scheduler.add(params)
    for values in rows:
        log.add(scheduler.step(np.log(np.array([values], np.float32))))
    return log.lines(request_id)


def test_a_line_names_the_token_its_logprob_its_rank_and_the_likeliest():
    params = SamplingParams(logprobs=2, allowed_token_ids=[1, 2], seed=1)
    lines = log_of(params, [[0.5, 0.25, 1e-30, 0.25], [0.125, 1e-30, 0.75, 0.125]])
    assert lines == ["b -1.3863 (rank 2): a -0.6931  b -1.3863", "␣ -0.2877 (rank 1): ␣ -0.2877  a -2.0794"]


def test_a_line_begins_with_its_mode_if_there_are_several():
    params = SamplingParams(logprobs=0, logprobs_mode=("raw", "processed"), top_k=1, seed=1)
    assert log_of(params, [[0.5, 0.25, 0.125, 0.125]]) == [
        "raw a -0.6931 (rank 1)",
        "processed a 0.0000 (rank 1)",
    ]


def test_named_tokens_have_their_own_line():
    params = SamplingParams(logprob_token_ids=[3, 0], top_k=1, logprobs_mode=("raw", "processed"))
    assert log_of(params, [[0.5, 0.25, 0.125, 0.125]]) == [
        "raw a: named <end> -2.0794 (rank 4)  a -0.6931 (rank 1)",
        "processed a: named <end> -inf (rank 2)  a 0.0000 (rank 1)",
    ]


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"top_k": 2, "return_sampling_mask": 4}, "b: -1.0986 among 2 tokens: a  b"),
        ({"top_k": 3, "return_sampling_mask": 4}, "␣: -1.9124 among all tokens but 1: <end>"),
        ({"return_sampling_mask": True}, "<end>: -2.1203 among all tokens"),
        ({"top_k": 2, "return_sampling_mask": 1}, "b: -1.0986 among more tokens than the mask may list"),
    ],
)
def test_a_mask_lists_what_survived_or_what_did_not(settings, line):
    logged = log_of(SamplingParams(seed=1, **settings), [[0.5, 0.25, 0.13, 0.12]])
    assert logged == [line]


def test_requests_without_logprobs_have_no_lines():
    assert log_of(SamplingParams(seed=1), [[0.25, 0.25, 0.25, 0.25]]) == []


def test_every_sibling_has_the_lines_of_its_own_tokens():
    scheduler, log = Scheduler(4, LETTERS), TokenLog(LETTERS)
    request_ids = scheduler.add_group(SamplingParams(n=3, max_tokens=4, logprobs=0, ignore_eos=True, seed=1))
    while scheduler.request_ids:
        log.add(scheduler.step(np.zeros((3, 4), np.float32)))
    for request_id in request_ids:
        tokens = [line.split()[0] for line in log.lines(request_id)]
        assert tokens == ["ab␣"[t] for t in scheduler.record(request_id).token_ids]
