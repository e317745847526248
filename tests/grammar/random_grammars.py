"""Random expressions and grammars over few bytes, each grammar with its meaning in `naive`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from engine_sampler.grammar.derivatives.limits import WORK_PER_CALL, Meter
from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.program import expression as e
from engine_sampler.grammar.program import operations
from engine_sampler.grammar.program.expression import Expression
from engine_sampler.grammar.program.operations import Operation
from engine_sampler.grammar.program.rules import ACCEPT, Edge, Rules

from ..conftest import example_count
from .both_engines import Engine
from .naive import Naive

MOST_WORK = 2_000_000
"""Steps of the reference engine, of some microseconds each, that a random grammar may take."""

quick = settings(deadline=None, max_examples=example_count(60))

ALPHABET = b"abc"
texts = st.lists(st.sampled_from(ALPHABET), max_size=6).map(bytes)

literals = st.lists(st.sampled_from(ALPHABET), max_size=3).map(bytes).map(e.literal)
classes = st.sets(st.sampled_from(ALPHABET)).map(lambda some: e.byte_class(sum(1 << byte for byte in some)))
ranges = st.tuples(st.integers(0, 3), st.none() | st.integers(0, 4))


@st.composite
def automata(draw: st.DrawFn) -> Expression:
    """A small deterministic automaton."""
    count = draw(st.integers(1, 3))
    states = []
    for _ in range(count):
        bytes_of = sorted(draw(st.sets(st.sampled_from(ALPHABET))))
        targets = [draw(st.integers(0, count - 1)) for _ in bytes_of]
        rows = tuple((byte, byte, target) for byte, target in zip(bytes_of, targets, strict=True))
        states.append((draw(st.booleans()), rows))
    return e.automaton(tuple(states))


def _combined(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    some = st.lists(parts, min_size=1, max_size=3)
    return st.one_of(
        some.map(lambda given: e.concat(*given)),
        some.map(lambda given: e.union(*given)),
        st.builds(lambda part, bounds: e.repeat(part, *bounds), parts, ranges),
    )


def _logical(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    some = st.lists(parts, min_size=1, max_size=3)
    return _combined(parts) | some.map(lambda given: e.both(*given)) | parts.map(e.complement)


plain = st.recursive(literals | classes, _combined, max_leaves=6)
"""Expressions of literals, classes, concatenations, unions and counts."""

free = st.recursive(literals | classes | automata(), _logical, max_leaves=6)
"""Expressions without guards."""

guards = st.builds(e.guard, free, free)
guarded = st.recursive(
    free | guards,
    lambda parts: _combined(parts) | st.builds(e.guard, parts, free),
    max_leaves=4,
)
"""Expressions with guards wherever they are allowed."""


@dataclass
class Grammar:
    """A grammar as `Rules` and as `Naive`."""

    rules: Rules
    naive: Naive


def _operations() -> st.SearchStrategy[tuple[Operation, ...]]:
    bit, number = st.integers(0, 1), st.integers(0, 2)
    operation = st.one_of(
        bit.map(operations.clear),
        bit.map(operations.set_bit),
        number.map(lambda high: operations.count(0, high)),
        number.map(lambda high: operations.saturate(0, high)),
        number.map(lambda low: operations.at_least(0, low)),
        st.just(operations.reset(0)),
        st.lists(st.tuples(bit, st.booleans()), min_size=1, max_size=2).map(
            lambda some: operations.clause(*some)
        ),
    )
    return st.just(()) | st.lists(operation, max_size=2).map(tuple)


@st.composite
def grammars(
    draw: st.DrawFn,
    terminals: st.SearchStrategy[Expression] = plain,
    registers: bool = False,
    ignore: bool = False,
) -> Grammar:
    """A grammar of a few rules, each an automaton; recursion, cycles and empty rules of every kind."""
    rules = Rules()
    expressions = draw(st.lists(terminals, min_size=1, max_size=3))
    if ignore:
        expressions.append(draw(plain))
    symbols = [rules.terminal(f"T{i}", expression) for i, expression in enumerate(expressions)]
    of_terminals: dict[int, Expression] = dict(zip(symbols, expressions, strict=True))
    if ignore:
        rules.ignore = [symbols[-1]]
        symbols = [symbol for symbol in symbols[:-1] if symbol != symbols[-1]]
    names = [rules.rule(f"r{i}") for i in range(draw(st.integers(1, 3)))]
    operations = _operations() if registers else st.just(())
    automata_of_rules = []
    for name in names:
        count = draw(st.integers(1, 3))
        edges = st.builds(
            Edge, st.sampled_from([*symbols, *names, ACCEPT]), st.integers(0, count - 1), operations
        )
        automaton = draw(st.lists(st.lists(edges, max_size=3), min_size=count, max_size=count))
        rules.define_automaton(name, automaton, bits=2, counters=1)
        automata_of_rules.append(automaton)
    rules.start = names[0]
    return Grammar(rules, Naive(of_terminals, automata_of_rules, rules.ignore, 0))


@contextmanager
def bounded_work() -> Iterator[None]:
    """Raises GrammarLimitError in the block once the calls of the reference engine have done `MOST_WORK`
    together. Each has a limit of its own, but a mask is compared with as many calls as there are tokens."""
    done, start = 0, Meter.start

    def counted(meter: Meter, most: int = WORK_PER_CALL) -> None:
        nonlocal done
        done += getattr(meter, "_most", 0) - getattr(meter, "left", 0)
        if done > MOST_WORK:
            raise GrammarLimitError(f"the calls need more than {MOST_WORK} steps together")
        start(meter, most)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Meter, "start", counted)
        yield


def compiled_or_none(engine: Engine, grammar: Grammar, token_bytes: Sequence[bytes] = ()) -> Any:
    """A random grammar, compiled; None if an engine finds that no text matches it."""
    try:
        return engine(grammar.rules.program(), token_bytes)
    except GrammarError as error:
        if "no text at all" in str(error):
            return None
        raise
