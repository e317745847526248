"""What a plugin can do wrong: values to return, exceptions to raise, and what to do to its arguments."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from engine_sampler import ParameterError, RequestError
from engine_sampler.arithmetic import RowFault
from engine_sampler.base.errors import PluginFault
from engine_sampler.contract import Selection, StopVerdict, TextMatch, Watch

Value = Callable[[], Any]
"""Makes a new value."""


class Hostile:
    """An object one special method of which raises `error`."""

    def __new__(cls, method: str, error: type[BaseException]) -> Any:
        def fails(self: Any, *arguments: Any, **keywords: Any) -> Any:
            raise error("hostile")

        return object.__new__(type(f"Hostile{method}", (), {method: fails}))


SPECIAL = (
    "__len__",
    "__eq__",
    "__iter__",
    "__array__",
    "__bool__",
    "__hash__",
    "__index__",
    "__float__",
    "__int__",
    "__repr__",
    "__str__",
    "__getattr__",
    "__getattribute__",
    "__getitem__",
    "__contains__",
    "__call__",
    "__lt__",
    "__add__",
    "__array_ufunc__",
    "__array_function__",
    "__array_interface__",
    "__deepcopy__",
    "__reduce_ex__",
    "__class__",
    "__copy__",
    "__next__",
    "__buffer__",
)


class Endless:
    """It pretends to be short, and never ends."""

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[int]:
        return itertools.count()


class LyingArray(np.ndarray):
    """An array whose shape and dtype are lies."""

    shape = (1,)  # type: ignore[assignment]
    dtype = np.dtype(bool)  # type: ignore[assignment]


class LyingVerdict(StopVerdict):
    """A verdict whose attributes cannot be read."""

    def __getattribute__(self, name: str) -> Any:
        if name == "cut":
            raise KeyError(name)
        return super().__getattribute__(name)


class AlwaysEqual:
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class BadText(str):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("hostile")

    __hash__ = str.__hash__


def _scalars() -> Iterator[Any]:
    yield from (None, True, False, 0, 1, -1, 7, 39, 40, 2**31, 2**63, -(2**63) - 1, 10**30)
    yield from (0.0, -0.5, 3.7, 1e308, float("nan"), float("inf"), -float("inf"), 1j)
    yield from ("", "a", "stop", "\ud800", "x" * 100_000, BadText("a"), b"", b"\xff", bytearray(b"a"))
    yield from (..., NotImplemented, int, object(), AlwaysEqual(), decimal.Decimal("NaN"))
    yield datetime.timedelta(1)
    yield from (np.float32("nan"), np.int64(-1), np.uint64(2**64 - 1), np.bool_(True), np.str_("a"))


def _collections() -> Iterator[Any]:
    yield from (
        (),
        [],
        {},
        set(),
        [0],
        [-1],
        [40],
        [1.5],
        ["a"],
        [None],
        [[0]],
        [[0], [1, 2]],
        (0, 1),
        range(3),
    )
    yield from ({"a": 1}, {0}, frozenset({1}), [float("nan")], [10**30], (None, None), ("a", None), (0, None))
    yield (b"", None)
    yield from ([0] * 1000, range(10**9), Endless())


def _arrays() -> Iterator[np.ndarray]:
    kinds = (
        np.float32,
        np.float64,
        np.int8,
        np.int64,
        np.uint64,
        np.bool_,
        np.complex64,
        object,
        "U3",
        "M8[s]",
    )
    shapes = ((), (0,), (1,), (3,), (40,), (1, 40), (3, 40), (0, 0), (40, 1), (1, 1, 1))
    for i, kind in enumerate(kinds):
        for shape in (shapes[i], shapes[(i + 1) % 10], (1,), (1, 40)):
            yield np.zeros(shape, kind)
    yield from (
        np.full(1, np.nan),
        np.full(1, np.inf),
        np.full((1, 40), np.nan),
        np.full(1, -1),
        np.full(1, 10**6),
    )
    yield from (np.ones((1, 40), bool), np.ones(1, bool), np.full(1, 2**64 - 1, np.uint64))
    yield from (np.broadcast_to(np.int64(0), 10**9), np.broadcast_to(np.True_, (1, 10**9)))
    yield np.zeros(1, [("a", "i4")])
    yield np.ma.masked_array([0], [True])
    yield np.zeros((1, 40)).view(np.matrix)
    yield np.zeros(1).view(LyingArray)
    yield np.arange(40)[::-1]
    yield np.zeros(1, ">i8")


def _of_contracts() -> Iterator[Any]:
    for cut in ("a", -1, None, 1.5, 10**30, Endless()):
        yield StopVerdict("x", cut=cut)  # type: ignore[arg-type]
    for finish in (None, 7, b"x", [], BadText("stop")):
        yield StopVerdict("x", finish)  # type: ignore[arg-type]
    for reason in ([], {}, 1.5, object(), Endless(), BadText("x")):
        yield StopVerdict(reason)  # type: ignore[arg-type]
    yield from (LyingVerdict("x"), StopVerdict("x", "stop", 10**6))
    columns = (
        None,
        "a",
        0,
        [0],
        [None],
        [1.5],
        [-1],
        [40],
        np.zeros(1),
        np.zeros((1, 1), int),
        np.zeros(9, int),
    )
    for column in (*columns, np.array(["0"]), Endless(), Hostile("__array__", KeyError)):
        yield Selection(column)  # type: ignore[arg-type]
    notes = ("a", [None], ["x"], [1j], np.zeros(2), np.zeros((1, 1)), [np.datetime64("now")], Endless(), 3.0)
    for note in (*notes, [float("nan")], [float("inf")], Hostile("__array__", KeyError)):
        yield Selection(np.zeros(1, np.int64), note)  # type: ignore[arg-type]
    for ids, length in (
        (None, None),
        ([1.5], None),
        (["a"], None),
        ([40], None),
        (Endless(), None),
        ((), "a"),
        ((), float("nan")),
        ((), -1),
        ((), 10**30),
        ((), Hostile("__index__", KeyError)),
    ):
        yield Watch(ids, length)  # type: ignore[arg-type]
    for match in (
        TextMatch("a", 0, None),
        TextMatch(1, 10**9, None),
        TextMatch(1, -(10**9), None),  # type: ignore[arg-type]
        TextMatch(-5, 0, []),
        TextMatch(None, None, None),
        (1, 0, None),
        "match",
        TextMatch(1.5, 0, "x"),
    ):  # type: ignore[arg-type]
        yield (0, match)
    yield from (([], None), ({}, None), (Hostile("__hash__", KeyError), None), (0, None, None), (0,))


class Quiet(BaseException):
    """Neither an Exception nor what ends a program."""


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("hostile")

    __repr__ = __str__


class Lengthy(Exception):
    def __str__(self) -> str:
        return "x" * 10**6


EXCEPTIONS: tuple[Value, ...] = (
    *(
        lambda kind=kind: kind("hostile")
        for kind in (
            Exception,
            ValueError,
            TypeError,
            KeyError,
            IndexError,
            AttributeError,
            RuntimeError,
            OSError,
            MemoryError,
            RecursionError,
            StopIteration,
            StopAsyncIteration,
            AssertionError,
            NotImplementedError,
            ZeroDivisionError,
            OverflowError,
            FloatingPointError,
            ImportError,
            SyntaxError,
            EOFError,
            BufferError,
            UserWarning,
            GeneratorExit,
            asyncio.CancelledError,
            BaseException,
            Quiet,
            Unprintable,
            Lengthy,
            RowFault,
            PluginFault,
            ParameterError,
            RequestError,
        )
    ),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "hostile"),
    lambda: KeyError(Hostile("__repr__", KeyError)),
    lambda: ValueError(*range(1000)),
)


def values() -> Iterator[tuple[str, Any]]:
    """Every value to return, with a name."""
    groups: Mapping[str, Callable[[], Iterator[Any]]] = {
        "scalar": _scalars,
        "collection": _collections,
        "array": _arrays,
        "contract": _of_contracts,
    }
    for name, group in groups.items():
        for i, value in enumerate(group()):
            yield f"{name} {i}", value
    for method in SPECIAL:
        for error in (KeyError, Quiet):
            yield f"hostile {method} {error.__name__}", Hostile(method, error)


def spoil(value: Any) -> None:
    """Change an argument in every way that it allows."""
    for change in (
        lambda: value.resize((0,), refcheck=False),
        lambda: value.__setitem__(..., -7),
        lambda: value.__setitem__(..., np.nan),
        lambda: setattr(value, "shape", (-1,)),
        lambda: setattr(value, "dtype", np.uint8),
        lambda: value.clear(),
        lambda: value.sort(key=id),
        lambda: value.extend(["hostile"] * 3),
        lambda: value.__setitem__("hostile", 1),
        lambda: setattr(value, "ids", np.full((9, 9), 10**6)),
        lambda: setattr(value, "finish_reasons", None),
        lambda: setattr(value, "token_ids", "hostile"),
        lambda: setattr(value, "errors", 7),
        lambda: value.token_ids.__setitem__(..., 3),
        lambda: value.errors.clear(),
    ):
        try:
            change()
        except Exception:
            continue
