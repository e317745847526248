"""The process that reads grammars, spoken to directly."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from engine_sampler.grammar import Grammar, GrammarError, GrammarSource
from engine_sampler.grammar.service import wire
from engine_sampler.grammar.service.worker import Failure

DEVICE_LIBRARIES = {"torch", "transformers", "tensorflow", "jax", "mindspore", "mlx", "llama_cpp", "vllm"}
START = "from engine_sampler.grammar.service.worker import main; main(1, {engine}, {timeout})"


@contextmanager
def started(timeout: float = 60, engine: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of this process, or of the one with another id."""
    program = START.format(engine=os.getpid() if engine is None else engine, timeout=timeout)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        yield process
        process.kill()


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    with started() as process:
        assert process.stdout is not None
        assert wire.receive(process.stdout.fileno()) is None  # it is ready
        yield process


def answer(process: subprocess.Popen[bytes], message: Any) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    wire.send(process.stdin.fileno(), wire.encode(message))
    return wire.receive(process.stdout.fileno())


def message_of(pattern: str) -> str:
    with pytest.raises(GrammarError) as error:
        Grammar.from_regex(pattern)
    return str(error.value)


def test_it_answers_sources_with_grammars_and_faults_with_their_reasons(
    worker: subprocess.Popen[bytes],
) -> None:
    assert answer(worker, tuple(GrammarSource("regex", "a+"))) == Grammar.from_regex("a+")
    assert answer(worker, ("regex", "(")) == Failure("GrammarError", message_of("("))
    assert answer(worker, 7).kind == "TypeError"
    assert answer(worker, ("choice", ["a"])) == Grammar.from_choices(["a"])


def test_it_ends_when_its_input_does(worker: subprocess.Popen[bytes]) -> None:
    answer(worker, ("regex", "a"))
    assert worker.stdin is not None
    worker.stdin.close()
    assert worker.wait(60) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no such timers")
def test_it_ends_by_itself_when_a_grammar_takes_too_long_even_under_the_lock() -> None:
    """Nobody is there to kill it, and no other thread of its own can run."""
    endless = map(re.match, ["(a+)+$"], ["a" * 64 + "b"])
    with started(timeout=-1.9) as process:
        assert process.stdin is not None
        wire.send(process.stdin.fileno(), wire.encode(endless))
        assert process.wait(60) == -signal.SIGALRM


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the end of standard input is the only sign")
def test_it_does_not_live_if_the_engine_has_ended_before_it_could_ask_for_the_sign() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    with started(engine=ended.pid) as process:  # whose standard input goes on
        assert process.wait(60) == 0


def test_it_loads_no_device_library_and_no_plugin() -> None:
    code = (
        "import sys\n"
        "from engine_sampler.grammar.service import worker\n"
        "for source in ('json_object', True), ('lark', 'start: \"a\"'), ('regex', 'a'):\n"
        "    worker._read(source)\n"
        "print(*sys.modules, sep='\\n')\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "lark" in loaded
    assert loaded.isdisjoint(DEVICE_LIBRARIES)
    assert not [name for name in loaded if name.startswith("engine_sampler.samplers.")]
