"""Compile kernels for cards that are not there, and read what came out. Run as a script, without the
interpreter, it answers each line of JSON, a specification, with another: what of its code is not exact, and
what it needs."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from on_device.machine_code import compiled, disassembled, resources_of

# In PTX, exact arithmetic rounds once and keeps denormal numbers: no fused multiply-add, no .ftz, no
# approximation.
INEXACT_PTX = re.compile(
    r"\b(?:fma\.|mad\.(?:f|rn)|ex2\.|lg2\.|sin\.|cos\.|tanh\.|rcp\.|rsqrt\.|sqrt\.approx|div\.(?:approx|full))\S*"
    r"|\S+\.ftz\S*"
)
# In SASS (what the card runs): fused multiply-adds, and the unit for approximate functions.
# HFMA2 with two zeros is how constants are loaded.
INEXACT_SASS = re.compile(r"\b(?:[FD]FMA\S*|HFMA2\S* R\d+, (?!-RZ, RZ,).*|MUFU\S*|\S+\.FTZ\S*)")
# The same in AMD's assembly. Its conversions between float64 and int64 have a fused step of their own, which
# is exact.
INEXACT_AMD = re.compile(r"\bv_(?:pk_)?(?:fma|fmac|mad|mac|exp|log|rcp|rsq|sqrt|sin|cos)_f(?:16|32)\S*")


def report(spec: dict[str, Any], architecture: int | str, aligned: bool) -> dict[str, Any]:
    kernel = compiled(spec, architecture, aligned=aligned)
    is_amd = "amdgcn" in kernel.asm
    text = kernel.asm["amdgcn" if is_amd else "ptx"]
    code = "" if is_amd else disassembled(kernel.asm["cubin"])
    return {
        "kernel": spec["kernel"],
        "constants": spec["constants"],
        "architecture": architecture,
        "assembly": sorted(set((INEXACT_AMD if is_amd else INEXACT_PTX).findall(text))),
        "sass": sorted(set(INEXACT_SASS.findall(code))),
        **vars(resources_of(kernel)),
    }


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(report(*json.loads(line))), flush=True)
