"""The grammar engine in C: vocabularies, compiled grammars and matchers of the native library."""

from __future__ import annotations

import functools
import struct
import weakref
from array import array
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from ...base.copying import ForkedByCopy
from ...base.packaged import header_declarations, library_path, new_interface
from ...contract import UnfinishedError, Work, bitmask_words, checked_bitmask
from ...contract.draft_trees import checked_tree
from ...tokenizer import Tokenizer
from ..errors import GrammarError, GrammarLimitError
from ..limits import MOST, Limits
from ..program.rules import PROGRAM_ARRAYS, Program, arrays_of
from .encoded import as_encoded
from .excess import warn_of_excess
from .token_texts import texts_of

HEADER = "engine_sampler_grammar.h"

_OK, _INVALID, _UNSUPPORTED, _LIMIT, _MEMORY, _EMPTY, _UNFINISHED = range(7)
_SPECIAL, _EOS = 1, 2
_ERROR_SIZE = 512


@functools.cache
def _interface() -> Any:
    """The `cffi.FFI` with the declarations of the grammar engine's header."""
    return new_interface(header_declarations(HEADER))


@functools.cache
def load_library() -> tuple[Any, Any] | None:
    """The library's functions and its `cffi.FFI`; None if there is no library, or one without the engine."""
    path = library_path()
    if path is None:
        return None
    try:
        library = _interface().dlopen(str(path))
        library.es_vocabulary_new  # noqa: B018  (a library without the engine lacks it)
    except (OSError, AttributeError):
        return None
    return library, _interface()


@functools.cache
def _statistics_names() -> tuple[str, ...]:
    """The names of a grammar's counts."""
    return tuple(name for name, _ in _interface().typeof("es_grammar_stats").fields)


class _Types:
    """The structures that describe a grammar to the engine, as bytes: cffi would take several times as long
    to fill them."""

    def __init__(self, ffi: Any) -> None:
        lengths = [f"{name}_length" for name in PROGRAM_ARRAYS]
        self._program = _layout(ffi, "es_grammar_program", [*PROGRAM_ARRAYS, *lengths, "start"])
        self._limits = _layout(ffi, "es_grammar_limits", ["max_memory", "max_work", "max_carried"])
        self.program, self.limits = ffi.typeof("es_grammar_program *"), ffi.typeof("es_grammar_limits *")
        self.code, self.error = ffi.typeof("int32_t *"), ffi.typeof(f"char[{_ERROR_SIZE}]")

    def packed_program(self, program: Program) -> bytes:
        """The C program of the arrays, as long as these are alive and do not change."""
        addresses, lengths = zip(*[numbers.buffer_info() for numbers in arrays_of(program)], strict=True)
        return self._program.pack(*addresses, *lengths, program.start)

    def packed_limits(self, limits: Limits) -> bytes:
        """What the engine may use."""
        return self._limits.pack(limits.memory, limits.work, limits.carried)


def _layout(ffi: Any, name: str, members: Sequence[str]) -> struct.Struct:
    """The layout of a C structure of pointers, int64 and int32. Raises ValueError if it has other members."""
    fields = ffi.typeof(name).fields
    if [member for member, _ in fields] != list(members):
        raise ValueError(f"{name} of {HEADER} must have the members {', '.join(members)}")
    types = [member.type for _, member in fields]
    codes = ["P" if one.kind == "pointer" else {8: "q", 4: "i"}[ffi.sizeof(one)] for one in types]
    layout = struct.Struct("".join(codes) + "0P")  # padded as the structure is
    if layout.size != ffi.sizeof(name):
        raise ValueError(f"{name} of {HEADER} must be packed as C does")
    return layout


@functools.cache
def _types() -> _Types:
    return _Types(_interface())


