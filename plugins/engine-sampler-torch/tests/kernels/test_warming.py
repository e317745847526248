"""`warm_up` compiles what later steps launch, and says what it cannot compile."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from engine_sampler_torch import warm_up, warming
from engine_sampler_torch.kernels import Workspace, sample
from engine_sampler_torch.kernels.check import Golden
from engine_sampler_torch.kernels.launching import listening
from engine_sampler_torch.running import fused
from on_device.machine_code import specification

pytestmark = [pytest.mark.filterwarnings("ignore::RuntimeWarning"), pytest.mark.usefixtures("kernels")]

ORDER = ("top_k", "temperature")


class Compiled:
    """What is launched, each specification once."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []

    def __call__(self, kernel: Any, grid: Any, arguments: Any, constants: Any, warps: int) -> None:
        spec = specification(kernel, arguments, constants, warps)
        if spec not in self.seen:
            self.seen.append(spec)


@pytest.mark.parametrize("rows", [3, 20])
def test_a_step_of_a_known_chain_launches_nothing_new(rows: int) -> None:
    compiled = Compiled()
    with listening(compiled):
        tried = warm_up([ORDER], [torch.float32], [rows], vocab_size=100, device="cpu")
        assert tried == 4
        before = len(compiled.seen)
        golden = Golden({"top_k": 7, "temperature": 1.3})
        sample(
            torch.randn(rows, 100),
            torch.arange(rows),
            100,
            samplers=ORDER,
            selector="dist",
            tensors=golden.given(rows, torch.device("cpu")),
            fixed=golden.fixed,
            draws=torch.arange(rows),
            workspace=Workspace("cpu", rows, 100),
        )
    assert len(compiled.seen) == before


def test_a_chain_that_kernels_do_not_run_is_refused_by_its_names() -> None:
    with pytest.raises(ValueError, match=r"orders has \['typical_p'\]; allowed are temperature"):
        warm_up([["typical_p"]], [torch.float32], [1], vocab_size=100, device="cpu")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rows": [4, 0]}, "rows is 0; allowed is 1 or more"),
        ({"vocab_size": 0}, "vocab_size is 0; allowed is 1 or more"),
        ({"dtypes": [torch.int32]}, "dtypes has torch.int32; allowed are torch.float32"),
    ],
    ids=["rows", "vocab_size", "dtypes"],
)
def test_a_wrong_value_is_named(wrong: dict[str, Any], message: str) -> None:
    given = {"orders": [ORDER], "dtypes": [torch.float32], "rows": [1], "vocab_size": 100} | wrong
    with pytest.raises(ValueError, match=message):
        warm_up(**given, device="cpu")


def test_without_kernels_there_is_nothing_to_compile(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fused, "DEVICE_TYPES", [])
    fused.kernels_for.cache_clear()
    with pytest.raises(RuntimeError, match="no kernels run on cpu"):
        warm_up([ORDER], [torch.float32], [1], vocab_size=100, device="cpu")
    assert warming.main(["100", "--device", "cpu"]) == 1
    assert "no kernels run on cpu" in capsys.readouterr().out


def test_the_command_says_how_many_kinds_of_steps_it_tried(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["100", "--device", "cpu", "--order", "temperature", "--dtype", "float32", "--rows", "2"]
    assert warming.main(options) == 0
    assert capsys.readouterr().out == "compiled the kernels of 4 kinds of steps\n"
