"""Texts drawn from the masks of the library grammars: other parsers of their languages read them, too."""

from __future__ import annotations

import ast
import csv
import io
import ipaddress
import json
import os
import random
import re
import sqlite3
import warnings
from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from email.headerregistry import Address
from urllib.parse import urlsplit

import numpy as np
import pytest

from engine_sampler import Tokenizer
from engine_sampler.contract import allocate_bitmask, unpack_bitmask
from engine_sampler.grammar import Grammar

from ...bytewise import needs_native_engine
from .oracle import LIBRARY

TEXTS = 1000 if os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1") != "1" else 100
"""The texts of each grammar."""
MAX_TOKENS = 24
"""The most tokens that are drawn; then the text is completed as shortly as it can be."""

_PIECE = re.compile(r"\w+|\s+|[^\w\s]")


def texts(name: str, count: int) -> Iterator[str]:
    """Random texts of a library grammar: its tokens are the words of its examples, and all characters."""
    grammar = Grammar.from_lark((LIBRARY / f"{name}.lark").read_text(encoding="utf-8"))
    examples = json.loads((LIBRARY / f"{name}.examples.json").read_text(encoding="utf-8"))
    words = {piece for example in examples["accept"] for piece in _PIECE.findall(example)}
    words |= {f"{word} " for word in words if word.isalpha()} | {f" {word}" for word in words}
    longer = sorted(word.encode() for word in words if len(word) > 1)
    pieces = [*(bytes((byte,)) for byte in range(128)), *longer, b"</s>"]
    matcher = grammar.compile(Tokenizer(pieces, [len(pieces) - 1])).matcher()
    weights = np.array([0.05] * 128 + [1.0] * len(longer) + [0.0])
    bitmask = allocate_bitmask(1, len(pieces))
    for seed in range(count):
        rng = random.Random(seed)
        fork, text = matcher.fork(), b""
        for _ in range(rng.randint(1, MAX_TOKENS)):
            fork.fill_bitmask(bitmask, 0)
            allowed = weights * unpack_bitmask(bitmask[0], len(pieces))
            if not allowed.any():
                break
            (token,) = rng.choices(range(len(pieces)), allowed.tolist())
            assert fork.accept(token)
            text += pieces[token]
        rest = b"" if fork.is_accepting() else grammar.complete(text)
        assert rest is not None
        yield (text + rest).decode()


def read_python(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ast.parse(text)


def read_arithmetic(text: str) -> None:
    text = re.sub(
        r"(?<![\w.])[A-Za-z_]\w*", "n", text
    )  # any word is a name, and numbers may begin with zeros
    read_python(re.sub(r"(?<![\w.])0+(?=\d)", "", text).strip())


def read_sql(text: str) -> None:
    try:
        sqlite3.connect(":memory:").execute(f"EXPLAIN {text}")
    except sqlite3.Error as error:  # there are no tables
        if re.search("syntax error|unrecognized token|incomplete input", str(error)):
            raise


def read_json(text: str) -> None:
    json.loads(text, parse_constant=lambda constant: pytest.fail(constant))


def read_csv(text: str) -> None:
    rows = list(csv.reader(io.StringIO(text.replace("\0", ""), newline=""), strict=True))
    assert len(rows) <= 1 + text.count("\n")


def read_email_or_url(text: str) -> None:
    if "://" in text:
        parts = urlsplit(text)
        assert parts.port is None or parts.port < 65536
        host = re.fullmatch(r"(.*?)(?::\d*)?", parts.netloc.rpartition("@")[2])[1]
    else:
        host = Address(addr_spec=text).domain
    if host.startswith("[") or re.fullmatch(r"[0-9.]+", host):
        ipaddress.ip_address(host.strip("[]"))
    else:
        assert re.fullmatch(r"localhost|(?:[a-z0-9-]+\.)+[a-z0-9-]+", host, re.IGNORECASE)


def read_iso8601(text: str) -> None:
    for part in text.split("/"):
        if not part.startswith("P"):
            _read_moment(part)
            continue
        assert re.fullmatch(
            r"P(?=.)(\d+W|(\d+Y)?(\d+M)?(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)", part
        )


def _read_moment(text: str) -> None:
    day, clock = text.split("T") if "T" in text else ("", text) if ":" in text else (text, "")
    if day:
        _read_day(day)
    if clock:
        hours, minutes, seconds, zone = re.fullmatch(
            r"(\d\d):(\d\d)(?::(\d\d)(?:[.,]\d+)?)?(Z|[+-]\d\d(?::\d\d)?)?", clock
        ).groups()
        time(
            int(hours) % 24 if clock[:5] == "24:00" else int(hours), int(minutes), min(int(seconds or 0), 59)
        )
        if zone and zone != "Z":
            datetime.strptime(zone[1:].replace(":", "").ljust(4, "0"), "%H%M")


def _read_day(text: str) -> None:
    year = int(text[:4]) % 400 + 2000  # the calendar repeats; Python has no year 0
    if "W" in text:
        date.fromisocalendar(year, int(text[6:8]), int(text[9:]))
    elif len(text) == 8:
        datetime.strptime(f"{year}{text[5:]}", "%Y%j")
    else:
        date(year, *map(int, (text[5:] + "-01").split("-")[:2]))


READERS: dict[str, Callable[[str], object]] = {
    "arithmetic": read_arithmetic,
    "csv": read_csv,
    "email_url": read_email_or_url,
    "iso8601": read_iso8601,
    "json": read_json,
    "python": read_python,
    "sql": read_sql,
}


def test_every_library_grammar_has_a_reader() -> None:
    assert sorted(READERS) == sorted(path.stem for path in LIBRARY.glob("*.lark"))


@pytest.mark.quick_share(3)
@needs_native_engine
@pytest.mark.parametrize("name", READERS)
def test_texts_of_a_library_grammar_are_read_elsewhere(name: str) -> None:
    if name == "sql" and sqlite3.sqlite_version_info < (3, 39):
        pytest.skip("this SQLite knows no FULL JOIN")
    drawn = list(texts(name, TEXTS))
    assert len(set(drawn)) > TEXTS // 3
    for text in drawn:
        try:
            READERS[name](text)
        except (ValueError, SyntaxError, AssertionError, csv.Error, sqlite3.Error) as error:
            raise AssertionError(f"{text!r} is not read: {error}") from error
