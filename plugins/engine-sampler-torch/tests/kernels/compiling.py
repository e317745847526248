"""Compile kernels for cards that are not there, and read what came out. Run as a script, without the
interpreter: `python compiling.py SPECS.json` prints one line of JSON for each specification: what of its
code is not exact."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ARCHITECTURES = (80, 90, 100)

# In PTX, exact arithmetic rounds once and keeps denormal numbers: no fused multiply-add, no .ftz, no
# approximation.
INEXACT_PTX = re.compile(
    r"\b(?:fma\.|mad\.(?:f|rn)|ex2\.|lg2\.|sin\.|cos\.|tanh\.|rcp\.|rsqrt\.|sqrt\.approx|div\.(?:approx|full))\S*"
    r"|\S+\.ftz\S*"
)
# In SASS (what the card runs): fused multiply-adds, and the unit for approximate functions.
# HFMA2 with two zeros is how constants are loaded.
INEXACT_SASS = re.compile(r"\b(?:[FD]FMA\S*|HFMA2\S* R\d+, (?!-RZ, RZ,).*|MUFU\S*|\S+\.FTZ\S*)")

TYPES = {
    "torch.bool": "*i1",
    "torch.int32": "*i32",
    "torch.int64": "*i64",
    "torch.float16": "*fp16",
    "torch.bfloat16": "*bf16",
    "torch.float32": "*fp32",
    "torch.float64": "*fp64",
}


def specification(
    kernel: Any, arguments: tuple[Any, ...], constants: dict[str, Any], warps: int
) -> dict[str, Any]:
    """What `launch` was given, as JSON; `kernel` may be interpreted."""
    function = kernel.fn
    names = [name for name in kernel.arg_names if name not in constants]
    kinds = [TYPES[str(value.dtype)] if hasattr(value, "dtype") else "i32" for value in arguments]
    return {
        "module": function.__module__,
        "kernel": function.__name__,
        "types": dict(zip(names, kinds, strict=True)),
        "constants": constants,
        "warps": warps,
    }


def compiled(spec: dict[str, Any], architecture: int, aligned: bool) -> Any:
    """The kernel of a specification; `aligned` if pointers and strides are multiples of 16, as they mostly
    are."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    kernel = getattr(importlib.import_module(spec["module"]), spec["kernel"])
    constants = {k: tuple(v) if isinstance(v, list) else v for k, v in spec["constants"].items()}
    names = kernel.arg_names
    signature = {name: spec["types"].get(name, "constexpr") for name in names}
    places = {name: (i,) for i, name in enumerate(names)}
    attributes = {places[name]: [["tt.divisibility", 16]] for name in spec["types"]} if aligned else {}
    source = ASTSource(
        kernel, signature, {places[name]: value for name, value in constants.items()}, attributes
    )
    options = {"num_warps": spec["warps"], "enable_fp_fusion": False}
    return compile(source, target=GPUTarget("cuda", architecture, 32), options=options)


def report(spec: dict[str, Any], architecture: int, aligned: bool) -> dict[str, Any]:
    kernel = compiled(spec, architecture, aligned)
    return {
        "kernel": spec["kernel"],
        "architecture": architecture,
        "ptx": sorted(set(INEXACT_PTX.findall(kernel.asm["ptx"]))),
        "sass": sorted(set(INEXACT_SASS.findall(disassembled(kernel.asm["cubin"])))),
        "shared": kernel.metadata.shared,
    }


def disassembled(cubin: bytes) -> str:
    """SASS, by the disassembler that Triton brings."""
    import tempfile

    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin/nvdisasm"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run([tool, "-c", file.name], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    for line in json.loads(Path(sys.argv[1]).read_text()):
        print(json.dumps(report(*line)), flush=True)
