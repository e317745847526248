"""The two copies of a step: packed, reused, and complete."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from counting_device import DEVICE, CountingDevice
from engine_sampler_torch.running.transfer import Buffers, Download, Upload

ARRAYS = (
    np.arange(7, dtype=np.int64),
    np.array([[1.5, -np.inf]], np.float32),
    np.array([True, False, True]),
    np.zeros((3, 0), np.int32),
    np.linspace(0, 1, 5),
    np.arange(12, dtype=np.int32).reshape(4, 3).T,
)


def test_arrays_arrive_as_they_are_in_one_copy_each_way() -> None:
    with CountingDevice() as device:
        upload, download = Upload(Buffers(DEVICE)), Download(Buffers(DEVICE))
        numbers = [upload.add(array) for array in ARRAYS]
        upload.send()
        back = [download.add(upload[number]) for number in numbers]
        download.receive()
        assert (device.copies_up, device.copies_down, device.synchronisations) == (1, 1, 1)
    for number, array in zip(back, ARRAYS, strict=True):
        assert download[number].dtype == array.dtype
        np.testing.assert_array_equal(download[number], array)


def test_buffers_are_used_again_and_grow_by_doubling() -> None:
    buffers = Buffers(torch.device("cpu"))
    first = buffers.of(100)[0].data_ptr()
    assert buffers.of(60_000)[0].data_ptr() == first
    large = buffers.of(70_000)[0].data_ptr()
    assert buffers.of(131_072)[0].data_ptr() == large


def test_nothing_to_download_does_not_wait() -> None:
    with CountingDevice() as device:
        Download(Buffers(DEVICE)).receive()
        assert device.synchronisations == 0


def test_an_input_of_another_dtype_is_refused() -> None:
    with pytest.raises(TypeError, match="an input has dtype complex128; allowed are float64"):
        Upload(Buffers(torch.device("cpu"))).add(np.zeros(2, complex))
