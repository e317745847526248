"""Find out whether a result rests on libm or on float sums: run the code with other ones, and compare."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import numpy as np

from ..arithmetic import DrawsAhead
from ..contract import rows as rows_module

Source = Literal["libm", "sums", "integers"]

_UFUNCS = tuple(
    "exp exp2 expm1 log log2 log10 log1p logaddexp logaddexp2 power float_power cbrt sin cos tan arcsin "
    "arccos arctan arctan2 sinh cosh tanh arcsinh arccosh arctanh hypot".split()
)
_OF_MATH = tuple(
    "exp exp2 expm1 log log2 log10 log1p pow sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh "
    "atanh erf erfc gamma lgamma hypot cbrt".split()
)
_PRODUCTS = ("dot", "vdot", "inner", "tensordot", "einsum", "trapezoid", "interp", "convolve", "correlate")
"""Functions of NumPy that sum floats without `np.add.reduce`."""

_GROWING = (np.add, np.subtract, np.multiply, np.square, np.power, np.matmul)
"""Functions whose results may be too great for their type."""

_LIBM = frozenset(getattr(np, name) for name in _UFUNCS)


class Disturbance:
    """What is being disturbed, and which of it was used.

    source  "libm": functions such as `np.exp`, `math.log` and the operator ** give other results;
            "sums": sums of floats that depend on their order do; "integers": nothing is disturbed, but
            integers that overflow are noticed.
    used    their names.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.used: set[str] = set()
        self._count = 0

    def disturbed(self, result: Any, name: str, out: Any = None) -> Any:
        """`result` with its finite floats multiplied by something between 1/4 and 4, so that cuts move; in
        place if it was written to `out`."""
        array = np.asarray(result)
        if array.dtype.kind != "f":
            return result
        self.used.add(name)
        index = np.arange(self._count, self._count + array.size).reshape(array.shape)
        self._count += array.size
        factor = (0.25 + (index * 0x9E3779B1 >> 8 & 255) / 68).astype(array.dtype)
        with np.errstate(all="ignore"):
            other = np.where(np.isfinite(array), array * factor, array)
        if out is not None:
            np.copyto(array, other)
            return result
        return other if isinstance(result, np.ndarray) else array.dtype.type(other)


_watch: Disturbance | None = None
"""The one in effect."""


class Watched(np.ndarray):
    """An array whose results, and theirs in turn, are watched as long as NumPy computes them."""

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any
    ) -> Any:
        plain = [_plain(value) for value in inputs]
        kwargs = {name: _plain(value) for name, value in kwargs.items()}
        if out is not None:
            kwargs["out"] = tuple(_plain(value) for value in out)
        result = getattr(ufunc, method)(*plain, **kwargs)
        if (
            _watch is not None
            and _watch.source == "integers"
            and _overflows(ufunc, method, plain, kwargs, result)
        ):
            _watch.used.add(f"np.{ufunc.__name__}")
        if _watch is not None and _is_disturbed(_watch.source, ufunc, method, plain, result):
            name = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
            result = _watch.disturbed(result, name, out)
        if out is not None:
            return out if len(out) > 1 else out[0]
        return _watched(result)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        result = super().__array_function__(function, types, args, kwargs)
        if _watch is not None and _watch.source == "sums" and function.__name__ in _PRODUCTS:
            result = _watch.disturbed(result, f"np.{function.__name__}", kwargs.get("out"))
        return _watched(result)

    def dot(self, other: Any, out: Any = None) -> Any:
        return np.dot(self, other) if out is None else np.dot(self, other, out)


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, Watched) else value


def _watched(result: Any) -> Any:
    if isinstance(result, (tuple, list)) and any(isinstance(value, np.ndarray) for value in result):
        return type(result)(map(_watched, result)) if type(result) in (tuple, list) else result
    return result.view(Watched) if type(result) is np.ndarray else result


