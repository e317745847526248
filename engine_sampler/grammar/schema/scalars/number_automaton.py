"""An automaton that reads a number and compares it, digit by digit, with the constants of a formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from ...errors import GrammarLimitError
from ...program.expression import EMPTY, Expression, automaton
from ...program.reaching import nodes_reaching
from ...work import spend, spend_on_each
from ..formula import AND, INTEGER, LESS, MULTIPLE, NOT, OR, WITHIN, Formula
from ..limits import MAX_NUMBER_STATES
from .divisors import Residue, divisor_of, fraction_residue, is_multiple, whole_residue
from .number_states import (
    E_SIGN,
    EXPONENT,
    FRACTION,
    INTEGRAL,
    MINUS,
    POINT,
    START,
    ZERO,
    E,
    KnownNumber,
    NumberFacts,
    NumberReading,
    NumberScale,
    NumberState,
    WholeSigns,
    bound_of,
    compare_digit,
    compare_exponent,
)

_MAX_BOUNDS = 200
"""Maximum number of bounds and constants with which a number is compared."""


def _atoms(formula: Formula) -> list[Formula]:
    atoms: list[Formula] = []
    waiting = [formula]
    while waiting:
        part = waiting.pop()
        if part[0] in (AND, OR):
            waiting += part[1]
        else:
            atoms.append(part[1] if part[0] == NOT else part)
    return atoms


def _is_plainly_whole(formula: Formula) -> bool:
    """Whether only numbers without a point and an exponent can satisfy the formula."""
    if formula[0] in (AND, OR):
        return (any if formula[0] == AND else all)(map(_is_plainly_whole, spend_on_each(formula[1])))
    return bool(formula == (INTEGER, True))


def _needed_divisors(formula: Formula) -> list[Decimal]:
    """The divisors of all numbers that satisfy the formula."""
    parts = formula[1] if formula[0] == AND else (formula,)
    return [part[1] for part in spend_on_each(parts) if part[0] == MULTIPLE]


def digits_of(formula: Formula) -> tuple[int, int]:
    """Numbers of digits before the point, and after it, with which some number satisfies the formula if any
    does: there is one beyond all bounds, or between two of them, that is a multiple of all divisors."""
    whole = fraction = 1
    of_divisors = 0
    for atom in _atoms(formula):
        values = atom[1] if atom[0] == WITHIN else atom[1:2]
        for value in spend_on_each(values if atom[0] in (WITHIN, LESS, MULTIPLE) else ()):
            number = value.as_tuple()
            least = max(-int(number.exponent), 0)
            most = max(len(number.digits) + int(number.exponent), 1)
            fraction = max(fraction, least + 1)
            if atom[0] == MULTIPLE:
                of_divisors += most
            else:
                whole = max(whole, most + 1)
    return whole + of_divisors, fraction


class NumberAutomaton:
    """The automaton of one formula; states are created as they are reached.

    signed  whether a number may begin with a minus sign
    """

    def __init__(self, formula: Formula, signed: bool = True) -> None:
        self._formula = formula
        self._signed = signed
        self._is_plainly_whole = _is_plainly_whole(formula)
        atoms = _atoms(formula)
        values = {atom[1] for atom in atoms if atom[0] == LESS}
        values.update(value for atom in atoms if atom[0] == WITHIN for value in atom[1])
        self._values = sorted(values)
        if len(values) > _MAX_BOUNDS:
            raise GrammarLimitError(
                f"a number in the JSON Schema is compared with more than {_MAX_BOUNDS} bounds and constants"
            )
        self._by_sign = {sign: tuple(value for value in self._values if value * sign > 0) for sign in (1, -1)}
        self._bounds = {sign: tuple(map(bound_of, values)) for sign, values in self._by_sign.items()}
        self._scales = {
            sign: tuple(bound.scale.lstrip("0") for bound in bounds) for sign, bounds in self._bounds.items()
        }
        bounds = self._bounds[1] + self._bounds[-1]
        self._longest_whole = max((len(bound.whole) for bound in bounds), default=0)
        self._multiples = {atom[1]: divisor_of(atom[1]) for atom in atoms if atom[0] == MULTIPLE}
        needed = _needed_divisors(formula)
        self._needed = [number for number, value in enumerate(self._multiples) if value in needed]
        lengths = [len(bound.fraction) for bound in bounds] + [len(bound.digits) for bound in bounds]
        lengths += [-divisor.zeros for divisor in self._multiples.values()]
        self._longest_fraction = max(lengths, default=0)
        self._divisors = tuple(self._multiples.values())
        self._rows: list[dict[Residue, list[Residue]]] = [{} for _ in self._divisors]
        self._residues_after: dict[tuple[Residue, ...], list[tuple[Residue, ...]]] = {}
        self._longest_exponent = max((len(bound.scale) for bound in bounds), default=0)
        self._whole_signs: dict[tuple[int, int, tuple[int, ...]], dict[str, WholeSigns]] = {}
        self._verdicts: dict[KnownNumber, bool | None] = {}
        self._steps: dict[int, Callable[[Any, str], Any]] = {
            INTEGRAL: self._whole_digit,
            FRACTION: self._fraction_digit,
            EXPONENT: self._exponent_digit,
        }

    def expression(self) -> Expression:
        """The automaton as an expression, without dead states."""
        numbers: dict[NumberState, int] = {(START, None): 0}
        states: list[NumberState] = [(START, None)]
        edges: list[list[tuple[int, int, int]]] = []
        each = 6 + (len(self._values) + len(self._multiples)) // 2
        for state in states:
            outgoing = []
            for low, high, target in self._edges(state):
                if self._needed and not self._may_divide(target):
                    continue
                number = numbers.get(target)
                if number is None:
                    number = numbers[target] = len(numbers)
                    states.append(target)
                outgoing.append((low, high, number))
            spend(10 + each * len(outgoing))
            edges.append(sorted(outgoing))
            if len(states) > MAX_NUMBER_STATES:
                raise GrammarLimitError(
                    f"a number in the JSON Schema needs more than {MAX_NUMBER_STATES} states"
                )
        accepts = [self._accepts(state) for state in spend_on_each(states, 3 + len(self._values))]
        return _trimmed(edges, accepts)

    def _may_divide(self, state: NumberState) -> bool:
        """Whether a number that goes on from here can be a multiple of what it has to be: with an exponent,
        only zero is known to be."""
        phase, known = state
        if phase in (START, MINUS):
            return True
        if known.zero or phase >= E:
            return bool(known.zero)
        return all(map(known.residues.__getitem__, self._needed))

    def _edges(self, state: NumberState) -> list[tuple[int, int, NumberState]]:
        phase, known = state
        if phase in (START, MINUS):
            reading = self._begin(-1 if phase == MINUS else 1)
            edges = self._digits(reading, INTEGRAL, "123456789")
            edges.append((0x30, 0x30, (ZERO, reading)))
            return edges if phase == MINUS or not self._signed else [*edges, (0x2D, 0x2D, (MINUS, None))]
        if phase in (ZERO, INTEGRAL):
            edges = self._digits(known, INTEGRAL) if phase == INTEGRAL else []
            if self._is_plainly_whole:
                return edges
            return [*edges, (0x2E, 0x2E, (POINT, self._point(known))), *self._to_exponent(known)]
        if phase in (POINT, FRACTION):
            edges = self._digits(known, FRACTION)
            return edges if phase == POINT else [*edges, *self._to_exponent(known)]
        edges = self._digits(known, EXPONENT)
        if phase == E:
            minus = known._replace(negative=True)
            edges += [(0x2B, 0x2B, (E_SIGN, known)), (0x2D, 0x2D, (E_SIGN, minus))]
        return edges

    def _digits(
        self, known: Any, phase: int, digits: str = "0123456789"
    ) -> list[tuple[int, int, NumberState]]:
        if self._multiples and phase == INTEGRAL:
            return self._whole_digits(known, digits)
        step = self._steps[phase]
        ranges: list[tuple[int, int, NumberState]] = []
        for first, last in self._runs(known, phase, digits):
            target = phase, step(known, first)
            if ranges and ranges[-1][2] == target:
                ranges[-1] = ranges[-1][0], ord(last), target
            else:
                ranges.append((ord(first), ord(last), target))
        return ranges

    def _runs(self, known: Any, phase: int, digits: str) -> list[tuple[str, str]]:
        """Runs of digits that are treated alike; a digit of a bound at this position is a run of its own."""
        if self._multiples:
            return [(digit, digit) for digit in digits]
        marks = {"0"}
        for bound in self._bounds[known.sign]:
            if phase == INTEGRAL:
                marks.update(bound.whole[known.whole : known.whole + 1], bound.digits[:1])
            elif phase == FRACTION:
                at = known.fraction
                marks.update(bound.fraction[at : at + 1], bound.digits[at + 1 : at + 2])
            else:
                marks.update(bound.scale[known.size : known.size + 1])
        runs: list[tuple[str, str]] = []
        for digit in digits:
            if runs and not marks & {digit, runs[-1][1]}:
                runs[-1] = runs[-1][0], digit
            else:
                runs.append((digit, digit))
        return runs

    def _begin(self, sign: int) -> NumberReading:
        none = (0,) * len(self._bounds[sign])
        pending = tuple((0, max(divisor.zeros, 0)) for divisor in self._multiples.values())
        return NumberReading(sign, plain=none, mantissa=none, residues=pending)

    def _whole_digit(self, known: NumberReading, digit: str) -> NumberReading:
        plain, mantissa = self._signs_after(known, digit)
        whole = self._whole_after(known)
        return NumberReading(
            known.sign, whole, plain, known.fraction, mantissa, known.has_fraction, False, ()
        )

    def _whole_after(self, known: NumberReading) -> int:
        return min(known.whole + 1, max(self._longest_whole + 1, 2))

    def _whole_digits(self, known: NumberReading, digits: str) -> list[tuple[int, int, NumberState]]:
        """As `_digits`, where each digit has residues of its own: what depends on other things is computed
        once for all states in which these are the same."""
        key = known.sign, known.whole, known.plain
        signs = self._whole_signs.get(key)
        if signs is None:
            signs = self._whole_signs[key] = {
                digit: self._signs_after(known, digit) for digit in "0123456789"
            }
        residues = self._residues_after.get(known.residues)
        if residues is None:
            rows = map(self._row, range(len(known.residues)), known.residues)
            residues = self._residues_after[known.residues] = list(zip(*rows, strict=True))
        whole = self._whole_after(known)
        ranges: list[tuple[int, int, NumberState]] = []
        latest = None
        for digit in digits:
            byte = ord(digit)
            plain, mantissa = signs[digit]
            after = residues[byte - 0x30]
            if (plain, mantissa, after) == latest:
                ranges[-1] = ranges[-1][0], byte, ranges[-1][2]
                continue
            latest = plain, mantissa, after
            reading = NumberReading(
                known.sign, whole, plain, known.fraction, mantissa, known.has_fraction, False, after
            )
            ranges.append((byte, byte, (INTEGRAL, reading)))
        return ranges

    def _signs_after(self, known: NumberReading, digit: str) -> WholeSigns:
        """The comparisons after a digit of the whole part."""
        bounds, at = self._bounds[known.sign], known.whole
        plain = known.plain and tuple(
            [
                1 if at >= len(bound.whole) else (status or compare_digit(digit, bound.whole, at))
                for status, bound in zip(known.plain, bounds, strict=True)
            ]
        )
        mantissa = tuple([compare_digit(digit, bound.digits, 0) for bound in bounds]) if at == 0 else None
        return plain, mantissa

    def _row(self, number: int, residue: Residue) -> list[Residue]:
        """The residues of one divisor after each digit."""
        row = self._rows[number].get(residue)
        if row is None:
            divisor = self._divisors[number]
            row = [whole_residue(residue, divisor, digit) for digit in "0123456789"]
            self._rows[number][residue] = row
        return row

    def _point(self, known: NumberReading) -> NumberReading:
        plain = tuple(
            -1 if known.whole < len(bound.whole) else status
            for status, bound in zip(known.plain, self._bounds[known.sign], strict=True)
        )
        divisors = self._multiples.values()
        residues = tuple(
            residue if divisor.zeros < 0 or is_multiple(residue, divisor, 0) else None
            for residue, divisor in zip(known.residues, divisors, strict=True)
        )
        return NumberReading(
            known.sign, 0, plain, known.fraction, known.mantissa, known.has_fraction, known.zero, residues
        )

    def _fraction_digit(self, known: NumberReading, digit: str) -> NumberReading:
        bounds = self._bounds[known.sign]
        at = known.fraction
        plain = tuple(
            status or compare_digit(digit, bound.fraction, at)
            for status, bound in zip(known.plain, bounds, strict=True)
        )
        mantissa = known.mantissa
        if mantissa is not None and not known.zero:
            mantissa = tuple(
                status or compare_digit(digit, bound.digits, at + 1)
                for status, bound in zip(mantissa, bounds, strict=True)
            )
        elif digit != "0":
            mantissa = None
        residues = tuple(
            fraction_residue(residue, divisor, digit, at)
            for residue, divisor in zip(known.residues, self._multiples.values(), strict=True)
        )
        return NumberReading(
            known.sign,
            known.whole,
            plain,
            min(at + 1, self._longest_fraction),
            mantissa,
            known.has_fraction or digit != "0",
            known.zero and digit == "0",
            residues,
        )

    def _to_exponent(self, known: NumberReading) -> list[tuple[int, int, NumberState]]:
        if known.mantissa is None:
            return []
        done = 0 if known.zero else known.fraction + 1
        mantissa = tuple(
            -1 if not status and done < len(bound.digits) else status
            for status, bound in zip(known.mantissa, self._bounds[known.sign], strict=True)
        )
        scale = NumberScale(
            known.sign, mantissa, known.has_fraction, known.zero, exponent=(0,) * len(mantissa)
        )
        return [(byte, byte, (E, scale)) for byte in (0x45, 0x65)]

    def _exponent_digit(self, known: NumberScale, digit: str) -> NumberScale:
        if digit == "0" and not known.size:
            return known
        at = known.size
        exponent = tuple(
            [
                1 if at >= len(scale) else status or compare_digit(digit, scale, at)
                for status, scale in zip(known.exponent, self._scales[known.sign], strict=True)
            ]
        )
        size = min(at + 1, self._longest_exponent + 1)
        return NumberScale(
            known.sign, known.mantissa, known.has_fraction, known.zero, known.negative, size, exponent
        )

    def _accepts(self, state: NumberState) -> bool:
        phase, reading = state
        if phase in (ZERO, INTEGRAL, FRACTION):
            known = self._plain_facts(reading, phase)
        elif phase == EXPONENT:
            known = self._scaled_facts(reading)
        else:
            return False
        if known not in self._verdicts:
            compared = self._compared(known.sign, known.zero, known.signs)
            divides = dict(zip(self._multiples, known.divides, strict=False))
            is_zero = known.scaled and known.zero
            facts = NumberFacts(compared, known.whole, known.strict, divides, is_zero)
            self._verdicts[known] = self._holds(self._formula, facts)
        return self._verdicts[known] is True

    def _plain_facts(self, known: NumberReading, phase: int) -> KnownNumber:
        signs = []
        for status, bound in zip(known.plain, self._bounds[known.sign], strict=True):
            shorter = phase != FRACTION and known.whole < len(bound.whole)
            if shorter or (not status and known.fraction < len(bound.fraction)):
                status = -1
            signs.append(status)
        divides = [
            is_multiple(residue, divisor, known.fraction)
            for divisor, residue in zip(self._divisors, known.residues, strict=True)
        ]
        strict = False if known.has_fraction else (None if phase == FRACTION else True)
        whole = not known.has_fraction
        return KnownNumber(known.sign, known.zero, tuple(signs), whole, strict, tuple(divides), False)

    def _scaled_facts(self, known: NumberScale) -> KnownNumber:
        signs = []
        for status, bound, mantissa in zip(
            known.exponent, self._bounds[known.sign], known.mantissa, strict=True
        ):
            signs.append(compare_exponent(known, status, bound.exponent) or mantissa)
        whole: bool | None = True
        if not known.zero and known.size and known.negative:
            whole = False
        elif known.has_fraction:
            whole = None if known.size else False
        strict = None if whole else whole
        return KnownNumber(known.sign, known.zero, tuple(signs), whole, strict, (), True)

    def _compared(self, sign: int, zero: bool, signs: Sequence[int]) -> dict[Decimal, int]:
        compared = {}
        own = dict(zip(self._by_sign[sign], signs, strict=True))
        for value in self._values:
            if zero:
                compared[value] = (value < 0) - (value > 0)
            else:
                compared[value] = sign * own[value] if value in own else sign
        return compared

    def _holds(self, formula: Formula, facts: NumberFacts) -> bool | None:
        """Whether the formula is true of a number; None if the number's form does not decide it."""
        kind = formula[0]
        if kind in (AND, OR):
            spend(1 + len(formula[1]))
            found = {self._holds(part, facts) for part in formula[1]}
            if (kind == OR) in found:
                return kind == OR
            return None if None in found else kind == AND
        if kind == NOT:
            holds = self._holds(formula[1], facts)
            return None if holds is None else not holds
        if kind == LESS:
            return facts.compared[formula[1]] < (1 if formula[2] else 0)
        if kind == WITHIN:
            return any(facts.compared[value] == 0 for value in formula[1])
        if kind == INTEGER:
            return facts.strictly_whole if formula[1] else facts.whole
        return True if facts.is_zero else facts.divides.get(formula[1])


def _trimmed(edges: list[list[tuple[int, int, int]]], accepts: list[bool]) -> Expression:
    """The automaton without its dead states; the first state remains the first."""
    steps = ((state, target) for state, outgoing in enumerate(edges) for _, _, target in outgoing)
    alive = nodes_reaching(steps, (state for state, accepting in enumerate(accepts) if accepting))
    if 0 not in alive:
        return EMPTY
    numbers = {state: number for number, state in enumerate(sorted(alive))}
    return automaton(
        tuple(
            (
                accepts[state],
                tuple((low, high, numbers[end]) for low, high, end in edges[state] if end in alive),
            )
            for state in numbers
        )
    )
