"""Every kernel compiles for cards of three generations, and its code rounds as the arithmetic contract
says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from compiling import ARCHITECTURES, specification
from engine_sampler_torch.kernels import Workspace, narrow
from engine_sampler_torch.kernels.launching import listening
from kernel_cases import Case, random_case
from kernel_driver import run

PLUGIN = Path(__file__).parents[2]

CHAINS = (
    [],
    ["temperature"],
    ["top_k", "top_p", "min_p", "temperature"],
    ["temperature", "top_k", "top_p"],
    ["top_p"],
    ["min_p", "top_p", "temperature"],
)
"""One for every path through the kernels: only the best, a draw from whole rows, few candidates with the
temperature last and first, and flat rows."""


SLOW = ("resolve", "recut")
"""Kernels that take seconds to compile: tried in one variant for each generation."""


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for names in CHAINS:
        for dtype in (torch.float32, torch.bfloat16):
            plain = dtype != torch.float32
            yield random_case(random, 300, n=1, names=names, selector="dist", dtype=dtype,
                              masked=not plain, edited=not plain)  # fmt: skip
    yield random_case(
        random, 300, n=1, names=[], selector="greedy", dtype=torch.float32, masked=True, edited=False
    )


def specifications() -> list[dict[str, Any]]:
    """What is launched for `cases`, with the shapes of real vocabularies instead of theirs."""
    by_text: dict[str, dict[str, Any]] = {}

    def listen(kernel: Any, grid: Any, arguments: Any, constants: Any, warps: int) -> None:
        real = {
            "TILE": 4096 if "SPAN" not in constants else 1024,
            "SPAN": 4096,
            "TILES": 32,
            "GROUP": 128,
            "GROUPS": 1024,
        }
        if "STEP" in constants and "OPS" in constants:
            real["STEP"] = 1024
        real |= {"ROUNDS": 3 if constants.get("GROUPED") else 0}
        given = {name: real.get(name, value) for name, value in constants.items()}
        spec = specification(kernel, arguments, given, warps)
        by_text[json.dumps(spec, sort_keys=True)] = spec

    with listening(listen), np.errstate(all="ignore"):
        for case in cases():
            run(case.chain, case.rows, case.logits, bitmask=case.bitmask, edits=case.edits)
        for width in (64, 1024):
            logits, k = torch.zeros(1, 5000), torch.full((1,), 7)
            narrow(
                logits,
                torch.zeros(1, dtype=torch.int64),
                5000,
                k,
                width=width,
                workspace=Workspace("cpu", 1, 5000),
            )
    return list(by_text.values())


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    specs = specifications()
    quick = [spec for spec in specs if spec["kernel"] not in SLOW]
    work = [(spec, 90, True) for spec in quick]
    firsts = list({spec["kernel"]: spec for spec in specs}.values())
    work += [(spec, architecture, False) for spec in firsts for architecture in ARCHITECTURES]
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "specs.json").write_text(json.dumps(work))
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(folder), "PYTHONPATH": str(PLUGIN)}
    command = [sys.executable, str(Path(__file__).with_name("compiling.py")), str(folder / "specs.json")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_kernel_compiles_for_every_generation(reports: list[dict[str, Any]]) -> None:
    kernels = {report["kernel"] for report in reports}
    assert kernels == {
        "above", "begin", "bin_of", "chain", "close", "collect", "count_edits", "draw", "emit", "gather",
        "interval",
        "rank", "recut", "resolve", "scan", "spread", "weigh",
    }  # fmt: skip
    assert {(r["kernel"], r["architecture"]) for r in reports} == {
        (k, a) for k in kernels for a in ARCHITECTURES
    }


def test_no_ptx_fuses_flushes_or_approximates(reports: list[dict[str, Any]]) -> None:
    assert [report for report in reports if report["ptx"]] == []


def test_no_machine_code_fuses_flushes_or_approximates(reports: list[dict[str, Any]]) -> None:
    assert [report for report in reports if report["sass"]] == []


def test_no_kernel_needs_more_shared_memory_than_every_card_has(reports: list[dict[str, Any]]) -> None:
    assert max(report["shared"] for report in reports) <= 48 << 10
