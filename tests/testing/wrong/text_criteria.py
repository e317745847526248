"""Wrong text criteria: their matchers are wrong."""

from __future__ import annotations

from typing import Any

from engine_sampler.contract import TextMatch

from .collection import ANY, breaks
from .right import AtWord, Word

STATE = "a_matcher_keeps_its_state_between_calls"
IMMUTABLE = "a_matcher_is_immutable"
HELD = "a_matcher_holds_back_what_a_match_may_cut"
EMPTY = "a_matcher_keeps_its_state_between_calls"
EQUAL = "equal_matchers_behave_alike"


class _CutsAtNames(Word):
    def at_special(self, name: bytes) -> Any:
        return TextMatch(0, -1, "a name")


@breaks(HELD, ANY)
class CutsAtNames(AtWord):
    """Cuts text off at a special token."""

    kind = _CutsAtNames


class _Forgetful(Word):
    def advance(self, state: Any, data: bytes) -> Any:
        return super().advance(0, data)


@breaks(STATE, ANY)
class ForgetsItsState(AtWord):
    """Begins anew with every call: a word across two tokens is missed."""

    kind = _Forgetful


class _Restarting(Word):
    def advance(self, state: Any, data: bytes) -> Any:
        _, match = super().advance(state, data)
        return 0, match


@breaks(STATE, ANY)
class ReturnsItsStart(AtWord):
    """Returns the start in place of the state it has reached."""

    kind = _Restarting


class _LastByte(Word):
    def advance(self, state: Any, data: bytes) -> Any:
        for byte in data:
            state, match = super().advance(state, bytes([byte]))
        return state, match if data else None


@breaks(STATE, ANY)
class SeesTheEndOfTheDataOnly(AtWord):
    """Reports a match only if it ends with the data."""

    kind = _LastByte


class _LastMatch(Word):
    def advance(self, state: Any, data: bytes) -> Any:
        last = None
        for i, byte in enumerate(data):
            state, match = super().advance(state, bytes([byte]))
            last = self.match(i + 1) if match else last
        return state, last


@breaks(STATE, ANY)
class ReportsTheLastMatch(AtWord):
    """Reports the last match in place of the first."""

    kind = _LastMatch


class _Restless(Word):
    def advance(self, state: Any, data: bytes) -> Any:
        state, match = super().advance(state, data)
        return state, match and match._replace(end=len(data))


@breaks(STATE, ANY)
class ReportsTheEndOfTheData(AtWord):
    """Has the end of the data as the end of its match."""

    kind = _Restless


class _Absolute(Word):
    def advance(self, state: Any, data: bytes) -> Any:
        length, state = state if state else (0, 0)
        state, match = super().advance(state, data)
        if match:
            match = TextMatch(match.end, match.text_end + length, match.reason)
        return (length + len(data), state), match

    def held(self, state: Any) -> int:
        return state[1] if state else 0


@breaks(STATE, ANY)
class CountsFromTheBeginning(AtWord):
    """Has offsets in the whole text in place of those in the newest bytes."""

    kind = _Absolute


class _Decoding(Word):
    def advance(self, state: Any, data: bytes) -> Any:
        return super().advance(state, data.decode("utf-8", "ignore").encode())


@breaks(STATE, ANY)
class LosesHalfCharacters(AtWord):
    """Decodes every call's bytes, and loses characters that are split between tokens."""

    kind = _Decoding


class _Buffering(Word):
    def __init__(self, word: bytes) -> None:
        super().__init__(word)
        self.state = 0

    def advance(self, state: Any, data: bytes) -> Any:
        self.state, match = super().advance(self.state, data)
        return self.state, match


@breaks(IMMUTABLE, ANY)
class KeepsItsStateInItself(AtWord):
    """Keeps the state in the matcher, which requests share."""

    kind = _Buffering


class _Listing(Word):
    def advance(self, state: Any, data: bytes) -> Any:
        read, match = super().advance(state[0] if state else 0, data)
        return [read], match

    def held(self, state: Any) -> int:
        return state[0] if state else 0


@breaks(IMMUTABLE, ANY)
class HasAStateWithoutHash(AtWord):
    """Has lists as states."""

    kind = _Listing


class _Growing(Word):
    def __init__(self, word: bytes) -> None:
        super().__init__(word)
        self.calls = 0

    def held(self, state: Any) -> int:
        self.calls += 1
        return state if self.calls % 2 else 0


@breaks(IMMUTABLE, ANY)
class HoldsBackEverySecondTime(AtWord):
    """Gives `held` another answer at every second call."""

    kind = _Growing


class _Eager(Word):
    def held(self, state: Any) -> int:
        return 0


@breaks(HELD, ANY)
class HoldsNothingBack(AtWord):
    """Lets out text that a match then cuts."""

    kind = _Eager


class _Short(Word):
    def held(self, state: Any) -> int:
        return max(0, state - 1)


@breaks(HELD, ANY)
class HoldsBackTooLittle(AtWord):
    """Holds back one byte too few."""

    kind = _Short


class _Long(Word):
    def held(self, state: Any) -> int:
        return len(self.word)


@breaks(HELD, ANY)
class HoldsBackMoreThanThereIs(AtWord):
    """Holds back as many bytes as the word has, even of an empty text."""

    kind = _Long


class _Early(Word):
    def match(self, end: int) -> TextMatch:
        return TextMatch(end, end - len(self.word) - 2, "early")


@breaks("a_scheduler_ends_the_request_with_that_token", ANY)
class CutsTooMuch(AtWord):
    """Cuts text that is already out."""

    kind = _Early


class _Beyond(Word):
    def match(self, end: int) -> TextMatch:
        return TextMatch(end, end + 1, "beyond")


@breaks(HELD, ANY)
class CutsBehindItsMatch(AtWord):
    """Ends the text after the match, where nothing has been read."""

    kind = _Beyond


class _Zero(Word):
    def match(self, end: int) -> TextMatch:
        return TextMatch(end - 1, end - len(self.word), "zero")


@breaks(HELD, ANY)
class IsOffByOne(AtWord):
    """Has the index of the last byte as the end of its match."""

    kind = _Zero


class _Emptied(Word):
    def advance(self, state: Any, data: bytes) -> Any:
        return super().advance(state if data else 0, data)


@breaks(EMPTY, ANY)
class ForgetsAtAnEmptyToken(AtWord):
    """Begins anew at a token without bytes."""

    kind = _Emptied


class _Linewise(Word):
    def advance(self, state: Any, data: bytes) -> Any:
        last = data.rfind(b"\n") + 1
        if last:
            state, match = super().advance(0, data[last:])
            return state, match and match._replace(end=match.end + last, text_end=match.text_end + last)
        return super().advance(state, data)


@breaks(STATE, ANY)
class ReadsTheLastLine(AtWord):
    """Looks at the last line of what is new."""

    kind = _Linewise


class _EqualByLength(Word):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _EqualByLength) and len(self.word) == len(other.word)

    def __hash__(self) -> int:
        return len(self.word)


@breaks(EQUAL, says="are equal")
class IsEqualByLength(AtWord):
    """Has matchers that are equal if their words are of one length."""

    kind = _EqualByLength