def _is_disturbed(source: Source, ufunc: np.ufunc, method: str, inputs: list[Any], result: Any) -> bool:
    if source == "libm":
        is_square = ufunc in (np.power, np.float_power) and np.size(inputs[-1]) == 1 and inputs[-1] in (1, 2)
        return ufunc in _LIBM and method != "at" and not is_square
    if ufunc in (np.matmul, getattr(np, "vecdot", None)):
        return True
    # A running sum, `accumulate`, has one order. Any order is right where no sum is rounded.
    sums = ufunc in (np.add, np.multiply, np.logaddexp) and method in ("reduce", "reduceat")
    return sums and not (ufunc is np.add and _is_exact(np.asarray(inputs[0]), np.asarray(result)))


def _overflows(ufunc: np.ufunc, method: str, inputs: list[Any], options: dict[str, Any], result: Any) -> bool:
    """Whether a result that is an integer of 64 bits is not the right one. Products of unsigned integers may
    wrap around, as those of hashes do."""
    dtype = np.asarray(result).dtype
    if dtype not in (np.int64, np.uint64) or ufunc not in _GROWING or method in ("at", "outer"):
        return False
    if dtype == np.uint64 and method == "__call__":
        return False
    plain = {name: value for name, value in options.items() if name not in ("out", "dtype")}
    with np.errstate(all="ignore"):
        exact = getattr(ufunc, method)(*(_as_float(value) for value in inputs), **plain)
    return bool((np.abs(exact) > 1.001 * float(np.iinfo(dtype).max)).any())


def _as_float(value: Any) -> Any:
    array = np.asarray(value)
    return array.astype(np.float64) if array.dtype.kind in "iub" and array.dtype != bool else value


def _is_exact(summands: np.ndarray, result: np.ndarray) -> bool:
    """Whether every sum of `summands` is exact in the type of `result`, or has few of them."""
    if result.dtype.kind != "f":
        return True
    finite = summands[np.isfinite(summands)].astype(np.float64)
    whole = (
        bool((finite == np.rint(finite)).all()) and np.abs(finite).sum() < 2.0 / np.finfo(result.dtype).eps
    )
    return whole or summands.size <= 2 * result.size


class _Replaced:
    """A function of NumPy or `math`, disturbed."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function, self._name = function, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._function(*args, **kwargs)
        if _watch is None or any(isinstance(value, Watched) for value in args):
            return result  # disturbed already
        if isinstance(result, float) and not isinstance(result, np.generic):
            return float(_watch.disturbed(np.float64(result), self._name))
        return _watch.disturbed(result, self._name, kwargs.get("out"))

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._function, name)
        return _Replaced(method, f"{self._name}.{name}") if callable(method) else method


@contextlib.contextmanager
def watching(source: Source, part: object) -> Iterator[Disturbance]:
    """Disturb `source` in arrays of type `Watched`, and in what the classes of `part` call by name."""
    global _watch
    _watch = watch = Disturbance(source)
    undo: list[tuple[dict[str, Any], str, Any]] = []
    try:
        if source == "libm":
            for namespace, name, original, label in _places(part):
                undo.append((namespace, name, original))
                namespace[name] = _Replaced(original, label)
        yield watch
    finally:
        _watch = None
        for namespace, name, original in undo:
            namespace[name] = original


def _places(part: object) -> Iterable[tuple[dict[str, Any], str, Any, str]]:
    """Where libm's functions are found by name: (namespace, name, function, label)."""
    labels = {getattr(np, name): f"np.{name}" for name in _UFUNCS}
    labels |= {getattr(math, name): f"math.{name}" for name in _OF_MATH if hasattr(math, name)}
    own = [sys.modules[cls.__module__] for cls in type(part).__mro__[:-1] if cls.__module__ in sys.modules]
    return [
        (vars(module), name, value, labels[value])
        for module in dict.fromkeys([np, math, *own])
        for name, value in list(vars(module).items())
        if isinstance(value, (np.ufunc, type(math.exp))) and value in labels
    ]


@contextlib.contextmanager
def draws_of_other_seeds(shift: int) -> Iterator[None]:
    """Let every `rows.draw` be that of the seed xor `shift`."""

    class Shifted(DrawsAhead):
        def at(self, seeds: np.ndarray, positions: np.ndarray) -> np.ndarray:
            return super().at(seeds ^ np.uint64(shift), positions)

    vars(rows_module)["DrawsAhead"] = Shifted
    try:
        yield
    finally:
        vars(rows_module)["DrawsAhead"] = DrawsAhead
