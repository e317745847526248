"""What a completion of llama-cpp-python knows: its ids, and its logits in llama.cpp's memory."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_sampler_llama_cpp import completions, library
from engine_sampler_llama_cpp.completions import DirectSampler, KnownIds

from engine_sampler.for_bridges import PeerError


def test_known_ids_grow_beyond_the_room_that_they_begin_with() -> None:
    known = KnownIds([5, 6])
    for token in range(500):
        known.append(token)
    assert len(known) == 502
    assert known[:].tolist() == [5, 6, *range(500)]
    assert known.begin(np.array([5, 6, *range(500), 7], np.intc))


@pytest.mark.parametrize(
    ("ids", "expected"),
    [([1, 2], True), ([1, 2, 3], True), ([1], False), ([1, 3], False), ([2, 2, 3], False)],
)
def test_ids_go_on_from_the_known_ones(ids: list[int], expected: bool) -> None:
    assert KnownIds([1, 2]).begin(np.array(ids, np.intc)) == expected


def test_no_ids_go_on_from_none() -> None:
    assert KnownIds().begin(np.array([], np.intc))


def test_a_direct_sampler_chooses_from_the_logits_of_the_context(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = (ctypes.c_float * 4)(0.0, 3.0, 1.0, 2.0)
    asked: list[Any] = []

    def logits_of(context: Any, index: int) -> Any:
        asked.append((context, index))
        return ctypes.cast(memory, ctypes.POINTER(ctypes.c_float))

    monkeypatch.setattr(completions, "library", lambda: SimpleNamespace(llama_get_logits_ith=logits_of))
    llm = SimpleNamespace(n_vocab=lambda: 4, input_ids=np.arange(9, dtype=np.intc), n_tokens=3)
    sampler = DirectSampler(llm, lambda ids, row: int(row.argmax()) + 10 * len(ids))
    assert sampler.sample(SimpleNamespace(ctx="context"), -1) == 31
    memory[2] = 9.0
    assert sampler.sample(SimpleNamespace(ctx="context"), -2) == 32
    assert asked == [("context", -1), ("context", -2)]


def test_a_release_that_lacks_functions_is_refused_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", SimpleNamespace(**dict.fromkeys(library.NAMES[1:])))
    library.library.cache_clear()
    with pytest.raises(PeerError, match=f"beside llama-cpp-python.*: there is no {library.NAMES[0]}[.]"):
        library.library()
