"""Where CANN's functions are looked for, and what the library answers on which of its versions and chips."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ascend_building import cann_home, compile_c
from ascend_harness import Chip, Host, vendor_table
from engine_sampler_ascend import AscendBackend, presence

PLUGIN = Path(__file__).resolve().parents[1]
OK, UNSUPPORTED, DEVICE = 0, 1, 4
ALL = ["temperature", "top_k", "top_p", "min_p", "dist"]

CUSTOM = """
int aclnnTopkGetWorkspaceSize(void) { return 361001; }
#ifndef ONE_PHASE
int aclnnTopk(void) { return 361001; }
#endif
"""
"""Another vendor's operator, which refuses everything: so one sees that it is taken."""


def custom_library(place: Path, *flags: str) -> None:
    place.mkdir(parents=True)
    source = place / "custom.c"
    source.write_text(CUSTOM, "utf-8")
    compile_c([source], place / "libcust_opapi.so", "-fvisibility=default", *flags)


def code_of_a_step(chip: Chip) -> int:
    host = Host(chip)
    code = host.step(np.zeros((1, 64), np.float32), ["greedy"]).code
    host.close()
    return code


def refused(*arguments: Any, **options: Any) -> tuple[int, str]:
    """The code of `open`, and why."""
    table = vendor_table()
    why = table.ffi.new("char[]", 300)
    code, _ = table.open(*arguments, why=why, **options)
    return code, table.ffi.string(why).decode()


