"""`GrammarCompiler`: grammars compiled in the background, in fair turns."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeAlias

from ...base.errors import check_hashable, failure
from ...base.forking import fork_safe
from ...tokenizer import Tokenizer
from .. import errors
from ..compiled import CompiledGrammar
from ..errors import GrammarError
from ..grammar import Grammar, remember_grammar
from ..limits import LIMITS, Limits
from .pool import Ask, Pool
from .process import GaveWay
from .source import GrammarSource
from .worker import Failure

Uncompiled: TypeAlias = "GrammarSource | Grammar | Callable[[Tokenizer], Any]"
"""A grammar as it was given, one that has been read, or a function that makes a compiled one."""


class GrammarCompiler:
    """Compiles grammars while an engine runs; its steps do not wait for the interpreter's lock meanwhile.

    processes  workers, which read grammars; each reads one at a time. They start at once, as new
               interpreters that import this package only: nothing is forked, and the caller's `__main__`
               needs no guard. They end with this process, even if it is killed, whatever they do.
    timeout    seconds for reading one grammar; then its worker is killed and replaced.

    Clients take turns: the next grammar is one of the client of whose grammars the fewest are being read, and
    have taken the least time. A request without a client is one of its own. A grammar that takes more than a
    second while those of other clients wait gives way: one more worker, which starts when it is needed, reads
    such grammars anew, one after the other. So nobody waits for slow grammars of others much longer than a
    second for each worker's turn, and who has several waits for his own.

    Grammars that have been read are compiled for the tokenizer by a thread of this process, in C. So are
    `Grammar` objects; functions of a tokenizer, and the engine in Python, run in such a thread, too, and hold
    the lock. One object serves any number of schedulers, from any thread. `close` it, or use it in a `with`
    statement; otherwise it closes when it is collected or the interpreter ends.
    """

    def __init__(self, processes: int = 1, *, timeout: float = 10.0) -> None:
        if isinstance(processes, bool) or not isinstance(processes, int) or not 1 <= processes <= 256:
            raise ValueError(f"processes={processes!r} is not allowed: 1..256")
        if not 0 < timeout <= threading.TIMEOUT_MAX:
            raise ValueError(f"timeout={timeout!r} is not allowed: more than 0 seconds")
        self._pool = Pool(processes, timeout)
        self._jobs = _Jobs()
        self._finalizer = weakref.finalize(self, self._pool.close)

    def close(self) -> None:
        """End the workers; grammars that are not compiled yet fail with a GrammarError. A second call does
        nothing."""
        self._finalizer()

    def submit(self, grammar: Uncompiled, tokenizer: Tokenizer, *, client: Hashable = None) -> Future[Any]:
        """Start compiling `grammar` for `tokenizer`; the future's result is a `CompiledGrammar`, or what a
        function gave.

        client  whose grammar it is: anything hashable that tells apart those who must not hold up each other,
                such as a tenant's id, and that they cannot choose themselves; None: a client of its own

        The future is done at once if the grammar is in the cache. Callers that submit the same grammar wait
        for one compilation; it is dropped if all of them cancel their futures before it starts.

        The future raises GrammarError for a grammar that cannot be read or compiled or whose worker has
        ended, and GrammarLimitError if it exceeds a limit. Raises ValueError for a grammar that is refused
        without reading it, and RuntimeError after `close` and in a forked process.
        """
        check_hashable("client", client)
        source = grammar if isinstance(grammar, GrammarSource) else None
        limits = LIMITS if source is None else source.limits
        key: Hashable = grammar
        if source is not None:
            found, cached_as = source.find()
            if found is not None:
                source, key, grammar = None, found, found
            elif cached_as is not None:
                key = cached_as
        compiled = grammar.find_compiled(tokenizer, limits=limits) if isinstance(grammar, Grammar) else None
        if compiled is not None:
            done: Future[Any] = Future()
            done.set_result(compiled)
            return done
        self._pool.check_process()
        job = _Job(self._jobs, (key, tokenizer, limits), grammar)
        return self._jobs.join(job, client, self._pool, needs_worker=source is not None)

    def __enter__(self) -> GrammarCompiler:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Jobs:
    """The compilations that have not finished, by key."""

    def __init__(self) -> None:
        # An RLock: the compiler may be collected, and closed, while the thread holds it.
        self._lock = fork_safe(threading.RLock())
        self._jobs: dict[Hashable, _Job] = {}

    def join(self, job: _Job, client: Hashable, pool: Pool, *, needs_worker: bool) -> Future[Any]:
        """A future for the job of this key: one that is there already, or `job`, which is put into the pool.
        Without a client, its turn is that of the job itself."""
        future: Future[Any] = Future()
        with self._lock:
            known = self._jobs.get(job.key)
            if known is None:
                pool.put(job, job if client is None else client, needs_worker=needs_worker)
                known = self._jobs[job.key] = job
            else:
                pool.join(known, known if client is None else client)
            known.futures.append(future)
        return future

    def is_wanted(self, job: _Job) -> bool:
        """Whether anybody still waits for `job`; otherwise it is forgotten."""
        with self._lock:
            wanted = not all(future.cancelled() for future in job.futures)
            if not wanted:
                self._jobs.pop(job.key, None)
            return wanted

    def finish(self, job: _Job) -> list[Future[Any]]:
        """Forget a job; returns the futures of those who still wait."""
        with self._lock:
            self._jobs.pop(job.key, None)
            return [future for future in job.futures if future.set_running_or_notify_cancel()]


class _Job:
    """The compilation of one grammar for one tokenizer.

    key  the key of the grammar in the cache, or the grammar itself; the tokenizer, and the limits.
    """

    def __init__(self, jobs: _Jobs, key: tuple[Hashable, Tokenizer, Limits], grammar: Uncompiled) -> None:
        self.key = key
        self.futures: list[Future[Any]] = []
        self._jobs = jobs
        self._grammar = grammar

    def run(self, ask: Ask) -> None:
        if not self._jobs.is_wanted(self):
            return
        try:
            compiled = self._compile(ask)
        except GaveWay:
            raise
        except Exception as error:
            self.fail(error)
        except BaseException as error:  # a plugin's; the thread has to go on
            self.fail(GrammarError(failure("compiling", error)))
        else:
            for future in self._jobs.finish(self):
                future.set_result(compiled)

    def fail(self, error: Exception) -> None:
        for future in self._jobs.finish(self):
            future.set_exception(error)

    def _compile(self, ask: Ask) -> CompiledGrammar | Any:
        grammar = self._grammar
        key, tokenizer, limits = self.key
        if isinstance(grammar, GrammarSource):
            grammar = _grammar_of(ask(tuple(grammar)))
            if not isinstance(key, GrammarSource):
                remember_grammar(key, grammar)
        if isinstance(grammar, Grammar):
            return grammar.compile(tokenizer, limits=limits)
        return grammar(tokenizer)


def _grammar_of(answer: Any) -> Grammar:
    """A worker's answer. Raises the error that the worker reports."""
    if isinstance(answer, Grammar):
        return answer
    if not isinstance(answer, Failure):
        raise GrammarError(f"the process that compiled the grammar gave a {type(answer).__name__}")
    kind = getattr(errors, answer.kind, None)
    if isinstance(kind, type) and issubclass(kind, GrammarError):
        raise kind(answer.message)
    raise GrammarError(f"{answer.kind}: {answer.message}" if answer.kind != "ValueError" else answer.message)
