"""The captures of a text: `CaptureReader`, which keeps what is known of a grammar for the next text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from ....tokenizer import Tokenizer
from ...cache import Cache
from ...derivatives.limits import MAX_SHARED_STATES
from ...limits import capture_steps
from ...program.rules import Program
from ..reference import ReferenceVocabulary
from ..reference.lexing import LalrConfigurations
from ..reference.tables import EngineTables
from ..reference.threads import EarleyConfigurations
from ..steps import Steps
from .capture import Capture, Captures
from .chart import Chart, Moves
from .derivation import Derivation, SymbolSpan
from .expectations import Expectations
from .lalr import Reductions
from .splitting import Split, TerminalSpan, split, threads_of
from .units import Units, units_of_bytes, units_of_tokens

MAX_GRAMMARS = 16
"""The grammars of which something is kept."""

_BYTES_IN_A_STEP = 64
"""How many bytes are copied in a step."""


class CaptureReader:
    """Finds the captures of the texts of a grammar."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.tables = EngineTables(program, ReferenceVocabulary(()))
        self.names = dict(program.captures)
        self.skipped = frozenset(program.skipped)
        configurations = self.tables.configurations
        self.threads = threads_of(configurations)
        if isinstance(configurations, EarleyConfigurations):
            automata = configurations.rows.automata
            self.expected = Expectations(automata, len(program.terminals), self.names)
            self.moves = Moves(automata, self.expected)

    def captures(self, units: Units, steps: Steps) -> Captures:
        """The captures of a text. Raises GrammarError, GrammarLimitError."""
        with self.tables.lock:
            self.tables.meter.start(steps.left)
            parsed = split(self.tables.configurations, self.threads, units, steps)
            parts = [part for part in self._parts(parsed, steps) if part.symbol in self.names]
        captures: Captures = {name: [] for _, name in self.program.captures}
        span = _Spans(parsed.pieces, self.skipped)
        spans = [(*span.of(part), self.names[part.symbol]) for part in parts]
        text = units.data()
        for start, end, name in sorted(spans, key=lambda span: (span[0], -span[1])):
            found = _capture(units, text, start, end)
            steps.spend(len(found.data) // _BYTES_IN_A_STEP)  # captures within captures share no memory
            captures[name].append(found)
        return captures

    def _parts(self, parsed: Split, steps: Steps) -> Iterable[SymbolSpan]:
        terminals = [piece.terminals for piece in parsed.pieces]
        configurations = self.tables.configurations
        if isinstance(configurations, LalrConfigurations):
            reductions = Reductions(configurations.rows, steps)
            return list(reductions.of(terminals, parsed.is_whole, parsed.next))[::-1]
        following = (self.expected.end,) if parsed.is_whole else parsed.next
        chart = Chart(self.moves, steps).read([*terminals, following])
        derivation = Derivation(chart, self.moves, self.expected, steps)
        return derivation.whole() if parsed.is_whole else derivation.begun(following)


class _Spans:
    """The units of parts, without ignored text at their ends."""

    def __init__(self, pieces: Sequence[TerminalSpan], skipped: Set[int]) -> None:
        self._begins: list[int] = []
        """For each place, where the next piece of text begins; the end of the last one behind all."""
        self._ends = [0]
        """For each place, where the last piece of text before it ends."""
        for piece in pieces:
            is_skipped = not skipped.isdisjoint(piece.terminals)
            self._ends.append(self._ends[-1] if is_skipped else piece.end)
        begin = self._ends[-1]
        for piece in reversed(pieces):
            begin = begin if not skipped.isdisjoint(piece.terminals) else piece.start
            self._begins.append(begin)
        self._begins.reverse()

    def of(self, part: SymbolSpan) -> tuple[int, int]:
        """Where a part begins and ends; one without text is behind the text before it."""
        _, start, end = part
        if start == end or self._ends[start] == self._ends[end]:
            return self._ends[start], self._ends[start]
        return self._begins[start], self._ends[end]


def _capture(units: Units, text: bytes, start: int, end: int) -> Capture:
    tokens = None
    if units.tokens is not None:
        first = units.tokens[start]
        tokens = first, units.tokens[end - 1] + 1 if start < end else first
    begin, stop = units.offsets[start], units.offsets[end]
    before = units.offsets[0]
    return Capture(text[begin - before : stop - before], begin, stop, tokens)


class _Entry:
    """The reader of a grammar, made again once it has grown too large."""

    def __init__(self, program: Program) -> None:
        self._reader = CaptureReader(program)

    def reader(self) -> CaptureReader:
        if self._reader.tables.meter.states > MAX_SHARED_STATES:
            self._reader = CaptureReader(self._reader.program)
        return self._reader


_READERS: Cache[_Entry] = Cache(MAX_GRAMMARS, MAX_GRAMMARS, lambda entry: 1)


def captures_of_text(program: Program, text: str | bytes, steps: int | Steps | None) -> Captures:
    """The captures of a text: see `Grammar.captures`. `Steps` are spent."""
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    return _captures(program, units_of_bytes(data), steps)


def captures_of_tokens(
    program: Program, token_ids: Sequence[int], begin: int, tokenizer: Tokenizer, steps: int | None
) -> Captures:
    """The captures of the text of tokens: see `CompiledGrammar.captures`; `program` has the ids of the
    tokenizer."""
    named = set(program.special_ids)
    return _captures(program, units_of_tokens(token_ids, begin, tokenizer, named), steps)


def _captures(program: Program, units: Units, steps: int | Steps | None) -> Captures:
    if not program.captures:
        return {}
    if not isinstance(steps, Steps):
        steps = Steps(capture_steps(len(units.units)) if steps is None else steps)
    return reader_of(program).captures(units, steps)


def reader_of(program: Program) -> CaptureReader:
    """The reader of a grammar, which is kept for its next texts."""
    return _READERS.get(program.key, lambda: _Entry(program)).reader()
