"""Wrong drafters."""

from __future__ import annotations

from typing import Any

from .collection import ANY, breaks
from .right import Echo

TOKENS = "a_draft_is_a_list_of_few_token_ids"


@breaks(TOKENS, says="which is no id of")
class DraftsPadding(Echo):
    """Fills up its draft with −1."""

    def draft(self, state: Any, text: Any, count: int) -> Any:
        return (super().draft(state, text, count) + [-1] * count)[:count]


@breaks(TOKENS, says="ids are drafted where")
class DraftsTooMuch(Echo):
    """Drafts to the end of the text, however far that is."""

    def draft(self, state: Any, text: Any, count: int) -> Any:
        return super().draft(state, text, len(state))


@breaks("rollback_undoes_accept", ANY, says="after rollback")
class UndoesNothing(Echo):
    """Keeps the tokens that are taken back."""

    def rollback(self, state: Any, n: int) -> None:
        pass


@breaks("a_fork_goes_its_own_way", says="of a fork")
class ForksNothing(Echo):
    """Shares its state with a fork."""

    def fork(self, state: Any) -> Any:
        return state


@breaks("tokens_may_arrive_in_any_portions", ANY, says="in other portions", rounds=24)
class RemembersOnePortion(Echo):
    """Knows the newest tokens only."""

    def accept(self, state: Any, token_ids: Any) -> None:
        state[:] = token_ids


@breaks("the_same_text_gets_the_same_draft", ANY, says="for the same text")
class CountsItsCalls(Echo):
    """Drafts something else at every other call."""

    calls = 0

    def draft(self, state: Any, text: Any, count: int) -> Any:
        self.calls += 1
        return [self.calls % 2]


@breaks("what_it_is_shown_is_only_read", ANY, says="changes the matcher")
class AdvancesTheGrammar(Echo):
    """Reads on in the grammar itself to find what it allows."""

    def draft(self, state: Any, text: Any, count: int) -> Any:
        forced = [] if text.matcher is None else text.matcher.forced_tokens()
        for token_id in forced:
            text.matcher.accept(token_id)
        return forced[:count]
