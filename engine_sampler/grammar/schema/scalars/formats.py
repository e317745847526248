"""The formats that can be asserted, as sets of strings in UTF-8.

Dates and times follow RFC 3339 (with the correct number of days per month), durations its appendix A;
host names RFC 1123, addresses RFC 2673, 4291 and 5321, URIs RFC 3986 and 3987, URI templates RFC 6570,
JSON pointers RFC 6901.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from functools import lru_cache

from ...program.expression import (
    EMPTY,
    Expression,
    both,
    byte_range,
    concat,
    literal,
    optional,
    repeat,
    union,
)
from ...program.unicode import ANY_CHARACTER
from ...regex import pattern as regex

_MAX_GROUPS = 4
"""Maximum nesting depth of groups in the regular expressions that the format `regex` allows."""


@lru_cache(maxsize=256)
def _re(pattern: str) -> Expression:
    return regex.pattern_expression(pattern, dialect="ecma")


def _list(item: Expression, separator: str) -> Expression:
    """One or more items."""
    return concat(item, repeat(concat(literal(separator.encode()), item)))


@lru_cache(maxsize=1)
def _date() -> Expression:
    return _re(
        r"\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
        r"|02-(?:0[1-9]|1\d|2[0-8]))|(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29"
    )


@lru_cache(maxsize=1)
def _time() -> Expression:
    return _re(
        r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
        r"|23:59:60(?:\.\d+)?(?:[Zz]|[+-]00:00)"
    )


def _duration() -> Expression:
    clock = _re(r"T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)")
    days = _re(r"\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D")
    return concat(literal(b"P"), union(_re(r"\d+W"), concat(days, optional(clock)), clock))


@lru_cache(maxsize=2)
def _host(beyond: str = "") -> Expression:
    label = _re(rf"[A-Za-z0-9{beyond}](?:[A-Za-z0-9{beyond}-]{{0,61}}[A-Za-z0-9{beyond}])?")
    return _list(label, ".")


def _hostname() -> Expression:
    return both(_host(), repeat(ANY_CHARACTER, 1, 253))


@lru_cache(maxsize=1)
def _ipv4() -> Expression:
    byte = _re(r"25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d")
    return concat(byte, repeat(concat(literal(b"."), byte), 3, 3))


@lru_cache(maxsize=1)
def _ipv6() -> Expression:
    """Eight pieces, the last two possibly an IPv4 address, with `::` for one or more zero pieces."""
    piece = _re(r"[0-9A-Fa-f]{1,4}")
    before = concat(piece, literal(b":"))
    last = union(concat(before, piece), _ipv4())
    gap = literal(b"::")

    def start(limit: int) -> Expression:
        """Up to `limit` pieces."""
        return optional(concat(repeat(before, 0, limit - 1), piece)) if limit else literal(b"")

    ways = [concat(start(5 - rest), gap, repeat(before, rest, rest), last) for rest in range(6)]
    return union(
        concat(repeat(before, 6, 6), last), *ways, concat(start(6), gap, piece), concat(start(7), gap)
    )


def _email(beyond: str = "") -> Expression:
    atom = _re(rf"[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~{beyond}-]+")
    quoted = _re(r'"(?:[ !#-\[\]-~]|\\[ -~])*"')
    address = union(_ipv4(), concat(literal(b"IPv6:"), _ipv6()))
    domain = union(_host(beyond), concat(literal(b"["), address, literal(b"]")))
    return concat(union(_list(atom, "."), quoted), literal(b"@"), domain)


def _uri(relative: bool, more: str = "", private: str = "") -> Expression:
    """RFC 3986, or RFC 3987 with the characters `more`, and `private` in the query."""
    hexadecimal = r"%[0-9A-Fa-f]{2}"
    plain = _re(rf"[A-Za-z0-9._~!$&'()*+,;={more}-]|{hexadecimal}")
    char = _re(rf"[A-Za-z0-9._~!$&'()*+,;=:@{more}-]|{hexadecimal}")
    slashes = repeat(concat(literal(b"/"), repeat(char)))
    future = _re(r"v[0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+")
    user = optional(concat(repeat(union(plain, literal(b":"))), literal(b"@")))
    host = union(concat(literal(b"["), union(_ipv6(), future), literal(b"]")), repeat(plain))
    network = concat(literal(b"//"), user, host, _re(r"(?::\d*)?"), slashes)
    rooted = concat(literal(b"/"), optional(concat(repeat(char, 1), slashes)))
    query = optional(concat(literal(b"?"), repeat(union(char, _re(rf"[/?{private}]")))))
    tail = concat(query, optional(concat(literal(b"#"), repeat(union(char, _re("[/?]"))))))
    scheme = _re("[A-Za-z][A-Za-z0-9+.-]*:")
    absolute = concat(scheme, optional(union(network, rooted, concat(repeat(char, 1), slashes))), tail)
    if not relative:
        return absolute
    first = repeat(union(plain, literal(b"@")), 1)
    return union(absolute, concat(optional(union(network, rooted, concat(first, slashes))), tail))


_BEYOND = "\x80-\U0010ffff"
_UCS = "\xa0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef\U00010000-\U000efffd"
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U0010fffd"


def _uri_template() -> Expression:
    name = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*(?::[1-9]\d{0,3}|\*)?"
    variables = concat(_re(r"\{[+#./;?&=,!@|]?"), _list(_re(name), ","), literal(b"}"))
    return repeat(union(_re(r"[^\x00- \"'%<>\\^`{|}\x7f]|%[0-9A-Fa-f]{2}"), variables))


@lru_cache(maxsize=1)
def _pointer() -> Expression:
    return _re(r"(?:/(?:[^~/]|~[01])*)*")


def _at_least(low: int) -> Expression:
    """Numbers of up to four digits that are not below `low`, which has one or two."""
    tens, ones = divmod(low, 10)
    longer = concat(_digit(1), repeat(_digit(0), 2 if tens else 1, 3))
    same = concat(literal(b"%d" % tens if tens else b""), _digit(ones))
    above = concat(_digit(tens + 1), _digit(0)) if 0 < tens < 9 else EMPTY
    return union(same, above, longer)


def _digit(low: int) -> Expression:
    """One digit of low..9."""
    return byte_range(0x30 + low, 0x39)


def _regex() -> Expression:
    """Regular expressions that are certainly valid: a large part of ECMAScript's, but not all."""
    escape = _re(r"\\(?:[dDwWsSBtnrfvb^$.*+?()\[\]{}|/-]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})")
    in_class = _re(r"\\(?:[dDwWsStnrfv^$.*+?()\[\]{}|/-]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})")
    alphabets = (string.digits, string.ascii_lowercase, string.ascii_uppercase)
    ranges = union(
        *(_re("|".join(f"{low}-[{low}-{alphabet[-1]}]" for low in alphabet)) for alphabet in alphabets)
    )
    one = repeat(union(in_class, ranges, _re(r"[^\\\]\[^-]")), 1)
    char_class = concat(_re(r"\[\^?-?"), one, _re(r"-?\]"))
    count = union(_re(r"\d{1,3},?"), *(concat(literal(b"%d," % low), _at_least(low)) for low in range(100)))
    counted_times = concat(literal(b"{"), count, literal(b"}"))
    times = optional(concat(union(_re("[*+?]"), counted_times), _re(r"\??")))
    counted = concat(union(_re(r"[^\\^$.*+?()\[\]{}|]|\."), escape, char_class), times)
    pieces = union(counted, _re(r"[\^$]"))
    inner = repeat(pieces)
    for _ in range(_MAX_GROUPS):
        group = concat(_re(r"\((?:\?:)?"), _list(inner, "|"), literal(b")"))
        inner = repeat(union(pieces, concat(group, times)))
    return _list(inner, "|")


