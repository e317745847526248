"""What llama-cpp-python cannot combine with our processor raises an error, and never ends the process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gguf")
pytest.importorskip("llama_cpp")

import tiny_gguf
from llama_combinations import ALLOWED, ALLOWED_IN_CHATS, BIASES, OWN_GRAMMARS, TWICE

PLUGIN = Path(__file__).resolve().parents[1]
"""Where a process of its own imports the package from."""
IN_CHATS_ALONE = ("json_object", "json_object with a schema", "a forced tool", "a forced function")


def both_ways(method: str, name: str) -> list[str]:
    """The labels of a combination, not streamed and streamed."""
    return [f"{method}, {name}", f"{method}, {name}, streamed"]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What became of each combination, in a process of their own."""
    model = tiny_gguf.write_model(tmp_path_factory.mktemp("models") / "tiny.gguf")
    command = [sys.executable, str(PLUGIN / "tests" / "llama_combinations.py"), str(model)]
    environment = {**os.environ, "PYTHONPATH": str(PLUGIN)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"after {done.stdout.splitlines()[-1:]}: {done.stderr[-500:]}"
    return dict(map(json.loads, done.stdout.splitlines()))


@pytest.mark.parametrize("name", OWN_GRAMMARS)
def test_a_grammar_of_llama_cpp_pythons_own_raises_an_error(name: str, outcomes: dict[str, Any]) -> None:
    for method in ("chat",) if name in IN_CHATS_ALONE else ("text", "chat"):
        assert [outcomes[label] for label in both_ways(method, name)] == ["ParameterError"] * 2


def test_a_grammar_raises_an_error_however_it_came_about(outcomes: dict[str, Any]) -> None:
    assert outcomes["generate"] == outcomes["a handler with grammars of its own"] == "ParameterError"


def test_a_grammar_does_not_end_the_process_where_the_model_is_not_known(outcomes: dict[str, Any]) -> None:
    answers = [outcome for name, outcome in outcomes.items() if name.startswith("another tokenizer")]
    assert [type(answer) for answer in answers] == [list] * 3


@pytest.mark.parametrize("name", BIASES)
@pytest.mark.parametrize("method", ["text", "chat"])
def test_a_logit_bias_raises_an_error(method: str, name: str, outcomes: dict[str, Any]) -> None:
    assert [outcomes[label] for label in both_ways(method, name)] == ["ParameterError"] * 2


@pytest.mark.parametrize("name", TWICE)
@pytest.mark.parametrize("method", ["text", "chat"])
def test_python_refuses_a_keyword_that_the_settings_have(
    method: str, name: str, outcomes: dict[str, Any]
) -> None:
    assert outcomes[f"{method}, {name} twice"] == "TypeError"


@pytest.mark.parametrize("method", ["text", "chat"])
def test_no_other_argument_changes_the_tokens(method: str, outcomes: dict[str, Any]) -> None:
    names = [*ALLOWED, *(ALLOWED_IN_CHATS if method == "chat" else ())]
    tokens, text = outcomes[f"{method}, nothing"]
    assert len(tokens) == 9
    assert [outcomes[label] for name in names for label in both_ways(method, name)] == [[tokens, text]] * (
        2 * len(names)
    )
