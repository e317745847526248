from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

import pytest

from engine_sampler.grammar import (
    CompiledGrammar,
    Grammar,
    GrammarCompiler,
    GrammarError,
    GrammarLimitError,
    GrammarSource,
    UnsupportedKeywordError,
    clear_cache,
    clear_grammar_cache,
)
from engine_sampler.grammar.service import process, wire
from engine_sampler.tokenizer import Tokenizer

from .test_source import SOURCES

TOKENIZER = Tokenizer([*(bytes([b]) for b in range(256)), b"</s>"], [256])
SECONDS = 120
"""Far more than any result takes."""


@pytest.fixture(autouse=True)
def _empty_caches() -> Iterator[None]:
    clear_grammar_cache()
    clear_cache(TOKENIZER)
    yield
    clear_grammar_cache()


@pytest.fixture(scope="module")
def shared() -> Iterator[GrammarCompiler]:
    with GrammarCompiler(2) as compiler:
        yield compiler


@pytest.fixture
def stopped() -> Iterator[tuple[GrammarCompiler, Callable[[], None], Callable[[], None]]]:
    """A compiler whose only worker does nothing, a function that makes it continue, and one that kills it."""
    with GrammarCompiler(timeout=SECONDS) as compiler:
        process_id = stop_worker(compiler)
        yield (
            compiler,
            lambda: os.kill(process_id, signal.SIGCONT),
            lambda: os.kill(process_id, signal.SIGKILL),
        )


def stop_worker(compiler: GrammarCompiler) -> int:
    """Stop the only worker, between two grammars; returns its id."""
    compiled(compiler, GrammarSource("regex", "warm"))
    [process_id] = compiler._pool.process_ids
    os.kill(process_id, signal.SIGSTOP)
    return process_id


def compiled(compiler: GrammarCompiler, grammar: Any) -> Any:
    return compiler.submit(grammar, TOKENIZER).result(SECONDS)


# --- results --------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.kind)
def test_a_worker_reads_what_this_process_would_read(shared: GrammarCompiler, source: GrammarSource) -> None:
    here = source.read()
    clear_grammar_cache()
    there = compiled(shared, source)
    assert there.program.key == here.program.key
    assert source.find()[0] is not None
    assert there is here.compile(TOKENIZER)


def test_a_grammar_in_the_cache_is_there_at_once(stopped: Any) -> None:
    compiler, _, _ = stopped
    Grammar.from_regex("ab").compile(TOKENIZER)
    assert compiler.submit(GrammarSource("regex", "ab"), TOKENIZER).done()
    assert compiler.submit(Grammar.from_regex("ab"), TOKENIZER).done()


def test_a_grammar_that_has_been_read_needs_no_worker(stopped: Any) -> None:
    compiler, _, _ = stopped
    grammar = Grammar.from_regex("ab")
    assert isinstance(compiled(compiler, GrammarSource("regex", "ab")), CompiledGrammar)
    assert compiled(compiler, grammar) is grammar.compile(TOKENIZER)


def test_a_function_of_the_tokenizer_runs_in_a_thread(stopped: Any) -> None:
    compiler, _, _ = stopped
    names = []

    def make(tokenizer: Tokenizer) -> str:
        names.append(threading.current_thread().name)
        return f"for {len(tokenizer)} tokens"

    assert compiled(compiler, make) == "for 257 tokens"
    assert names == ["grammar compiler"]


def test_those_who_want_the_same_grammar_wait_for_one_compilation(stopped: Any) -> None:
    compiler, go_on, _ = stopped
    futures = [compiler.submit(GrammarSource("regex", "abc+"), TOKENIZER) for _ in range(5)]
    other = compiler.submit(GrammarSource("lark", "%import common.WORD\nstart: WORD"), TOKENIZER)
    same = compiler.submit(GrammarSource("lark", "%import common.WORD\nstart: WORD"), TOKENIZER)
    assert len(compiler._jobs._jobs) == 2
    go_on()
    assert len({id(future.result(SECONDS)) for future in futures}) == 1
    assert other.result(SECONDS) is same.result(SECONDS)