def test_without_cann_there_is_no_context(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert refused() == (
        UNSUPPORTED,
        "there is no libascendcl.so: CANN is not installed, or not on the loader's path",
    )


def test_the_toolkit_is_another_home(chip: Chip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_HOME_PATH")
    monkeypatch.setenv("ASCEND_TOOLKIT_HOME", str(chip.home))
    assert code_of_a_step(chip) == OK


def test_libraries_without_the_symbols_are_not_cann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    custom_library(tmp_path / "lib64")
    (tmp_path / "lib64" / "libcust_opapi.so").rename(tmp_path / "lib64" / "libascendcl.so")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    code, why = refused()
    assert code == UNSUPPORTED
    assert why.startswith("this version of CANN has no ")


def test_custom_operators_come_first(chip: Chip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    custom_library(tmp_path / "second" / "op_api" / "lib")
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", f"{tmp_path / 'first'}:{tmp_path / 'second'}")
    assert code_of_a_step(chip) == DEVICE
    assert chip.calls("aclnnTopkGetWorkspaceSize") == 0


def test_then_the_vendors_of_the_configuration(
    chip: Chip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    custom_library(tmp_path / "vendors" / "two" / "op_api" / "lib")
    (tmp_path / "vendors" / "config.ini").write_text("other=1\nload_priority=one,two\n", "utf-8")
    monkeypatch.setenv("ASCEND_OPP_PATH", str(tmp_path))
    assert code_of_a_step(chip) == DEVICE
    (tmp_path / "vendors" / "config.ini").write_text("load_priority=one\n", "utf-8")
    assert code_of_a_step(chip) == OK


def test_an_operator_with_one_phase_is_none(
    chip: Chip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    custom_library(tmp_path / "op_api" / "lib", "-DONE_PHASE")
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", str(tmp_path))
    assert code_of_a_step(chip) == OK


def test_newer_versions_have_several_libraries_of_operators(
    chip: Chip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "lib64"
    own.mkdir()
    simulator = (chip.home / "lib64" / "libascendcl.so").resolve()
    names = ("libascendcl.so", "libnnopbase.so", "libopapi_nn.so")
    for name in names:
        (own / name).symlink_to(simulator)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    assert code_of_a_step(chip) == OK


def test_the_table_is_for_this_version_of_the_interface() -> None:
    table = vendor_table()
    out = table.ffi.new("const es_api **")
    assert table._loaded.es_get_api(3 << 16, out) == UNSUPPORTED
    assert table.ffi.string(table.api.name) == b"ascend"


@pytest.mark.parametrize("device", [(1, 0), (2, 0), (12, -1)], ids=str)
def test_other_devices_are_not_served(chip: Chip, device: tuple[int, int]) -> None:
    assert refused(device=device) == (UNSUPPORTED, "it serves NPUs, DLPack's type 12")


def test_other_ways_of_working_are_not_known(chip: Chip) -> None:
    assert refused("fast") == (UNSUPPORTED, 'it knows the ways "exact" and "operators"')


def test_a_cann_that_does_not_start(chip: Chip) -> None:
    chip.fail("aclInit", 507018)
    assert refused() == (DEVICE, "aclInit returned 507018: EZ9999: as the simulator was told")


# --- answers -------------------------------------------------------------------------------------

PROMISED = (
    "EXACT", "DETERMINISTIC", "BATCH_INVARIANT", "ROW_FAULTS", "MASKS", "SURVIVORS", "PROCESSED", "ON_DEVICE",
)  # fmt: skip


def promises(host: Host, kinds: Sequence[str] | None, form: str = "float32") -> list[str] | None:
    """What is promised beside reading only, at any stride; None if the program does not run."""
    code, answer = host.query(kinds, form)
    if code:
        return None
    bits = answer.promises
    for name in ("READS_ONLY", "ANY_STRIDE"):
        assert bits & host.table.number(f"ES_{name}")
    return [name.lower() for name in PROMISED if bits & host.table.number(f"ES_{name}")]


SURE = ["exact", "deterministic", "batch_invariant", "row_faults"]
ONE = [*SURE, "masks"]
CUT = [*SURE, "masks", "survivors", "processed"]


@pytest.mark.parametrize(
    ("kinds", "promised"),
    [
        (None, SURE),
        (["greedy"], ONE),
        (["temperature", "greedy"], ONE),
        (["top_k"], CUT),
        (["temperature", "top_k"], CUT),
        (["top_k", "temperature", "greedy"], [*ONE, "processed"]),
        (["temperature"], None),
        (["top_k", "top_p"], None),
        (["top_k", "dist"], None),
        (["penalties", "top_k"], CUT),
        (["penalties", "temperature", "greedy"], ONE),
        (["penalties"], None),
        (["logit_bias", "top_k"], None),
        ([], None),
        (["top_k"] * 9, None),
    ],
    ids=str,
)
def test_what_exact_contexts_promise(host: Host, kinds: list[str] | None, promised: list[str] | None) -> None:
    assert promises(host, kinds) == promised


@pytest.mark.parametrize(
    ("kinds", "promised"),
    [
        (None, []),
        (["greedy"], ["row_faults", "on_device"]),
        (ALL, ["row_faults", "on_device"]),
        (["top_k", "dist"], ["row_faults", "on_device"]),
        (["top_k", "temperature", "dist"], None),
        (["top_k", "top_p"], ["row_faults", "survivors", "processed"]),
        (["top_p", "top_k"], None),
        (["top_k"], CUT),
        (["min_p"], None),
    ],
    ids=str,
)
def test_what_operators_promise(operators: Host, kinds: list[str] | None, promised: list[str] | None) -> None:
    assert promises(operators, kinds) == promised


def test_the_limits_of_programs(host: Host, operators: Host) -> None:
    number = host.table.number
    exact = host.query(["top_k"])[1]
    assert (exact.max_top_k, exact.alignment, exact.max_survivors, exact.random) == (1024, 32, 1024, 0)
    assert exact.ties == number("ES_TIES_BY_ID")
    assert operators.query(["top_k", "top_p"])[1].ties == number("ES_TIES_ANY")
    drawn = operators.query(ALL)[1]
    assert drawn.ties == number("ES_TIES_ANY")
    assert drawn.random == number("ES_RANDOM_EXPONENTIAL")
    assert drawn.max_survivors == 0


def test_a_selector_before_the_end_is_a_breach_of_contract(host: Host) -> None:
    assert host.query(["greedy", "top_k"])[0] == 2
    assert host.error() == "ascend: a selector before the end"


def test_a_large_vocabulary_is_not_served(host: Host) -> None:
    assert host.query(["greedy"], vocab_size=1 << 20)[0] == OK
    assert host.query(["greedy"], vocab_size=(1 << 20) + 1)[0] == UNSUPPORTED


@pytest.mark.parametrize("soc", ["Ascend310P3", "Ascend910A", "Ascend310B1"])
def test_chips_whose_infinities_are_not_ieee(chip: Chip, soc: str) -> None:
    chip.reset(soc)
    host, operators = Host(chip), Host(chip, "operators")
    assert promises(host, None) == []
    assert promises(host, ["greedy"]) is None
    assert promises(operators, ["greedy"]) == ["on_device"]
    assert promises(operators, ["greedy"], "bfloat16") is None
    assert promises(operators, ["top_p"]) is None
    assert promises(operators, ALL) is None
    host.close()
    operators.close()


@pytest.mark.parametrize("soc", ["Ascend910B3", "Ascend910_9392", "Ascend950PR"])
def test_chips_that_are_served(chip: Chip, soc: str) -> None:
    chip.reset(soc)
    host = Host(chip)
    assert promises(host, ["top_k"]) == CUT
    assert host.ffi.string(host.api.target(host.context)).decode() == f"{soc}, exact"
    host.close()


def test_a_cann_without_sampling_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    chip = Chip("NO_V1", "NO_V2")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(chip.home))
    operators = Host(chip, "operators")
    assert promises(operators, ["top_k", "dist"]) is None
    assert promises(operators, ["greedy"]) == ["row_faults", "on_device"]
    operators.close()


# --- the package ---------------------------------------------------------------------------------


def test_the_reason_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence.sys, "platform", "linux")
    monkeypatch.delitem(presence.sys.modules, "torch_npu", raising=False)
    for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(presence, "LIBRARY", tmp_path / "libengine_sampler_ascend.so")
    assert presence.missing().startswith("libengine_sampler_ascend.so has not been compiled")
    presence.LIBRARY.write_bytes(b"")
    assert presence.missing().startswith("there is no libascendcl.so in ASCEND_HOME_PATH/lib64")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(cann_home()))
    assert presence.missing() == ""
    monkeypatch.delenv("ASCEND_HOME_PATH")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{cann_home() / 'lib64'}")
    assert presence.missing() == ""
    monkeypatch.setattr(presence.sys, "platform", "darwin")
    assert presence.missing() == "CANN is for Linux; this is darwin"


def test_another_name_is_refused() -> None:
    with pytest.raises(ValueError, match="name='npu' is not allowed: one of ascend, ascend_operators"):
        AscendBackend("npu")


LISTED = """
import sys
import engine_sampler_ascend
print([module for module in ("cffi", "torch") if module in sys.modules])
from engine_sampler import Scheduler
from engine_sampler.for_backends import default_registry

registry = default_registry()
if "ascend" not in registry.catalogue.backends:
    registry.register(engine_sampler_ascend, "ascend")
print(sorted(name for name in registry.catalogue.backends if "ascend" in name))
try:
    Scheduler(10, backend="ascend")
except ValueError as error:
    print(error)
"""


def test_both_backends_are_registered_and_nothing_is_loaded_for_that() -> None:
    names = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "LD_LIBRARY_PATH")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment["PYTHONPATH"] = os.pathsep.join([str(PLUGIN), str(PLUGIN.parents[1])])
    command = [sys.executable, "-c", LISTED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    modules, names_line, error = done.stdout.splitlines()
    assert names_line == "['ascend', 'ascend_operators']", done.stderr
    assert modules == "[]"
    assert error.startswith("backend='ascend' cannot be used: ")
