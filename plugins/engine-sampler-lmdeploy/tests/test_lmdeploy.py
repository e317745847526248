"""LMDeploy's logits processors: called as its PyTorch engine calls them, and by its own functions."""

from __future__ import annotations

import ast
import copy
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine_sampler import Grammar, ParameterError, SamplingParams, Tokenizer, process_logits

torch = pytest.importorskip("torch")

from engine_sampler_lmdeploy import NEUTRAL, LMDeployLogitsProcessor  # noqa: E402

WIDTH = 40
CHAIN = SamplingParams(repetition_penalty=1.5, presence_penalty=1.0, dry_multiplier=0.8, top_p=0.9)


def rows_of(seed: int, n: int) -> Any:
    return torch.tensor(np.random.default_rng(seed).normal(0, 3, (n, WIDTH)).astype(np.float32))


def padded(texts: list[list[int]]) -> Any:
    """int64 [sequences, longest], filled with 0 on the left."""
    longest = max(map(len, texts))
    return torch.tensor([[0] * (longest - len(text)) + text for text in texts])


def expected(row: Any, prompt: list[int], output: list[int], params: SamplingParams = CHAIN) -> np.ndarray:
    found: np.ndarray = process_logits(
        row[None].numpy(), params, prompt_token_ids=[prompt], output_token_ids=[output]
    )
    return found[0]


def test_each_sequence_has_its_history_whatever_the_padding() -> None:
    processors = [copy.deepcopy(LMDeployLogitsProcessor(CHAIN)) for _ in range(2)]
    prompts, outputs = [[5, 6, 7], [8]], [[], []]
    for number in range(6):
        rows = rows_of(number, 2)
        texts = [prompt + output for prompt, output in zip(prompts, outputs, strict=True)]
        texts.append([9] * (3 + 2 * number))  # another sequence of the batch, which grows and leaves
        ids = padded(texts[: 3 - (number == 4)])
        for i in range(2):
            left = processors[i](ids[i], rows[i])
            np.testing.assert_array_equal(left.numpy(), expected(rows[i], prompts[i], outputs[i]))
            outputs[i].append(int(left.argmax()))


def test_a_copy_begins_anew() -> None:
    processor, row = LMDeployLogitsProcessor(CHAIN), rows_of(1, 1)[0]
    processor(torch.tensor([4, 5]), row)
    processor(torch.tensor([4, 5, 6]), row)
    left = copy.deepcopy(processor)(torch.tensor([4, 5, 6]), row)
    np.testing.assert_array_equal(left.numpy(), expected(row, [4, 5, 6], []))


def test_another_text_begins_anew() -> None:
    processor, row = LMDeployLogitsProcessor(CHAIN), rows_of(1, 1)[0]
    processor(torch.tensor([4, 5]), row)
    left = processor(torch.tensor([0, 0, 7, 7, 7, 7]), row)
    np.testing.assert_array_equal(left.numpy(), expected(row, [7, 7, 7, 7], []))


def test_grammars_constrain_a_sequence() -> None:
    tokenizer = Tokenizer([b"</s>", b"a", b"b", b"ab"], eos_token_ids=[0])
    processor = LMDeployLogitsProcessor(
        SamplingParams(),
        tokenizer=tokenizer,
        grammar=Grammar.from_regex("ab").compile(tokenizer),
        pad_token_id=2,
    )
    row, seen = torch.zeros(4), []
    for text in ([1], [1, 1], [1, 1, 2]):
        left = processor(torch.tensor([2, 2, *text]), row)
        seen.append(torch.isfinite(left).nonzero().flatten().tolist())
    assert seen == [[1, 3], [2], [0]]


def test_logits_keep_their_dtype_and_the_callers_are_not_modified() -> None:
    given = rows_of(2, 1)[0].half()
    before = given.clone()
    left = LMDeployLogitsProcessor(CHAIN)(torch.tensor([1]), given)
    assert left.dtype == torch.half
    assert torch.equal(given, before)


def test_wrong_arguments_are_refused_by_name() -> None:
    with pytest.raises(ParameterError, match="params"):
        LMDeployLogitsProcessor({"top_p": 0.5})  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="pad_token_id"):
        LMDeployLogitsProcessor(CHAIN, pad_token_id=-1)
    with pytest.raises(ValueError, match="logits"):
        LMDeployLogitsProcessor(CHAIN)(torch.tensor([1]), torch.zeros(1, 4))
    with pytest.raises(ValueError, match="no token to draw"):
        LMDeployLogitsProcessor(CHAIN)(torch.tensor([1]), torch.full((4,), torch.nan))


# --- LMDeploy's own functions, without the package's imports ----------------------------------------


def function_of(file: str, name: str) -> Any:
    """A function of the installed package, from its source."""
    spec = find_spec("lmdeploy")
    if spec is None or spec.origin is None:
        pytest.skip("LMDeploy is not there")
    tree = ast.parse(Path(spec.origin).parent.joinpath(file).read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name]
    assert len(functions) == 1, f"{name} is not in {file} any more"
    functions[0].returns = None
    for argument in functions[0].args.args:
        argument.annotation = None
    names: dict[str, Any] = {"torch": torch}
    exec(compile(ast.Module([functions[0]], []), file, "exec"), names)
    return names[name]


def test_the_engine_pads_and_calls_as_these_tests_do() -> None:
    gather = function_of("pytorch/strategies/ar/sampling.py", "_gather_all_ids")
    apply = function_of("pytorch/engine/logits_process.py", "_apply_custom_logits_processors")
    texts, rows = [[5, 6, 7], [8]], rows_of(3, 2)
    processors = [[copy.deepcopy(LMDeployLogitsProcessor(CHAIN))] for _ in texts]
    seqs = [SimpleNamespace(num_valid_ids=len(text), valid_ids=np.array(text)) for text in texts]
    ids = gather(0, seqs, SimpleNamespace(logits_processors=processors))
    assert torch.equal(ids, padded(texts))
    left = apply(processors, ids, rows.clone())
    for i, text in enumerate(texts):
        np.testing.assert_array_equal(left[i].numpy(), expected(rows[i], text, []))


def test_neutral_keywords_are_fields_of_a_generation_config() -> None:
    spec = find_spec("lmdeploy")
    if spec is None or spec.origin is None:
        pytest.skip("LMDeploy is not there")
    tree = ast.parse(Path(spec.origin).with_name("messages.py").read_text(encoding="utf-8"))
    config = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "GenerationConfig")
    fields = {node.target.id for node in config.body if isinstance(node, ast.AnnAssign)}  # type: ignore[union-attr]
    assert {*NEUTRAL, "logits_processors"} <= fields
