"""What a library computes besides tokens: maxima, sums, and logprobs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...arithmetic import LogitRows, Logprobs, RowLogprobs, log_total, row_logprobs
from ...backends.library.binding import Context, Library
from ...backends.library.header import contract, number
from ...backends.library.tensor import Tensor
from ...contract import LOGPROBS_KINDS
from ..results import FAILED, NOT_PROMISED, PASSED, CheckResult
from .bench import Room, normal_rows, parts_of
from .observing import LibraryStep, Observed, observe
from .situations import supported

_SIZES = (1, 5, 333, 2101, 40_009)


def passes(library: Library) -> Iterator[CheckResult]:
    """The optional functions `maxima`, `log_sums` and `logprobs`, and the logprobs of a step."""
    context = Context(library)
    exact = context.query().promise("EXACT")
    for name in ("maxima", "log_sums"):
        if library.function(name) is not None:
            problem = _single_pass(context, name, exact)
            yield CheckResult(name, FAILED if problem else PASSED, problem or f"{len(_SIZES)} vocabularies")
    if library.function("logprobs") is not None:
        problem = _logprobs_function(context) if exact else None
        yield CheckResult("logprobs", FAILED if problem else PASSED, problem or f"{len(_SIZES)} vocabularies")
    yield _logprobs_of_steps(library)


def _rows(size: int) -> np.ndarray:
    random = np.random.default_rng(size)
    rows = normal_rows(random, 5, size, 4.0)
    rows[1] = 3.0
    rows[2, random.permutation(size)[: size // 2]] = -np.inf
    rows[3] -= 1000
    return rows


def _single_pass(context: Context, name: str, exact: bool) -> str | None:
    for size in _SIZES:
        logits = _rows(size)
        tensor = Tensor(LogitRows(logits, size))
        order = np.array([3, 0, 4, 2, 1, 0], np.int64)
        out = np.full(len(order) + 1, 777.25, np.float32 if name == "maxima" else np.float64)
        ffi = contract()
        kind = "float[]" if name == "maxima" else "double[]"
        arguments = ffi.from_buffer("int64_t[]", order), len(order), ffi.from_buffer(kind, out)
        code = context.library.function(name)(context.pointer, tensor.pointer, size, *arguments)
        context.check(name, code)
        right = [float(logits[row].max()) if name == "maxima" else log_total(logits[row]) for row in order]
        same = (
            np.array_equal(out[:-1], right)
            if exact or name == "maxima"
            else np.allclose(out[:-1], right, 1e-5)
        )
        if not same:
            row = int(np.flatnonzero(~np.isclose(out[:-1], right, 0, 0 if exact else 1e-4))[0])
            return f"{out[row]} for row {order[row]} of {size} tokens, not {right[row]}"
        if out[-1] != 777.25:
            return "it writes beyond its output"
    return None


def _logprobs_function(context: Context) -> str | None:
    for size in _SIZES:
        logits = _rows(size)
        tokens = np.array([0, size - 1, size // 2, size // 3, 0], np.int64)
        for top_n in (0, 1, 7, -1):
            out = context.logprobs(Tensor(LogitRows(logits, size)).pointer, size, tokens, top_n)
            assert out is not None
            for row, token in enumerate(tokens.tolist()):
                if not is_entry(out, row, row_logprobs(logits[row], token, top_n)):
                    return f"other logprobs in row {row} of {size} tokens, top_n {top_n}"
    return None


def is_entry(table: Logprobs, row: int, entry: RowLogprobs) -> bool:
    """Whether a row of `table` holds `entry` and nothing else."""
    n = len(entry.token_ids)
    return (
        np.array_equal(table.token_ids[row, :n], entry.token_ids)
        and table.logprobs[row, :n].tobytes() == entry.logprobs.tobytes()
        and bool((table.token_ids[row, n:] == -1).all())
        and int(table.ranks[row]) == entry.rank
    )


# --- the logprobs of a step ----------------------------------------------------------------------


def _logprobs_of_steps(library: Library) -> CheckResult:
    name, rows = "logprobs of steps", 0
    for size in (5, 333, 2117):
        room = Room(library, size)
        for step in _reporting_steps(room):
            observed = observe(step)
            if observed.code != number("ES_OK"):
                continue
            problem = next(iter(observed.breaches), None) or _wrong_entry(step, observed)
            if problem:
                return CheckResult(name, FAILED, problem)
            rows += len(step.index)
    return CheckResult(name, PASSED, f"{rows} rows") if rows else CheckResult(name, NOT_PROMISED)


def _reporting_steps(room: Room) -> Iterator[LibraryStep]:
    """Rows in any order, with every combination of kinds, and different numbers of tokens to list."""
    random, n = np.random.default_rng(room.size), 16
    for given in supported(room):
        logits = normal_rows(random, 2 * n, room.size)
        index = random.permutation(2 * n)[:n]
        requests = room.requests(given, random.integers(0, 2**63, n), prompts=[[0, 1, 1]] * n)
        group = room.group(given, requests, index)
        parts = parts_of(group.plan)
        if not room.promises(parts, "LOGPROBS", "EXACT", "PROCESSED"):
            continue
        kinds = (np.arange(2 * n) % (1 << len(LOGPROBS_KINDS))).astype(np.uint8)
        top_n = random.choice([-1, 0, 1, 3, min(20, room.size)], 2 * n)
        step = room.step([group], logits)
        yield LibraryStep(step.session, step.entries, step.logits, None, (kinds, top_n))


def _wrong_entry(step: LibraryStep, observed: Observed) -> str | None:
    assert step.logprobs is not None
    kinds, top_n = step.logprobs
    edited = _edited(step)
    for i, row in enumerate(step.index.tolist()):
        if observed.status[i] != number("ES_ROW_OK"):
            continue
        token, n = int(observed.token_ids[row]), int(top_n[row])
        ids, values = observed.survivors[row]
        if token not in ids:
            return f"token {token} of row {row} is not among those that are left"
        expected = (
            row_logprobs(step.logits.row(row), token, n),
            row_logprobs(edited[row], token, n),
            row_logprobs(values, token, n, ids),
        )
        for bit, (kind, table, entry) in enumerate(
            zip(LOGPROBS_KINDS, observed.logprobs, expected, strict=True)
        ):
            if table is None:
                continue
            if not kinds[row] >> bit & 1:
                if (table.token_ids[row] != -1).any():
                    return f"{kind} logprobs in row {row}, which asks for none"
            elif not is_entry(table, row, entry):
                return f"other {kind} logprobs in row {row} of {step.session.vocab_size} tokens, top_n {n}"
    return None


def _edited(step: LibraryStep) -> dict[int, np.ndarray]:
    """The rows after masks, biases and penalties, by NumPy."""
    edited = {}
    for group, _ in step.entries:
        for i, row in enumerate(group.index.tolist()):
            values = step.logits.row(row)[None].copy()
            rows = group.rows.take(np.array([i]))
            for sampler in group.edits.samplers:
                sampler.apply(values, rows.bind(sampler))
            edited[row] = values[0]
    return edited
