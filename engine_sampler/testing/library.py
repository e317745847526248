"""Whether a compiled backend keeps the contract of `engine_sampler.h`: for `engine-sampler check`.

A library makes promises; each is tried on rows of all kinds. A promise that it does not make is not a
failure: the host runs what the library does not promise.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ..arithmetic import LOGIT_LIMIT, LogitRows, Logprobs, RowLogprobs, row_logprobs
from ..backends.library import LibraryError
from ..backends.library.binding import Context, Library, Refusal
from ..backends.library.calls import layout_of
from ..backends.library.header import contract, described, number, size_of, sized
from ..backends.library.session import query_promises
from ..contract import LOGPROBS_KINDS, bitmask_words
from .trials import (
    LibraryTrial,
    Outcome,
    built_in_parts,
    draws,
    logprobs_on_library,
    on_host,
    on_library,
    trials,
)

PASSED, FAILED, NOT_PROMISED = "passed", "failed", "not promised"

OPTIONAL = ("sync", "target", "maxima", "log_sums", "logprobs")
"""Functions that a library may leave out."""

_SIGNIFICANCE = 1e-6
_DRAWS = 4000


@dataclass(frozen=True)
class LibraryCheck:
    """One checked property: `outcome` is "passed", "failed" or "not promised"."""

    name: str
    outcome: str
    detail: str = ""


def check_library(path: str | Path) -> list[LibraryCheck]:
    """All checks of the library at `path`, in order.

    A library that writes where it must not may end the process: `check_apart` runs the checks in another one.
    """
    return list(_checks(os.path.abspath(path)))


def check_apart(path: str | Path) -> Iterator[LibraryCheck]:
    """The same in a process of its own, check by check; a crash is one more failure."""
    command = [sys.executable, "-m", "engine_sampler.testing.library", os.path.abspath(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield LibraryCheck(**json.loads(line))
    if process.returncode:
        ended = process.returncode
        how = signal.Signals(-ended).name if ended < 0 else f"exit status {ended}"
        yield LibraryCheck("survives", FAILED, f"the process ended with {how} at the next check")


def _checks(path: str) -> Iterator[LibraryCheck]:
    try:
        library = Library(path)
        context = Context(library)
        promises = context.query()
    except (LibraryError, Refusal) as error:
        yield LibraryCheck("loads", FAILED, str(error))
        return
    yield LibraryCheck("loads", PASSED, f"{library.name} {library.version} {context.target()}".strip())
    yield LibraryCheck(
        "ABI", PASSED, f"{described(library.table.abi)}, the host has {described(number('ES_ABI'))}"
    )
    offered = [name for name in OPTIONAL if library.function(name) is not None]
    yield LibraryCheck("functions", PASSED, f"all required ones; optional: {', '.join(offered) or 'none'}")
    yield _layout(library)
    yield _errors(context)
    yield from _parts(context)
    tried = list(trials(library))
    if not tried:
        yield LibraryCheck("programs", FAILED, "it runs none of the programs that are tried")
        return
    yield _tokens(tried)
    for name, attempt in PROMISES.items():
        yield _promise(name, attempt, tried)
    if not promises.promise("EXACT"):
        yield _draws(library)


# --- the table and its functions -----------------------------------------------------------------


def _layout(library: Library) -> LibraryCheck:
    own, its = size_of("es_api"), library.table.size
    known = [name for name, field in contract().typeof("es_api").fields if field.offset < its]
    ends = {contract().offsetof("es_api", name) + size_of("void *") for name in known}
    whole = its in ends or its > own
    detail = f"a table of {its} bytes, the host's has {own}"
    return LibraryCheck(
        "layout", PASSED if whole else FAILED, detail if whole else f"{detail}: it ends in a field"
    )


def _errors(context: Context) -> LibraryCheck:
    """A program that cannot be run is refused with a message."""
    ffi = contract()
    ops = ffi.new("es_op[]", 1)
    ops[0].size, ops[0].kind = size_of("es_op"), 9999
    program = sized("es_program", n_ops=1, ops=ops)
    out = ffi.new("uint32_t *")
    code = context.library.function("compile")(context.pointer, program, out)
    words = ffi.string(context.library.function("error")(context.pointer)).decode(errors="replace")
    if code == number("ES_OK"):
        return LibraryCheck("errors", FAILED, "an op of the unknown kind 9999 is compiled")
    return LibraryCheck("errors", PASSED if words else FAILED, words or "an error without a message")


def _parts(context: Context) -> Iterator[LibraryCheck]:
    """The samplers and selectors that it runs alone."""
    parts = built_in_parts()
    runs = [part.name for part in parts if query_promises(context, (part,)) is not None]
    missing = [part.name for part in parts if part.name not in runs]
    detail = f"{len(runs)} of {len(parts)}"
    if missing:
        fewer, verb = (runs, "") if len(runs) <= len(missing) else (missing, "without ")
        detail += f": {verb}{', '.join(fewer)}" if fewer else ""
    yield LibraryCheck("samplers and selectors", PASSED if runs else FAILED, detail)


# --- promises ------------------------------------------------------------------------------------

Attempt = Callable[[LibraryTrial], "str | None"]
"""Tries a promise on one trial; returns what is wrong, or None."""


def _promise(name: str, attempt: Attempt, tried: Sequence[LibraryTrial]) -> LibraryCheck:
    held = 0
    for trial in tried:
        answer = trial.session.query(trial.parts, masked=name == "MASKS")
        if answer is None or not answer.promise(name):
            continue
        try:
            problem = attempt(trial)
        except (LibraryError, Refusal) as error:
            problem = str(error)
        if problem is not None:
            return LibraryCheck(name, FAILED, f"{trial.chain}, {trial.session.vocab_size} tokens: {problem}")
        held += 1
    return LibraryCheck(name, PASSED, f"{held} programs") if held else LibraryCheck(name, NOT_PROMISED)


def _every(trial: LibraryTrial) -> np.ndarray:
    return np.arange(len(trial.rows))


def _plain(trial: LibraryTrial) -> Outcome:
    return on_library(trial, trial.logits, trial.group(_every(trial)))


def _wrong_rows(what: str, rows: np.ndarray) -> str:
    return f"{what} in {len(rows)} rows, the first is row {rows[0]}"


def _compare(outcome: Outcome, expected: Outcome, what: str) -> str | None:
    """What differs in rows that the library did not decline."""
    given = np.flatnonzero(~outcome.declined)
    wrong = given[expected.declined[given]]
    if len(wrong):
        return _wrong_rows("a token where there is none", wrong)
    rows = np.array([row for row in given.tolist() if outcome.differs(expected, np.array([row]))], np.int64)
    return _wrong_rows(what, rows) if len(rows) else None


def _tokens(tried: Sequence[LibraryTrial]) -> LibraryCheck:
    """How many rows the library runs itself, of those that give a token."""
    given = valid = 0
    for trial in tried:
        good = ~on_host(trial, trial.logits, trial.group(_every(trial))).declined
        try:
            given += int((good & ~_plain(trial).declined).sum())
        except LibraryError as error:
            return LibraryCheck("tokens", FAILED, str(error))
        valid += int(good.sum())
    rest = ", the others are left to the host" if given < valid else ""
    return LibraryCheck("tokens", PASSED if given else FAILED, f"for {given:,} of {valid:,} rows{rest}")


def _exact(trial: LibraryTrial) -> str | None:
    answer = trial.session.query(trial.parts)
    processed = answer is not None and answer.promise("PROCESSED")
    group = trial.group(_every(trial), processed=processed)
    for rows in _in_all_types(trial):
        if trial.session.query(trial.parts, layout_of(rows, trial.session.vocab_size)) is None:
            continue
        problem = _compare(on_library(trial, rows, group), on_host(trial, rows, group), "another result")
        if problem is not None:
            return f"{problem}, {'bfloat16' if rows.bfloat16 else rows.array.dtype}"
    return None


def _in_all_types(trial: LibraryTrial) -> Iterator[LogitRows]:
    """The logits in float32, float16 (too great ones removed) and bfloat16."""
    logits, size = trial.logits, trial.session.vocab_size
    yield LogitRows(logits, size)
    yield LogitRows(np.where(np.abs(logits) < 6e4, logits, -np.inf).astype(np.float16), size)
    yield LogitRows.from_bfloat16_bits((logits.view(np.uint32) >> 16).astype(np.uint16), size)


def _deterministic(trial: LibraryTrial) -> str | None:
    return _compare(_plain(trial), _plain(trial), "two calls give different results")


def _batch_invariant(trial: LibraryTrial) -> str | None:
    whole, every = _plain(trial), _every(trial)
    turned = on_library(trial, trial.logits[every[::-1]], trial.group(every[::-1]))
    alone = [on_library(trial, trial.logits[[i]], trial.group(every[[i]])) for i in every]
    for outcome in (turned.reversed(), Outcome.joined(alone)):
        if (problem := _compare(outcome, whole, "the batch changes the result")) is not None:
            return problem
    return None


def _reads_only(trial: LibraryTrial) -> str | None:
    before = trial.logits.copy()
    outcome = _plain(trial)
    if before.tobytes() != trial.logits.tobytes():
        trial.logits[:] = before
        return "the logits have changed"
    with tempfile.TemporaryFile() as file:
        file.write(before.tobytes())
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
            mapped = np.frombuffer(memory, np.float32).reshape(before.shape)
            result = on_library(trial, mapped, trial.group(_every(trial)))
            del mapped
    return _compare(result, outcome, "another result")


def _any_stride(trial: LibraryTrial) -> str | None:
    outcome, (n, size) = _plain(trial), trial.logits.shape
    padded = np.full((n, size + 7), np.nan, np.float32)
    padded[:, :size] = trial.logits
    every = _every(trial)
    same = np.broadcast_to(trial.logits[:1], trial.logits.shape)
    repeated = on_library(trial, np.ascontiguousarray(same), trial.group(every))
    layouts = {
        "padded rows": (padded, outcome),
        "rows from last to first": (np.ascontiguousarray(trial.logits[::-1])[::-1], outcome),
        "one row for all": (same, repeated),
    }
    for what, (logits, expected) in layouts.items():
        problem = _compare(on_library(trial, logits, trial.group(every)), expected, "another result")
        if problem is not None:
            return f"{problem}, for {what}"
    return None


def _row_faults(trial: LibraryTrial) -> str | None:
    outcome = _plain(trial)
    logits = trial.logits.copy()
    faulty = _every(trial)[::2]
    for i, row in enumerate(faulty.tolist()):
        logits[row, -1] = (np.nan, np.inf, -np.inf, 2 * LOGIT_LIMIT)[i % 4]
        if i % 4 == 2:
            logits[row] = -np.inf
    result = on_library(trial, logits, trial.group(_every(trial)))
    if not result.declined[faulty].all():
        return _wrong_rows("a token", faulty[~result.declined[faulty]])
    others = np.setdiff1d(_every(trial), faulty)
    harmed = result.differs(outcome, others) if len(others) else False
    return "faulty rows change others" if harmed else None


def _masks(trial: LibraryTrial) -> str | None:
    """A mask does what −inf logits do; one that forbids everything leaves no token."""
    n, size = trial.logits.shape
    bits = np.random.default_rng(size).random((n, 32 * bitmask_words(size))) < 0.7
    bits[0] = False
    masks = np.packbits(bits, axis=1, bitorder="little").view("<i4").astype(np.int32)
    masked = np.where(bits[:, :size], trial.logits, np.float32(-np.inf))
    every = _every(trial)
    outcome = on_library(trial, trial.logits, trial.group(every, masked=True), masks)
    if not outcome.declined[0]:
        return "a token where the mask forbids all"
    return _compare(outcome, on_library(trial, masked, trial.group(every)), "another result")


def _processed(trial: LibraryTrial) -> str | None:
    outcome = on_library(trial, trial.logits, trial.group(_every(trial), processed=True))
    for row in np.flatnonzero(~outcome.declined).tolist():
        ids, logits = outcome.survivors[row]
        if outcome.token_ids[row] not in ids or not (logits < np.inf).all():
            return f"the token of row {row} is not among those that are left"
    return _compare(outcome, _plain(trial), "the tokens differ from those without")


def _logprobs(trial: LibraryTrial) -> str | None:
    """Logprobs of the three kinds are those of `row_logprobs`, bit for bit."""
    every, group = _every(trial), trial.group(_every(trial))
    request, outcome = logprobs_on_library(trial, group)
    processed = on_host(trial, trial.logits, trial.group(every, processed=True))
    penalized = on_host(trial, trial.logits, trial.edits_group(every))
    for row in np.flatnonzero(request.done & ~processed.declined).tolist():
        token = int(outcome.token_ids[row])
        edited = np.full(trial.session.vocab_size, -np.inf, np.float32)
        ids, logits = penalized.survivors[row]
        edited[ids] = logits
        ids, logits = processed.survivors[row]
        expected = (
            row_logprobs(trial.logits[row], token, -1),
            row_logprobs(edited, token, -1),
            row_logprobs(logits, token, -1, ids),
        )
        for kind, table, entry in zip(LOGPROBS_KINDS, request.out, expected, strict=True):
            if table is None or not _is_entry(table, row, entry):
                return f"other {kind} logprobs in row {row}"
    return _compare(outcome, processed, "another result")


def _is_entry(table: Logprobs, row: int, entry: RowLogprobs) -> bool:
    n = len(entry.token_ids)
    return (
        np.array_equal(table.token_ids[row, :n], entry.token_ids)
        and table.logprobs[row, :n].tobytes() == entry.logprobs.tobytes()
        and bool((table.token_ids[row, n:] == -1).all())
        and int(table.ranks[row]) == entry.rank
    )


PROMISES: dict[str, Attempt] = {
    "DETERMINISTIC": _deterministic,
    "BATCH_INVARIANT": _batch_invariant,
    "READS_ONLY": _reads_only,
    "ANY_STRIDE": _any_stride,
    "ROW_FAULTS": _row_faults,
    "MASKS": _masks,
    "PROCESSED": _processed,
    "LOGPROBS": _logprobs,
    "EXACT": _exact,
}
"""How each promise of the header is tried."""

# --- libraries that are not exact ----------------------------------------------------------------


def _draws(library: Library) -> LibraryCheck:
    """Whether `dist` draws from the distribution, by Pearson's chi-square test."""
    drawn = draws(library, _DRAWS)
    if drawn is None:
        return LibraryCheck("draws", NOT_PROMISED, "it has no dist")
    probabilities, token_ids = drawn
    if token_ids.min() < 0 or token_ids.max() >= len(probabilities):
        return LibraryCheck("draws", FAILED, "a row gives no token")
    expected = probabilities * _DRAWS
    counts = np.bincount(token_ids, minlength=len(expected))
    p = p_value(float(((counts - expected) ** 2 / expected).sum()), len(expected) - 1)
    return LibraryCheck("draws", PASSED if p > _SIGNIFICANCE else FAILED, f"{_DRAWS} draws, p = {p:.2g}")


def p_value(statistic: float, degrees: int) -> float:
    """The chance of a greater chi-square, by Wilson and Hilferty's cube root (good to 1e-3 or so)."""
    spread = 2 / (9 * degrees)
    z = ((statistic / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    return 0.5 * math.erfc(z / math.sqrt(2))


if __name__ == "__main__":
    for check in _checks(sys.argv[1]):
        print(json.dumps(asdict(check)), flush=True)