# --- faults ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (GrammarSource("json_schema", "{"), GrammarError, "not JSON"),
        (GrammarSource("json_schema", '{"type": "frob"}'), GrammarError, "'frob'"),
        (GrammarSource("json_schema", '{"contentEncoding": 7, "$dynamicRef": 3}'), ValueError, "."),
        (GrammarSource("regex", r"(a)\1"), GrammarError, "."),
        (GrammarSource("lark", "start: x"), GrammarError, "line 1"),
        (GrammarSource("json_schema", "[" * 100_000), GrammarLimitError, "nested too deep"),
    ],
)
def test_the_errors_of_a_worker_are_those_of_this_process(
    shared: GrammarCompiler, source: GrammarSource, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as there:
        compiled(shared, source)
    with pytest.raises(error, match=message) as here:
        source.read()
    assert str(there.value) == str(here.value)
    assert type(there.value) is type(here.value)


def test_an_unsupported_keyword_is_one_in_a_worker_too(shared: GrammarCompiler) -> None:
    schema = '{"type": "array", "uniqueItems": true, "minItems": 2, "items": {"type": "array"}}'
    with pytest.raises(UnsupportedKeywordError, match="uniqueItems"):
        compiled(shared, GrammarSource("json_schema", schema))


def test_a_grammar_that_its_vocabulary_refuses_fails_after_reading(shared: GrammarCompiler) -> None:
    with pytest.raises(GrammarError, match=r"'<\|none\|>', which the tokenizer lacks"):
        compiled(shared, GrammarSource("lark", 'start: "a" <|none|>'))


def test_what_is_refused_without_reading_is_refused_at_once(shared: GrammarCompiler) -> None:
    with pytest.raises(GrammarError, match="kind='xml' is not allowed"):
        shared.submit(GrammarSource("xml", ""), TOKENIZER)


def test_a_client_that_cannot_be_told_apart_is_refused_at_once(shared: GrammarCompiler) -> None:
    with pytest.raises(ValueError, match=r"client=\[7\] is not allowed: a hashable value"):
        shared.submit(GrammarSource("regex", "ab"), TOKENIZER, client=[7])


def test_a_value_that_cannot_be_pickled_fails_alone(shared: GrammarCompiler) -> None:
    class Text(str):  # a local class
        __slots__ = ()

    with pytest.raises(Exception, match=r"[Pp]ickle"):
        compiled(shared, GrammarSource("regex", Text("ab")))
    assert compiled(shared, GrammarSource("regex", "ab"))


def test_a_function_that_raises_fails_alone(shared: GrammarCompiler) -> None:
    def fail(tokenizer: Tokenizer) -> None:
        raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        compiled(shared, fail)
    assert compiled(shared, lambda tokenizer: 3) == 3


def test_a_function_that_raises_what_is_no_exception_fails_alone(shared: GrammarCompiler) -> None:
    class Stop(BaseException):
        pass

    def stop(tokenizer: Tokenizer) -> None:
        raise Stop("at once")

    with pytest.raises(GrammarError, match="compiling failed: Stop: at once"):
        compiled(shared, stop)
    assert compiled(shared, lambda tokenizer: 4) == 4


def test_a_worker_that_is_killed_fails_its_grammar_only_and_is_replaced(
    stopped: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler, _, kill = stopped
    sent, send = threading.Event(), wire.send
    monkeypatch.setattr(wire, "send", lambda *arguments: (send(*arguments), sent.set()))
    [before] = compiler._pool.process_ids
    lost, next_one = (compiler.submit(GrammarSource("regex", p), TOKENIZER) for p in ("ab", "cd"))
    assert sent.wait(SECONDS)
    kill()
    with pytest.raises(GrammarError, match="ended with exit code -9"):
        lost.result(SECONDS)
    assert next_one.result(SECONDS)
    assert compiled(compiler, GrammarSource("regex", "ab"))
    assert compiler._pool.process_ids != [before]


def test_a_worker_that_was_killed_while_idle_is_replaced_unnoticed() -> None:
    with GrammarCompiler() as compiler:
        compiled(compiler, GrammarSource("regex", "ab"))
        [worker] = compiler._pool._workers
        assert worker._process is not None
        worker._process.kill()
        worker._process.wait()
        assert compiled(compiler, GrammarSource("regex", "cd"))


def test_a_grammar_that_takes_too_long_fails_and_its_worker_is_replaced() -> None:
    with GrammarCompiler(timeout=SECONDS) as compiler:
        before = stop_worker(compiler)
        [worker] = compiler._pool._workers
        worker._timeout = 0.05
        late = compiler.submit(GrammarSource("regex", "ab"), TOKENIZER)
        with pytest.raises(GrammarLimitError, match=r"takes more than 0\.05 seconds"):
            late.result(SECONDS)
        worker._timeout = SECONDS
        assert compiled(compiler, GrammarSource("regex", "ab"))
        assert compiler._pool.process_ids != [before]


def test_a_worker_that_cannot_be_started_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiprocessing.spawn.get_executable", lambda: "/no/such/python")
    with GrammarCompiler() as compiler, pytest.raises(GrammarError, match=r"could not be started.*no/such"):
        compiled(compiler, GrammarSource("regex", "ab"))


# --- slow grammars and neighbours -----------------------------------------------------------------


class Slow(str):
    """A pattern that takes a worker a minute."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (f"__import__('time').sleep(60) or {str(self)!r}",)


def test_slow_grammars_give_way_to_those_of_a_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "PATIENCE", 0.05)
    with GrammarCompiler(timeout=SECONDS) as compiler:
        slow = [
            compiler.submit(GrammarSource("regex", Slow(f"a{number}")), TOKENIZER, client="slow")
            for number in range(3)
        ]
        quick = compiler.submit(GrammarSource("regex", "quick"), TOKENIZER, client="quick")
        assert quick.result(SECONDS)
        assert not any(future.done() for future in slow)


# --- cancelling and closing -----------------------------------------------------------------------


def test_a_compilation_that_nobody_wants_any_more_is_dropped(stopped: Any) -> None:
    compiler, go_on, _ = stopped
    first = compiler.submit(GrammarSource("regex", "first"), TOKENIZER)
    dropped = [compiler.submit(GrammarSource("regex", "dropped"), TOKENIZER) for _ in range(2)]
    kept, cancelled = (compiler.submit(GrammarSource("regex", "kept"), TOKENIZER) for _ in range(2))
    assert all(future.cancel() for future in (*dropped, cancelled))
    go_on()
    assert first.result(SECONDS)
    assert kept.result(SECONDS)
    with pytest.raises(CancelledError):
        cancelled.result(SECONDS)
    assert GrammarSource("regex", "dropped").find()[0] is None
    assert compiled(compiler, GrammarSource("regex", "dropped"))
    assert not compiler._jobs._jobs


def test_closing_ends_the_workers_and_fails_what_has_not_finished(stopped: Any) -> None:
    compiler, _, _ = stopped
    [worker] = compiler._pool._workers
    process = worker._process
    futures = [compiler.submit(GrammarSource("regex", p), TOKENIZER) for p in ("ab", "cd")]
    compiler.close()
    compiler.close()
    for future in futures:
        with pytest.raises(GrammarError, match="the grammar compiler has been closed"):
            future.result(SECONDS)
    assert process is not None
    assert process.poll() == -signal.SIGKILL
    assert not any(thread.is_alive() for thread in compiler._pool._threads)
    with pytest.raises(RuntimeError, match="the grammar compiler is closed"):
        compiler.submit(GrammarSource("regex", "ef"), TOKENIZER)


def test_a_compiler_that_nobody_holds_closes_itself() -> None:
    compiler = GrammarCompiler()
    pool = compiler._pool
    compiled(compiler, GrammarSource("regex", "ab"))
    del compiler
    assert not any(thread.is_alive() for thread in pool._threads)


def test_a_forked_process_cannot_use_it_and_does_not_close_it(
    shared: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: -1)
        with pytest.raises(RuntimeError, match="forked"):
            shared.submit(GrammarSource("regex", "forked"), TOKENIZER)
        shared._pool.close()
    assert compiled(shared, GrammarSource("regex", "forked"))


def test_a_forked_process_does_not_wait_for_what_its_parent_compiles(
    stopped: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler, go_on, _ = stopped
    future = compiler.submit(GrammarSource("regex", "parent"), TOKENIZER)
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: -1)
        with pytest.raises(RuntimeError, match="forked"):
            compiler.submit(GrammarSource("regex", "parent"), TOKENIZER)
    go_on()
    assert future.result(SECONDS)


@pytest.mark.parametrize("processes", [0, 257, True, 1.5])
def test_an_impossible_number_of_processes_is_refused(processes: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(f"processes={processes!r} is not allowed: 1..256")):
        GrammarCompiler(processes)


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), float("inf")])
def test_an_impossible_timeout_is_refused(timeout: float) -> None:
    with pytest.raises(ValueError, match=r"timeout=.* is not allowed: more than 0 seconds"):
        GrammarCompiler(timeout=timeout)


# --- whole programs -------------------------------------------------------------------------------

PROGRAM = """
import os, signal, sys
from engine_sampler.grammar import GrammarCompiler, GrammarSource
from engine_sampler.tokenizer import Tokenizer

print("main runs")
tokenizer = Tokenizer([bytes([b]) for b in range(256)])
compiler = GrammarCompiler()
print(compiler.submit(GrammarSource("regex", "ab+"), tokenizer).result())
[worker] = compiler._pool.process_ids
print(worker)
os.kill(worker, signal.SIGSTOP)
pending = compiler.submit(GrammarSource("regex", "pending"), tokenizer)
sys.stdout.flush()
"""


def run_program(more: str = "", before: str = "") -> tuple[list[str], subprocess.CompletedProcess[str]]:
    """The lines that a script without a guard for `__main__` prints, run from standard input."""
    run = subprocess.run(
        [sys.executable, "-"], input=before + PROGRAM + more, capture_output=True, text=True, timeout=SECONDS
    )
    return run.stdout.splitlines(), run


def test_a_script_needs_no_guard_and_ends_although_a_grammar_is_pending() -> None:
    lines, run = run_program()
    assert run.stderr == ""
    assert run.returncode == 0
    assert lines[0] == "main runs"
    assert lines.count("main runs") == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int(lines[2]), 0)


def test_a_front_end_that_is_broken_and_prints_does_not_disturb_other_grammars(tmp_path: Path) -> None:
    (tmp_path / "lark.py").write_text("print('noise' * 1000, flush=True)\nraise ImportError('no lark')\n")
    lines, run = run_program("", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n")
    assert run.returncode == 0
    assert lines[0] == "main runs"
    assert "noise" in run.stderr


def test_a_script_that_raises_ends_with_its_own_error_only() -> None:
    _, run = run_program("raise SystemExit(3)\n")
    assert (run.returncode, run.stderr) == (3, "")


BUSY = """
import re, time

class Endless(str):
    def __reduce__(self):
        return re.match, ("(a+)+$", "a" * 64 + "b")

endless = compiler.submit(GrammarSource("regex", Endless("endless")), tokenizer)
def seconds():
    return sum(map(int, open(f"/proc/{worker}/stat").read().rpartition(")")[2].split()[11:13])) / 100
began = seconds()
while seconds() < began + 0.05:
    time.sleep(0.01)
"""
"""Lets the worker match a pattern for ever, holding its interpreter's lock, and waits until it does."""


def test_workers_end_when_the_process_is_killed_whatever_they_do() -> None:
    program = PROGRAM.replace("os.kill(worker, signal.SIGSTOP)\n", "")
    busy = BUSY if sys.platform == "linux" else ""
    run = subprocess.run(
        [sys.executable, "-c", f"{program}{busy}os.kill(os.getpid(), signal.SIGKILL)\n"],
        capture_output=True,
        timeout=SECONDS,
    )  # returns once the worker, too, has closed its standard error
    assert run.returncode == -signal.SIGKILL


def test_a_future_is_a_plain_future(shared: GrammarCompiler) -> None:
    done = threading.Event()
    future = shared.submit(GrammarSource("regex", "event"), TOKENIZER)
    assert isinstance(future, Future)
    future.add_done_callback(lambda _: done.set())
    assert done.wait(SECONDS)
