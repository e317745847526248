"""The n-gram drafter beside vLLM's own, and in vLLM's loader of such classes."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_sampler_vllm.ngram import NgramDrafter

loading = pytest.importorskip("vllm.v1.spec_decode.custom_class_proposer", reason="vLLM is not there")


def config(shortest: int | None = 2, longest: int | None = 4, count: int = 3) -> Any:
    return SimpleNamespace(
        speculative_config=SimpleNamespace(
            model="engine_sampler_vllm.ngram.NgramDrafter",
            num_speculative_tokens=count,
            prompt_lookup_min=shortest,
            prompt_lookup_max=longest,
        ),
        model_config=SimpleNamespace(max_model_len=60),
        scheduler_config=SimpleNamespace(max_num_seqs=8),
        parallel_config=SimpleNamespace(tensor_parallel_size=1),
    )


def drafts(text: list[int], **settings: Any) -> list[int]:
    drafter = loading.create_custom_proposer(config(**settings))
    drafter.load_model(None)
    return drafter.propose([[text[-1]]], np.array([len(text)]), np.array([[*text, 0]]), slot_mappings=None)[0]


def test_what_followed_the_longest_match_is_proposed() -> None:
    assert drafts([1, 2, 3, 7, 2, 3, 9, 1, 2, 3]) == [7, 2, 3]
    assert drafts([7, 2, 3, 8, 8, 2, 3]) == [8, 8, 2]
    assert drafts([5, 5, 5, 5]) == [5]
    assert drafts([1, 2, 3, 4]) == []
    assert drafts([1]) == []


def test_the_lengths_of_matches_have_vllms_defaults() -> None:
    drafter = NgramDrafter(config(None, None))
    assert (drafter.shortest, drafter.longest) == (5, 5)
    drafter = NgramDrafter(config(None, 3))
    assert (drafter.shortest, drafter.longest) == (3, 3)


def test_rows_without_a_new_token_and_full_texts_have_no_drafts() -> None:
    drafter = NgramDrafter(config())
    texts = np.array([[1, 2, 9] * 20, [1, 2, 9] * 20])
    assert drafter.propose([[], [9]], np.array([9, 60]), texts) == [[], []]
    assert drafter.propose(1, [[9], [9]], np.array([9, 58]), texts) == [[1], [2]]


@pytest.fixture(scope="module")
def vllms() -> Iterator[Any]:
    """vLLM's function, run by Python: it is compiled where Numba is."""
    with pytest.MonkeyPatch.context() as patch:
        numba: Any = ModuleType("numba")
        numba.jit = numba.njit = lambda **options: lambda function: function
        numba.prange, numba.get_num_threads, numba.set_num_threads = range, lambda: 1, lambda count: None
        patch.setitem(sys.modules, "numba", numba)
        patch.delitem(sys.modules, "vllm.v1.spec_decode.ngram_proposer", raising=False)
        module = import_module("vllm.v1.spec_decode.ngram_proposer")
        patch.delitem(sys.modules, module.__name__)
        yield module._find_longest_matched_ngram_and_propose_tokens


@pytest.mark.parametrize("count", [1, 3, 5])
@pytest.mark.parametrize("lengths", [(1, 1), (2, 4), (3, 3), (1, 7)], ids=str)
def test_drafts_are_those_of_vllms_method(vllms: Any, count: int, lengths: tuple[int, int]) -> None:
    random, drafter = np.random.default_rng(count), NgramDrafter(config(*lengths, count))
    for _ in range(300):
        text = random.integers(0, random.integers(2, 5), random.integers(1, 62)).astype(np.int32)
        own = vllms(text, *lengths, 60, count)
        assert drafter.propose([[1]], np.array([len(text)]), text[None]) == [own.tolist()]


def test_the_model_runner_calls_it_as_it_expects() -> None:
    """Without its imports: the module itself needs a GPU's libraries."""
    spec = find_spec("vllm.v1.worker.gpu_model_runner")
    assert spec is not None
    assert spec.origin is not None
    calls = [
        [*map(ast.unparse, node.args), *(keyword.arg for keyword in node.keywords)]
        for node in ast.walk(ast.parse(Path(spec.origin).read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "cast(Any, self.drafter).propose"
    ]
    batch = "self.input_batch"
    expected = ["sampled_token_ids", f"{batch}.num_tokens_no_spec", f"{batch}.token_ids_cpu", "slot_mappings"]
    assert calls == [expected]
