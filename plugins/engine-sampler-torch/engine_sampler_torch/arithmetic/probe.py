"""Whether a device computes as the arithmetic contract demands."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from engine_sampler import arithmetic as reference

from .integer_weights import distances, information, weights
from .logprobs import descending
from .scalars import exp2_64, log2_64, square_root

_DENORMAL = ((1e-40, torch.float32), (1e-310, torch.float64))


def shortcoming(device: torch.device | str) -> str | None:
    """Why results on `device` would not be exact: it lacks a dtype or an operation, flushes denormal numbers
    to zero (`torch.set_flush_denormal`) or rounds otherwise. None if nothing is known against it.

    Waits for the device, so it belongs before the first step.
    """
    try:
        if _flushes(device):
            return f"denormal numbers are flushed to zero on {device}"
        for what, found, expected in _samples(device):
            if not np.array_equal(found.cpu().numpy(), expected):
                return f"{what} are not exact on {device}"
    except (TypeError, RuntimeError, NotImplementedError) as error:
        return f"{device} cannot do it: {error}"
    return None


def _flushes(device: torch.device | str) -> bool:
    tiny = [torch.full((), value, dtype=dtype, device=device) for value, dtype in _DENORMAL]
    return any(bool((value * 1.0 == 0).item()) for value in tiny)


def _samples(device: torch.device | str) -> Iterator[tuple[str, torch.Tensor, np.ndarray]]:
    """(what, as computed on the device, as it must be)."""
    row = np.random.default_rng(0).normal(0, 8, (4, 4099)).astype(np.float32)
    numbers = np.geomspace(1e-9, 1e12, 1001)
    values, x = torch.from_numpy(row).to(device), torch.from_numpy(numbers).to(device)
    y = reference.distances(row)
    w = reference.weights(y)
    yield "distances", distances(values), y
    yield "weights", weights(distances(values)), w
    yield (
        "informations",
        information(weights(distances(values)), distances(values)),
        reference.information(w, y),
    )
    yield "sums", weights(distances(values)).cumsum(1), w.cumsum(1)
    yield "quotients", values[:2] / values[2:], row[:2] / row[2:]
    yield "square roots", square_root(x), np.sqrt(numbers)
    yield "logarithms", log2_64(x), reference.log2_64(numbers)
    yield "powers", exp2_64(x), reference.exp2_64(numbers)
    yield "orders", descending(values), reference.descending(row)
