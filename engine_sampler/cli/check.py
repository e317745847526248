"""`engine-sampler check`: the laws of an installed plugin, or the promises of a C library."""

from __future__ import annotations

import argparse
import faulthandler
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from ..registry import default_registry
from ..testing.library import check_apart
from ..testing.plugins import Search, check_plugin
from ..testing.results import FAILED, CheckResult
from .progress import awaited

LIBRARY_SUFFIXES = (".so", ".dylib", ".dll")


def check(
    arguments: argparse.Namespace, show: Callable[[CheckResult], None], heading: Callable[[str], None]
) -> bool:
    """Check what the arguments name, and show every result at once; whether any has failed.

    Raises ValueError if there is neither a plugin nor a file of that name.
    """
    search = Search(arguments.only, arguments.seconds, arguments.seed)
    if is_path(arguments.target):
        return _show(check_apart(arguments.target, search.seconds, search.seed, search.only), show)
    if not faulthandler.is_enabled():
        faulthandler.enable()  # code in C may end the process: its last words are the law
    failed = False
    for checked in check_plugin(arguments.target, default_registry(), search):
        heading(f"{checked.kind} {checked.name} ({checked.origin})")
        failed |= _show(checked.results, show)
    return failed


def is_path(target: str) -> bool:
    """Whether what is to be checked is a file: the path of a library, and no name of a plugin."""
    is_name = os.path.basename(target) == target and not target.endswith(LIBRARY_SUFFIXES)
    return not is_name or (not target.isidentifier() and Path(target).is_file())


def _show(results: Iterable[CheckResult], show: Callable[[CheckResult], None]) -> bool:
    failed = False
    for result in awaited(results, "checking …"):
        show(result)
        failed |= result.outcome == FAILED
    return failed
