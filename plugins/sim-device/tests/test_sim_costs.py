"""What a step costs on the device: bytes, launches and waits, counted; and what happens meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sim_twins import Twins

from engine_sampler.arithmetic import OnStream

DEFAULT = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}
LASTING = {**DEFAULT, "ignore_eos": True}
ROWS, VOCAB = 64, 1000


@pytest.fixture
def streams(device: Any) -> Iterator[Any]:
    """Two streams of the device."""
    from sim_device import SimStream

    streams = SimStream(device), SimStream(device)
    yield streams
    for stream in streams:
        stream.close()


def counted_step(device: Any, twins: Twins, logits: Any, *, prepare: bool = False) -> dict[str, int]:
    """The counters of a step with these logits, which lie on the device."""
    with device.counted() as changes:
        if prepare:
            twins.own.prepare()
        twins.own.step(logits)
    return changes


def steady(device: Any, settings: dict[str, Any], rows: int = ROWS, **options: Any) -> dict[str, int]:
    """The counters of a step after some others."""
    twins = Twins(device, [settings] * rows, vocab=VOCAB)
    changes: dict[str, int] = {}
    for _ in range(4):
        logits = device.array(twins.logits(len(twins.own.request_ids)))
        changes = counted_step(device, twins, logits, **options)
    return changes


def test_a_step_of_64_rows_takes_one_upload_of_4_kb_one_launch_one_download_and_one_wait(device: Any) -> None:
    changes = steady(device, DEFAULT)
    assert changes["bytes_up"] <= 4096
    assert changes["bytes_down"] <= 16 * ROWS
    once = ("copies_up", "copies_down", "launches", "waits")
    assert {name: changes[name] for name in once} == dict.fromkeys(once, 1)
    never = ("device_synchronisations", "pageable_copies", "allocations_in_steps")
    assert {name: changes[name] for name in never} == dict.fromkeys(never, 0)


def test_a_step_takes_memory_for_its_tokens_alone_from_the_pool(device: Any) -> None:
    assert steady(device, LASTING)["allocations"] == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"repetition_penalty": 1.2, "frequency_penalty": 0.1},
        {"mirostat": 2, "mirostat_tau": 3.0, "mirostat_eta": 0.5},
        {"dry_multiplier": 0.8, "dry_sequence_breakers": [1]},
    ],
    ids=["penalties", "mirostat", "dry"],
)
def test_histories_stay_on_the_device(device: Any, settings: dict[str, Any]) -> None:
    changes = steady(device, settings)
    assert changes["bytes_up"] <= 4096
    assert changes["waits"] == changes["copies_up"] == 1


def test_masks_travel_before_their_step(device: Any) -> None:
    early = steady(device, {"regex": r"[ab]*"}, rows=8, prepare=True)
    late = steady(device, {"regex": r"[ab]*"}, rows=8)
    masks = 8 * VOCAB // 8
    assert early["copies_up"] == 2
    assert early["waits"] == late["waits"] == 1
    assert late["copies_up"] == 1
    assert early["bytes_up"] >= masks
    assert late["bytes_up"] >= masks


def test_survivors_travel_and_not_rows(device: Any) -> None:
    device.configure(selectors=0, max_survivors=40)
    changes = steady(device, {"top_k": 20, "temperature": 0.7}, rows=8)
    assert changes["bytes_down"] < 8 * VOCAB * 4 / 2
    assert changes["copies_down"] == 1


def test_the_next_forward_pass_is_queued_before_anything_is_waited_for(device: Any, streams: Any) -> None:
    stream, twins = streams[0], Twins(device, [LASTING] * 4)
    first, second = twins.logits(4), twins.logits(4)
    arrays = device.empty((4, twins.vocab)), device.empty((4, twins.vocab))
    device.produce(arrays[0], first, stream)
    with device.counted() as changes:
        begun = twins.own.begin(OnStream(arrays[0], stream=stream.address))
        queued = stream.queued
        device.produce(arrays[1], second, stream)  # the next pass, which reads begun.token_ids_on_device
    assert changes["waits"] == changes["device_synchronisations"] == 0
    assert queued > 4, "the pass before and the step"
    assert begun.token_ids_on_device is not None
    result = begun.finish()
    assert stream.queued == 4, "the pass goes on after the tokens are there"
    assert result.token_ids.tolist() == twins.reference.step(first).token_ids.tolist()
    again = twins.own.step(OnStream(arrays[1], stream=stream.address))
    assert again.token_ids.tolist() == twins.reference.step(second).token_ids.tolist()


def test_logits_may_be_ready_behind_an_event_of_another_stream(device: Any, streams: Any) -> None:
    (model, sampling), twins = streams, Twins(device, [DEFAULT] * 4)
    out = device.ffi.new("sim_event **")
    device.check("sim_create_event", device.lib.sim_create_event(out))
    values, array = twins.logits(4), device.empty((4, twins.vocab))
    device.produce(array, values, model)
    device.check("sim_record", device.lib.sim_record(out[0], model.pointer))
    ready = int(device.ffi.cast("uintptr_t", out[0]))
    result = twins.own.step(OnStream(array, stream=sampling.address, ready=ready))
    assert result.token_ids.tolist() == twins.reference.step(values).token_ids.tolist()
    device.lib.sim_destroy_event(out[0])


def test_tokens_are_left_on_the_device(device: Any) -> None:
    twins = Twins(device, [DEFAULT] * 4)
    twins.step()
    result = twins.results[0]
    tokens = result.token_ids_on_device
    assert tokens.__dlpack_device__() == (12, 0)
    with pytest.raises(RuntimeError, match="Unsupported device"):
        np.from_dlpack(tokens)
    host = np.zeros(4, np.int64)
    address = device.ffi.cast("void *", int(device.ffi.cast("uintptr_t", tokens.pointer)))
    code = device.lib.sim_copy(device.ffi.from_buffer(host), address, host.nbytes, device.ffi.NULL)
    device.check("sim_copy", code)
    assert host.tolist() == result.token_ids.tolist()


def test_the_logits_live_until_the_step_is_done(device: Any) -> None:
    twins = Twins(device, [DEFAULT] * 4)
    values = twins.logits(4)
    begun = twins.own.begin(device.array(values))
    assert begun.finish().token_ids.tolist() == twins.reference.step(values).token_ids.tolist()
