"""What a chain needs of the kernels, decided on the host from values that the host has anyway."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .few import MIN_P, TEMPERATURE, TOP_K, TOP_P
from .workspace import ROOM, UNASKED, UNASKED_BY_TOP_P

OPERATIONS = {
    "temperature": TEMPERATURE.value,
    "top_k": TOP_K.value,
    "top_p": TOP_P.value,
    "min_p": MIN_P.value,
}
"""The samplers that the kernels know."""
SELECTORS = ("dist", "greedy")


def covers(samplers: Sequence[str], selector: str, fixed: Mapping[str, Any]) -> bool:
    """Whether the kernels can run this chain after its edits: temperature, top_k, top_p and min_p, each at
    most once and in any order, then dist or greedy. `fixed` are the host values of the steps by name; a
    temperature that follows the entropy is not covered."""
    if (
        selector not in SELECTORS
        or len(set(samplers)) < len(samplers)
        or not set(samplers) <= set(OPERATIONS)
    ):
        return False
    return "temperature" not in samplers or not fixed["temperature"][0]


@dataclass(frozen=True)
class KernelPlan:
    """Which kernels run, and how.

    operations  the samplers as numbers, in order.
    heated      a temperature leads: every kernel applies it while it reads.
    greedy      some rows have temperature 0.
    drawn       the selector is dist.
    wanted      candidates to gather in each row; 0: nothing is cut, and the whole row is drawn from.
    asked       a top_k says of each row how many it needs.
    weighed     a top_p needs the weight of the whole row beside the candidates: mostly the estimates of the
    scan do for that.
    flat        rows in which they or the candidates do not suffice are cut by `flat`, without a search by one
    program; else rows in which the estimates do not are weighed exactly.
    """

    operations: tuple[int, ...]
    heated: bool
    greedy: bool
    drawn: bool
    wanted: int
    asked: bool
    weighed: bool
    flat: bool

    @classmethod
    def of(cls, samplers: Sequence[str], selector: str, fixed: Mapping[str, Any]) -> KernelPlan:
        samplers = tuple(samplers)
        operations = tuple(OPERATIONS[name] for name in samplers)
        cuts = [name for name in samplers if name != "temperature"]
        # A cut after a temperature in the middle may take ties in another order than the candidates are
        # found in.
        before = samplers[: samplers.index("temperature", 1)] if "temperature" in samplers[1:] else samplers
        k = fixed["top_k"] if "top_k" in before else None
        weighed = "top_p" in before and not (k and before.index("top_k") < before.index("top_p"))
        flat = weighed and "top_k" not in samplers and selector == "dist"
        return cls(
            operations,
            heated=samplers[:1] == ("temperature",),
            greedy="temperature" in samplers and fixed["temperature"][1],
            drawn=selector == "dist",
            wanted=(k or (UNASKED_BY_TOP_P if flat else UNASKED)) if cuts else 0,
            asked=k is not None,
            weighed=weighed,
            flat=flat,
        )

    @property
    def closed(self) -> bool:
        """Whether what remains always lies within the first k tokens of a row: a top_k cuts to them before
        any sampler asks what whole rows weigh, and before a later temperature."""
        return self.asked and not self.weighed

    @property
    def gathered(self) -> int:
        """How many candidates a workspace must have room for."""
        return max(self.wanted, ROOM // 2) if self.flat else self.wanted

    @property
    def estimated(self) -> bool:
        """Whether the scan estimates what tiles weigh."""
        return self.weighed or (self.drawn and not self.wanted)

    @property
    def sorted(self) -> int:
        """How many samplers, from the first on, find the candidates in the order in which they were read: a
        temperature that comes later may make logits equal that were not."""
        later = range(1 if self.heated else 0, len(self.operations))
        return next((i for i in later if self.operations[i] == TEMPERATURE.value), len(self.operations))

    @property
    def cuts(self) -> int:
        """How many samplers cut."""
        return sum(operation != TEMPERATURE.value for operation in self.operations)

    @property
    def cut_last(self) -> bool:
        """Whether a top_p is the last sampler: then `flat` knows what remains of every tile."""
        return self.operations[-1:] == (TOP_P.value,)

    @property
    def heated_later(self) -> bool:
        """Whether a temperature comes after a cut."""
        return TEMPERATURE.value in self.operations and not self.heated

    @property
    def best_only(self) -> bool:
        """Whether the token is the first of the row: cuts keep it, and so does a temperature that leads."""
        return not self.drawn and (self.heated or TEMPERATURE.value not in self.operations)


@functools.lru_cache(maxsize=1024)
def plan_of(samplers: tuple[str, ...], selector: str, fixed: tuple[tuple[str, Hashable], ...]) -> KernelPlan:
    """`KernelPlan.of`, which the same chain does not need in every step."""
    return KernelPlan.of(samplers, selector, dict(fixed))
