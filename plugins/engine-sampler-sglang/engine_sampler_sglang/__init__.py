"""engine-sampler as a sampling backend and a grammar backend of SGLang, under the name `engine_sampler`."""

from __future__ import annotations

from engine_sampler.for_bridges import PeerPlaces

__all__ = ["NAME", "register", "state", "unregister"]

NAME = "engine_sampler"
"""What `--sampling-backend` and `--grammar-backend` call them."""

PLACES = PeerPlaces("SGLang", "engine-sampler-sglang")


def register() -> None:
    """Called by SGLang in each of its processes: both names may then be chosen. Until one is, everything is
    SGLang's own.

    Raises `PeerError` (`engine_sampler.for_bridges`) if this release of SGLang cannot be imported, or has
    other signatures than those that this package is made for.
    """
    with PLACES.compared():
        from .places import put_in

        put_in()


def state() -> tuple[bool, str]:
    """That SGLang's processes register this, and what then chooses it, for `engine-sampler plugins`."""
    return True, f"chosen by --sampling-backend {NAME} and --grammar-backend {NAME}"


def unregister() -> None:
    """Restore what `register` has changed; samplers that are there go on."""
    from .places import put_back

    put_back()
