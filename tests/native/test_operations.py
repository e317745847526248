"""Every operation of the header is a kernel that runs, and all that lists operations lists it; so it is with
the kinds of expressions."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from engine_sampler.backends.host_run import HostRun
from engine_sampler.backends.library.header import contract
from engine_sampler.contract import Sampler, Selector
from engine_sampler.registry import CORE_PARAMS, Registry
from tests.native.building import NATIVE, SOURCES
from tests.native.comparing import accept_tokens, instruction_sets, random_group, run
from tests.random_chains import HOST_ONLY, SAMPLERS, SELECTORS, random_logits

CATALOGUE = Registry(CORE_PARAMS).catalogue
ON_THE_HOST = {*HOST_ONLY, "grammar_bias"}
"""Built-in samplers and selectors without a kernel."""

KERNELS = [name for name in (*SAMPLERS, *SELECTORS) if name not in ON_THE_HOST]
SIZE, ROWS = 600, 6


def kinds() -> set[str]:
    """The operations of the header."""
    return set(contract().typeof("es_op_kind").relements)


def kind_of(name: str) -> str:
    return f"ES_OP_{name.upper()}"


def settings_of(kernel: str, random: np.random.Generator) -> dict[str, Any]:
    """Settings of a request that uses one kernel, and a selector."""
    return dict(SELECTORS[kernel]) if kernel in SELECTORS else dict(SAMPLERS[kernel](random, SIZE))


def test_the_header_has_an_operation_for_every_kernel() -> None:
    assert kinds() == {"ES_OP_FUNCTION", *map(kind_of, KERNELS)}


def test_the_table_has_one_line_for_every_operation() -> None:
    lines = re.findall(r"DO\((ES_OP_\w+), ", (SOURCES / "operations.h").read_text("utf-8"))
    assert sorted(lines) == sorted(kinds())


def test_the_table_of_expressions_has_one_line_for_every_kind() -> None:
    folder = SOURCES / "grammar" / "expression"
    numbers = re.search(
        r"enum eg_kind_number \{(.*?)\}", (folder / "expression.h").read_text("utf-8"), re.DOTALL
    )
    assert numbers is not None
    kinds_of_expressions = re.findall(r"^    (EG_\w+)", numbers.group(1), re.MULTILINE)
    lines = re.findall(r"^    \[(EG_\w+)\] = \{EG_OF", (folder / "kinds.c").read_text("utf-8"), re.MULTILINE)
    assert lines == kinds_of_expressions


def test_the_fuzzer_sets_every_parameter_of_the_header() -> None:
    text = (NATIVE / "fuzz" / "world.c").read_text("utf-8")
    fields = {name for name, _ in contract().typeof("es_params").fields} - {"reserved"}
    assert fields == set(re.findall(r"\bp->(\w+) = ", text))


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_operation_runs_natively(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    part: Sampler | Selector = {**CATALOGUE.samplers, **CATALOGUE.selectors}[kernel]
    random = np.random.default_rng(len(kernel))
    chain, rows = random_group(random, SIZE, ROWS, settings_of(kernel, random))
    assert part.name in {one.name for one in (*chain.samplers, chain.selector)}
    for backend in instruction_sets().values():
        assert backend.runs_as(part) == "native"
        assert backend.supports(part)
        for method in ("run", "resume"):
            monkeypatch.setattr(HostRun, method, lambda *rows: pytest.fail("the host ran a row"))
        for _ in range(2):
            batch = run(backend, chain, rows, random_logits(random, ROWS, SIZE))
            assert batch.errors == [None] * ROWS
            accept_tokens(random, rows, batch)
