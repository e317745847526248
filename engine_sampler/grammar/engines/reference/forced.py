"""What must come next: bytes without a choice, and the tokens that certainly stand for them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from .configurations import LOST, Configurations
from .masks import Masks
from .trie import ROOT, Trie

FORCED_BYTES = 4096
"""At most as many bytes are looked ahead for tokens."""


def next_bytes(threads: Configurations[Any], configuration: int) -> Iterator[int]:
    """The bytes that may come next, ascending."""
    mask = threads.first_bytes(configuration)
    for byte in range(256):
        if mask >> byte & 1 and threads.step(configuration, byte) != LOST:
            yield byte


def forced_bytes(threads: Configurations[Any], configuration: int, limit: int) -> tuple[bytes, int]:
    """The bytes that must come, at most `limit`, and the configuration behind them."""
    data = bytearray()
    while len(data) < limit:
        if threads.accepting(configuration) or threads.special_ids(configuration):
            break
        two = list(islice(next_bytes(threads, configuration), 2))
        if len(two) != 1:
            break
        data += bytes(two)
        configuration = threads.step(configuration, two[0])
    return bytes(data), configuration


def forced_tokens(
    threads: Configurations[Any], masks: Masks, trie: Trie, configuration: int, limit: int
) -> list[int]:
    """The tokens that must come: always the longest one, as long as no longer one can reach further."""
    data, behind = forced_bytes(threads, configuration, FORCED_BYTES)
    result: list[int] = []
    at = 0
    while at < len(data) and len(result) < limit:
        token, length, node, seen = None, 0, ROOT, 0
        for seen, byte in enumerate(data[at:], 1):
            below = trie.child(node, byte)
            if below is None:
                break
            node = below
            if trie.token_starts[node] < trie.token_starts[node + 1]:
                token, length = int(trie.tokens[trie.token_starts[node]]), seen
        else:
            if masks.can_go_on(node, behind):
                break
        if token is None:
            break
        result.append(token)
        at += length
    return result
