"""The table of functions, and what they do before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...backends.library.binding import HOST, Context, Device, Library
from ...backends.library.header import contract, described, named, number, size_of, sized, sized_with_room
from ...backends.library.programs import LibraryProgram, Part, fill_for_query
from ...backends.library.session import query_promises
from ...contract import Sampler
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


def names(library: Library, device: Device = HOST) -> CheckResult:
    """The library's name and version, and the target of a context, are texts."""
    context = Context(library, device=device)
    target = library.function("target")
    texts = {"name": library.table.name, "version": library.table.version}
    if target is not None:
        texts["the result of target"] = target(context.pointer)
    for name, text in texts.items():
        problem = _unreadable(text)
        if problem:
            return CheckResult("names", FAILED, f"{name} is {problem}")
    return CheckResult("names", PASSED, ", ".join(texts))


def _unreadable(text: Any) -> str | None:
    if not text:
        return "NULL, not a text"
    try:
        contract().string(text).decode()
    except UnicodeDecodeError:
        return "not in UTF-8"
    return None


def errors(context: Context) -> CheckResult:
    """A program that cannot be run is refused with a message, which belongs to its context alone."""
    other = Context(context.library, device=context.device)
    before, _ = _error(other)
    unknown, _ops = _unknown_program()
    code = _compile(context, unknown)[0]
    words, problem = _error(context)
    beside, _ = _error(other)
    if problem is not None or _error(other)[1] is not None:
        return CheckResult("errors", FAILED, f"error gives {problem or _error(other)[1]}")
    if code == number("ES_OK"):
        return CheckResult("errors", FAILED, "an op of the unknown kind 9999 is compiled")
    if not words:
        return CheckResult("errors", FAILED, "an error without a message")
    if before or beside:
        return CheckResult(
            "errors", FAILED, f"a context without an error has the message {before or beside!r}"
        )
    return CheckResult("errors", PASSED, words)


def _error(context: Context) -> tuple[str, str | None]:
    """The message of a context, and what is wrong with it."""
    text = context.library.function("error")(context.pointer)
    problem = _unreadable(text)
    return ("" if problem else contract().string(text).decode()), problem


def _program(parts: Sequence[Part], *, longer: int = 0) -> tuple[Any, Any]:
    """An `es_program` and its ops, whose entries are `longer` bytes longer than the header's."""
    program = LibraryProgram(parts, fill_for_query)
    apart = size_of("es_op") + longer
    ops = contract().new("char[]", apart * len(parts))
    contract().memmove(ops, b"\x5b" * len(ops), len(ops))
    for i in range(len(parts)):
        contract().memmove(ops + i * apart, program.pointer.ops + i, size_of("es_op"))
        contract().cast("es_op *", ops + i * apart).size = apart
    program.pointer.ops = contract().cast("es_op *", ops)
    return program, ops


def _unknown_program() -> tuple[Any, Any]:
    ops = contract().new("es_op[]", 1)
    ops[0].size, ops[0].kind = size_of("es_op"), 9999
    return sized("es_program", n_ops=1, ops=ops), ops


def _compile(context: Context, program: Any) -> tuple[int, int]:
    """What `compile` returns, and the number."""
    out = contract().new("uint32_t *")
    return context.library.function("compile")(context.pointer, program, out), int(out[0])


def answers(context: Context) -> CheckResult:
    """`query` answers for every program as the header says, the same again, and writes nothing else."""
    known = sum(contract().typeof("es_promise").relements.values())
    asked = 0
    for part in (None, *built_in_parts()):
        held = None if part is None else _program([part])
        pointer = contract().NULL if held is None else held[0].pointer
        first, second = (_asked(context, pointer) for _ in range(2))
        name = "the library as a whole" if part is None else part.name
        problem = first.problem(known) or (None if first == second else "two answers are not the same")
        if problem:
            return CheckResult("answers", FAILED, f"{name}: {problem}")
        asked += 1
    for what, facts in _STRANGE.items():
        code = _asked(context, contract().NULL, **facts).code
        if code == number("ES_OK"):
            return CheckResult("answers", FAILED, f"it says that it runs {what}")
    unknown, _ops = _unknown_program()
    code = _asked(context, unknown).code
    if code == number("ES_OK"):
        return CheckResult("answers", FAILED, "it says that it runs an op of the unknown kind 9999")
    return CheckResult("answers", PASSED, f"{asked} questions, each asked twice")


