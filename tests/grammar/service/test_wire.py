from __future__ import annotations

import os
import pickle
import struct
import threading
from array import array
from typing import Any

import pytest

from engine_sampler.grammar import Grammar, GrammarLimitError
from engine_sampler.grammar.service import wire


def sent_and_received(message: Any) -> Any:
    parts = wire.encode(message)
    reader, writer = os.pipe()
    sender = threading.Thread(target=wire.send, args=(writer, parts))
    sender.start()
    try:
        return wire.receive(reader)
    finally:
        sender.join()
        os.close(reader)
        os.close(writer)


def received_from(data: bytes) -> Any:
    """What comes out of a pipe with `data` that then ends."""
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    try:
        return wire.receive(reader)
    finally:
        os.close(reader)


@pytest.mark.parametrize(
    "message",
    [None, ("regex", "a+b" * 50_000), {"numbers": array("i"), "more": [array("i", range(300_000))]}],
)
def test_a_message_arrives_as_it_was_sent(message: Any) -> None:
    assert sent_and_received(message) == message


def test_a_grammar_arrives_with_its_arrays() -> None:
    grammar = Grammar.from_json_schema({"enum": [f"value {i}" for i in range(3000)]})
    received = sent_and_received(grammar)
    assert received == grammar
    assert received.program == grammar.program
    assert type(received.program.expressions) is array


def test_the_arrays_of_a_grammar_are_not_pickled() -> None:
    grammar = Grammar.from_json_schema({"enum": [f"value {i}" for i in range(3000)]})
    _, _, pickled, *arrays = wire.encode(grammar)
    assert sum(map(len, arrays)) == grammar.weight
    assert len(pickled) < len(pickle.dumps(grammar)) - grammar.weight + 1000


def test_messages_are_bounded_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(wire.encode("x" * 2000))
    monkeypatch.setattr(wire, "MAX_BYTES", 1000)
    with pytest.raises(GrammarLimitError, match="the limit is 1000"):
        wire.encode("x" * 2000)
    with pytest.raises(ValueError, match="at most 1000"):
        received_from(data)


@pytest.mark.parametrize("parts", [0, wire.MAX_PARTS + 1])
def test_a_message_with_an_impossible_number_of_parts_is_refused(parts: int) -> None:
    with pytest.raises(ValueError, match=f"{parts} parts is not allowed"):
        received_from(struct.pack("<I", parts))


def test_an_array_that_does_not_consist_of_whole_integers_is_refused() -> None:
    payload = pickle.dumps(None)
    with pytest.raises(ValueError, match="an array of 5 bytes"):
        received_from(struct.pack("<IQQ", 2, len(payload), 5) + payload + bytes(5))


@pytest.mark.parametrize("length", [0, 3, 8, 20])
def test_a_pipe_that_ends_within_a_message_is_noticed(length: int) -> None:
    data = b"".join(wire.encode(array("i", range(9))))
    assert len(data) > 20
    with pytest.raises(EOFError):
        received_from(data[:length])
