"""The kernels compiled for cards that need not be there, and what their machine code says of them."""

from __future__ import annotations

import importlib
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ARCHITECTURES: tuple[int | str, ...] = (80, 90, 100, "gfx942", "gfx950")
"""NVIDIA's generations by their number, AMD's by their name."""

TYPES = {
    "torch.bool": "*i1",
    "torch.int16": "*i16",
    "torch.int32": "*i32",
    "torch.int64": "*i64",
    "torch.float16": "*fp16",
    "torch.bfloat16": "*bf16",
    "torch.float32": "*fp32",
    "torch.float64": "*fp64",
}


@dataclass(frozen=True)
class Resources:
    """What one thread of a kernel needs.

    registers  how many.
    stack      bytes of stack and local memory, which is where registers are spilled to; 0 if all fits.
    shared     bytes of shared memory of a program.
    """

    registers: int
    stack: int
    shared: int


@dataclass(frozen=True)
class Instruction:
    """address  its place, in bytes.
    name     its operation without modifiers.
    target   the address it jumps to; None for all others.
    modules  the Python modules whose functions it comes from, as far as lines are known.
    """

    address: int
    name: str
    target: int | None = None
    modules: frozenset[str] = frozenset()


def specification(
    kernel: Any, arguments: tuple[Any, ...], constants: Mapping[str, Any], warps: int
) -> dict[str, Any]:
    """What `launch` was given, as JSON; `kernel` may be interpreted."""
    function = kernel.fn
    names = [name for name in kernel.arg_names if name not in constants]
    kinds = [TYPES[str(value.dtype)] if hasattr(value, "dtype") else "i32" for value in arguments]
    return {
        "module": function.__module__,
        "kernel": function.__name__,
        "types": dict(zip(names, kinds, strict=True)),
        "constants": dict(constants),
        "warps": warps,
    }


def compiled(spec: Mapping[str, Any], architecture: int | str, *, aligned: bool) -> Any:
    """The kernel of a specification; `aligned` if pointers and strides are multiples of 16, as they mostly
    are. Not where Triton interprets."""
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
    is_amd = isinstance(architecture, str)
    target = GPUTarget("hip" if is_amd else "cuda", architecture, 64 if is_amd else 32)
    options = {"num_warps": spec["warps"], "enable_fp_fusion": False}
    return compile(source, target=target, options=options)


def resources_of(kernel: Any) -> Resources:
    """What the compiler says that a compiled kernel needs."""
    shared = int(kernel.metadata.shared)
    if "amdgcn" in kernel.asm:
        found = dict(re.findall(r"^\s+\.(\w+):\s+(\d+)$", kernel.asm["amdgcn"], re.MULTILINE))
        return Resources(int(found["vgpr_count"]), int(found["private_segment_fixed_size"]), shared)
    line = _by_tool("cuobjdump", ("-res-usage",), kernel.asm["cubin"])
    usage = dict(re.findall(r"(REG|STACK|LOCAL):(\d+)", line))
    return Resources(int(usage["REG"]), int(usage["STACK"]) + int(usage["LOCAL"]), shared)


def disassembled(cubin: bytes, *, lines: bool = False) -> str:
    """SASS, by the disassembler that Triton brings; with `lines`, also of which lines it comes."""
    return _by_tool("nvdisasm", ("-c", "-gi") if lines else ("-c",), cubin)


def _by_tool(name: str, options: tuple[str, ...], cubin: bytes) -> str:
    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin" / name
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run([tool, *options, file.name], capture_output=True, text=True, check=True).stdout


_LINE = re.compile(r"\s*/\*([0-9a-f]+)\*/\s+(?:@!?U?P\w+ )?([A-Z][A-Z0-9_]*)(\S*)(.*)")
_LABEL = re.compile(r"^(\.L_x_\d+):")
_JUMP = re.compile(r"`\((\.L_x_\d+)\)")
_SOURCE = re.compile(r'\s*//## File "(?:[^"]*/)?([^"/]+)\.py", line')


def instructions_of(sass: str) -> list[Instruction]:
    """The instructions of a kernel in the order of their addresses, without the padding at its end."""
    labels: dict[str, int] = {}
    waiting: list[str] = []
    lines: list[tuple[int, str, str | None, frozenset[str]]] = []
    modules: frozenset[str] = frozenset()
    follows = False
    for text in sass.splitlines():
        label, line, source = _LABEL.match(text), _LINE.match(text), _SOURCE.match(text)
        if label:
            waiting.append(label[1])
        if source:
            # One for each function that was inlined, before the instructions.
            modules = (modules if follows else frozenset()) | {source[1]}
        follows = source is not None
        if line:
            address = int(line[1], 16)
            labels |= dict.fromkeys(waiting, address)
            waiting = []
            jump = _JUMP.search(line[4]) if line[2] == "BRA" else None
            lines.append((address, line[2], jump[1] if jump else None, modules))
    found = [Instruction(address, name, labels[to] if to else None, of) for address, name, to, of in lines]
    return [one for one in found if one.name != "NOP" and one.target != one.address]


def loops_in(instructions: list[Instruction]) -> list[tuple[int, int]]:
    """(first address, last address) of each loop: what a jump backwards repeats."""
    return sorted({(one.target, one.address) for one in instructions
                   if one.target is not None and one.target < one.address})  # fmt: skip


PIPES = {
    "fma": "FADD FMUL FFMA IMAD HADD2 HMUL2 HFMA2",
    "fp64": "DADD DMUL DFMA DSETP DMNMX",
    "conversion": "F2I F2F I2F D2F F2D FRND POPC FLO MUFU BREV",
    "exchange": "SHFL REDUX MATCH VOTE LDS STS ATOMS LDSM STSM",
    "global": "LDG STG ATOMG ATOM RED LD ST LDL STL CCTL MEMBAR ERRBAR",
    "control": "BRA BSSY BSYNC EXIT BAR RET CALL WARPSYNC BREAK DEPBAR YIELD NANOSLEEP BMOV",
    "constant": "LDC S2R CS2R ULDC S2UR",
}
_PIPE_OF = {name: pipe for pipe, names in PIPES.items() for name in names.split()}


def pipe_of(name: str) -> str:
    """The part of a multiprocessor that an instruction occupies; "alu" for integers, comparisons, maxima and
    selections, "uniform" for what is done once for a warp."""
    if name in _PIPE_OF:
        return _PIPE_OF[name]
    return "uniform" if name.startswith(("U", "R2UR")) else "alu"


def pipes_of(instructions: list[Instruction]) -> Counter[str]:
    """How many instructions each pipe has."""
    return Counter(pipe_of(one.name) for one in instructions)