def _exception(code: int, text: str) -> Exception:
    if code in (_LIMIT, _MEMORY):
        return GrammarLimitError(text)
    if code == _INVALID:
        return ValueError(text)
    if code == _UNFINISHED:
        return UnfinishedError(text)
    return GrammarError(text)


class NativeVocabulary:
    """The tokens of a tokenizer in the engine's form; built once, in some tenths of a second."""

    def __init__(self, tokenizer: Tokenizer, limits: Limits) -> None:
        loaded = load_library()
        if loaded is None:
            raise RuntimeError("the native library is not available")
        self.library, self.ffi = library, _ = loaded
        self.free_grammar = lambda pointer: library.es_grammar_free(pointer)  # which is not unloaded before
        self.size = len(tokenizer)
        self.words = bitmask_words(self.size)
        self.max_shared = limits.shared_memory
        self.split = tokenizer.certain_ids if tokenizer.has_encoding else None
        texts = texts_of(tokenizer)
        kinds = np.zeros(self.size + 1, np.uint8)
        kinds[list(tokenizer.special_token_ids)] |= _SPECIAL
        kinds[list(tokenizer.eos_token_ids)] |= _EOS
        buffer = self.ffi.from_buffer
        arrays = (
            *(buffer("uint8_t[]", texts.data), buffer("int64_t[]", texts.offsets)),
            *(buffer("uint8_t[]", kinds), self.size),
        )
        self.pointer = self.library.es_vocabulary_new(*arrays, limits.shared_memory, limits.grammar_memory)
        if not self.pointer:
            self._fail(arrays, limits)
        weakref.finalize(self, self.library.es_vocabulary_free, self.pointer)

    def _fail(self, given: tuple[Any, ...], limits: Limits) -> NoReturn:
        """Raise what a vocabulary without a pointer means: GrammarLimitError if its tables alone exceed the
        limit, or MemoryError."""
        pointer = self.library.es_vocabulary_new(*given, MOST, limits.grammar_memory)
        if not pointer:
            raise MemoryError("the grammar engine is out of memory for the vocabulary")
        self.library.es_vocabulary_free(pointer)
        bound = f"{limits.shared_memory} bytes of memory (Limits.shared_memory)"
        raise GrammarLimitError(f"the vocabulary alone needs more than {bound}")

    def begin_with(self, expressions: array[int]) -> None:
        """Compile programs whose `expressions` begin so faster; the first call decides."""
        code = self.library.es_vocabulary_begin(
            self.pointer, self.ffi.from_buffer("int32_t[]", expressions), len(expressions)
        )
        if code:
            raise _exception(code, "the expressions of many programs cannot be read")

    def memory(self) -> int:
        """The bytes of the tables that its grammars share."""
        return int(self.library.es_vocabulary_memory(self.pointer))

    def clear(self) -> None:
        """Free the tables that its grammars share; those in use rebuild what they need of them."""
        self.library.es_vocabulary_clear(self.pointer)


class NativeGrammar:
    """A grammar compiled for a vocabulary; immutable, and shared by matchers on all OS threads."""

    def __init__(self, program: Program, vocabulary: NativeVocabulary, limits: Limits) -> None:
        self.vocabulary = vocabulary
        self.library, self.ffi = library, ffi = vocabulary.library, vocabulary.ffi
        types = _types()
        buffer, code, error = ffi.from_buffer, ffi.new(types.code), ffi.new(types.error)
        pointer = library.es_grammar_new(
            vocabulary.pointer,
            buffer(types.program, types.packed_program(program)),  # `program` keeps its arrays alive
            buffer(types.limits, types.packed_limits(limits)),
            code,
            error,
            _ERROR_SIZE,
        )
        if not pointer:
            raise _exception(code[0], ffi.string(error).decode(errors="replace"))
        self.pointer = ffi.gc(pointer, vocabulary.free_grammar)
        self.terminals = len(program.terminals)

    def matcher(self) -> NativeMatcher:
        """A matcher at the start of a text."""
        return NativeMatcher(self, self.library.es_matcher_new(self.pointer))

    def weight(self) -> int:
        """The bytes of its tables, and of the expressions that its calls have added to the shared ones."""
        return int(self.library.es_grammar_weight(self.pointer))

    def __repr__(self) -> str:
        counts = self.statistics()
        return f"<NativeGrammar: {counts['rows']} rows, {counts['states']} states, {counts['masks']} masks>"

    def statistics(self) -> dict[str, int]:
        """Counts of what the engine caches for this grammar: bytes, rows, states, masks."""
        out = self.ffi.new("es_grammar_stats *")
        self.library.es_grammar_statistics(self.pointer, out)
        return {name: int(getattr(out, name)) for name in _statistics_names()}


