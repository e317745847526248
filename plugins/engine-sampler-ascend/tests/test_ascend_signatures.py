"""The prototypes that the library calls, those of the simulator, and the calls that op-plugin makes agree."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from ascend_building import DEVICE, SIMULATOR, SOURCES, compiler

CALLS = {
    "aclnnReduceSum": "self dims keep_dims data_type out",
    "aclnnAmax": "self dims keep_dims out",
    "aclnnArgMax": "self dim keep_dim out",
    "aclnnTopk": "self k dim largest sorted values indices",
    "aclnnMul": "self other out",
    "aclnnApplyTopKTopP": "logits p k out",
    "aclnnTopKTopPSample": "logits top_k top_p q eps is_need_logits top_k_guess select_idx top_kp_select",
    "aclnnTopKTopPSampleV2": (
        "logits top_k top_p q min_ps eps is_need_logits top_k_guess ks_max input_is_logits "
        "is_need_sample_result select_idx top_kp_select logits_idx logits_sort_masked"
    ),
}
"""The order in which op-plugin gives the arguments of first phases."""

SIGNATURES = """
#include "cann.h"
#include "cann_sim.h"
#define SAME(pointer, function)                                                              \\
    _Static_assert(__builtin_types_compatible_p(__typeof__(((cann_symbols *)0)->pointer),    \\
                                                __typeof__(&function)), #function);
#define FUNCTION(result, name, parameters) SAME(name, name)
#define OPERATOR(name, parameters)                                                           \\
    SAME(name.first, aclnn##name##GetWorkspaceSize)                                          \\
    SAME(name.second, aclnn##name)
CANN_RUNTIME(FUNCTION)
CANN_OBJECTS(FUNCTION)
CANN_OPERATORS(OPERATOR)
"""


@pytest.mark.parametrize("name", CALLS)
def test_the_simulator_takes_arguments_in_the_order_of_op_plugin(name: str) -> None:
    header = (SIMULATOR / "cann_sim.h").read_text(encoding="utf-8")
    found = re.search(rf"{name}GetWorkspaceSize\((.*?)\);", header, re.DOTALL)
    assert found is not None
    names = [part.split()[-1].strip("*") for part in found[1].split(",")]
    assert names == [*CALLS[name].split(), "bytes", "executor"]


def compiled(text: str, tmp_path: Path) -> str:
    """What the compiler says about `text`."""
    source = tmp_path / "signatures.c"
    source.write_text(text, "utf-8")
    command = [
        compiler(),
        "-std=gnu11",
        "-fsyntax-only",
        f"-I{SOURCES}",
        f"-I{SIMULATOR}",
        f"-I{DEVICE}",
        str(source),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_the_library_calls_what_the_simulator_has(tmp_path: Path) -> None:
    assert compiled(SIGNATURES, tmp_path) == ""


def test_a_signature_that_differs_is_found(tmp_path: Path) -> None:
    assert "static assertion failed" in compiled(SIGNATURES + "SAME(aclInit, aclrtFree)\n", tmp_path)


def test_the_library_calls_every_operator_that_is_listed() -> None:
    header = (SOURCES / "cann.h").read_text(encoding="utf-8")
    listed = header.split("#define CANN_OPERATORS(X)")[1].split("typedef")[0]
    assert [f"aclnn{name}" for name in re.findall(r"X\((\w+),", listed)] == list(CALLS)
