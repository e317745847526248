"""`engine-sampler generate`, with the embedded engine and with a model of the user."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .running import CORPUS, needs_extra, run, run_apart, run_without


def test_generate_writes_text_to_stdout_and_statistics_to_stderr(corpus):
    needs_extra()
    done = run("generate", "--prompt", "The cat", "--corpus", corpus, "--temperature", "0")
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert done.stdout.rstrip("\n") in CORPUS
    assert "tokens, stop (end of text), seed" in done.stderr


def test_generate_stops_at_max_tokens(corpus):
    needs_extra()
    done = run("generate", "--prompt", "The", "--corpus", corpus, "--max-tokens", "3", "--ignore-eos")
    assert "3 tokens, length (max_tokens)" in done.stderr
    assert re.search(r"\nper row: model [\d.]+ ms, sampling [\d.]+ ms, in the first step \d+ ms", done.stderr)


def test_generate_gives_the_same_text_for_the_same_seed(corpus):
    needs_extra()
    options = ("generate", "--prompt", "The", "--corpus", corpus, "--seed", "9", "--temperature", "1.5")
    first, second = run_apart(*options), run(*options)
    assert first.stdout == second.stdout != "\n"


@pytest.mark.parametrize(
    ("options", "statistics"),
    [
        (["--n", "2", "--seed", "5"], ", seed 5\n"),
        (["--n", "2", "--best-of", "4"], "4 tokens, length"),
        (["--n", "2", "--use-beam-search", "--beam-width", "3"], ", score -"),
    ],
)
def test_generate_prints_several_completions_best_first(corpus, options, statistics):
    common = ("generate", "--prompt", "The", "--corpus", corpus, "--max-tokens", "4", "--ignore-eos")
    done = run(*common, *options)
    assert done.returncode == 0
    assert done.stdout.count("\n") >= 2
    assert statistics in done.stderr
    assert done.stderr.count("4 tokens") == 2


def test_generate_prints_no_logprobs_of_tokens_that_are_taken_back(corpus):
    options = ("--temperature", "0", "--max-tokens", "4", "--ignore-eos", "--logprobs", "0")
    command = ("generate", "--prompt", "The", "--corpus", corpus, *options)
    text = run(*command).stdout.rstrip("\n")
    banned = run(*command, "--banned-strings", text)
    assert banned.stdout.rstrip("\n") != text
    assert banned.stderr.count("(rank ") == 4


def test_generate_says_how_often_banned_text_was_taken_back(corpus):
    command = ("generate", "--prompt", "The", "--corpus", corpus, "--temperature", "0", "--max-tokens", "8")
    whole = run(*command)
    assert "rewinds" not in whole.stderr
    banned = run(*command, "--banned-strings", whole.stdout.split()[0], "--banned-regex", "sat.*mat")
    assert re.search(r"8 tokens, .*, rewinds of banned text: [1-9]\n", banned.stderr)


def test_generate_drafts_and_says_what_that_saved(corpus):
    command = (
        "generate",
        "--prompt",
        "The cat sat on the mat. The cat",
        "--corpus",
        corpus,
        "--max-tokens",
        "20",
    )
    plain = run(*command, "--temperature", "0", "--ignore-eos")
    drafted = run(*command, "--temperature", "0", "--ignore-eos", "--drafter", "ngram")
    assert drafted.stdout == plain.stdout
    found = re.search(r"\n(\d+) steps, (\d+) drafted tokens, (\d+) of them accepted\n", drafted.stderr)
    assert found is not None
    steps, guessed, accepted = map(int, found.groups())
    assert steps == 20 - accepted
    assert guessed >= accepted > 0
    assert "steps" not in plain.stderr


def test_generate_scores_a_prompt_of_any_length(corpus):
    command = ("generate", "--corpus", corpus, "--max-tokens", "1", "--prompt-logprobs", "0")
    for prompt in ("The", "The cat", "The cat sat on the mat. " * 30):
        done = run(*command, "--prompt", prompt)
        tokens = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("prompt ")]
        assert prompt.endswith("".join(tokens).replace("␣", " "))
    assert len(tokens) > 130


def test_generate_accepts_parameters_as_options(corpus):
    needs_extra()
    done = run(
        "generate", "--prompt", "The", "--corpus", corpus, "--max-tokens", "5",
        "--logit-bias", '{"40": 90}', "--top-k", "40", "--order", "koboldai",
    )  # fmt: skip
    assert done.returncode == 0
    assert len(set(done.stdout.strip("\n"))) == 1


def test_generate_learns_from_pythons_own_documentation():
    needs_extra()
    done = run("generate", "--prompt", "A class", "--temperature", "0", "--max-tokens", "12")
    assert done.returncode == 0
    assert len(done.stdout.split()) > 5


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """The directory of a small transformers model with its tokenizer."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from transformers_models import save_model

    folder = tmp_path_factory.mktemp("model")
    save_model(folder)
    return folder