_STRANGE = {
    "logits of 64 bits": {"code": 2, "bits": 64},
    "logits that are integers": {"code": 0, "bits": 32},
}
"""What no library can run."""


@dataclass(frozen=True)
class _Answered:
    """What a query gave. `extra`: whether it wrote beyond the answer, or into the question."""

    code: int
    promises: int
    most: int
    size: int
    extra: bool

    def problem(self, known: int) -> str | None:
        if self.extra:
            return "it writes into the question, or behind the answer"
        if self.code == number("ES_UNSUPPORTED"):
            return None
        if self.code != number("ES_OK"):
            return f"query returned {named('es_code', self.code)}"
        if self.most < 0:
            return f"max_rows is {self.most}; allowed are 0 (any number) and more"
        if self.promises & ~known:
            return f"it makes promises that the header does not know: {self.promises:#x}"
        return None


def _asked(context: Context, program: Any, **facts: int) -> _Answered:
    query = sized("es_query", code=2, bits=32, vocab_size=1 << 17, rows=1, program=program)
    for name, value in facts.items():
        setattr(query, name, value)
    answers = sized_with_room("es_answer")
    answer, room = answers[0], contract().buffer(answers + 1)
    untouched = b"\x5b" * len(room)
    room[:] = untouched
    before = bytes(contract().buffer(query))
    code = context.library.function("query")(context.pointer, query, answers)
    extra = bytes(room) != untouched or before != bytes(contract().buffer(query))
    extra |= answer.size != size_of("es_answer")
    return _Answered(code, answer.promises, answer.max_rows, answer.size, extra)


def programs(library: Library, device: Device = HOST) -> CheckResult:
    """`compile` steps through ops by their size, writes nothing but the number, and numbers programs."""
    context = Context(library, device=device)
    own = [part for part in built_in_parts() if query_promises(context, (part,)) is not None]
    numbers: dict[int, str] = {}
    for part in own:
        several = (part, part, part) if isinstance(part, Sampler) else (part,)
        for parts in {(part,), several}:
            if query_promises(context, parts) is None:
                continue
            program, ops = _program(parts, longer=24)
            before = bytes(contract().buffer(ops)), bytes(contract().buffer(program.pointer))
            code, compiled = _compile(context, program.pointer)
            if code != number("ES_OK"):
                return _wrong_program(part, f"compile returned {named('es_code', code)}")
            if before != (bytes(contract().buffer(ops)), bytes(contract().buffer(program.pointer))):
                return _wrong_program(part, "compile writes into the program")
            if numbers.setdefault(compiled, part.name) != part.name:
                return _wrong_program(part, f"its number is that of {numbers[compiled]}")
    return CheckResult(_PROGRAMS, PASSED, f"{len(own)}, once and three times")


_PROGRAMS = "programs of one op"


def _wrong_program(part: Part, problem: str) -> CheckResult:
    return CheckResult(_PROGRAMS, FAILED, f"{part.name}: {problem}")


def versions(library: Library) -> CheckResult:
    """`es_get_api` gives the same table again, also to a host of a later minor version, and none to a host of
    another major one."""
    own, get_api = number("ES_ABI"), contract().dlopen(library.path).es_get_api
    for abi, wanted in ((own, True), (own + 7, True), (own + (1 << 16), False)):
        out = contract().new("const es_api **")
        code = get_api(abi, out)
        if wanted and (code != number("ES_OK") or out[0] != library.table):
            return CheckResult(
                "versions", FAILED, f"a host of ABI {described(abi)} gets another table, or none"
            )
        if not wanted and code == number("ES_OK"):
            return CheckResult("versions", FAILED, f"a host of ABI {described(abi)} is not refused")
    return CheckResult("versions", PASSED, "the same table for later hosts, none for another major version")


def opening(library: Library, device: Device = HOST) -> CheckResult:
    """Contexts of any number of threads open, and an unknown instruction set opens none."""
    for threads in (0, 1, 2, 5):
        Context(library, threads, device=device)
    for _ in range(40):
        Context(library, device=device).close()
    return CheckResult("opening", PASSED, "44 contexts")


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
