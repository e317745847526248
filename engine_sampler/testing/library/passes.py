"""What a library computes besides tokens: maxima, sums, and logprobs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...arithmetic import LogitRows, Logprobs, RowLogprobs, log_total, row_logprobs
from ...backends.library.binding import Context, Library, Refusal
from ...backends.library.header import contract, number
from ...backends.library.tensor import Tensor, layout_of
from ...contract import LOGPROBS_KINDS, unpack_bitmask
from ..results import FAILED, NOT_PROMISED, PASSED, CheckResult
from .bench import Room, normal_rows, parts_of
from .observing import LibraryStep, Observed, observe
from .situations import supported
from .surroundings import Surroundings

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
    rows = normal_rows(random, 6, size, 4.0)
    rows[1] = 3.0
    rows[2, random.permutation(size)[: size // 2]] = -np.inf
    rows[3] -= 1000
    rows[5] = np.float32(1e-41) * random.integers(-2, 3, size)
    return rows


def _layouts(context: Context, size: int) -> Iterator[tuple[str, LogitRows]]:
    """The rows of one vocabulary in every layout that the library takes."""
    rows = _rows(size)
    wide = np.full((len(rows), size + 9), np.nan, np.float32)
    wide[:, :size] = rows
    halves = rows.astype(np.float16)
    layouts = {
        "float32": LogitRows(rows, size),
        "padded rows": LogitRows(wide, size),
        "rows from last to first": LogitRows(np.ascontiguousarray(rows[::-1])[::-1], size),
        "float16": LogitRows(halves, size),
        "bfloat16": LogitRows.from_bfloat16_bits((rows.view(np.uint32) >> 16).astype(np.uint16), size),
    }
    strided = context.query().promise("ANY_STRIDE")
    for what, logits in layouts.items():
        layout = layout_of(logits, size)
        try:
            context.query(layout=layout)
        except Refusal:
            continue
        if layout.compact or strided:
            yield what, logits


def _single_pass(context: Context, name: str, exact: bool) -> str | None:
    greatest = name == "maxima"
    for size in _SIZES:
        for what, logits in _layouts(context, size):
            order = np.array([3, 0, 4, 2, 1, 0, 5], np.int64)
            out = np.full(len(order) + 2, 777.25, np.float32 if greatest else np.float64)
            ffi = contract()
            kind = "float[]" if greatest else "double[]"
            arguments = ffi.from_buffer("int64_t[]", order), len(order), ffi.from_buffer(kind, out) + 1
            tensor, before, surroundings = Tensor(logits), logits.array.tobytes(), Surroundings()
            code = context.library.function(name)(context.pointer, tensor.pointer, size, *arguments)
            context.check(name, code)
            right = [
                float(logits.row(row).max()) if greatest else log_total(logits.row(row)) for row in order
            ]
            given = out[1:-1]
            close = np.isclose(given, right, 0, 0 if exact or greatest else 1e-4)
            if not close.all():
                i = int(np.flatnonzero(~close)[0])
                return f"{given[i]} for row {order[i]} of {size} tokens, not {right[i]}, {what}"
            if out[0] != 777.25 or out[-1] != 777.25:
                return "it writes outside of its output"
            if logits.array.tobytes() != before:
                return f"it writes the logits, {what}"
            if changes := surroundings.changes():
                return changes[0]
    return None


def _logprobs_function(context: Context) -> str | None:
    for size in _SIZES:
        for what, logits in _layouts(context, size):
            tensor = Tensor(logits)
            tokens = np.array([0, size - 1, size // 2, size // 3, 0, size // 2], np.int64)
            few = (0, 3) if size > 10_000 else (0, 1, 7, -1)
            for top_n in few if what != "float32" else (0, 1, 7, -1):
                out = context.logprobs(tensor.pointer, size, tokens, top_n)
                assert out is not None, "the library has a function logprobs"
                for row, token in enumerate(tokens.tolist()):
                    if not is_entry(out, row, row_logprobs(logits.row(row), token, top_n)):
                        return f"other logprobs in row {row} of {size} tokens, top_n {top_n}, {what}"
    return _logprobs_of_faults(context)


def _logprobs_of_faults(context: Context) -> str | None:
    """Rows without logprobs get rank 0, and the others what they get without them."""
    rows = np.tile(np.linspace(0, 3, 40, dtype=np.float32), (5, 1))
    rows[0, 5], rows[2, 7], rows[3], rows[4, 0] = np.nan, np.inf, -np.inf, 2.0**101
    tensor = Tensor(LogitRows(rows, 40))
    out = context.logprobs(tensor.pointer, 40, np.arange(5), 2)
    assert out is not None, "the library has a function logprobs"
    wrong = [row for row in (0, 2, 3, 4) if out.ranks[row] != 0]
    if wrong:
        return f"rank {out.ranks[wrong[0]]} in row {wrong[0]}, which has no logprobs"
    return None if is_entry(out, 1, row_logprobs(rows[1], 1, 2)) else "faulty rows change others"


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
            problem = next(iter(observed.breaches), None) or wrong_entry(step, observed)
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


def wrong_entry(step: LibraryStep, observed: Observed) -> str | None:
    """The first row with other logprobs than those of its token; the survivors of all rows are known."""
    assert step.logprobs is not None, "the step was made with logprobs"
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
            if group.masked and step.bitmask is not None:
                values[0, ~unpack_bitmask(step.bitmask[row], values.shape[1])] = -np.inf
            rows = group.rows.take(np.array([i]))
            with np.errstate(all="ignore"):
                for sampler in group.edits.samplers:
                    sampler.apply(values, rows.bind(sampler))
            edited[row] = values[0]
    return edited