def generate_with(model: Path, *options: str | Path):
    return run("generate", "--engine", "transformers", "--model", model, "--prompt", "hello", *options)


def test_generate_runs_a_transformers_model(model):
    done = generate_with(model, "--max-tokens", "6", "--seed", "3", "--ignore-eos")
    assert (done.returncode, done.stderr.count("\n")) == (0, 2)
    assert "6 tokens, length (max_tokens), seed 3\nper row: model " in done.stderr
    assert generate_with(model, "--max-tokens", "6", "--seed", "3", "--ignore-eos").stdout == done.stdout


def test_generate_accepts_every_parameter_with_a_transformers_model(model):
    done = generate_with(
        model, "--json-schema", '{"const": ["yes"]}', "--max-tokens", "90", "--seed", "2", "--min-p", "0.01",
        "--dry-multiplier", "0.8", "--order", "vllm",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["yes"]
    assert "stop (end of text)" in done.stderr


def test_the_engine_of_a_directory_is_transformers(model):
    options = ("--max-tokens", "6", "--seed", "3", "--ignore-eos")
    done = run("generate", "--model", model, "--prompt", "hello", *options)
    assert done.stdout == generate_with(model, *options).stdout


def test_explain_shows_a_row_of_a_transformers_model(model):
    done = run("explain", "--model", model, "--prompt", "hello", "--top-k", "5", "--token", "0")
    assert done.returncode == 0
    assert "“hello”" in done.stdout
    assert re.search(r"\(#0\) is number \d+ of the row", done.stdout)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--engine", "transformers"), "--engine transformers needs a model: --model PATH"),
        (("--engine", "llama.cpp"), "--engine llama.cpp needs a model: --model PATH"),
        (
            ("--engine", "embedded", "--model", "here"),
            "--model is not allowed with --engine embedded: one of transformers, llama.cpp",
        ),
        (("--engine", "llama.cpp", "--model", "m", "--corpus", "c"), "--corpus is not allowed with"),
        (("--engine", "transformers", "--model", "nowhere"), "nowhere is not a directory"),
        (("--engine", "vllm"), "invalid choice: 'vllm'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_options_of_an_engine_are_reported_in_one_line(options, message):
    done = run("generate", "--prompt", "x", *options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr


def test_a_directory_without_a_model_is_reported_in_one_line(tmp_path):
    pytest.importorskip("transformers")
    done = generate_with(tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"{tmp_path} contains no loadable model" in done.stderr


@pytest.mark.parametrize("absent", ["torch", "transformers"])
def test_a_missing_engine_is_reported_with_what_to_install(absent, tmp_path):
    if absent != "torch":
        pytest.importorskip("torch")
    options = ("--engine", "transformers", "--model", tmp_path, "--prompt", "x")
    done = run_without(absent, arguments=("generate", *options))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert absent in done.stderr
    assert "engine-sampler-transformers cannot be used beside transformers" in done.stderr


def test_an_engine_whose_integration_is_not_installed_names_its_distribution(tmp_path):
    options = ("--engine", "transformers", "--model", tmp_path, "--prompt", "x")
    done = run_without("engine_sampler_transformers", arguments=("generate", *options))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert (
        "this needs engine_sampler_transformers: pip install ./plugins/engine-sampler-transformers"
        in done.stderr
    )