_BUILDERS: dict[str, Callable[[], Expression]] = {
    "date-time": lambda: concat(_date(), _re("[Tt]"), _time()),
    "date": _date,
    "time": _time,
    "duration": _duration,
    "email": _email,
    "idn-email": lambda: _email(_BEYOND),
    "hostname": _hostname,
    "ipv4": _ipv4,
    "ip-address": _ipv4,
    "ipv6": _ipv6,
    "uri": lambda: _uri(False),
    "uri-reference": lambda: _uri(True),
    "iri": lambda: _uri(False, _UCS, _PRIVATE),
    "iri-reference": lambda: _uri(True, _UCS, _PRIVATE),
    "uri-template": _uri_template,
    "uuid": lambda: _re("[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"),
    "regex": _regex,
    "json-pointer": _pointer,
    "relative-json-pointer": lambda: concat(_re("0|[1-9][0-9]*"), union(literal(b"#"), _pointer())),
}

PARTIAL = frozenset(("regex", "idn-email"))
"""The formats that are only partly covered or too complex: their negation cannot be asserted."""

FORMATS = frozenset(_BUILDERS)
"""The formats that are asserted; all others are annotations."""

HINTS = frozenset(("password", "binary"))
"""OpenAPI's formats that any string has."""


@lru_cache(maxsize=64)
def format_expression(name: str) -> Expression:
    """The strings of a format, in UTF-8."""
    return _BUILDERS[name]()