_latest_work: tuple[Work, Any] | None = None


def _work_in_c(work: Work | None) -> Any:
    """`work` as an `es_grammar_work *`. The last one is kept: the calls of a step share their work."""
    global _latest_work
    if work is None:
        return _interface().NULL
    latest = _latest_work
    if latest is None or latest[0] is not work:
        latest = _latest_work = work, _interface().cast("es_grammar_work *", work.address)
    return latest[1]


def fill_rows(
    matchers: Sequence[NativeMatcher], bitmask: Any, rows: Sequence[int], work: Work | None = None
) -> dict[int, BaseException]:
    """Fill row rows[i] of `bitmask`, C-contiguous int32 wide enough, for matcher i, all in one call. Each row
    that fails is all 0. Returns the faults by row."""
    library, ffi = matchers[0].grammar.library, matchers[0].grammar.ffi
    count = len(matchers)
    pointers = ffi.new("es_matcher *[]", [matcher._pointer for matcher in matchers])
    base = ffi.cast("int32_t *", bitmask.ctypes.data)
    indices, codes = ffi.new("int64_t[]", rows), ffi.new("int32_t[]", count)
    pointer = _work_in_c(work)
    if not library.es_matchers_fill(pointers, count, base, indices, bitmask.shape[1], pointer, codes):
        return {}
    failed = [i for i, code in enumerate(codes) if code]
    return {rows[i]: matchers[i]._failure(codes[i]) for i in failed}


