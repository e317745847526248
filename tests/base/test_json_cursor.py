"""JSON read piece by piece."""

from __future__ import annotations

import json
from decimal import Decimal, localcontext
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from engine_sampler.base.json_cursor import JsonPlace, advance, number_or_constant


class Frame(NamedTuple):
    """An open array or object with its values so far."""

    outer: Frame | None
    is_object: bool
    values: tuple[Any, ...] = ()


class Values:
    """Builds the value of a text."""

    def begun(self, place: JsonPlace) -> None:
        """Nothing follows the characters of a string."""

    def opened(self, place: JsonPlace, is_object: bool, at: int) -> Frame:
        return Frame(place.frame, is_object)

    def named(self, frame: Frame, key: bytes) -> Frame:
        return frame._replace(values=(*frame.values, text_of(key)))

    def ended(self, frame: Frame | None, value: bytes, at: int) -> JsonPlace:
        return self._with(frame, scalar_of(value))

    def closed(self, frame: Frame, at: int) -> JsonPlace:
        members = frame.values
        value: Any = dict(zip(members[::2], members[1::2], strict=True)) if frame.is_object else list(members)
        return self._with(frame.outer, value)

    def _with(self, frame: Frame | None, value: Any) -> JsonPlace:
        assert frame is not None
        return JsonPlace(frame._replace(values=(*frame.values, value)), closed=True)


def text_of(value: bytes) -> str:
    return value[1:].decode("utf-8", "surrogatepass")


def scalar_of(value: bytes) -> Any:
    if value[:1] == b'"':
        return text_of(value)
    return {b"null": None, b"true": True, b"false": False}.get(value, value)


def expected(value: Any) -> Any:
    """A value with its numbers as the cursor gives them."""
    if isinstance(value, dict):
        return {key: expected(member) for key, member in value.items()}
    if isinstance(value, list):
        return list(map(expected, value))
    return number_or_constant(str(value).encode()) if type(value) in (int, float) else value


TEXTS = st.text(st.characters(codec="utf-16", categories=["L", "N", "P", "Cs", "So", "Cc"]), max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
)


@given(JSON, st.booleans(), st.sampled_from((None, 1)), st.lists(st.integers(1, 5), min_size=1))
def test_pieces_of_any_size_give_the_values_of_the_whole(
    value: Any, ascii_only: bool, indent: int | None, sizes: list[int]
) -> None:
    data = json.dumps([value], ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    place, at, number = JsonPlace(Frame(None, False)), 0, 0
    data = data + b","
    while at < len(data):
        size = sizes[number % len(sizes)]
        found, end = advance(place, data[at : at + size], Values())
        assert found is not None
        assert end == len(data[at : at + size])
        place, at, number = found, at + size, number + 1
    whole = expected(json.loads(data[:-1].decode("utf-8", "surrogatepass")))
    assert place.frame.values == (whole,)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=5), st.integers(0, 5), st.integers(-8, 8))
def test_equal_numbers_have_equal_bytes(number: Decimal, zeros: int, exponent: int) -> None:
    with localcontext() as context:
        context.prec = 10_000  # else long numbers are rounded here
        written = format(number.scaleb(-exponent), "f")
    written += "." * ("." not in written) + "0" * (1 + zeros) + f"E{exponent:+03}"
    assert number_or_constant(written.encode()) == number_or_constant(format(number, "f").encode())
