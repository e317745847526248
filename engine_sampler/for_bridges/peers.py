"""An engine beside a bridge: the releases that the bridge is tested with, and the one that is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from ..base.errors import failure, text_of

GROUP = "engine_sampler.bridges"
"""The entry points of bridges: the name of the engine = the module, or `module:state`, a function that tells
whether the bridge is on, and why."""


class PeerError(RuntimeError):
    """An engine is not as its bridge knows it; the message names what differs, the release that is installed,
    those that the bridge is tested with, and what to do."""


class Peer:
    """An engine, or another library, that a bridge works beside.

    name    its name, for messages.
    bridge  the distribution of the bridge. Its extra `tested` pins the engine's release that it is tested
            with: `tested = ["vllm==0.33.0"]`.
    """

    def __init__(self, name: str, bridge: str) -> None:
        self.name, self.bridge = name, bridge

    @contextmanager
    def compared(self) -> Iterator[None]:
        """Turn whatever fails while the engine is imported and compared into a `PeerError`."""
        try:
            yield
        except PeerError:
            raise
        except ImportError as error:
            raise self.error(text_of(error)) from error
        except Exception as error:  # a module of another release may raise anything
            cause = None if isinstance(error, StopIteration) else error  # contextlib takes that for its own
            raise self.error(failure("its import", error)) from cause

    def error(self, difference: str) -> PeerError:
        """The error that names a difference, the releases, and what to do."""
        engine, tested = tested_release(self.bridge)
        installed = installed_release(engine)
        fault = f"{self.bridge} cannot be used beside {self.name} {installed}".rstrip() + f": {difference}"
        return PeerError(f"{fault}. {_advice(self, engine, tested, installed)}".rstrip())


def _advice(peer: Peer, engine: str, tested: str, installed: str) -> str:
    """What to do about an engine that does not fit; nothing where no release is tested."""
    if not tested:
        return ""
    if _numbers(installed) == _numbers(tested):
        return "This is the release that it is tested with: something is missing from it, or has changed it"
    newer = f", or a newer {peer.bridge}" if _numbers(installed) > _numbers(tested) else ""
    now = "" if installed else f"{peer.name} is not installed. "
    return f"{now}It is tested with {peer.name} {tested}: pip install {engine}=={tested}{newer}"


def tested_release(bridge: str) -> tuple[str, str]:
    """The engine's distribution and its release that an installed bridge is tested with; empty if it names
    none."""
    try:
        requirements = metadata.requires(bridge) or []
    except metadata.PackageNotFoundError:  # it is imported from its sources
        return "", ""
    for requirement in requirements:
        pin, _, condition = requirement.partition(";")
        engine, _, release = pin.partition("==")
        if release and condition.replace('"', "'").strip() == "extra == 'tested'":
            return engine.strip(), release.strip()
    return "", ""


def installed_release(distribution: str) -> str:
    """The release of a distribution; empty if it is not installed."""
    try:
        return metadata.version(distribution) if distribution else ""
    except metadata.PackageNotFoundError:
        return ""


def _numbers(release: str) -> list[int]:
    return [int(part) for part in release.partition("+")[0].split(".") if part.isdigit()]


@dataclass(frozen=True)
class BridgeState:
    """An installed bridge beside its engine.

    name       of the engine.
    bridge     its distribution, with its version.
    state      "on", "off" or "failed" where the bridge has a switch; else "ready", or "not installed", which
               the engine then is.
    installed  the engine's release; empty if there is none.
    tested     the release that the bridge is tested with; empty if it names none.
    why        how it is used or switched on, or what has failed.
    """

    name: str
    bridge: str
    state: str
    installed: str
    tested: str
    why: str


def bridges() -> list[BridgeState]:
    """The installed bridges by name. No engine is imported."""
    points = sorted(metadata.entry_points(group=GROUP), key=lambda point: point.name.lower())
    return [_state(point) for point in points]


def _state(point: metadata.EntryPoint) -> BridgeState:
    distribution = point.dist
    bridge, version = (distribution.name, distribution.version) if distribution else (point.module, "")
    engine, tested = tested_release(bridge)
    installed = installed_release(engine)
    state, why = "ready", f"import {point.module}"
    if engine and not installed:
        state = "not installed"
    elif point.attr:
        state, why = _switched(point.load)
    return BridgeState(point.name, f"{bridge} {version}".strip(), state, installed, tested, why)


def _switched(load: Callable[[], Any]) -> tuple[str, str]:
    """What a bridge's own function says of itself."""
    try:
        is_on, why = load()()
    except Exception as error:  # of a third party
        return "failed", failure("its state", error)
    return "on" if is_on else "off", str(why)