class NativeMatcher(ForkedByCopy):
    """A text under a grammar; see `contract.BoundedMatcher`.

    compiled   the `CompiledGrammar`, if more than masks may be asked of it; else None. Forks have the same
    """

    bounded = True

    __slots__ = (
        "__weakref__",
        "_accept",
        "_address",
        "_bitmask",
        "_fill",
        "_library",
        "_pointer",
        "_row",
        "_words",
        "compiled",
        "grammar",
    )

    def __init__(self, grammar: NativeGrammar, pointer: Any, compiled: Any = None) -> None:
        if not pointer:
            raise MemoryError("the grammar engine is out of memory for a matcher")
        self.grammar, self.compiled = grammar, compiled
        self._library = library = grammar.library
        self._pointer = grammar.ffi.gc(pointer, library.es_matcher_free)
        self._accept, self._fill = library.es_matcher_accept, library.es_matcher_fill
        self._bitmask: Any = None  # the array and the row that were filled last: their address is cached
        self._row = -1

    def __repr__(self) -> str:
        accepted = self._library.es_matcher_length(self._pointer)
        return f"<NativeMatcher after {accepted} accepted calls{', ended' * self.is_terminated()}>"

    def fill_bitmask(self, bitmask: Any, row: int = 0, work: Work | None = None) -> None:
        """Write the mask of the next token into a row of `bitmask`, int32 `[rows, ceil(vocab / 32)]`. Raises
        UnfinishedError if `work` is too little; the row is then all 0."""
        if bitmask is not self._bitmask or row != self._row:
            self._select_row(bitmask, row)
        if work is not None:
            for fault in fill_rows([self], bitmask, [row], work).values():
                raise fault
            return
        code = self._fill(self._pointer, self._address, self._words)
        if code:
            raise self._failure(code)

    def fill_tree_bitmask(
        self,
        token_ids: Sequence[int],
        parents: Sequence[int],
        bitmask: Any,
        row: int = 0,
        work: Work | None = None,
    ) -> np.ndarray:
        """Write the masks of all nodes of a draft tree, in one call; the matcher stays as it is.

        token_ids  the token of each node.
        parents    the number of the node that it follows, less than its own; −1: it follows the text.
        bitmask    int32 [rows, ceil(vocab / 32)]: `row` gets the mask of the next token, row + 1 + i that of
                   the token after node i, all 0 where the text cannot go.

        Returns bool [nodes], which of them may stand there. Raises `ParameterError` for a wrong tree,
        TypeError or IndexError for a wrong bitmask, and UnfinishedError if `work` is too little.
        """
        codes = self._fill_tree(*checked_tree(token_ids, parents), bitmask, row, work)
        faults = codes[codes > 0]
        if len(faults):
            raise self._failure(int(faults[0]))
        return codes[1:] == 0

    def glance_at_tree(
        self, token_ids: Sequence[int], parents: Sequence[int], bitmask: Any, row: int, work: Work
    ) -> np.ndarray:
        """`fill_tree_bitmask` as far as `work` goes. Returns bool [1 + nodes]: the rows that are filled."""
        return self._fill_tree(token_ids, parents, bitmask, row, work) <= 0

    def _fill_tree(
        self, token_ids: Sequence[int], parents: Sequence[int], bitmask: Any, row: int, work: Work | None
    ) -> np.ndarray:
        """The codes of the rows of a tree, int32 [1 + nodes], see `es_matcher_fill_tree`."""
        address, words = self._address_of(bitmask, row, len(token_ids))
        ffi, size = self.grammar.ffi, self.grammar.vocabulary.size
        if not 0 <= min(token_ids, default=0) <= max(token_ids, default=0) < size:
            token_ids = [t if 0 <= t < size else -1 for t in token_ids]
        tokens, before = (ffi.from_buffer("int32_t[]", array("i", ids)) for ids in (token_ids, parents))
        codes = np.empty(1 + len(token_ids), np.int32)
        self._library.es_matcher_fill_tree(
            self._pointer,
            tokens,
            before,
            len(token_ids),
            address,
            words,
            _work_in_c(work),
            ffi.from_buffer("int32_t[]", codes),
        )
        return codes

    def _select_row(self, bitmask: Any, row: int) -> None:
        self._address, self._words = self._address_of(bitmask, row)
        self._bitmask, self._row = bitmask, row

    def _address_of(self, bitmask: Any, row: int, more: int = 0) -> tuple[Any, int]:
        """Where a row of `bitmask` begins that has `more` rows behind it, and the words of a row."""
        rows, words = checked_bitmask(bitmask, self.grammar.vocabulary.words)
        if not 0 <= row < rows - more:
            raise IndexError(f"row={row} is not allowed: 0..{rows - more - 1} are")
        return self.grammar.ffi.from_buffer("int32_t[]", bitmask) + row * words, words

    def accept(self, token_id: int, work: Work | None = None) -> bool:
        """Accept a token; False, and nothing changes, if it cannot follow. Nothing changes either if `work`
        is too little: it raises UnfinishedError."""
        try:
            answer: int = self._accept(self._pointer, token_id, _work_in_c(work))
        except OverflowError:  # C's int32 does not hold it: there is no such token
            return False
        if answer == 1:
            return True
        if answer < 0:
            raise self._failure(-answer)
        if answer:
            warn_of_excess()
        return answer != 0

    def accept_bytes(self, data: bytes) -> bool:
        """Accept bytes, not necessarily those of a token; False if they cannot follow."""
        return bool(self._count(self._library.es_matcher_accept_bytes(self._pointer, data, len(data))))

    def rollback(self, n: int) -> None:
        """Undo the last n accepted calls; ValueError if there are fewer."""
        accepted = self.accepted_calls
        if not 0 <= n <= accepted:
            raise ValueError(f"n={n} is not allowed: 0..{accepted} accepted calls can be undone")
        self._library.es_matcher_rollback(self._pointer, n)

    @property
    def accepted_calls(self) -> int:
        """How many accepted calls can be undone."""
        return int(self._library.es_matcher_length(self._pointer))

    def rewind(self, calls: int) -> None:
        """Undo all accepted calls but the first `calls`, also after a call that was interrupted."""
        self._library.es_matcher_rollback(self._pointer, max(self.accepted_calls - calls, 0))

    def fork(self) -> NativeMatcher:
        """An independent copy."""
        pointer = self._library.es_matcher_fork(self._pointer)
        return NativeMatcher(self.grammar, pointer, self.compiled)

    def is_accepting(self) -> bool:
        """Whether the text so far is in the language, so that EOS may follow."""
        return bool(self._count(self._library.es_matcher_is_accepting(self._pointer)))

    def is_terminated(self) -> bool:
        """Whether EOS has been accepted."""
        return bool(self._library.es_matcher_is_terminated(self._pointer))

    def validate(self, token_ids: Sequence[int]) -> int:
        """The number of leading tokens that could be accepted in turn; nothing changes."""
        tokens = self.grammar.ffi.new("int32_t[]", list(token_ids))
        return self._count(self._library.es_matcher_validate(self._pointer, tokens, len(token_ids)))

    def forced_bytes(self, limit: int = 4096, work: Work | None = None) -> bytes:
        """The bytes that must come next, at most `limit`; UnfinishedError if `work` is too little."""
        out = self.grammar.ffi.new("uint8_t[]", limit)
        count = self._count(self._library.es_matcher_forced(self._pointer, out, limit, _work_in_c(work)))
        return bytes(self.grammar.ffi.buffer(out, count))

    def forced_tokens(self, limit: int = 1024, work: Work | None = None) -> list[int]:
        """The tokens that must come next, at most `limit`; [] if there is a choice.

        They are those in which the tokenizer's own encoding writes the forced text, as far as this does not
        depend on what follows; without one, the longest tokens, up to the point where a longer token could
        reach past the forced text. Raises UnfinishedError if `work` is too little.
        """
        out = self.grammar.ffi.new("int32_t[]", limit)
        count = self._count(
            self._library.es_matcher_forced_tokens(self._pointer, out, limit, _work_in_c(work))
        )
        longest = self.grammar.ffi.unpack(out, count) if count else []
        return as_encoded(self, longest, self.grammar.vocabulary.split, limit)

    def next_bytes(self, work: Work | None = None) -> bytes:
        """The bytes that may come next, ascending; UnfinishedError if `work` is too little."""
        out = np.empty(256, np.uint8)
        buffer = self.grammar.ffi.from_buffer("uint8_t[]", out)
        self._count(-self._library.es_matcher_next_bytes(self._pointer, buffer, _work_in_c(work)))
        return np.flatnonzero(out).astype(np.uint8).tobytes()

    def open_terminals(self) -> np.ndarray:
        """Which terminals the next token may begin in: uint8, 1 for each that is being read or may begin."""
        out = np.zeros(self.grammar.terminals + 1, np.uint8)
        self._count(
            -self._library.es_matcher_terminals(self._pointer, self.grammar.ffi.from_buffer("uint8_t[]", out))
        )
        return out[:-1]

    def _count(self, answer: int) -> int:
        if answer < 0:
            raise self._failure(-answer)
        return int(answer)

    def _failure(self, code: int) -> Exception:
        text = self.grammar.ffi.string(self._library.es_matcher_error(self._pointer))
        return _exception(code, text.decode(errors="replace"))
