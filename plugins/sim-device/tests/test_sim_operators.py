"""Operators of two phases: the workspace must be given, and every mistake with it has a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

BYTES = 256


@pytest.fixture
def prepared(device: Any) -> Callable[[], Any]:
    """Prepares an executor of an operator that fills its workspace."""
    ffi = device.ffi

    @ffi.callback("int64_t(const void *)")
    def workspace_bytes(arguments: Any) -> int:
        return BYTES

    @ffi.callback("int32_t(void *, void *)")
    def work(arguments: Any, workspace: Any) -> int:
        ffi.memmove(workspace, b"x" * BYTES, BYTES)
        return 0

    name = ffi.new("char[]", b"filling")
    fields = {"name": name, "workspace_bytes": workspace_bytes, "work": work}
    held = ffi.new("sim_operator *", fields), fields

    def prepare() -> Any:
        out, n = ffi.new("sim_executor **"), ffi.new("int64_t *")
        device.check("prepare", device.lib.sim_prepare(held[0], ffi.NULL, 0, n, out))
        assert n[0] == BYTES
        return out[0]

    return prepare


def test_an_operator_works_in_its_workspace(device: Any, prepared: Callable[[], Any]) -> None:
    workspace = device.empty((1, BYTES), "uint8")
    code = device.lib.sim_execute(prepared(), workspace.row_pointer(0), BYTES, device.ffi.NULL)
    device.check("execute", code)
    device.check("wait", device.lib.sim_synchronize(device.ffi.NULL))
    assert (workspace.bits() == ord("x")).all()


@pytest.mark.parametrize(
    ("offset", "n", "error"),
    [
        (None, BYTES, "SIM_NO_WORKSPACE"),
        (0, BYTES - 1, "SIM_SMALL_WORKSPACE"),
        (64, BYTES, "SIM_SMALL_WORKSPACE"),
        (8, BYTES, "SIM_MISALIGNED"),
    ],
    ids=["missing", "too small", "beyond its block", "misaligned"],
)
def test_a_wrong_workspace_has_a_named_error(
    device: Any, prepared: Callable[[], Any], offset: int | None, n: int, error: str
) -> None:
    block = device.empty((1, BYTES + 8), "uint8")
    at = device.ffi.NULL if offset is None else device.ffi.cast("char *", block.row_pointer(0)) + offset
    assert device.lib.sim_execute(prepared(), at, n, device.ffi.NULL) == device.number(error)


def test_memory_of_the_host_is_no_workspace(device: Any, prepared: Callable[[], Any]) -> None:
    host = device.ffi.new("char[]", BYTES)
    code = device.lib.sim_execute(prepared(), host, BYTES, device.ffi.NULL)
    assert code == device.number("SIM_NO_WORKSPACE")


def test_a_workspace_in_use_by_another_stream_is_refused(device: Any, prepared: Callable[[], Any]) -> None:
    from sim_device import SimStream

    first, second, block = SimStream(device), SimStream(device), device.empty((1, BYTES), "uint8")
    execute, at = device.lib.sim_execute, block.row_pointer(0)
    device.check("execute", execute(prepared(), at, BYTES, first.pointer))
    device.check("in the same order", execute(prepared(), at, BYTES, first.pointer))
    assert execute(prepared(), at, BYTES, second.pointer) == device.number("SIM_WORKSPACE_IN_USE")
    first.synchronize()
    device.check("when it is done", execute(prepared(), at, BYTES, second.pointer))
    first.close()
    second.close()


def test_an_older_version_lacks_an_operator(device: Any, prepared: Callable[[], Any]) -> None:
    from sim_device import SimError

    device.remove_operator("filling")
    with pytest.raises(SimError, match="no such operator in this version"):
        prepared()


def test_an_executor_that_is_not_used_is_discarded(device: Any, prepared: Callable[[], Any]) -> None:
    executor = prepared()
    assert device.counters()["executors"] == 1
    device.check("discard", device.lib.sim_discard(executor))
