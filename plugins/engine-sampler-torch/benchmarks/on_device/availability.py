"""Whether a device is there, before anything is asked of it."""

from __future__ import annotations

import torch

ADVICE = {
    "cuda": "install torch for CUDA or ROCm, and see that nvidia-smi (rocm-smi) lists the card",
    "xpu": "install torch for XPU, and see that torch.xpu.is_available()",
    "npu": "install torch_npu for this version of torch",
    "mps": "MPS lacks float64, so that its rows go to the host: there is nothing to verify",
}
ANOTHER_NAME = "name a device as torch does: cuda:0, xpu:0, npu:0, cpu"
TRY_THE_COMMAND = "`--device cpu --rows 2000` tries the command without a card"


def absence_of(device: str) -> str | None:
    """Why `device`, as torch names it, cannot be used, in one line with advice; None if it can."""
    try:
        torch.ones(1, device=torch.device(device)).cpu()
    except Exception as error:  # of any kind: each device's library has its own
        reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
        advice = ADVICE.get(device.partition(":")[0], ANOTHER_NAME)
        return f"no device {device!r} here ({reason}): {advice}; {TRY_THE_COMMAND}"
    return None
