"""How each promise of the header is tried on a device: on every sampler and selector that it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from ....arithmetic import LOGIT_LIMIT, LogitRows
from ....backends.library.binding import Device, Library
from ....backends.library.header import number
from ....contract import ParameterError
from ....params import SamplingParams, build_chain
from ...results import FAILED, NOT_PROMISED, PASSED, CheckResult
from ...trials import built_in_parts
from ..bench import CHAINS, Settings, Tally, normal_rows, parts_of
from ..observing import LibraryStep, Observed
from .calling import CallOnDevice, CallOptions, attempt
from .random_requests import can_report, reporting
from .room import RoomOnDevice
from .steps import FILTERS, drop, is_run, random_masks, step_of
from .survivors import cut_of, cut_step

_SIZES = (40, 2100)
_ROWS = 6

Attempt = Callable[[RoomOnDevice, Settings, np.random.Generator, Tally], "str | None"]
"""Tries a promise with requests of one kind; what is wrong, or None."""


def promises_on(library: Library, device: Device) -> Iterator[CheckResult]:
    """Each promise, for every program for which the library makes it."""
    for name, attempt_ in DEVICE_PROMISES.items():
        yield _promise(library, device, name, attempt_)


def _promise(library: Library, device: Device, name: str, tried: Attempt) -> CheckResult:
    tally, held = Tally(), 0
    for size in _SIZES:
        with RoomOnDevice(library, device, size) as room:
            for i, settings in enumerate(_settings() if size == _SIZES[0] else [*CHAINS, *FILTERS]):
                if not _is_promised(room, settings, name):
                    continue
                try:
                    problem = tried(room, settings, np.random.default_rng([size, i]), tally)
                except ParameterError:  # ids outside a small vocabulary
                    continue
                if problem is not None:
                    return CheckResult(name, FAILED, f"{settings or 'dist'}, {size} tokens: {problem}")
                held += 1
    return CheckResult(name, PASSED, f"{held} programs, {tally}") if held else CheckResult(name, NOT_PROMISED)


def _settings() -> list[Settings]:
    examples = [dict(example.params) for part in built_in_parts() for example in part.examples]
    return [*examples, *CHAINS, *FILTERS]


def _is_promised(room: RoomOnDevice, given: Settings, name: str) -> bool:
    chain, masked = build_chain(SamplingParams(**given)), name == "MASKS"
    if name == "SURVIVORS":
        return cut_of(room, chain) is not None
    return is_run(room, chain, given.get("top_k", 0), masked=masked) and room.promises(
        parts_of(chain), name, masked=masked
    )


def _step(
    room: RoomOnDevice, given: Settings, random: np.random.Generator, logits: np.ndarray | None = None
) -> LibraryStep:
    rows = normal_rows(random, _ROWS, room.size) if logits is None else logits
    rows[-1] = np.round(rows[-1])
    return step_of(room, [given], _ROWS, random, logits=rows)


def _observed(room: RoomOnDevice, step: LibraryStep) -> Observed:
    room.notices.tell()
    call = CallOnDevice(room, step)
    call.begin()
    return call.finish()


def _difference(step: LibraryStep, one: Observed, other: Observed) -> str | None:
    both = (one.status == number("ES_ROW_OK")) & (other.status == number("ES_ROW_OK"))
    rows = step.index[both]
    differ = one.token_ids[rows] != other.token_ids[rows]
    return f"another token in row {rows[differ][0]}" if differ.any() else None


def _exact(room: RoomOnDevice, given: Settings, random: np.random.Generator, tally: Tally) -> str | None:
    step = _step(room, given, random)
    values, size = np.array(step.logits.array), room.size
    for logits in (
        step.logits,
        LogitRows(values.astype(np.float16), size),
        LogitRows.from_bfloat16_bits((values.view(np.uint32) >> 16).astype(np.uint16), size),
    ):
        typed = replace(step, logits=logits)
        if room.runs(typed) and (problem := attempt(room, typed, tally)[0]):
            return problem
    drop(room, step)
    return None


def _deterministic(
    room: RoomOnDevice, given: Settings, random: np.random.Generator, tally: Tally
) -> str | None:
    step = _step(room, given, random)
    tally.calls, tally.rows = tally.calls + 2, tally.rows + 2 * len(step.index)
    return _difference(step, *(_observed(room, step) for _ in range(2)))


def _batch_invariant(
    room: RoomOnDevice, given: Settings, random: np.random.Generator, tally: Tally
) -> str | None:
    step = _step(room, given, random)
    whole = _observed(room, step)
    for i, row in enumerate(step.index.tolist()):
        alone = _observed(room, step.alone(i))
        tally.calls, tally.rows = tally.calls + 1, tally.rows + 1
        both = whole.status[i] == alone.status[0] == number("ES_ROW_OK")
        if both and whole.token_ids[row] != alone.token_ids[0]:
            return f"token {whole.token_ids[row]} of row {row} in a batch, {alone.token_ids[0]} alone"
    return None


def _reads_only(room: RoomOnDevice, given: Settings, random: np.random.Generator, tally: Tally) -> str | None:
    return attempt(room, _step(room, given, random), tally)[0]


def _any_stride(room: RoomOnDevice, given: Settings, random: np.random.Generator, tally: Tally) -> str | None:
    step = _step(room, given, random)
    variants = [CallOptions(padding=padding, shift=padding % 5) for padding in (1, 7, 64, room.size)]
    return next(filter(None, (attempt(room, step, tally, options)[0] for options in variants)), None)


def _row_faults(room: RoomOnDevice, given: Settings, random: np.random.Generator, tally: Tally) -> str | None:
    logits = normal_rows(random, _ROWS, room.size)
    logits[0, -1], logits[2, 0], logits[4] = np.nan, np.inf, -np.inf
    logits[5, room.size // 2] = 2 * LOGIT_LIMIT
    step = step_of(room, [given], _ROWS, random, logits=logits)
    problem, observed = attempt(room, step, tally)
    faulty = ~np.isin(step.index, (1, 3))
    if problem is None and (observed.status[faulty] == number("ES_ROW_OK")).any():
        return "a token of a faulty row"
    return problem


def _masks(room: RoomOnDevice, given: Settings, random: np.random.Generator, tally: Tally) -> str | None:
    for share in (0.02, 0.5):
        masks = random_masks(random, _ROWS, room.size, share)
        step = step_of(room, [given], _ROWS, random, bitmask=masks)
        problem, observed = attempt(room, step, tally)
        for i, row in enumerate(step.index.tolist()):
            token = int(observed.token_ids[row])
            if observed.status[i] == number("ES_ROW_OK") and not masks[row, token // 32] >> (token % 32) & 1:
                return f"token {token} of row {row}, which its mask forbids"
        if problem is not None:
            return problem
    return None


def _processed(room: RoomOnDevice, given: Settings, random: np.random.Generator, tally: Tally) -> str | None:
    step = _step(room, given, random)
    entries = [(replace(group, want_processed=True), parts) for group, parts in step.entries]
    return attempt(room, replace(step, entries=entries), tally)[0]


def _logprobs(room: RoomOnDevice, given: Settings, random: np.random.Generator, tally: Tally) -> str | None:
    step = _step(room, given, random)
    if not can_report(room, step):
        return None
    return attempt(room, reporting(step, random), tally)[0]


def _survivors(room: RoomOnDevice, given: Settings, random: np.random.Generator, tally: Tally) -> str | None:
    cut = cut_step(room, _step(room, given, random))
    return None if cut is None else attempt(room, cut, tally)[0]


def _on_device(room: RoomOnDevice, given: Settings, random: np.random.Generator, tally: Tally) -> str | None:
    step = _step(room, given, random)
    return attempt(room, step, tally, CallOptions(early=True))[0] or attempt(room, step, tally)[0]


DEVICE_PROMISES: dict[str, Attempt] = {
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
"""How each promise of the header is tried on a device."""
