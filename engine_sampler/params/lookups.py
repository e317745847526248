"""What follows from a catalogue alone: computed once, and used for every request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from ..contract import Drafter, Sampler, Selector, StoppingCriteria
from ..registry import Catalogue
from .costs import passes_of
from .orders import full_order, orderable

Part = TypeVar("Part", Sampler, Selector, StoppingCriteria)


class Switches(Generic[Part]):
    """Samplers, selectors or criteria, and the parameters that turn them on.

    By default, a part is active if one of its switches is not neutral; only those that decide in another way
    are asked. A sampler in the place of another one is not, unless one of its switches is not neutral.
    """

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts: tuple[Part, ...] = tuple(parts)
        deciding = {i for i, part in enumerate(self._parts) if not _has_default(part, "is_active")}
        self._asked = {i for i in deciding if getattr(self._parts[i], "instead_of", None) is None}
        self._confirmed = deciding - self._asked
        self._switched: dict[str, int] = {}
        for i, part in enumerate(self._parts):
            if i not in self._asked:
                self._switched |= {param.name: i for param in part.params if param.switch}

    def active(self, given: Iterable[str], *arguments: Any) -> list[Part]:
        """Those that are active if all parameters but `given` are neutral, in order.

        arguments  those of `is_active`.
        """
        on = {self._switched[name] for name in given if name in self._switched}
        numbers = sorted(on | self._asked)
        on -= self._confirmed
        return [self._parts[i] for i in numbers if i in on or self._parts[i].is_active(*arguments)]


class Lookup:
    """The parts and parameters of a catalogue, arranged for checking and finding.

    neutral    the neutral value of every parameter.
    numbers    the place of every parameter among them.
    checks     (part, its check) of all parts that refuse some values together.
    stand_ins  the samplers that take the place of another one, and that one, by name.
    passes     what a chain of all samplers, once each, would cost at worst, in passes over the vocabulary.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.neutral = {name: param.neutral for name, param in catalogue.params.items()}
        self.numbers = {name: number for number, name in enumerate(self.neutral)}
        parts: list[Sampler | Selector] = [*catalogue.samplers.values(), *catalogue.selectors.values()]
        drafters, criteria = catalogue.drafters.values(), catalogue.stopping_criteria.values()
        self.checks: list[tuple[Any, Callable[[Mapping[str, Any]], None]]] = [
            *((part, part.check) for part in (*parts, *drafters) if not _has_default(part, "check")),
            *((c, c.check_params) for c in criteria if not _has_default(c, "check_params")),
        ]
        self.stand_ins = {s.name: s.instead_of for s in catalogue.samplers.values() if s.instead_of}
        self.passes = passes_of(orderable(catalogue.samplers).values())
        self.samplers = Switches(catalogue.samplers.values())
        self.selectors = Switches(catalogue.selectors.values())
        self.stopping_criteria = Switches(criteria)
        self._orders: dict[str, tuple[str, ...]] = {}

    def differing(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The `values` that are not neutral."""
        return {name: value for name, value in values.items() if value != self.neutral.get(name)}

    def order(self, order: str | tuple[str | int, ...]) -> tuple[str, ...]:
        """`full_order` of the catalogue's samplers."""
        if not isinstance(order, str):
            return full_order(order, self.catalogue.samplers)
        if order not in self._orders:
            self._orders[order] = full_order(order, self.catalogue.samplers)
        return self._orders[order]


def lookup_of(catalogue: Catalogue) -> Lookup:
    """The `Lookup` of `catalogue`: the same object until another one is asked for."""
    global _latest
    latest = _latest
    if latest is None or latest.catalogue is not catalogue:
        latest = _latest = Lookup(catalogue)
    return latest


_latest: Lookup | None = None


def _has_default(part: Sampler | Selector | StoppingCriteria | Drafter, method: str) -> bool:
    """Whether `part` leaves `method` as its base class defines it."""
    bases = (Sampler, Selector, StoppingCriteria, Drafter)
    base = next(base for base in bases if isinstance(part, base))
    return getattr(getattr(part, method), "__func__", None) is getattr(base, method)
