"""A device without hardware: it computes on the CPU, and counts what is copied and who waits.

Its tensors are `OnDevice`, on `privateuseone:0`, which torch keeps for devices of others. Like those of a
real device they refuse to be mixed with tensors of the host; whatever needs their values on the host is
counted.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

DEVICE = torch.device("privateuseone:0")

_WAITS = {"_local_scalar_dense", "equal", "is_nonzero", "masked_select", "nonzero", "unique_dim", "_unique2"}
"""Operations whose result is a value, or has a shape that depends on values: the host waits for them."""


class OnDevice(Tensor):
    """A tensor of the device; `data_there` is its memory."""

    data_there: Tensor

    @staticmethod
    def __new__(cls, there: Tensor) -> OnDevice:
        tensor = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, there.shape, there.stride(), there.storage_offset(), dtype=there.dtype, device=DEVICE
        )
        tensor.data_there = there
        return tensor

    def __getitem__(self, where: Any) -> Any:
        return super().__getitem__(_tensors_of(where))

    def __setitem__(self, where: Any, values: Any) -> None:
        super().__setitem__(_tensors_of(where), values)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"OnDevice({list(self.shape)}, {self.dtype})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{func} is called without the device: use `with CountingDevice()`")


class CountingDevice(TorchDispatchMode):
    """The device, while the context lasts.

    up, down    bytes copied to the device and back; `copies_up` and `copies_down` are how many copies.
    waits       how often the host has waited, by operation.
    most_bytes  the size of the greatest result of one operation.
    """

    def __init__(self) -> None:
        super().__init__()
        _register()
        self.reset()

    def reset(self) -> None:
        """Count from zero."""
        self.up = self.down = self.copies_up = self.copies_down = self.most_bytes = 0
        self.waits: Counter[str] = Counter()

    @property
    def synchronisations(self) -> int:
        return sum(self.waits.values())

    def place(self, tensor: Tensor) -> OnDevice:
        """`tensor` on the device, without counting."""
        return OnDevice(tensor.clone())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = func.overloadpacket.__name__
        there = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, OnDevice)]
        device = kwargs.get("device")
        goes_there = device is not None and torch.device(device).type == DEVICE.type
        if not there and not goes_there:
            return func(*args, **kwargs)
        if name == "_to_copy" and device is not None:
            return self._copied(func, args, kwargs, goes_there)
        if name == "copy_":
            return self._copied_into(*args[:2])
        self._check(name, args, kwargs)
        if goes_there:
            kwargs["device"] = torch.device("cpu")
            kwargs.pop("pin_memory", None)
        result = func(*tree_map(_there, args), **tree_map(_there, kwargs))
        if name in _WAITS:
            self.waits[name] += 1
            return result if not isinstance(result, Tensor) else OnDevice(result)
        if _writes(func):
            return args[0]
        self.most_bytes = max(
            self.most_bytes,
            sum(t.numel() * t.element_size() for t in tree_leaves(result) if isinstance(t, Tensor)),
        )
        return tree_map(lambda leaf: OnDevice(leaf) if isinstance(leaf, Tensor) else leaf, result)

    def _copied(self, func: Any, args: Any, kwargs: Any, goes_there: bool) -> Tensor:
        source = args[0]
        kwargs["device"] = torch.device("cpu")
        result = func(_there(source), **kwargs)
        if goes_there:
            if not isinstance(source, OnDevice):
                self._count_up(result)
            return OnDevice(result)
        self._count_down(result, "to the host")
        return result  # type: ignore[no-any-return]

    def _copied_into(self, target: Tensor, source: Tensor) -> Tensor:
        _there(target).copy_(_there(source))
        if isinstance(target, OnDevice) and not isinstance(source, OnDevice):
            self._count_up(source)
        elif isinstance(source, OnDevice) and not isinstance(target, OnDevice):
            self._count_down(source, "copy_ to the host")
        return target

    def _count_up(self, tensor: Tensor) -> None:
        self.copies_up += 1
        self.up += tensor.numel() * tensor.element_size()

    def _count_down(self, tensor: Tensor, name: str) -> None:
        self.copies_down += 1
        self.down += tensor.numel() * tensor.element_size()
        self.waits[name] += 1

    def _check(self, name: str, args: Any, kwargs: Any) -> None:
        """Refuse tensors of the host beside those of the device; an index on the host is copied."""
        if name in ("index", "index_put_", "_index_put_impl_"):
            for index in args[1]:
                if isinstance(index, Tensor) and not isinstance(index, OnDevice):
                    self._count_up(index)
                elif isinstance(index, Tensor) and index.dtype in (torch.bool, torch.uint8):
                    self.waits["a boolean index"] += 1
            args = (args[0], *args[2:])
        on_host = [
            leaf
            for leaf in tree_leaves((args, kwargs))
            if isinstance(leaf, Tensor) and not isinstance(leaf, OnDevice) and leaf.dim()
        ]
        if on_host:
            raise RuntimeError(f"{name} mixes tensors of the host with those of {DEVICE}")


def _tensors_of(where: Any) -> Any:
    """An index whose lists are tensors of the host: torch makes them ones of the device, beneath this one."""
    if isinstance(where, tuple):
        return tuple(map(_tensors_of, where))
    return torch.tensor(where, dtype=torch.int64) if isinstance(where, (list, np.ndarray)) else where


def _there(leaf: Any) -> Any:
    return leaf.data_there if isinstance(leaf, OnDevice) else leaf


def _writes(func: Any) -> bool:
    """Whether an operation changes its first argument and returns it."""
    returns = func._schema.returns
    info = returns[0].alias_info if len(returns) == 1 else None
    return info is not None and info.is_write


@functools.cache
def _register() -> None:
    """Tell torch that the device is there: PyTorch is not linked with any of this type."""
    _setup_privateuseone_for_python_backend()
