"""Runs the kernels on the rows of a group, as the backend does, beside the NumPy backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from engine_sampler_torch.kernels import KernelOutcome, Workspace, WorkspaceShape, sample
from torch import Tensor

from engine_sampler.arithmetic import GREEDY_BELOW, LN_2, log2_64
from engine_sampler.contract import Chain, Rows


def inputs(name: str, rows: Rows) -> tuple[dict[str, np.ndarray], Any]:
    """What the step of sampler `name` gives the device, and its host value."""
    least = np.maximum(1, rows["min_keep"])
    if name == "temperature":
        greedy = rows["temperature"] < GREEDY_BELOW
        scale = (1.0 / np.where(greedy, 1.0, rows["temperature"])).astype(np.float32)
        given = {"scale": scale} | ({"greedy": greedy} if greedy.any() else {})
        return given, (bool((rows["dynatemp_range"] > 0).any()), bool(greedy.any()))
    if name == "top_k":
        k = int(rows["top_k"].max())
        return {"k": rows["top_k"]}, None if k > 1024 else max(64, 1 << (k - 1).bit_length())
    if name == "top_p":
        cut = rows["top_p_cut"]
        return {"p": rows["top_p"], "reach": cut == "reach", "crossing": cut != "below", "least": least}, None
    return {"depth": log2_64(rows["min_p"]) * LN_2, "least": least}, None


def run(
    chain: Chain,
    rows: Rows,
    logits: Tensor,
    *,
    index: np.ndarray | None = None,
    bitmask: np.ndarray | None = None,
    edits: tuple[np.ndarray, np.ndarray] | None = None,
    shape: WorkspaceShape | None = None,
    workspace: Workspace | None = None,
    draws: np.ndarray | None = None,
) -> KernelOutcome:
    """`sample` for all `rows`: row i reads logits[index[i]]. `draws` stand for the bits of their seeds."""
    n, vocab_size = len(rows), rows.vocabulary.size
    names = [sampler.name for sampler in chain.samplers]
    steps = {name: inputs(name, rows) for name in names}
    bits = rows.bind(chain.selector).draw() if draws is None else draws
    return sample(
        logits,
        torch.from_numpy(np.arange(n) if index is None else index),
        vocab_size,
        samplers=names,
        selector=chain.selector.name,
        tensors={
            name: {key: torch.from_numpy(np.array(v)) for key, v in step[0].items()}
            for name, step in steps.items()
        },
        fixed={name: step[1] for name, step in steps.items()},
        bitmask=None if bitmask is None else torch.from_numpy(bitmask),
        edits=None if edits is None else (torch.from_numpy(edits[0]), torch.from_numpy(edits[1])),
        draws=torch.from_numpy(bits.view(np.int64)),
        workspace=workspace or Workspace("cpu", n, vocab_size),
        shape=shape,
    )
