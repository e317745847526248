"""Values that a JSON body from a client may contain, chosen to break a reader."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st


def nested(depth: int, kind: type = list) -> Any:
    """A list or an object inside another, `depth` times."""
    value: Any = [] if kind is list else {}
    for _ in range(depth):
        value = [value] if kind is list else {"a": value}
    return value


DEEP = (nested(100), nested(5_000), nested(5_000, dict))
HUGE = (10**400, -(10**400), 10**5_000, 2**63, 2**64, -1, 1e308, -1e308, 5e-324, float("inf"), float("nan"))
TEXTS = (
    "[" * 100_000,
    "{" * 100_000,
    "9" * 5_000,
    "\ud800",
    "",
    "1_0",
    "05",
    "\u0663",
    "false",
    "a" * 70_000,
    "(" * 3000,
)
FLAT = (*HUGE, *TEXTS, None, True, False, 0, 1, 0.5, [], {}, {"9" * 5_000: 1}, {"": None}, [[1, 2]], [[]])

ALL = (*FLAT, *DEEP)


class Hidden:
    """Number `index` of `ALL`, which Hypothesis could not print."""

    def __init__(self, index: int) -> None:
        self.index = index

    def __repr__(self) -> str:
        return f"Hidden({self.index})"


def revealed(value: Any) -> Any:
    """`value` with what is hidden in it."""
    if isinstance(value, Hidden):
        return ALL[value.index]
    if isinstance(value, list):
        return [revealed(entry) for entry in value]
    return {key: revealed(entry) for key, entry in value.items()} if isinstance(value, dict) else value


scalars = (
    st.integers(0, len(ALL) - 1).map(Hidden)
    | st.integers(-3, 50)
    | st.floats(-2, 2)
    | st.booleans()
    | st.text(max_size=5)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


def bodies(keys: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Bodies with some of `keys` and an unknown one now and then, to be `revealed`."""
    names = st.sampled_from(keys) | st.text(max_size=6)
    return st.dictionaries(names, values, min_size=1, max_size=3)
