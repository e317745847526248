"""`Chain`: the active samplers of a request in order, followed by a selector."""

from __future__ import annotations

from dataclasses import dataclass

from ..base.cached import cached_property
from .samplers import Sampler, Selector


@dataclass(frozen=True)
class Chain:
    """Samplers in order, and the selector. `key` is the chain's shape: names only, never values."""

    samplers: tuple[Sampler, ...]
    selector: Selector

    @property
    def key(self) -> tuple[str, ...]:
        return (*(s.name for s in self.samplers), self.selector.name)

    @cached_property
    def preparing(self) -> tuple[Sampler, ...]:
        """The samplers with a method `prepare`, each once."""
        named = {s.name: s for s in self.samplers if type(s).prepare is not Sampler.prepare}
        return tuple(named.values())

    @cached_property
    def takes_grammar(self) -> bool:
        """Whether one of the samplers takes the request's grammar, which then masks nothing."""
        return any(s.takes_grammar for s in self.samplers)

    def for_choice(self) -> Chain:
        """The part of the chain that suffices to choose the token: a greedy choice skips the samplers after
        the last one that can change the best token."""
        if self.selector.name != "greedy":
            return self
        needed = [
            i for i, s in enumerate(self.samplers) if not s.argmax_invariant and s.name != "temperature"
        ]
        return Chain(self.samplers[: needed[-1] + 1 if needed else 0], self.selector)

    def before_choice(self) -> Chain:
        """The chain without the temperature of a greedy choice, which leaves only the chosen token."""
        if self.selector.name != "greedy":
            return self
        return Chain(tuple(s for s in self.samplers if s.name != "temperature"), self.selector)

    def edits_only(self) -> Chain:
        """The masks, biases and penalties alone; "penalized" logprobs are computed from their result."""
        return Chain(tuple(s for s in self.samplers if s.role != "warp"), self.selector)

    def __str__(self) -> str:
        return " → ".join(self.key)
