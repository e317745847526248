"""engine-sampler as a sampling backend and a grammar backend of SGLang, under the name `engine_sampler`."""

from __future__ import annotations

__all__ = ["NAME", "register", "unregister"]

NAME = "engine_sampler"
"""What `--sampling-backend` and `--grammar-backend` call them."""


def register() -> None:
    """Called by SGLang in each of its processes: both names may then be chosen. Until one is, everything is
    SGLang's own.

    Raises `PeerError` (`engine_sampler.for_bridges`) if this release of SGLang has other signatures
    than those that this package is made for.
    """
    from .places import put_in

    put_in()


def unregister() -> None:
    """Restore what `register` has changed; samplers that are there go on."""
    from .places import put_back

    put_back()
