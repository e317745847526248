"""Every field of peers' requests has its place in the table of them, and the readers do what it says."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import engine_sampler_llama_cpp as llama_cpp
import pytest

from docs.generate.request_fields import FIELDS, outcome
from engine_sampler import ParameterError, SamplingParams
from engine_sampler.registry import default_registry

CLASSES = {
    "vLLM": {
        "entrypoints/openai/chat_completion/protocol.py": "ChatCompletionRequest",
        "entrypoints/openai/completion/protocol.py": "CompletionRequest",
        "entrypoints/openai/responses/protocol.py": "ResponsesRequest",
        "sampling_params.py": "SamplingParams",
    },
    "SGLang": {
        "srt/entrypoints/openai/protocol.py": "ChatCompletionRequest CompletionRequest",
        "srt/managers/io_struct.py": "GenerateReqInput",
        "srt/sampling/sampling_params.py": "SamplingParams",
    },
}
"""The classes of requests of installed peers, by the file."""

NAMED = [(peer, name) for peer, names in FIELDS.items() for name in sorted(names)]


def fields_in(path: Path, classes: str) -> set[str]:
    """The public fields of these classes in a file, which is not run."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bodies = [
        node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name in classes.split()
    ]
    assert len(bodies) == len(classes.split())
    targets = [line.target for body in bodies for line in body if isinstance(line, ast.AnnAssign)]
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in names if not name.startswith("_") and name != "model_config"}


@pytest.mark.parametrize("peer", CLASSES)
def test_the_table_has_every_field_of_an_installed_peer(peer: str) -> None:
    spec = importlib.util.find_spec(peer.lower())
    if spec is None or spec.origin is None:
        pytest.skip(f"{peer} is not there")
    root = Path(spec.origin).parent
    found = set().union(*(fields_in(root / file, names) for file, names in CLASSES[peer].items()))
    assert found == FIELDS[peer]


def read(peer: str, body: dict[str, Any]) -> SamplingParams:
    return llama_cpp.from_request(body) if peer == "llama.cpp" else SamplingParams.from_dict(body)


@pytest.mark.parametrize(("peer", "name"), NAMED)
def test_a_field_becomes_what_the_table_says(peer: str, name: str) -> None:
    what = outcome(name, peer, default_registry().catalogue)
    assert read(peer, {name: None}) == read(peer, {})
    message = ""
    try:
        params = read(peer, {name: "odd"})
    except ParameterError as error:
        message = str(error)
    assert "unknown parameter" not in message
    if what.startswith("left to the server"):
        assert not message
        assert params == read(peer, {})
    assert ("is not supported" in message) is what.startswith("refused")
