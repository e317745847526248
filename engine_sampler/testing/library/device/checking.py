"""All checks on a device, by name, and the devices that a library serves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ....backends.library.binding import Context, Device, Library, Refusal
from ....backends.library.device.names import KINDS, name_of
from ....backends.library.header import number
from ...results import FAILED, NOT_PROMISED, PASSED, CheckResult
from ..bench import Tally
from ..random_programs import Trying
from .changes import changes
from .checks import SERIES, Series
from .leaks import leaks
from .limits import limits
from .memory import NEEDED
from .numbers import numbers
from .promises import promises_on
from .random_requests import random_device_requests

Check = Callable[[], Iterator[CheckResult]]

_ALL: dict[str, Series] = {
    **SERIES,
    "changes": changes,
    "numbers": numbers,
    "limits": limits,
    "memory": leaks,
}

REQUESTS = "random requests"


def served(library: Library) -> dict[Device, Context]:
    """A context on each kind of device that the library serves, beside the host's memory. Raises
    `LibraryError`, or `Refusal` if a device is served that is not there."""
    contexts = {}
    for kind in KINDS:
        try:
            contexts[Device(kind, 0)] = Context(library, device=Device(kind, 0))
        except Refusal as refusal:
            if refusal.code != number("ES_UNSUPPORTED"):
                raise
    return contexts


def checks_on(
    library: Library, device: Device, seconds: float, seed: int, trying: Callable[[str], Trying]
) -> dict[str, Check]:
    """The checks on a device, by name: "plans on npu:0". `trying` gives what is called with what is tried."""
    place = f" on {name_of(device)}"
    checks: dict[str, Check] = {f"promises{place}": lambda: _named(promises_on(library, device), place)}
    for name, series in _ALL.items():
        checks[name + place] = partial(_tried, library, device, name + place, series)
    requests = REQUESTS + place
    checks[requests] = lambda: iter(
        [random_device_requests(library, device, requests, seconds, seed, trying(requests))]
    )
    missing = [name for name in NEEDED if library.function(name) is None]
    if not missing:
        return checks
    why = f"logits cannot be put there: the library has no function {', '.join(missing)}"
    return {name: partial(iter, [CheckResult(name, NOT_PROMISED, why)]) for name in checks}


def _named(results: Iterator[CheckResult], place: str) -> Iterator[CheckResult]:
    for result in results:
        yield CheckResult(result.name + place, result.outcome, result.detail)


def _tried(library: Library, device: Device, name: str, series: Series) -> Iterator[CheckResult]:
    """The result of a series of calls."""
    tally = Tally()
    tried: dict[str, int] = {}
    for what, problem in series(library, device, tally):
        if problem is not None:
            yield CheckResult(name, FAILED, f"{what}: {problem}")
            return
        tried[what] = tried.get(what, 0) + 1
    if tally.rows and tally.declined == tally.rows:
        yield CheckResult(name, FAILED, f"it leaves all of {tally.rows:,} rows to the host")
    elif not tally.calls:
        yield CheckResult(name, NOT_PROMISED)
    else:
        listed = ", ".join(f"{what} ({n})" if n > 1 else what for what, n in list(tried.items())[:6])
        yield CheckResult(name, PASSED, f"{tally}: {listed}")
