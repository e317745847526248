"""The shim as the last element of chains of llama.cpp's own library."""

from __future__ import annotations

import ctypes
import importlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llama_shim import SOURCES, Create, candidates_of, kernels, text_of, token_data
from shim_requests import VOCAB, random_request, random_text

from engine_sampler import SamplingParams, Scheduler

llama = pytest.importorskip("llama_cpp.llama_cpp")

ORDER_AFTER_TOP_K = ["top_k", "penalties", "top_p"]
"""Where a chain has llama.cpp's top_k before the shim."""


@pytest.fixture
def chain() -> Iterator[Any]:
    made = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
    yield made
    llama.llama_sampler_free(made)


def host_of(shim: Any) -> Any:
    """What a program states that was compiled with the llama.h of this release."""
    create = ctypes.cast(llama._lib.llama_sampler_init, Create)
    return shim.host(
        sampler_bytes=ctypes.sizeof(llama.llama_sampler),
        interface_bytes=ctypes.sizeof(llama.llama_sampler_i),
        token_bytes=ctypes.sizeof(llama.llama_token_data),
        array_bytes=ctypes.sizeof(llama.llama_token_data_array),
        create=create,
    )


def add(chain: Any, shim: Any, text: str) -> Any:
    """Put the shim at the end of a chain, as a program does."""
    made = ctypes.cast(shim.new(text, VOCAB, host_of(shim)), llama.llama_sampler_p_ctypes)
    llama.llama_sampler_chain_add(chain, made)
    return made


def apply(chain: Any, data: np.ndarray) -> tuple[int, np.ndarray]:
    """The token that a chain selects, and the candidates as it leaves them."""
    ours = candidates_of(data)
    given = ctypes.cast(ctypes.byref(ours), ctypes.POINTER(llama.llama_token_data_array))
    llama.llama_sampler_apply(chain, given)
    address = ctypes.cast(given.contents.data, ctypes.c_void_p).value
    left = np.frombuffer((ctypes.c_char * (12 * ours.size)).from_address(address), data.dtype)
    return int(left["id"][ours.selected]), left.copy()


@pytest.mark.parametrize("number", range(8))
def test_tokens_are_those_of_a_scheduler(shim: Any, chain: Any, number: int) -> None:
    random = np.random.default_rng(100 + number)
    settings, prompt = random_request(random), random_text(random, 12)
    add(chain, shim, text_of(settings))
    for token in prompt:
        llama.llama_sampler_accept(chain, token)
    scheduler = Scheduler(VOCAB, backend="native")
    scheduler.add(SamplingParams(**{"penalty_scope": "all", **settings}), prompt)
    for row in random.normal(0, 3, (25, VOCAB)).astype(np.float32):
        token, _ = apply(chain, token_data(row))
        assert token == scheduler.step(row[None]).token_ids[0], settings
        llama.llama_sampler_accept(chain, token)


def test_what_earlier_samplers_leave_is_the_row(shim: Any, chain: Any) -> None:
    random = np.random.default_rng(7)
    llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_top_k(20))
    llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_min_p(0.1, 1))
    add(chain, shim, "temperature=1.3 seed=3")
    scheduler = Scheduler(VOCAB, backend="native")
    scheduler.add(SamplingParams(temperature=1.3, seed=3))
    for _ in range(20):
        row = random.normal(0, 2, VOCAB).astype(np.float32)
        token, left = apply(chain, token_data(row))
        assert 0 < len(left) <= 20
        cut = np.full(VOCAB, -np.inf, np.float32)
        cut[left["id"]] = left["logit"]
        assert token == scheduler.step(cut[None]).token_ids[0]
        llama.llama_sampler_accept(chain, token)


def test_chains_are_cloned_and_reset(shim: Any, chain: Any) -> None:
    rows = np.random.default_rng(2).normal(0, 2, (8, VOCAB)).astype(np.float32)
    add(chain, shim, "mirostat=2 seed=5")

    def follow(some: Any, rows: np.ndarray) -> list[int]:
        tokens = []
        for row in rows:
            tokens.append(apply(some, token_data(row))[0])
            llama.llama_sampler_accept(some, tokens[-1])
        return tokens

    whole = follow(chain, rows)
    llama.llama_sampler_reset(chain)
    assert follow(chain, rows[:4]) == whole[:4]
    clone = llama.llama_sampler_clone(chain)
    assert follow(chain, rows[4:]) == whole[4:]
    assert follow(clone, rows[4:]) == whole[4:]
    llama.llama_sampler_free(clone)


def test_llama_cpp_knows_its_name(shim: Any, chain: Any) -> None:
    made = add(chain, shim, "")
    assert llama.llama_sampler_name(made) == b"engine-sampler"
    assert llama.llama_sampler_chain_n(chain) == 1


def test_the_release_has_the_structures_that_the_shim_knows(shim: Any) -> None:
    names = [name for name, _ in llama.llama_sampler_i._fields_]
    assert names[:6] == ["name", "accept", "apply", "reset", "clone", "free"]
    assert names[11:] == ["copy_state"]
    assert [name for name, _ in llama.llama_token_data._fields_] == ["id", "logit", "p"]
    assert [name for name, _ in llama.llama_token_data_array._fields_] == [
        "data",
        "size",
        "selected",
        "sorted",
    ]


@pytest.mark.parametrize("language", ["c", "c++"])
def test_programs_compile_with_both_headers(language: str, tmp_path: Path) -> None:
    headers = Path(llama.__file__).parents[1] / "include"
    compiler = shutil.which("cc" if language == "c" else "c++")
    if not (headers / "llama.h").is_file() or compiler is None:
        pytest.skip("there is no llama.h, or no compiler")
    program = tmp_path / "program.c"
    program.write_text(
        "#include <llama.h>\n#include <es_llama.h>\n"
        "struct llama_sampler *made(es_llama_params *p) { return engine_sampler_llama(p, NULL, 0); }\n"
    )
    folders = [f"-I{folder}" for folder in (headers, SOURCES, kernels().parent)]
    command = [compiler, "-x", language, "-fsyntax-only", "-Wall", "-Werror", *folders, str(program)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_model_is_sampled_by_llama_cpps_own_call(shim: Any, tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    import tiny_gguf

    size = len(tiny_gguf.PIECES)
    model = importlib.import_module("llama_cpp").Llama(
        str(tiny_gguf.write_model(tmp_path / "tiny.gguf")), n_ctx=64, verbose=False, logits_all=True
    )
    made = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
    llama.llama_sampler_chain_add(made, llama.llama_sampler_init_top_k(50))
    text, settings = [1, 260, 261], {"repetition_penalty": 1.3, "top_p": 0.9, "seed": 11}
    address = shim.new(text_of(settings), size, host_of(shim))
    llama.llama_sampler_chain_add(made, ctypes.cast(address, llama.llama_sampler_p_ctypes))
    scheduler = Scheduler(size, backend="native")
    scheduler.add(SamplingParams(penalty_scope="all", order=ORDER_AFTER_TOP_K, top_k=50, **settings), text)
    for token in text:
        llama.llama_sampler_accept(made, token)
    model.eval(text)
    for _ in range(10):
        token = llama.llama_sampler_sample(made, model.ctx, -1)
        assert token == scheduler.step(model.scores[model.n_tokens - 1][None]).token_ids[0]
        model.eval([token])
    llama.llama_sampler_free(made)
