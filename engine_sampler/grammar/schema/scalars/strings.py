"""Sets of strings (values or keys) as expressions of their JSON texts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ...errors import GrammarError, GrammarLimitError, UnsupportedKeywordError
from ...program.expression import EMPTY, Expression, both, complement, literal, repeat, union
from ...program.unicode import ANY_CHARACTER as ANY_UNICODE
from ...program.unicode import TEXT
from ...regex import pattern as regex
from ...work import spend, spend_on_each
from ..formula import (
    AND,
    FORMAT,
    LENGTH,
    NOT,
    OR,
    PATTERN,
    TRUE,
    WITHIN,
    Formula,
    cached_if_small,
    conjunction,
    disjunction,
)
from .formats import PARTIAL, format_expression
from .lifting import Lifted, lifted
from .matching import ValueMatcher, is_empty
from .sampling import sample
from .searching import sampled_truths, some_string
from .texts import ANY_BODY, ANY_CHARACTER, PLAIN_BODY, STRING, bodies_of, quoted


def string_set(formula: Formula) -> Expression:
    """The texts, quotes included, of the strings that a formula allows; EMPTY if there are none."""
    if formula == TRUE:
        return STRING
    if formula[0] == NOT and formula[1][0] == WITHIN:  # the keys that this schema alone does not name
        return _texts_except(formula[1][1])
    if formula[0] == WITHIN:
        body = bodies_of(formula[1])
        return EMPTY if body == EMPTY else quoted(body)
    return _texts(_simplified(formula))


def other_keys(names: Collection[str]) -> tuple[Formula, Expression]:
    """All keys but some: their formula, and their texts."""
    if not names:
        return TRUE, STRING
    return (NOT, (WITHIN, frozenset(names))), _texts_except(names)


def _texts_except(strings: Collection[str]) -> Expression:
    return quoted(both(PLAIN_BODY, complement(bodies_of(strings))))


@cached_if_small
def _texts(formula: Formula) -> Expression:
    if may_be_empty(formula) and not is_possible(formula):
        return EMPTY
    body = _body(formula).body
    return EMPTY if body == EMPTY else quoted(body)


@cached_if_small
def is_possible(formula: Formula) -> bool:
    """Whether any string satisfies the formula."""
    _refuse_partial_within(formula)
    if formula[0] == OR:
        return any(map(is_possible, formula[1]))
    if _has_sample(formula):
        return True
    found = some_string(formula, _all_content)
    return not is_empty(_all_content(formula)) if found is None else found


def some_truths(patterns: Sequence[Formula]) -> set[tuple[bool, ...]]:
    """Some of the combinations of patterns that a string can match; those not found may exist, too."""
    if not all(pattern[0] == PATTERN for pattern in patterns):
        return set()
    return sampled_truths(patterns, _all_content)


def _has_sample(formula: Formula) -> bool:
    """Whether a string that one assertion obviously allows satisfies the formula."""
    atoms = formula[1] if formula[0] == AND else (formula,)
    for atom in atoms:
        text = sample(_content(atom)) if atom[0] in (PATTERN, FORMAT) else None
        if text is not None and all(one is atom or _obviously_holds(one, text) for one in atoms):
            return True
    return False


def _obviously_holds(formula: Formula, text: bytes) -> bool:
    try:
        return holds(formula, text.decode())
    except GrammarLimitError:
        spend(0)  # the limit may be that on reading
        return False


def content_set(formula: Formula) -> Expression:
    """The strings that a formula allows in UTF-8, as they are, without quotes and escapes."""
    return _all_content(_simplified(formula))


def may_be_empty(formula: Formula) -> bool:
    """Whether only a search can decide if any string satisfies the formula."""
    if formula[0] == AND:
        rest = [part for part in formula[1] if part[0] != NOT or part[1][0] != WITHIN]
        return len(rest) > 1 or (len(rest) == 1 and len(formula[1]) > 1 and rest[0][0] != NOT)
    return formula[0] in (OR, PATTERN) or (formula[0] == NOT and formula[1][0] != WITHIN)


def _all_content(formula: Formula) -> Expression:
    """The strings of a formula in UTF-8."""
    kind = formula[0]
    if kind in (AND, OR):
        parts = map(_all_content, formula[1])
        return both(*parts) if kind == AND else union(*parts)
    if kind == NOT:
        _refuse_partial(formula[1])
        return both(TEXT, complement(_all_content(formula[1])))
    if kind == WITHIN:
        texts = spend_on_each(formula[1])
        return union(*(literal(text.encode("utf-8", "surrogatepass")) for text in texts))
    if kind == LENGTH:
        return repeat(ANY_UNICODE, formula[1], formula[2])
    return _content(formula)


def holds(formula: Formula, text: str) -> bool:
    """Whether one string satisfies a formula."""
    kind = formula[0]
    if kind == WITHIN:
        spend()
        return text in formula[1]
    if kind == NOT:
        inner = formula[1]
        if inner[0] == WITHIN:
            spend(2)
            return text not in inner[1]
        spend()
        return not holds(inner, text)
    spend()
    if kind == AND:
        return all(holds(part, text) for part in formula[1])
    if kind == OR:
        return any(holds(part, text) for part in formula[1])
    if kind == LENGTH:
        return formula[1] <= len(text) and (formula[2] is None or len(text) <= formula[2])
    return _matcher(formula).matches(text.encode("utf-8", "surrogatepass"))


def _satisfying(formulas: Iterable[Formula], texts: Collection[str]) -> Collection[str]:
    """The strings that satisfy all formulas."""
    for formula in formulas:
        atom = formula[1] if formula[0] == NOT else formula
        if atom[0] in (PATTERN, FORMAT):
            matches, wanted = _matcher(atom).matches, atom is formula
            spend(len(texts))
            texts = [text for text in texts if matches(text.encode("utf-8", "surrogatepass")) == wanted]
        else:
            texts = [text for text in texts if holds(formula, text)]
    return texts


@cached_if_small
def _matcher(atom: Formula) -> ValueMatcher:
    return ValueMatcher(_content(atom))


@cached_if_small
def _content(atom: Formula) -> Expression:
    """The strings of a pattern or a format in UTF-8."""
    if atom[0] == FORMAT:
        return format_expression(atom[1])
    try:
        return regex.pattern_expression(atom[1], dialect="ecma", search=True)
    except GrammarError as error:
        raise type(error)(f"pattern {atom[1][:200]!r}: {error}") from None


def _simplified(formula: Formula) -> Formula:
    """An equivalent formula without the constants that other assertions rule out."""
    if formula[0] == OR:
        parts = [_simplified(part) for part in formula[1]]
        values = [part[1] for part in parts if part[0] == WITHIN]
        rest = [part for part in parts if part[0] != WITHIN]
        return disjunction([*rest, (WITHIN, frozenset().union(*values))] if values else rest)
    if formula[0] == AND:
        parts = [_simplified(part) for part in formula[1]]
        values = [part[1] for part in parts if part[0] == WITHIN]
        if not values:
            return conjunction(_with_one_length(parts))
        rest = [part for part in parts if part[0] != WITHIN]
        common = frozenset.intersection(*values)
        return (WITHIN, frozenset(_satisfying(rest, common)))
    if formula[0] == NOT and formula[1][0] == LENGTH:
        return _other_lengths(formula[1][1], formula[1][2])
    return formula


def _other_lengths(low: int, high: int | None) -> Formula:
    """The strings that are shorter or longer."""
    shorter = [(LENGTH, 0, low - 1)] if low else []
    return disjunction([*shorter, (LENGTH, high + 1, None)] if high is not None else shorter)


def _with_one_length(parts: list[Formula]) -> list[Formula]:
    """The parts with all length bounds merged into one: engines handle one count better than two."""
    lengths = [part for part in parts if part[0] == LENGTH]
    if len(lengths) < 2:
        return parts
    highs = [part[2] for part in lengths if part[2] is not None]
    one = (LENGTH, max(part[1] for part in lengths), min(highs) if highs else None)
    return [part for part in parts if part[0] != LENGTH] + [one]


def _body(formula: Formula) -> Lifted:
    """The bodies of a formula's strings, and the bodies among which its complement is exact."""
    kind = formula[0]
    if kind == AND:
        parts = list(map(_body, formula[1]))
        return _joined(both(*(part.body for part in parts)), parts)
    if kind == OR:
        parts = list(map(_body, formula[1]))
        return _joined(union(*(part.body for part in parts)), parts)
    if kind == NOT:
        _refuse_partial(formula[1])
        inner = _body(formula[1])
        return Lifted(both(inner.base, complement(inner.body)), inner.base)
    if kind == LENGTH:
        return Lifted(repeat(ANY_CHARACTER, formula[1], formula[2]), ANY_BODY)
    if kind == WITHIN:
        return Lifted(bodies_of(formula[1]), PLAIN_BODY)
    return _lifted(formula)


def _refuse_partial(formula: Formula) -> None:
    if formula[0] == FORMAT and formula[1] in PARTIAL:
        raise UnsupportedKeywordError(f"not is not supported for the format {formula[1]}")


def _refuse_partial_within(formula: Formula) -> None:
    if formula[0] in (AND, OR):
        for part in formula[1]:
            _refuse_partial_within(part)
    elif formula[0] == NOT:
        _refuse_partial(formula[1])


def _joined(body: Expression, parts: Iterable[Lifted]) -> Lifted:
    """The body, with the smallest base of the parts: the complement of each is exact within it."""
    base = ANY_BODY
    for _, other in parts:
        if other is not ANY_BODY and base is not other:
            base = other if base is ANY_BODY or other is not PLAIN_BODY else base
    return Lifted(body, base)


@cached_if_small
def _lifted(atom: Formula) -> Lifted:
    return lifted(_content(atom))
