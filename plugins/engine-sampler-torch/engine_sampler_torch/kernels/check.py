"""The self-check: golden rows on the device beside the NumPy backend, before any request's row goes there."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton
from torch import Tensor

from engine_sampler import SamplingParams
from engine_sampler import sample as reference
from engine_sampler.arithmetic import LN_2, SELECTOR_STREAM, draw64, log2_64

from .outcome import KernelOutcome
from .replay import Replay
from .sampling import sample
from .workspace import Workspace

VOCAB_SIZE = 3000


@dataclass(frozen=True)
class Golden:
    """A chain, by the values of its samplers in order."""

    settings: Mapping[str, Any]

    def params(self, seed: int) -> SamplingParams:
        return SamplingParams(**self.settings, order=list(self.settings), seed=seed)

    def given(self, rows: int, device: torch.device) -> dict[str, dict[str, Tensor]]:
        """What the steps give the kernels."""

        def column(value: Any, dtype: torch.dtype) -> Tensor:
            return torch.full((rows,), value, dtype=dtype, device=device)

        s = self.settings
        least = {"least": column(1, torch.int64)}
        known = {
            "temperature": lambda: {"scale": column(float(np.float32(1 / s["temperature"])), torch.float32)},
            "top_k": lambda: {"k": column(s["top_k"], torch.int64)},
            "top_p": lambda: {
                "p": column(s["top_p"], torch.float64),
                "reach": column(True, torch.bool),
                "crossing": column(True, torch.bool),
                **least,
            },
            "min_p": lambda: {"depth": column(float(log2_64(s["min_p"]) * LN_2), torch.float64), **least},
        }
        return {name: known[name]() for name in s}

    @property
    def fixed(self) -> dict[str, Any]:
        return {"temperature": (False, False), "top_k": 64, "top_p": False, "min_p": 1}


GOLDEN = (
    Golden({"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8}),
    Golden({"temperature": 0.7}),
    Golden({"temperature": 1.3, "top_p": 0.98}),
    Golden({"min_p": 1e-3, "top_k": 1}),
)
"""One for every path: few candidates, a draw from whole rows, flat rows, ties cut by id."""


def golden_rows() -> np.ndarray:
    """float32 [8, VOCAB_SIZE]: peaked, flat, tied, partly removed, equal, faulty."""
    bits = draw64(np.arange(8 * VOCAB_SIZE, dtype=np.uint64), np.zeros(8 * VOCAB_SIZE, np.int64), 1)
    share = ((bits >> np.uint64(11)).astype(np.float64) / 2.0**53).reshape(8, VOCAB_SIZE)
    rows = (share * np.array([[30.0], [2.0], [8.0], [12.0], [0.0], [5.0], [5.0], [100.0]])).astype(np.float32)
    rows[2] = np.round(rows[2])
    rows[3, ::3] = -np.inf
    rows[5, 17] = np.nan
    rows[6, -1] = 2.0**101
    return np.asarray(rows)


@functools.cache
def trusted(device: str) -> bool:
    """Whether the kernels may be used on `device`, such as "cuda:0": there they compile and give the golden
    rows the tokens of the NumPy backend. If not, a RuntimeWarning says why, once, and the eager steps do the
    work: tokens are the same."""
    place = torch.device(device)
    if place.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        return False
    warning = (
        f"Triton's kernels are not used on {device}: {{}}. Eager torch gives the same tokens more slowly"
    )
    reason = shortcoming_of(triton.__version__)
    is_nvidia = place.type == "cuda" and torch.version.cuda is not None
    if reason is None and is_nvidia and fuses(torch.cuda.get_device_capability(place)):
        reason = f"Triton {triton.__version__} fuses operations there; from Triton 3.9 on they are exact"
    if reason is not None:
        warnings.warn(warning.format(reason), RuntimeWarning, stacklevel=2)
        return False
    return _passes(place, sample, warning)


OLDEST_TRITON = (3, 6)
"""The kernels need what Triton has since: the oldest that they were compiled and run with."""


def shortcoming_of(version: str) -> str | None:
    """Why no kernels run with this version of Triton; None if they do."""
    if _numbers(version) >= OLDEST_TRITON:
        return None
    return f"Triton {version} is too old for them; they need {OLDEST_TRITON[0]}.{OLDEST_TRITON[1]} or later"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def fuses(capability: tuple[int, int], version: str = triton.__version__) -> bool:
    """Whether Triton's assembler may fuse a product and a sum on cards of this compute capability, though it
    is told not to. Seen in the machine code for sm_100: FFMA2 with Triton 3.6, none with 3.9."""
    return capability >= (10, 0) and _numbers(version) < (3, 9)


@functools.cache
def repeatable(device: str) -> bool:
    """Whether `Replay` works on `device`, where the kernels are trusted: started again, they give the golden
    rows the same tokens. If not, a RuntimeWarning says why, once, and every step binds its launches anew."""
    return os.environ.get("TRITON_INTERPRET") != "1" and _passes(
        torch.device(device),
        _sample_again,
        f"Triton's kernels are not started again on {device}: {{}}. Launching them anew takes longer",
    )


def _passes(device: torch.device, sample: Callable[..., KernelOutcome], warning: str) -> bool:
    """Whether `sample` passes the check; if it does not, `warning` is given with the reason."""
    try:
        difference = find_difference(device, sample)
    except Exception as error:  # a compiler, a driver or a card that cannot do this
        difference = f"{type(error).__name__}: {str(error)[:300]}"
    if difference is not None:
        warnings.warn(warning.format(difference), RuntimeWarning, stacklevel=3)
    return difference is None


def _sample_again(
    logits: Tensor, index: Tensor, vocab_size: int, *, draws: Tensor, **options: Any
) -> KernelOutcome:
    """`sample`, by a replay of the same with other logits and random bits."""
    replay = Replay()
    sample(logits.flip(0), index, vocab_size, draws=draws.flip(0), replay=replay, **options)
    return replay.again(logits, draws)


def find_difference(device: torch.device, sample: Callable[..., KernelOutcome]) -> str | None:
    """The first golden row that gets another token by `sample` than on NumPy, in words; None if there is
    none."""
    rows = golden_rows()
    count = len(rows)
    seeds = list(range(100, 100 + count))
    bits = draw64(np.array(seeds, np.uint64), np.zeros(count, np.int64), SELECTOR_STREAM)
    logits, index = torch.from_numpy(rows).to(device), torch.arange(count, device=device)
    workspace = Workspace(device, count, VOCAB_SIZE)
    for golden in GOLDEN:
        expected = reference(rows, [golden.params(seed) for seed in seeds], backend="numpy").token_ids
        outcome = sample(
            logits,
            index,
            VOCAB_SIZE,
            samplers=list(golden.settings),
            selector="dist",
            tensors=golden.given(count, device),
            fixed=golden.fixed,
            draws=torch.from_numpy(bits.view(np.int64)).to(device),
            workspace=workspace,
        )
        found = outcome.token_ids.cpu().numpy()
        for row in np.flatnonzero(found != expected).tolist():
            return (
                f"golden row {row} of {golden.settings} gives token {found[row]} instead of {expected[row]}"
            )
    return None
