"""How each promise of the header is tried, on programs and rows of all kinds."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ...arithmetic import LOGIT_LIMIT, LogitRows, row_logprobs
from ...backends.library import LibraryError
from ...backends.library.binding import Refusal
from ...backends.library.header import number
from ...backends.library.tensor import layout_of
from ...contract import LOGPROBS_KINDS, bitmask_words
from ..results import FAILED, NOT_PROMISED, PASSED, CheckResult
from ..trials import LibraryTrial, Outcome, logprobs_on_library, on_host, on_library
from .observing import LibraryStep, observe
from .passes import is_entry

Attempt = Callable[[LibraryTrial], "str | None"]
"""Tries a promise on one trial; returns what is wrong, or None."""


def promise(name: str, attempt: Attempt, tried: Sequence[LibraryTrial]) -> CheckResult:
    """Try a promise on every program for which the library makes it."""
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
            return CheckResult(name, FAILED, f"{trial.chain}, {trial.session.vocab_size} tokens: {problem}")
        held += 1
    return CheckResult(name, PASSED, f"{held} programs") if held else CheckResult(name, NOT_PROMISED)


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


def tokens(tried: Sequence[LibraryTrial]) -> CheckResult:
    """How many rows the library runs itself, of those that give a token."""
    own = valid = 0
    for trial in tried:
        good = ~trial.expected.declined
        try:
            own += int((good & ~_plain(trial).declined).sum())
        except LibraryError as error:
            return CheckResult("tokens", FAILED, str(error))
        valid += int(good.sum())
    rest = ", the others are left to the host" if own < valid else ""
    return CheckResult("tokens", PASSED if own else FAILED, f"for {own:,} of {valid:,} rows{rest}")


def _exact(trial: LibraryTrial) -> str | None:
    answer = trial.session.query(trial.parts)
    processed = answer is not None and answer.promise("PROCESSED")
    group = trial.group(_every(trial), processed=processed)
    for rows in _in_all_types(trial):
        if trial.session.query(trial.parts, layout_of(rows, trial.session.vocab_size)) is None:
            continue
        expected = trial.expected if rows.source is trial.logits else on_host(trial, rows, group)
        problem = _compare(on_library(trial, rows, group), expected, "another result")
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
    """A mask does what it does on the host, or, where tokens are not exact, what −inf logits do; one that
    forbids everything leaves no token. (Infill may put back a token that is −inf, but none that is
    forbidden.)"""
    n, size = trial.logits.shape
    bits = np.random.default_rng(size).random((n, 32 * bitmask_words(size))) < 0.7
    bits[0] = False
    masks = np.packbits(bits, axis=1, bitorder="little").view("<i4").astype(np.int32)
    masked = np.where(bits[:, :size], trial.logits, np.float32(-np.inf))
    every = _every(trial)
    outcome = on_library(trial, trial.logits, trial.group(every, masked=True), masks)
    if not outcome.declined[0]:
        return "a token where the mask forbids all"
    answer = trial.session.query(trial.parts, masked=True)
    if answer is not None and answer.promise("EXACT"):
        expected = on_host(trial, trial.logits, trial.group(every, masked=True), masks)
    else:
        expected = on_library(trial, masked, trial.group(every))
    return _compare(outcome, expected, "another result")


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
    processed = trial.expected
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
            if table is None or not is_entry(table, row, entry):
                return f"other {kind} logprobs in row {row}"
    return _compare(outcome, processed, "another result")


def _survivors(trial: LibraryTrial) -> str | None:
    """A program without a selector leaves what it leaves on the host, or more than may be left."""
    samplers = trial.chain.samplers
    answer = trial.session.query(samplers) if samplers else None
    if answer is None or not answer.promise("SURVIVORS"):
        return None
    every = _every(trial)
    width = min(answer.max_survivors, trial.session.vocab_size)
    rows = LogitRows(trial.logits, trial.session.vocab_size)
    observed = observe(LibraryStep(trial.session, [(trial.group(every), samplers)], rows, width=width))
    expected = trial.expected.survivors
    for row, (ids, logits) in observed.left.items():
        if row not in expected:
            return f"survivors of row {row}, which has none"
        missing = np.setdiff1d(expected[row][0], ids)
        if answer.promise("EXACT") and len(missing):
            return f"token {missing[0]} of row {row} is missing among its survivors"
        exact = answer.promise("EXACT") and answer.ties == number("ES_TIES_BY_ID")
        if exact and not (np.array_equal(ids, expected[row][0]) and np.array_equal(logits, expected[row][1])):
            return f"other survivors of row {row}"
    return observed.breaches[0] if observed.breaches else None


def _on_device(trial: LibraryTrial) -> str | None:
    """In the host's memory, tokens are not wanted on a device: a step is what it is without the promise."""
    return _compare(_plain(trial), _plain(trial), "two calls give different results")


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
    "SURVIVORS": _survivors,
    "ON_DEVICE": _on_device,
}
"""How each promise of the header is tried in the host's memory."""
