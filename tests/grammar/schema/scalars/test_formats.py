"""Formats: the strings that match each of them."""

from __future__ import annotations

import pytest

from engine_sampler.grammar.errors import UnsupportedKeywordError
from engine_sampler.grammar.schema.formula import FORMAT
from engine_sampler.grammar.schema.scalars.formats import FORMATS
from engine_sampler.grammar.schema.scalars.strings import holds

from ..judging import Judge

CASES = {
    "date": (["2020-02-29", "2000-02-29", "1999-12-31"], ["2019-02-29", "1900-02-29", "2020-04-31", "0-1-1"]),
    "time": (["12:00:00Z", "23:59:60z", "01:02:03.4+05:30"], ["24:00:00Z", "12:00:60Z", "12:00:0"]),
    "date-time": (
        ["2020-01-01T00:00:00Z", "2020-01-01t23:59:60+00:00"],
        ["2020-01-01 00:00:00Z", "2020-13-01T0:0:0Z"],
    ),
    "duration": (["P1Y2M3D", "PT5M", "P2W", "P1DT12H"], ["P", "PT", "P1Y2W", "1D", "P1H"]),
    "email": (["a.b+c@example.org", '"a b"@x', "a@[127.0.0.1]", "a@[IPv6:::1]"], ["a..b@c", "@c", "a@-b"]),
    "idn-email": (["실례@실례.테스트", "a@b"], ["실례", "@"]),
    "hostname": (["a", "a-b.c9", "x" * 63], ["-a", "a-", "a..b", "x" * 64, "a_b", ".".join(["x" * 63] * 4)]),
    "ipv4": (["0.0.0.0", "255.249.199.9"], ["256.0.0.0", "01.0.0.0", "1.2.3"]),
    "ipv6": (
        ["::", "::1", "1:2:3:4:5:6:7:8", "1::8", "1:2:3:4:5:6:7::", "::ffff:1.2.3.4"],
        ["1::2::3", ":1", "12345::", "1:2:3:4:5:6:7:8:9"],
    ),
    "uri": (
        ["http://a.b:80/c?d=e#f", "urn:x:y", "mailto:x@y.z", "http://[::1]/"],
        ["//a", "http://a b", "a", "http://a/%zz"],
    ),
    "uri-reference": (["//a", "a/b", "", "#x", "?y"], ["a b", "1:2", "\\"]),
    "iri": (["http://é.b/ü"], ["é"]),
    "iri-reference": (["é"], ["é é"]),
    "uri-template": (["/a/{b}", "{?x,y*}", "{v:3}"], ["/a/{b", "{}", "<"]),
    "uuid": (["2eb8aa08-aa98-11ea-b4aa-73b441d16380"], ["2eb8aa08aa9811eab4aa73b441d16380"]),
    "json-pointer": (["", "/a~0b/~1"], ["a", "/~2"]),
    "relative-json-pointer": (["0", "1/a", "2#"], ["01", "/a", "-1"]),
    "regex": (["^a|b$", "(?:x(y)?)+", r"[a-z\d-]{1,3}\."], ["(a", "[", "a**", "[z-a]", "a)"]),
    "ip-address": (["1.2.3.4"], ["1.2.3.4.5"]),
}  # fmt: skip


def test_every_format_is_tested() -> None:
    assert CASES.keys() == FORMATS


@pytest.mark.parametrize("name", CASES)
def test_a_format_matches_its_strings_and_no_others(name: str) -> None:
    good, bad = CASES[name]
    assert [text for text in good + bad if holds((FORMAT, name), text)] == good


def test_formats_can_be_annotations_and_unknown_formats_always_are() -> None:
    assert Judge({"format": "date"}, formats="annotate").accepts('"no date"')
    with pytest.warns(UserWarning, match="format 'colour' is not enforced$"):
        assert Judge({"format": "colour"}).accepts('"anything"')


def test_the_negation_of_a_partial_format_is_rejected() -> None:
    with pytest.raises(UnsupportedKeywordError, match="format regex"):
        Judge({"type": "string", "not": {"format": "regex"}})
    assert Judge({"type": "string", "not": {"format": "date"}}).accepts('"2020-13-01"')


@pytest.mark.parametrize("low", [0, 1, 2, 9, 10, 29, 90, 99])
def test_the_bounds_of_a_count_in_a_pattern_are_in_order(low: int) -> None:
    judge = Judge({"format": "regex"})
    for high in (0, 1, 2, 3, 9, 10, 19, 29, 30, 90, 99, 100, 255, 4000):
        assert judge.accepts_value(f"a{{{low},{high}}}") == (low <= high)
