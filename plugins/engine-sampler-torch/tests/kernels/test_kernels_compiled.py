"""Every kernel compiles for cards of three generations and for one of AMD's, its code rounds as the
arithmetic contract says, and what it works with stays in registers."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from engine_sampler_torch.kernels import Workspace, logprobs, narrow, outcome, revise, sample
from engine_sampler_torch.kernels.check import Golden
from engine_sampler_torch.kernels.launching import listening
from engine_sampler_torch.kernels.workspace import CAPACITIES
from on_device.machine_code import ARCHITECTURES, specification

PLUGIN = Path(__file__).parents[2]
PATHS = (str(PLUGIN), str(PLUGIN / "benchmarks"))

CHAINS = (
    [],
    ["temperature"],
    ["top_k", "top_p", "min_p", "temperature"],
    ["temperature", "top_k", "top_p"],
    ["top_p"],
    ["min_p", "top_p", "temperature"],
    ["top_p", "top_k"],
)
"""One for every path through the kernels: only the best, a draw from whole rows, few candidates with the
temperature last and first, flat rows, and a top_p that needs the exact weight of the row."""


SLOW = ("resolve", "recut")
"""Kernels that take seconds to compile: tried in one variant for each generation."""
ON_CANDIDATES = ("sort_candidates", "chain", "emit")


VOCAB_SIZE = 131_072


class Noted:
    """In the place of a replay: notes what would be launched, and launches nothing."""

    def __init__(self) -> None:
        self.specs: list[dict[str, Any]] = []

    def launch(self, kernel: Any, grid: Any, *arguments: Any, warps: int, **constants: Any) -> None:
        self.specs.append(specification(kernel, arguments, constants, warps))

    def settle(self, *given: Any) -> None:
        pass


def chains() -> list[dict[str, Any]]:
    """What `CHAINS` launch for 64 rows of a real vocabulary; in bfloat16 with masks, edits and rows of
    temperature 0."""
    noted = Noted()
    for names in CHAINS:
        for dtype in (torch.float32, torch.bfloat16):
            launch_nothing(noted, names, "dist", dtype, rich=dtype != torch.float32)
    launch_nothing(noted, [], "greedy", torch.float32, rich=False)
    return noted.specs


def launch_nothing(noted: Noted, names: list[str], selector: str, dtype: torch.dtype, *, rich: bool) -> None:
    def empty(*shape: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    values = {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8}
    golden = Golden({name: values[name] for name in names})
    tensors = golden.given(64, torch.device("meta"))
    if rich and "temperature" in tensors:
        tensors["temperature"]["greedy"] = empty(64, dtype=torch.bool)
    ids, changes = empty(64, 9, dtype=torch.int64), empty(64, 9, dtype=torch.float32)
    sample(
        empty(64, VOCAB_SIZE, dtype=dtype),
        empty(64, dtype=torch.int64),
        VOCAB_SIZE,
        samplers=names,
        selector=selector,
        tensors=tensors,
        fixed=golden.fixed | {"temperature": (False, rich)},
        bitmask=empty(64, VOCAB_SIZE // 32, dtype=torch.int32) if rich else None,
        edits=(ids, changes) if rich else None,
        draws=empty(64, dtype=torch.int64),
        workspace=Workspace("meta", 64, VOCAB_SIZE),
        replay=noted,  # type: ignore[arg-type]
    )


def narrowings() -> list[dict[str, Any]]:
    """What a top_k alone launches."""
    specs: list[dict[str, Any]] = []

    def listen(kernel: Any, grid: Any, arguments: Any, constants: Any, warps: int) -> None:
        specs.append(specification(kernel, arguments, constants, warps))

    with listening(listen), np.errstate(all="ignore"):
        for width in (64, 1024):
            logits, k = torch.zeros(1, 5000), torch.full((1,), 7)
            index = torch.zeros(1, dtype=torch.int64)
            narrow(logits, index, 5000, k, width=width, workspace=Workspace("cpu", 1, 5000))
    return specs


def revisions() -> list[dict[str, Any]]:
    """What the tables of penalties and biases launch."""
    specs: list[dict[str, Any]] = []

    def noted(kernel: Any, grid: Any, *arguments: Any, warps: int, **constants: Any) -> None:
        specs.append(specification(kernel, arguments, constants, warps))

    def empty(*shape: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    types = (torch.int32, torch.int32, torch.int32, torch.float32)
    lists = [empty(128, 512, dtype=dtype) for dtype in types]
    edits = empty(64, 512, dtype=torch.int64), empty(64, 512, dtype=torch.float32)
    penalties = [empty(64, dtype=dtype) for dtype in (torch.float32, *[torch.float64] * 3)]
    with mock.patch.object(revise, "launch", noted):
        for dtype in (torch.float32, torch.bfloat16):
            for parameters in (penalties, []):
                rows, index = empty(64, VOCAB_SIZE, dtype=dtype), empty(64, dtype=torch.int64)
                changes = empty(4, 64, dtype=torch.int64)
                revise.revise_tables(rows, changes, index, lists, edits, parameters, VOCAB_SIZE)
    return specs


def reportings() -> list[dict[str, Any]]:
    """What raw logprobs launch beside a top_k, and what leaves tokens for the next forward pass."""
    specs: list[dict[str, Any]] = []

    def noted(kernel: Any, grid: Any, *arguments: Any, warps: int, **constants: Any) -> None:
        specs.append(specification(kernel, arguments, constants, warps))

    def empty(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    room = Workspace("meta", 64, VOCAB_SIZE)
    with (
        mock.patch.object(logprobs, "launch", noted),
        mock.patch.object(logprobs, "narrow"),
        mock.patch.object(outcome, "launch", noted),
    ):
        for dtype in (torch.float32, torch.bfloat16):
            rows, peaks = empty(64, VOCAB_SIZE, dtype=dtype), empty(64, dtype=torch.float32)
            for k in (0, 5):
                logprobs.likeliest(rows, empty(64), VOCAB_SIZE, peaks, empty(64), k, room)
        outcome.deliver_tokens(empty(64), empty(1))
    return specs


def specifications() -> list[dict[str, Any]]:
    """All of these, each once."""
    every = chains() + narrowings() + revisions() + reportings()
    return list({json.dumps(spec, sort_keys=True): spec for spec in every}.values())


def of_every_capacity(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """A kernel that works on candidates, for as many of them as there may be places."""
    return [spec | {"constants": spec["constants"] | {"CAPACITY": capacity}} for capacity in CAPACITIES]


KERNELS = (
    "chain", "close", "count_edits", "decide", "deliver", "draw", "emit", "find_candidates", "gather",
    "listing", "recut", "resolve", "revise", "sample_within_top_k", "scan", "sort_candidates", "spread",
    "summarize", "total", "weigh",
)  # fmt: skip


def work() -> dict[str, list[tuple[dict[str, Any], int | str, bool]]]:
    """What is compiled of each kernel: a specification, for which architecture, and whether pointers are
    aligned."""
    specs = specifications()
    quick = [spec for spec in specs if spec["kernel"] not in SLOW]
    variants = [(spec, 90, True) for spec in quick]
    firsts = list({(spec["kernel"], spec["constants"].get("AGAIN")): spec for spec in specs}.values())
    sized = [
        spec for first in firsts if first["kernel"] in ON_CANDIDATES for spec in of_every_capacity(first)
    ]
    variants += [(spec, architecture, False) for spec in firsts for architecture in ARCHITECTURES]
    variants += [(spec, architecture, True) for spec in sized for architecture in ARCHITECTURES]
    by_kernel: dict[str, list[tuple[dict[str, Any], int | str, bool]]] = {}
    for one in variants:
        by_kernel.setdefault(one[0]["kernel"], []).append(one)
    return by_kernel


class Compiler:
    """A process without the interpreter that compiles what it is sent, each kernel when it is asked for."""

    def __init__(self, folder: Path) -> None:
        environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
        environment |= {"TRITON_CACHE_DIR": str(folder), "PYTHONPATH": os.pathsep.join(PATHS)}
        command = [sys.executable, str(Path(__file__).with_name("compiling.py"))]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._work = work()
        self._reports: dict[str, list[dict[str, Any]]] = {}

    @property
    def kernels(self) -> set[str]:
        """Those that are launched."""
        return set(self._work)

    def reports(self, kernel: str) -> list[dict[str, Any]]:
        """What came out, for all variants of a kernel."""
        if kernel not in self._reports:
            self._reports[kernel] = [self._compiled(one) for one in self._work[kernel]]
        return self._reports[kernel]

    def _compiled(self, one: tuple[dict[str, Any], int | str, bool]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(one), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, f"{one} does not compile"
        report: dict[str, Any] = json.loads(line)
        return report

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compiler]:
    running = Compiler(tmp_path_factory.mktemp("compiled"))
    yield running
    running.close()


@pytest.fixture(params=KERNELS)
def reports(request: pytest.FixtureRequest, compiler: Compiler) -> list[dict[str, Any]]:
    return compiler.reports(request.param)


def test_all_kernels_that_are_launched_are_compiled_here(compiler: Compiler) -> None:
    assert compiler.kernels == set(KERNELS)


def test_every_kernel_compiles_for_every_generation(reports: list[dict[str, Any]]) -> None:
    assert {report["architecture"] for report in reports} == set(ARCHITECTURES)


ESTIMATES = ("scan", "decide", "chain")
"""Kernels that estimate weights, or read estimates: there powers of two are approximate, and nothing else."""
POWERS = {"ex2.approx.ftz.f32", "ex2.approx.f32", "MUFU.EX2", "v_exp_f32_e32", "v_exp_f32_e64"}


def inexact(report: dict[str, Any], where: str) -> set[str]:
    return set(report[where]) - (POWERS if report["kernel"] in ESTIMATES else set())


def test_no_assembly_fuses_flushes_or_approximates(reports: list[dict[str, Any]]) -> None:
    assert [report for report in reports if inexact(report, "assembly")] == []


def test_no_machine_code_fuses_flushes_or_approximates(reports: list[dict[str, Any]]) -> None:
    assert [report for report in reports if inexact(report, "sass")] == []


def test_no_kernel_needs_more_shared_memory_than_every_card_has(reports: list[dict[str, Any]]) -> None:
    assert max(report["shared"] for report in reports) <= 48 << 10


MOST_ON_A_STACK = {"resolve": 40, "sample_within_top_k": 24}
"""Bytes, 8 where no other number is named: ptxas puts one register aside where it has plenty, in a few of
some two hundred variants, ten in the search of whole rows for sm_100, and six in `sample_within_top_k`
on sm_80, under masks, where it could have four times as many."""


def test_no_kernel_works_on_a_stack_or_in_local_memory(reports: list[dict[str, Any]]) -> None:
    assert [report for report in reports if report["stack"] > MOST_ON_A_STACK.get(report["kernel"], 8)] == []


def test_kernels_on_candidates_are_compiled_for_every_capacity(reports: list[dict[str, Any]]) -> None:
    tried = {(r["constants"]["CAPACITY"], r["architecture"]) for r in reports if r["kernel"] in ON_CANDIDATES}
    assert not tried or tried >= set(itertools.product(CAPACITIES, ARCHITECTURES))
