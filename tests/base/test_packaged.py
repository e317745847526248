"""Interfaces of C libraries in a process that is forked."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal
from cffi import cparser, model
from engine_sampler.base.packaged import new_interface

ffi = new_interface("typedef struct { int number; } es_kind;")
with ffi._lock, cparser.lock, model.global_lock:  # as if another thread read a type
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        os._exit(ffi.sizeof("es_kind[3]") != 3 * ffi.sizeof("es_kind"))
raise SystemExit(os.waitpid(pid, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_child_reads_new_types_although_a_thread_was_reading_one_when_it_was_forked() -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
