"""No step waits for the device: shapes come from the host, and nothing is copied between host and device.

Tensors without data stand for those of a device. Whatever needs their values (`item`, boolean indices,
`if tensor`) fails, and an operation with a tensor of the host beside them is a copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from engine_sampler_torch import arithmetic
from engine_sampler_torch.steps import Block, selector_of, step_of
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch_chains import HOST_ONLY

from engine_sampler import SamplingParams
from tests.random_chains import SAMPLERS, SELECTORS, random_rows

ROWS, VOCAB, NARROW = 3, 2000, 100

EXACT = set(
    """
    __lshift__ __rshift__ _to_copy _unsafe_view abs abs_ add add_ alias amax amin any arange argmax
    bitwise_and bitwise_and_ bitwise_left_shift_ bitwise_not bitwise_not_ bitwise_or bitwise_or_
    bitwise_xor cat ceil_ clamp clamp_ clone constant_pad_nd cumsum detach div div_ empty empty_like
    eq expand floor_ floor_divide frexp full full_like gather ge gt isfinite le logical_and
    logical_or lt masked_fill masked_fill_ maximum minimum mul mul_ ne neg neg_ new_zeros nextafter
    remainder round round_ rsub scatter_ searchsorted select slice sort split sqrt squeeze stack sub
    sub_ sum topk unbind unsqueeze view where zeros zeros_like
    """.split()
)
"""Operations that round once or not at all and do not wait; any other needs a reason."""


class OnDeviceOnly(TorchDispatchMode):
    """Refuses inexact operations, and those that have a tensor of the host among tensors of the device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        assert name in EXACT, f"{name} is not known to be exact and to run without waiting"
        tensors = [leaf for leaf in tree_leaves((args, kwargs, result)) if isinstance(leaf, Tensor)]
        assert all(tensor.device.type == "meta" for tensor in tensors), f"{name} copies from the host"
        if name.startswith("div"):
            assert all(isinstance(x, Tensor) for x in args[:2]), "a division by a number is not exact on CUDA"
        if name in {"sum", "cumsum"}:
            assert not args[0].is_floating_point(), "the order of a sum of floats is the device's own"
        if name in {"sort", "topk"}:
            assert args[0].dtype == torch.int64, "sort integer keys"
        return result


def without_data(arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(np.array(array)).to("meta") for name, array in arrays.items()}


def block(width: int, *, bitmask: bool = False) -> Block:
    ids = None if width == VOCAB else torch.empty(ROWS, width, dtype=torch.int64, device="meta")
    faults = torch.zeros(ROWS, dtype=torch.int64, device="meta")
    return Block(torch.empty(ROWS, width, device="meta"), ids, VOCAB, faults)


NAMES = [name for name in (*SAMPLERS, *SELECTORS) if name not in HOST_ONLY]


@pytest.mark.parametrize("width", [VOCAB, NARROW])
@pytest.mark.parametrize("name", NAMES)
def test_a_chain_with_a_part_neither_waits_nor_computes_inexactly(name: str, width: int) -> None:
    for number in range(8):
        random = np.random.default_rng(number)
        given = SAMPLERS[name](random, VOCAB) if name in SAMPLERS else SELECTORS[name]
        chain, rows = random_rows(random, SamplingParams(**given), ROWS, VOCAB)
        current = block(width)
        for sampler in chain.samplers:
            step, bound = step_of(sampler), rows.bind(sampler)
            assert step is not None
            inputs, fixed = without_data(step.inputs(bound)), step.fixed(bound)
            with OnDeviceOnly():
                step.apply(current, inputs, fixed)
                current.check(0)
        selector, bound = selector_of(chain.selector), rows.bind(chain.selector)
        assert selector is not None
        inputs, fixed = without_data(selector.inputs(bound)), selector.fixed(bound)
        with OnDeviceOnly():
            columns, _ = selector.select(current, inputs, fixed)
            assert current.token_ids_at(columns).shape == (ROWS,)


@pytest.mark.parametrize("top_n", [0, 5, -1])
def test_logprobs_neither_wait_nor_compute_inexactly(top_n: int) -> None:
    values = torch.empty(ROWS, VOCAB, device="meta")
    chosen = torch.empty(ROWS, dtype=torch.int64, device="meta")
    with OnDeviceOnly():
        token_ids, _, _ = arithmetic.row_logprobs(values, chosen, top_n)
    assert token_ids.shape == (ROWS, 1 + (VOCAB if top_n < 0 else top_n))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda x: x.sum().item(), "meta"),
        (lambda x: x[x > 0], "nonzero|meta"),
        (lambda x: torch.where(x > 0, x, 0.0), "copies from the host|scalar_tensor"),
        (lambda x: x / 3.0, "division by a number"),
        (lambda x: 3.0 / x, "reciprocal"),
        (lambda x: x.sum(), "order of a sum"),
        (lambda x: x.exp(), "exp is not known"),
        (lambda x: x.sort(), "integer keys"),
        (lambda x: x + torch.zeros(3, 3), "copies from the host|device"),
    ],
)
def test_the_guard_refuses_what_it_is_there_for(wrong: Any, reason: str) -> None:
    x = torch.empty(3, 3, device="meta")
    with pytest.raises((AssertionError, RuntimeError, NotImplementedError), match=reason), OnDeviceOnly():
        wrong(x)
