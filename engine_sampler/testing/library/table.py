"""The table of functions, and what they do before anything runs."""

from __future__ import annotations

from collections.abc import Iterator

from ...backends.library.binding import Context, Library
from ...backends.library.header import contract, number, size_of, sized
from ...backends.library.session import query_promises
from ..results import FAILED, PASSED, CheckResult
from ..trials import built_in_parts


def layout(library: Library) -> CheckResult:
    """Whether the table ends after a whole field."""
    own, its = size_of("es_api"), library.table.size
    known = [name for name, field in contract().typeof("es_api").fields if field.offset < its]
    ends = {contract().offsetof("es_api", name) + size_of("void *") for name in known}
    whole = its in ends or its > own
    detail = f"a table of {its} bytes, the host's has {own}"
    return CheckResult(
        "layout", PASSED if whole else FAILED, detail if whole else f"{detail}: it ends in a field"
    )


def errors(context: Context) -> CheckResult:
    """A program that cannot be run is refused with a message."""
    ffi = contract()
    ops = ffi.new("es_op[]", 1)
    ops[0].size, ops[0].kind = size_of("es_op"), 9999
    program = sized("es_program", n_ops=1, ops=ops)
    out = ffi.new("uint32_t *")
    code = context.library.function("compile")(context.pointer, program, out)
    words = ffi.string(context.library.function("error")(context.pointer)).decode(errors="replace")
    if code == number("ES_OK"):
        return CheckResult("errors", FAILED, "an op of the unknown kind 9999 is compiled")
    return CheckResult("errors", PASSED if words else FAILED, words or "an error without a message")


def parts(context: Context) -> Iterator[CheckResult]:
    """The samplers and selectors that it runs alone."""
    own = built_in_parts()
    runs = [part.name for part in own if query_promises(context, (part,)) is not None]
    missing = [part.name for part in own if part.name not in runs]
    detail = f"{len(runs)} of {len(own)}"
    if missing:
        fewer, verb = (runs, "") if len(runs) <= len(missing) else (missing, "without ")
        detail += f": {verb}{', '.join(fewer)}" if fewer else ""
    yield CheckResult("samplers and selectors", PASSED if runs else FAILED, detail)
