"""The laws that samplers and selectors share, as a test class."""

from __future__ import annotations

import math
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, ClassVar
from unittest import SkipTest

import numpy as np

from ..base.errors import quoted
from ..contract import Example, Param, ParameterError, Rows, Sampler, Selector
from ..registry import check_object
from ..tokenizer import Tokenizer
from .cases import Case, Random, cases
from .results import FAILED, NOT_PROMISED, PASSED, CheckResult
from .search.drawing import LARGEST, draw_case, draw_sizes, draw_value
from .search.elsewhere import OutcomeElsewhere
from .search.live import Live
from .search.searching import Searching, trial_of
from .search.surroundings import expect_nothing_kept, in_all_surroundings, leaving_them_alone
from .single import known_params, settings

STEPS = 4
"""How many tokens requests continue for in laws about their state."""

BATCH_SIZES = (2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257, 520)
"""Sizes around those from which on code may take another path."""

NARROW_SIZE = 300

VARIANTS = 12
"""How many parameter sets with other values are drawn."""


LEFT_OUT = "when removed columns are left out"


class Contract(Searching):
    """What `SamplerContract` and `SelectorContract` share. Every law is a method `test_…`.

    params         parameter sets to try; each must turn the sampler on. By default those of its examples.
    vocab_sizes    sizes to try. A sampler whose params name token ids needs sizes that have them.
    largest        the greatest size that is drawn at random, from the least of `vocab_sizes` on. None: with a
                   tokenizer the greatest of these, else 131,072.
    eos_token_ids  given to the sampler, as far as they are in the vocabulary.
    rounds         batches of every size: more rounds, more random rows. ENGINE_SAMPLER_TEST_ROUNDS multiplies
                   them.
    sequences, seconds, seed  as in `Searching`: how much more is tried at random.
    """

    params: ClassVar[Sequence[Mapping[str, Any]]] = ()
    vocab_sizes: ClassVar[Sequence[int]] = (1, 2, 17, 300)
    largest: ClassVar[int | None] = None
    eos_token_ids: ClassVar[Sequence[int]] = ()
    rounds: ClassVar[int] = 1

    def tokenizer(self, vocab_size: int) -> Any:
        """The tokenizer for samplers that need one; examples use it too."""
        return None

    # --- what a kit defines ----------------------------------------------------------------------

    @property
    def part(self) -> Any:
        """The sampler or selector under test."""
        raise NotImplementedError

    def run(self, logits: np.ndarray, rows: Rows) -> Any:
        """Call the sampler on `logits`, which it may change."""
        raise NotImplementedError

    def outcome(self, logits: np.ndarray, rows: Rows) -> np.ndarray:
        """The sampler's result for `logits`, by token id: floats [n, k], compared bit by bit."""
        raise NotImplementedError

    def accepted(self, outcome: np.ndarray, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """The token with which each row continues, int64 [n], and the selector's notes, objects [n]."""
        raise NotImplementedError

    def check_outcome(self, case: Case, outcome: np.ndarray) -> None:
        """Raise AssertionError unless `outcome` is possible at all."""
        raise NotImplementedError

    def check_example(self, example: Example) -> None:
        """Raise AssertionError unless the sampler does what `example` expects."""
        raise NotImplementedError

    def with_part(self, part: Any) -> Contract:
        """This kit for another object in place of the one under test."""
        raise NotImplementedError

    # --- laws ------------------------------------------------------------------------------------

    def test_the_declaration_is_sound(self) -> None:
        check_object(self.part, (Sampler, Selector))
        assert "__doc__" in vars(type(self.part)), f"{type(self.part).__name__} has no docstring"
        for param in self.part.params:
            for bound in bounds(param):
                param.check(bound)

    def test_neutral_parameters_leave_it_out(self) -> None:
        active = self.part.is_active(settings(self.part, {}))
        assert not active, f"{self.part.name} is on although no parameter turns it on"

    def test_the_same_call_gives_the_same_result(self) -> None:
        fresh = partial(self.fresh, self.part)
        for case in self.cases():
            rows = Live(self, case).rows
            first, second = self.outcome(case.logits, rows), self.outcome(case.logits, rows)
            case.expect_equal(second, first, "when the call is repeated")
            Live(self, case.reversed()).outcome()
            third = self.outcome(case.logits, rows)
            case.expect_equal(third, first, "when the call is repeated after another one")
            other = case.rolled()
            right = Live(self.with_part(fresh()), other).outcome()
            again = self.outcome(other.logits, rows)
            other.expect_equal(again, right, "for other logits of the same requests")

    def test_a_row_depends_on_itself_only(self) -> None:
        for case in self.cases():
            together = Live(self, case).outcome()
            alone = np.concatenate([Live(self, one).outcome() for one in case.alone()])
            case.expect_equal(alone, together, "between a batch and the row alone")
            backwards = Live(self, case.reversed()).outcome()[::-1]
            case.expect_equal(backwards, together, "when the rows are reversed")

    def test_a_row_does_not_depend_on_the_size_of_the_batch(self) -> None:
        for case in cases(self.tried_params, self.narrow_sizes, 1):
            live, many = Live(self, case), case.repeated(BATCH_SIZES[-1])
            alone = many_of(np.concatenate([Live(self, one).outcome() for one in case.alone()]), len(many))
            rows = Live(self, many).rows
            for n in BATCH_SIZES:
                some = self.outcome(many.logits[:n], rows.take(slice(0, n)).bind(self.part))
                many.take(range(n)).expect_equal(some, alone[:n], f"in a batch of {n} rows")
            mixed = np.random.default_rng(len(case)).permutation(len(case))[: max(1, len(case) // 2)]
            some = self.outcome(case.logits[mixed], live.rows.take(mixed).bind(self.part))
            where = "when other requests sit out the step"
            case.take(mixed.tolist()).expect_equal(some, alone[mixed], where)

    def test_removed_columns_do_not_matter(self) -> None:
        for case in self._with_few_left():
            full = Live(self, case).outcome()
            some = case.alive | (np.arange(case.vocab_size) % 2 == 0)
            live = Live(self, case)
            for keep, padding in ((case.alive, 0), (case.alive, 3), (some, 0)):
                case.expect_equal(self._on_subset(case, live.rows, keep, padding), full, LEFT_OUT)
            live = Live(self, case)
            for i, one in enumerate(case.alone()):
                few = self._on_subset(one, live.rows.take(np.array([i])), one.alive)
                one.expect_equal(few, full[i : i + 1], LEFT_OUT)

    def test_inputs_are_only_read(self) -> None:
        for case in self.cases():
            rows = Live(self, case).rows
            before = {name: array.copy() for name, array in self._inputs(rows)}
            self.outcome(case.logits, rows)
            for name, array in self._inputs(rows):
                assert np.array_equal(array, before[name]), f"{self.part.name} writes to {name}"

    def test_no_input_is_kept(self) -> None:
        for case in self.cases():
            rows, logits = Live(self, case).rows, case.logits.copy()
            held: dict[str, Any] = {name: rows[name] for name in known_params(self.part)}
            held |= {"logits": logits, "rows": rows}
            before = {name: sys.getrefcount(value) for name, value in held.items()}
            self.run(logits, rows)
            for name, value in held.items():
                kept = sys.getrefcount(value) > before[name]
                assert not kept, f"{self.part.name} keeps a reference to {name} after the call"

    def test_tokens_may_arrive_in_any_portions(self) -> None:
        for case in self.cases():
            token_ids, notes = case.some_token_ids(STEPS), case.some_notes(STEPS)
            singly, at_once = Live(self, case), Live(self, case)
            for step in range(STEPS):
                singly.accept(token_ids[:, step : step + 1], notes[:, step : step + 1])
                singly.outcome()  # brings lazy states up to date
            at_once.accept(token_ids, notes)
            case.expect_equal(at_once.outcome(), singly.outcome(), "when tokens arrive together")

    def test_a_resumed_request_continues_alike(self) -> None:
        for case in self.cases():
            token_ids = case.some_token_ids(STEPS)
            live, resumed = Live(self, case), Live(self, case.with_output(token_ids))
            live.accept(token_ids)
            case.expect_equal(resumed.outcome(), live.outcome(), "when the output is given at once")

    def test_rollback_undoes_accept(self) -> None:
        for case in self.cases():
            live = Live(self, case)
            seen = live.run(STEPS)
            live.rollback(0)
            live.rollback(STEPS - 1)
            self._expect_same(case, live.run(STEPS - 1), seen[1:], "after accept and rollback")
            resumed = Live(self, case.with_output(case.some_token_ids(STEPS)))
            resumed.rollback(STEPS)
            case.expect_equal(resumed.outcome(), seen[0], "after output is rolled back")

    def test_a_fork_is_independent(self) -> None:
        for case in self.cases():
            other_seeds = [seed ^ 1 for seed in case.seeds]
            parent, twin, other = (Live(self, case) for _ in range(3))
            for live in (parent, twin, other):
                live.run(2)
            child = parent.fork(other_seeds)
            other.reseed(other_seeds)
            self._expect_same(case, child.run(STEPS), other.run(STEPS), "in a fork")
            self._expect_same(case, parent.run(STEPS), twin.run(STEPS), "after a fork continued")

    def test_requests_beside_others_do_as_alone(self) -> None:
        from .search import requests  # which needs Hypothesis

        fresh = partial(self.fresh, self.part)
        self.search(partial(requests.RequestMachine, self, fresh), requests.LENGTH)

    def test_surroundings_do_not_matter(self) -> None:
        for number, random in enumerate(self.draws(2)):
            case = draw_case(random, self.mixed_params(random), self.drawn_sizes(random)[number % 2])
            with leaving_them_alone(self.part.name):
                expected = self.continued(case).outcome()
            there = OutcomeElsewhere(self, case)
            for where, outcome in in_all_surroundings(self.continued(case).outcome, there):
                case.expect_equal(outcome, expected, where)
        few = next(self.drawn()).take(range(2))
        rows = self.continued(few).rows
        expect_nothing_kept(self.part.name, lambda: self.outcome(few.logits, rows))

    def test_extreme_parameters_work(self) -> None:
        for case in cases(list(self._extremes()), self.vocab_sizes, rounds=1):
            self.check_outcome(case, Live(self, case).outcome())

    def test_examples_hold(self) -> None:
        assert self.part.examples, (
            f"{self.part.name} has no examples: declare at least one Example, since no law can tell whether "
            "the formula is the intended one"
        )
        for example in self.part.examples:
            self.check_example(example)

    # --- helpers ---------------------------------------------------------------------------------

    def cases(self, wide: bool = False) -> Iterator[Case]:
        """The batches to try; `wide` ones are for laws of which large vocabularies ask more."""
        assert self.tried_params, f"{type(self).__name__} has no params to try, nor has the plugin examples"
        yield from self.listed()
        yield from self.drawn(wide)

    def listed(self) -> Iterator[Case]:
        """Batches of the `vocab_sizes`, with every kind of row for each of the parameter sets."""
        return cases(self.tried_params, self.vocab_sizes, self.rounds)

    def drawn(self, wide: bool = False) -> Iterator[Case]:
        """Batches of any rows, parameters, histories and seeds, and of any size if they may be `wide`."""
        kit: Any = type(self)
        sizes = 3 if wide else 2
        for turn, number in enumerate(self.numbers(sizes)):
            case = _drawn_again(kit, number, turn % sizes)
            yield replace(case, logits=case.logits.copy())

    def drawn_sizes(self, random: Random) -> tuple[int, int, int]:
        """A small, a middling and a large vocabulary."""
        with_tokenizer = type(self).tokenizer is not Contract.tokenizer
        most = self.largest or (max(self.vocab_sizes) if with_tokenizer else LARGEST)
        return draw_sizes(random, min(self.vocab_sizes), most)

    def mixed_params(self, random: Random) -> Sequence[Mapping[str, Any]]:
        """The parameter sets, and others with other values of the part's own parameters."""
        mixed, known = list(self.tried_params), known_params(self.part)
        for number in range(VARIANTS):
            params = self.tried_params[number % len(self.tried_params)]
            values = {**params}
            for param in self.part.params:
                if param.name in params or random.random() < 0.2:
                    values[param.name] = draw_value(random, param, params.get(param.name, param.neutral))
            if self._is_like(params, values, known):
                mixed.append(values)
        return mixed

    def _is_like(
        self, params: Mapping[str, Any], others: Mapping[str, Any], known: Mapping[str, Param]
    ) -> bool:
        """Whether these other values are allowed, and turn the part on or off as `params` do."""
        neutral = {name: param.neutral for name, param in known.items()}
        try:
            values = {**neutral, **{name: known[name].check(value) for name, value in others.items()}}
            self.part.check(values)
            before = {**neutral, **{name: known[name].check(value) for name, value in params.items()}}
            return bool(self.part.is_active(values)) == bool(self.part.is_active(before))
        except ParameterError:
            return False

    def continued(self, case: Case) -> Live:
        """The requests of `case` after some more tokens."""
        live = Live(self, case)
        live.accept(case.some_token_ids(STEPS), case.some_notes(STEPS))
        return live

    @property
    def tried_params(self) -> Sequence[Mapping[str, Any]]:
        """`params`, or those of the examples."""
        return self.params or distinct(example.params for example in self.part.examples)

    @property
    def narrow_sizes(self) -> Sequence[int]:
        """The two greatest of the vocabulary sizes up to 300, for laws that need many rows."""
        narrow = sorted(size for size in self.vocab_sizes if size <= NARROW_SIZE)
        return narrow[-2:] or [min(self.vocab_sizes)]

    def history_of(self, example: Example) -> dict[str, Any]:
        """The history of an example, as keywords of `apply_sampler` and `select`."""
        n = len(example.logits)
        return {
            "prompts": [example.prompt_token_ids],
            "outputs": [example.output_token_ids],
            "eos_token_ids": example.eos_token_ids,
            "tokenizer": Tokenizer(example.token_bytes) if example.token_bytes else self.tokenizer(n),
        }

    def _with_few_left(self) -> Iterator[Case]:
        """All batches, these with half of the tokens, and small ones spread over a large vocabulary."""
        for case in self.cases(wide=True):
            yield case
            yield case.thinned()
        for random in self.draws(1):
            small, _, large = self.drawn_sizes(random)
            case = draw_case(random, self.mixed_params(random), small)
            yield case.take(range(min(8, len(case)))).spread(large)
            yield case.take(range(min(16, len(case)))).spread(max(case.vocab_size, min(large, 5000)))

    def _on_subset(self, case: Case, rows: Rows, keep: np.ndarray, padding: int = 0) -> np.ndarray:
        logits, ids = case.compact(keep, padding)
        return self.outcome(logits, rows.take(slice(None), ids).bind(self.part))

    def _inputs(self, rows: Rows) -> Iterator[tuple[str, np.ndarray]]:
        for name in known_params(self.part):
            yield f"parameter {name}", rows[name]
        for i in range(len(rows)):
            yield f"the history of row {i}", rows.token_ids(i)

    def _expect_same(
        self, case: Case, results: Iterable[np.ndarray], expected: Iterable[np.ndarray], where: str
    ) -> None:
        for result, right in zip(results, expected, strict=True):
            case.expect_equal(result, right, where)

    def _extremes(self) -> Iterator[Mapping[str, Any]]:
        """Every parameter set with each own parameter at its bounds, if that is allowed."""
        for params in self.tried_params:
            for param in self.part.params:
                for bound in bounds(param):
                    extreme = {**params, param.name: bound}
                    if self._is_tried(extreme):
                        yield extreme
            yield params

    def _is_tried(self, params: Mapping[str, Any]) -> bool:
        try:
            values = settings(self.part, params)
        except ParameterError:
            return False
        return isinstance(self.part, Selector) or self.part.is_active(values)


@lru_cache(maxsize=8)
def _drawn_again(kit: type[Contract], number: int, which: int) -> Case:
    """The batch of a number for a small, middling or large vocabulary: most laws of a kit ask for the same
    ones. The logits must not be changed."""
    law, random = kit(), trial_of(number)
    size = law.drawn_sizes(random)[which]
    return draw_case(random, law.mixed_params(random), size)


def distinct(params: Iterable[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Parameter sets without repetitions."""
    found: list[Mapping[str, Any]] = []
    for given in params:
        if dict(given) not in found:
            found.append(dict(given))
    return found


def many_of(values: np.ndarray, n: int) -> np.ndarray:
    """`n` rows: those of `values` [m, k] again and again."""
    return values[np.arange(n) % len(values)]


def bounds(param: Param) -> tuple[Any, ...]:
    """The extreme values of a number, every value of a choice or switch, else nothing."""
    if param.choices is not None:
        return param.choices
    if param.type is bool:
        return (False, True)
    if param.type not in (int, float):
        return ()
    most = {int: 2**31 - 1, float: sys.float_info.max}[param.type]
    low = -most if param.low is None else param.low
    if param.low_open:
        low = low + 1 if param.type is int else math.nextafter(low, math.inf)
    return (low, most if param.high is None else param.high)


def laws_of(kit: type) -> list[str]:
    """The names of the laws of `kit`, its methods `test_…`."""
    return sorted(name for name in dir(kit) if name.startswith("test_"))


def result_of(kit: type, law: str) -> CheckResult:
    """Whether `kit` finds a law kept or broken, or not promised, and why."""
    try:
        getattr(kit(), law)()
    except SkipTest as reason:
        return CheckResult(law, NOT_PROMISED, str(reason))
    except (Exception, SystemExit) as error:
        said = str(error) if isinstance(error, AssertionError) else repr(error)
        return CheckResult(law, FAILED, said or _line_of(error))
    return CheckResult(law, PASSED)


def _line_of(error: BaseException) -> str:
    """Where an assertion without words, of a plugin, failed."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    return f"fails without words at {at.filename}:{at.lineno}: {at.line}"


def problem_with(kit: type, law: str) -> str | None:
    """Why `kit` finds a law broken; None if it does not."""
    result = result_of(kit, law)
    return result.detail if result.outcome == FAILED else None


def failing_laws(kit: type) -> dict[str, str]:
    """The laws that `kit` finds broken, by name, with the reasons. Raises TypeError for what is no kit, which
    is a class with methods `test_…` such as those of `SamplerContract`."""
    laws = laws_of(kit) if isinstance(kit, type) else []
    if not laws:
        raise TypeError(
            f"kit={quoted(kit)} is not allowed: a class with laws, such as a SamplerContract of yours"
        )
    found = {law: problem_with(kit, law) for law in laws}
    return {law: problem for law, problem in found.items() if problem is not None}
