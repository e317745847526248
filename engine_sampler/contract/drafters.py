"""`Drafter`: a guess at the next tokens of a request, which the model then checks in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .params import Param
from .samplers import PLUGIN_API, State, Stateful
from .vocabulary import Vocabulary
from .work import Work


@dataclass
class DraftedText:
    """A request as it will be if its draft so far is right.

    history     int64 [length], prompt and output; not to be written to.
    draft       the draft so far.
    vocabulary  the tokens.
    matcher     its grammar, which has read the draft; None without one, and where thoughts may come first. It
                may be asked, and not changed.
    work        what a `BoundedMatcher` may do.
    """

    history: np.ndarray
    draft: tuple[int, ...]
    vocabulary: Vocabulary
    matcher: Any
    work: Work

    @property
    def token_ids(self) -> np.ndarray:
        """Prompt, output and draft, int64: a copy, which takes time in proportion to its length."""
        return np.concatenate([self.history, np.array(self.draft, np.int64)])


class Drafter(Stateful):
    """Guesses the next tokens of a request. No guess changes the tokens: a wrong one wastes a row.

        class Again(Drafter):
            name = "again"
            def draft(self, state, text, count):
                return text.token_ids[-1:].tolist() * count  # the last token, again and again

    name    for `SamplingParams(drafter=…)`.
    params  its own parameters, which `new_state` gets.

    A state is made when drafts are first asked for. `accept` gives it the tokens of the prompt, then those of
    the output, several at once; before `draft` also those of the draft so far, which `rollback` takes back.
    What it raises is logged once, and its request goes on without this drafter.
    """

    api: ClassVar[int] = PLUGIN_API
    name: ClassVar[str]
    params: ClassVar[tuple[Param, ...]] = ()

    def new_state(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> State:
        """The state of one request before its first token, or None for no state."""
        return None

    def check(self, params: Mapping[str, Any]) -> None:
        """Raise `ParameterError` for values that are allowed separately but not together. Called for requests
        that give one of the `params`."""

    def accept(self, state: State, token_ids: Sequence[int]) -> None:
        """Update `state` with the next tokens of prompt, output or draft."""

    def draft(self, state: State, text: DraftedText, count: int) -> Sequence[int]:
        """At most `count` ids that may come next in `text`; [] for no guess.

        They are cut where the grammar or another mask refuses one. If any are left, the drafters of the
        request are asked again, the first one first, as long as there is room.
        """
        raise NotImplementedError
