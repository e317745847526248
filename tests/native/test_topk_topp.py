"""The operator for graphs in C draws what the one in Python draws, and is as strict."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_sampler_mindie.atb import TopkToppLogprobsSamplingParam, TopkToppSampling
from engine_sampler_mindie.atb.operator import REMOVED
from engine_sampler_mindie.atb.param import INPUTS

from engine_sampler.base.packaged import load_functions
from tests.native.building import ARITHMETIC, INCLUDE, SOURCES, WARNINGS, compiler

HEADER = "engine_sampler_topk_topp.h"
KINDS = tuple(INPUTS)
FLOAT16, BFLOAT16, FLOAT32, INT32 = range(4)
DTYPES = {"uint16": FLOAT16, "float32": FLOAT32, "int32": INT32}


class Node:
    """The operator in the packaged library."""

    def __init__(self, **fields: Any) -> None:
        loaded = load_functions(HEADER, "es_topk_topp_create")
        if loaded is None:
            pytest.skip("the C library is not installed")
        self.library, self.ffi = loaded
        made = self.ffi.new("es_topk_topp **")
        self.status = self.library.es_topk_topp_create(self.param(**fields), made)
        self.op = self.ffi.gc(made[0], self.library.es_topk_topp_destroy)

    def param(self, kind: int = 0, seeds: Any = (), seed: int = 0, topk: int = 100, lists: int = 0) -> Any:
        param = self.ffi.new("es_topk_topp_param *")
        self.seeds = np.array(seeds, np.uint32)
        param.type, param.rand_seed, param.topk, param.log_probs_size = kind, seed, topk, lists
        param.rand_seed_count = len(self.seeds)
        param.rand_seeds = self.ffi.from_buffer("uint32_t[]", self.seeds)
        return param

    @property
    def error(self) -> str:
        return self.ffi.string(self.library.es_topk_topp_error(self.op)).decode()

    def tensors(self, arrays: list[Any], half: int) -> Any:
        tensors = self.ffi.new("es_topk_topp_tensor[]", len(arrays))
        for tensor, array in zip(tensors, arrays, strict=True):
            tensor.dtype = half if array.dtype == np.uint16 else DTYPES[array.dtype.name]
            tensor.shape = list(array.shape)
            tensor.data = self.ffi.cast("void *", array.ctypes.data)
        return tensors

    def setup(self, inputs: Any, outputs: Any) -> int:
        size = self.ffi.new("uint64_t *")
        status = self.library.es_topk_topp_setup(self.op, inputs, len(inputs), outputs, len(outputs), size)
        assert status == 0, self.error
        return int(size[0])

    def execute(self, inputs: Any, outputs: Any, workspace: Any, size: int) -> int:
        return int(
            self.library.es_topk_topp_execute(
                self.op, inputs, len(inputs), outputs, len(outputs), workspace, size
            )
        )

    def __call__(self, arrays: Mapping[str, np.ndarray], half: int, lists: int | None) -> list[np.ndarray]:
        """What it writes for the given arrays, halves as their bits; nothing beyond its workspace."""
        rows = len(arrays["probs"])
        written = [np.full((rows, 1), 77, np.int32), np.full((rows, 1), 77, np.uint16)]
        if lists is not None:
            written.append(np.full((rows, lists), 77, np.float32))
        inputs, outputs = self.tensors(list(arrays.values()), half), self.tensors(written, half)
        size = self.setup(inputs, outputs)
        memory = np.full(size + 64, 0xA5, np.uint8)
        begin = self.ffi.cast("char *", memory.ctypes.data) + 3  # aligned to nothing
        for _ in range(2):
            assert self.execute(inputs, outputs, begin, size) == 0, self.error
        assert (memory[:3] == 0xA5).all()
        assert (memory[3 + size :] == 0xA5).all()
        return written


def random_inputs(random: np.random.Generator, kind: str, half: int, wrong: bool) -> dict[str, np.ndarray]:
    """Arrays by name, halves as their bits; `wrong` spoils some rows."""
    rows, vocab = int(random.integers(1, 6)), int(random.choice([1, 3, 64, 130, 900]))

    def bits(values: np.ndarray) -> np.ndarray:
        if half == BFLOAT16:
            return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return values.astype(np.float16).view(np.uint16)

    weights = np.exp(random.normal(0, 3, (rows, vocab)))
    shares = weights / weights.sum(axis=1, keepdims=True)
    made = {
        "probs": bits(shares),
        "topk": random.integers(1, vocab + 1, (rows, 1)).astype(np.int32),
        "topp": bits(random.choice([0, 0.1, 0.5, 0.9, 1], (rows, 1))),
        "exp": bits(np.maximum(random.exponential(size=(rows, vocab)), 1e-2)),
        "rand": random.choice([0, 1, *random.random(5)], (rows, 1)).astype(np.float32),
    }
    if wrong:
        spoilt = {
            "probs": random.choice([0x8000, 0x8001, 0x7FFF, 0x3FFF, 0], (rows, 1)),
            "topp": random.choice([0x8001, 0x7FFF, 0x3FFF], (rows, 1)),
            "topk": random.choice([0, -1, vocab + 1], (rows, 1)),
            "exp": random.choice([0x8000, 0x8001, 0x7FFF], (rows, 1)),
            "rand": np.float32(random.choice([-0.5, np.nan, 1.5], (rows, 1))),
        }
        for name, values in spoilt.items():
            row = random.integers(rows)
            made[name][row] = values[row]
    return {name: made[name] for name in INPUTS[kind]}


@pytest.mark.parametrize("wrong", [False, True], ids=["sound", "spoilt"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_writes_what_the_operator_in_python_returns(kind: str, wrong: bool) -> None:
    assert_writes_alike(kind, FLOAT16, np.float16, wrong)


def assert_writes_alike(kind: str, half: int, dtype: Any, wrong: bool) -> None:
    """Fail unless both operators give the same for random inputs with halves of this type."""
    random, number = np.random.default_rng(KINDS.index(kind)), KINDS.index(kind)
    for _ in range(25):
        inputs = random_inputs(random, kind, half, wrong)
        rows, vocab = inputs["probs"].shape
        if number == 0 and wrong:
            inputs["topp"] = inputs["topp"][: int(random.integers(2)) * rows or 1]
            inputs["topp"][inputs["topp"] > 0x3F80] = 0
        topk, lists = int(random.integers(1, vocab + 1)), int(random.integers(0, min(vocab, 9) + 1))
        seeds = random.integers(0, 2**32, rows)
        param = TopkToppLogprobsSamplingParam(number, seeds.tolist(), 5, topk, lists)
        tensors = {n: a.view(dtype) if a.dtype == np.uint16 else a for n, a in inputs.items()}
        expected = TopkToppSampling(param)(**tensors)
        node = Node(kind=number, seeds=seeds, seed=5, topk=topk, lists=lists)
        written = node(inputs, half, lists if number > 2 else None)
        assert written[0].tolist() == expected[0].tolist()
        assert written[1].tobytes() == expected[1].tobytes()
        if number > 2:
            assert written[2].tolist() == expected[2].tolist()
            assert (written[2][written[0][:, 0] < 0] == REMOVED).all()


SOUND = {
    "probs": np.full((2, 5), 0x3000, np.uint16),
    "topk": np.ones((2, 1), np.int32),
    "topp": np.full((2, 1), 0x3C00, np.uint16),
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"probs": np.ones((2, 5), np.float32)}, "probs has dtype 2; allowed is 0 or 1"),
        ({"probs": np.zeros((0, 5), np.uint16)}, "probs has shape [0, 5]; allowed is at least [1, 1]"),
        ({"topk": np.ones((2, 1), np.float32)}, "topk has dtype 2; allowed is 3 or 0"),
        ({"topk": np.ones((1, 1), np.int32)}, "topk has shape [1, 1]; allowed is [2, 1]"),
        ({"topp": np.ones((2, 1), np.int32)}, "topp has dtype 3; allowed is 0"),
        ({"topp": np.ones((1, 1), np.uint16)}, "topp has shape [1, 1]; allowed is [2, 1]"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    node = Node(kind=1, seeds=[1, 2])
    inputs = node.tensors(list((SOUND | changes).values()), FLOAT16)
    outputs = node.ffi.new("es_topk_topp_tensor[2]")
    assert node.library.es_topk_topp_infer(node.op, inputs, 3, outputs, 2) == 1
    assert node.error == message


def test_outputs_are_inferred_and_checked() -> None:
    node = Node(kind=1, seeds=[1, 2])
    inputs, outputs = node.tensors(list(SOUND.values()), FLOAT16), node.ffi.new("es_topk_topp_tensor[2]")
    assert node.library.es_topk_topp_infer(node.op, inputs, 3, outputs, 2) == 0
    assert [(one.dtype, list(one.shape)) for one in outputs] == [(INT32, [2, 1]), (FLOAT16, [2, 1])]
    size = node.ffi.new("uint64_t *")
    outputs[1].dtype = FLOAT32
    assert node.library.es_topk_topp_setup(node.op, inputs, 3, outputs, 2, size) == 1
    assert node.error == "sampled_probs has dtype 2; allowed is 0"
    assert node.library.es_topk_topp_infer(node.op, inputs, 3, outputs, 3) == 1
    assert node.error == "3 outputs are given; the type has 2"
    assert node.library.es_topk_topp_infer(node.op, inputs, 2, outputs, 2) == 1
    assert node.error == "2 inputs are given; the type has 3"
    assert (
        node.library.es_topk_topp_input_count(node.op),
        node.library.es_topk_topp_output_count(node.op),
    ) == (3, 2)


def test_execute_needs_the_setup_and_the_workspace_of_its_tensors() -> None:
    node, written = Node(kind=1, seeds=[1, 2]), [np.full((2, 1), 7, np.int32), np.zeros((2, 1), np.uint16)]
    inputs, outputs = node.tensors(list(SOUND.values()), FLOAT16), node.tensors(written, FLOAT16)
    workspace = node.ffi.new("char[]", 1 << 20)
    assert node.execute(inputs, outputs, workspace, 1 << 20) == 1
    assert node.error == "these tensors are not those of the last setup"
    size = node.setup(inputs, outputs)
    assert node.execute(inputs, outputs, workspace, size - 1) == 1
    assert node.error == f"the workspace has {size - 1} bytes; allowed are at least {size}"
    assert node.execute(inputs, outputs, node.ffi.NULL, size) == 1
    inputs[0].data = node.ffi.NULL
    assert node.execute(inputs, outputs, workspace, size) == 1
    assert node.error == "input 0 has no data"
    assert written[0].tolist() == [[7], [7]]
    node.library.es_topk_topp_set_param(node.op, node.param(kind=1, seeds=[1, 3]))
    assert node.execute(inputs, outputs, workspace, size) == 1
    assert node.error == "these tensors are not those of the last setup"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": 5}, "type=5 is not allowed: 0 to 4"),
        ({"kind": -1}, "type=-1 is not allowed: 0 to 4"),
        ({"kind": 3, "lists": -1}, "log_probs_size=-1 is not allowed: 0 to 16384"),
        ({"kind": 3, "lists": 20_000}, "log_probs_size=20000 is not allowed: 0 to 16384"),
    ],
)
def test_parameters_that_are_wrong_are_refused_by_name(fields: dict[str, int], message: str) -> None:
    node = Node(**fields)
    assert node.status == 1
    assert node.error == message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": 0, "topk": 6}, "topk=6 is not allowed: 1 to 5"),
        ({"kind": 0, "topk": 0}, "topk=0 is not allowed: 1 to 5"),
        ({"kind": 1, "seeds": [1]}, "rand_seeds has 1 seeds; allowed is one for each of 2 rows"),
        ({"kind": 4, "lists": 6}, "log_probs_size=6 is not allowed: at most the 5 tokens of a row"),
    ],
)
def test_parameters_that_do_not_fit_the_rows_are_refused_by_name(
    fields: dict[str, Any], message: str
) -> None:
    node = Node(**fields)
    given = [SOUND["probs"], *([SOUND["topk"]] if fields["kind"] else []), SOUND["topp"]]
    inputs = node.tensors(given + [SOUND["probs"]] * (fields["kind"] == 4), FLOAT16)
    outputs = node.ffi.new("es_topk_topp_tensor[3]")
    count = node.library.es_topk_topp_output_count(node.op)
    assert node.library.es_topk_topp_infer(node.op, inputs, len(inputs), outputs, count) == 1
    assert node.error == message


SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def built(folder: Path, command: list[str], flags: tuple[str, ...]) -> Path | None:
    program = folder / "program"
    done = subprocess.run([*command, *flags, "-o", str(program)], capture_output=True, text=True, check=False)
    if done.returncode and flags:
        return None  # this compiler has no sanitizers
    assert done.returncode == 0, done.stderr
    return program


def test_a_program_in_c_uses_it_as_a_node(tmp_path: Path) -> None:
    room = SOURCES / "probabilities"
    command = [
        compiler(), *ARITHMETIC, *WARNINGS, f"-I{INCLUDE}", f"-I{SOURCES}",
        str(Path(__file__).with_name("topk_topp_graph.c")), str(room / "probabilities.c"),
        str(room / "topk_topp.c"),
    ]  # fmt: skip
    program = built(tmp_path, command, SANITIZED) or built(tmp_path, command, ())
    assert program is not None
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, env={})
    assert done.returncode == 0, done.stderr
    expected = []
    for rows in (2, 3):
        ids = np.arange(70)
        bits = np.array([1024 + 100 * ((ids + 7 * row) % 70) for row in range(rows)], np.uint16)
        param = TopkToppLogprobsSamplingParam(1, [7, 8, 9][:rows])
        half = np.full((rows, 1), 0.5, np.float16)
        tokens, _ = TopkToppSampling(param)(bits.view(np.float16), half, np.int32([[20], [21], [22]])[:rows])
        expected += ["output 0 has no data", " ".join(map(str, tokens[:, 0].tolist()))]
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines == [*expected, "type=9 is not allowed: 0 to 4", "param is NULL"]


def test_the_example_in_cpp_prints_what_python_draws(tmp_path: Path) -> None:
    cpp = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    if cpp is None:
        pytest.skip("there is no C++ compiler")
    page = (INCLUDE.parents[1] / "docs/coming-from/atb.md").read_text(encoding="utf-8")
    source = tmp_path / "example.cpp"
    source.write_text(page.split("```cpp\n")[1].split("```")[0], encoding="utf-8")
    parts = []
    for name in ("probabilities", "topk_topp"):
        parts.append(str(tmp_path / f"{name}.o"))
        c = [compiler(), *ARITHMETIC, f"-I{INCLUDE}", f"-I{SOURCES}", "-c", "-o", parts[-1]]
        subprocess.run([*c, str(SOURCES / f"probabilities/{name}.c")], check=True)
    program = built(tmp_path, [cpp, "-std=c++17", *WARNINGS, f"-I{INCLUDE}", str(source), *parts], ())
    printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    probs = np.float16([[0.5, 0.25, 0.125, 0.125], [0.125, 0.125, 0.25, 0.5]])
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(1, [7, 8]))
    tokens, _ = operator(probs, np.full((2, 1), 0.75, np.float16), np.full((2, 1), 3, np.int32))
    assert printed == "{} {}\n".format(*tokens[:, 0])
