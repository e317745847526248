"""Locks in a process that is forked: the child has none of the threads that may hold them."""

from __future__ import annotations

import os
from typing import Any, TypeVar
from weakref import WeakSet

Lock = TypeVar("Lock")

_LOCKS: WeakSet[Any] = WeakSet()


def fork_safe(lock: Lock) -> Lock:
    """`lock`, a `threading.Lock` or `RLock`, which is free in the child of a fork.

    For locks that are held for single changes, none of which can be seen half done.
    """
    _LOCKS.add(lock)
    return lock


def _free_all() -> None:
    for lock in list(_LOCKS):
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all)
