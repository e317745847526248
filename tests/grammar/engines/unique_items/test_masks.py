"""Masks within arrays whose items must differ, of scalars alone or of any values."""

from __future__ import annotations

import pytest

from engine_sampler import Tokenizer
from engine_sampler.contract import UnfinishedError, Work, allocate_bitmask
from engine_sampler.grammar import Grammar

from .item_arrays import PIECES, items

TOKENS = [*(bytes((byte,)) for byte in range(0x20, 0x7F)), *PIECES, b"<end>"]
TOKENIZER = Tokenizer(TOKENS, [len(TOKENS) - 1])


@pytest.mark.parametrize("types", [["integer", "string"], ["integer", "object"]], ids=["flat", "nested"])
def test_masks_beside_many_items_are_found_piece_by_piece(types: list[str]) -> None:
    grammar = Grammar.from_json_schema(items({"type": types}))
    matcher = grammar.compile(TOKENIZER).matcher()
    if not matcher.bounded:
        pytest.skip("only the engine in C can be interrupted")
    assert matcher.accept_bytes(("[" + ",".join(map(str, range(0, 400, 3))) + ",1").encode())
    whole, bitmask = allocate_bitmask(1, len(TOKENS)), allocate_bitmask(1, len(TOKENS))
    matcher.fork().fill_bitmask(whole)
    pieces = 0
    while pieces < 100_000:
        pieces += 1
        try:
            matcher.fill_bitmask(bitmask, work=Work(300, 300))
        except UnfinishedError:
            continue
        break
    assert bitmask.tolist() == whole.tolist()
    assert pieces > 2


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("types", [["number"], ["number", "object"]], ids=["flat", "nested"])
@pytest.mark.parametrize("beginning", ["[0,-", "[1,1.", "[10,1e"])
def test_masks_know_numbers_that_are_written_otherwise(beginning: str, types: list[str]) -> None:
    grammar = Grammar.from_json_schema(items({"type": types, "minimum": -9, "maximum": 10}), numbers="any")
    matcher = grammar.compile(TOKENIZER).matcher()
    assert matcher.accept_bytes(beginning.encode())
    bitmask = allocate_bitmask(1, len(TOKENS))
    matcher.fill_bitmask(bitmask)
    found = [t for t in range(len(TOKENS)) if bitmask[0, t >> 5] >> (t & 31) & 1]
    assert found == [t for t in range(len(TOKENS)) if matcher.fork().accept(t)]


@pytest.mark.parametrize(
    ("schema", "beginning"),
    [
        ({"type": "string", "pattern": "^[a1]$"}, '["a'),
        ({"type": "string", "pattern": "^[a1]$"}, '["a","1'),
        ({"type": "string"}, '["",",", '),
        ({"type": "string"}, '["a","a'),
        ({"type": ["string", "boolean"]}, '["a",true'),
        ({"type": "string"}, '["'),
    ],
)
def test_masks_know_items_that_end_in_a_token_and_that_begin_in_it(schema: object, beginning: str) -> None:
    matcher = Grammar.from_json_schema(items(schema)).compile(TOKENIZER).matcher()
    assert matcher.accept_bytes(beginning.encode())
    bitmask = allocate_bitmask(1, len(TOKENS))
    matcher.fill_bitmask(bitmask)
    found = [t for t in range(len(TOKENS)) if bitmask[0, t >> 5] >> (t & 31) & 1]
    assert found == [t for t in range(len(TOKENS)) if matcher.fork().accept(t)]
