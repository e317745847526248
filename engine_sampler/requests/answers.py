"""`AnswerReader`: what reads the output of a request with a parser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..base.arguments import not_allowed
from ..contract import AnswerParser
from ..contract.work import CAPTURE_STEPS_AT_ONCE
from .parts import RequestPart

if TYPE_CHECKING:
    from .request import Request


class AnswerReader(RequestPart):
    """The part of a request that reads its output. It is brought up to that by each step, however the tokens
    have come."""

    __slots__ = ("parser",)

    def __init__(self, parser: AnswerParser) -> None:
        self.parser = parser

    def __len__(self) -> int:
        """How many tokens of the output have been read."""
        return len(self.parser)

    def __bool__(self) -> bool:
        return True

    def read(self, request: Request, shared: dict[type, Any]) -> list[Any]:
        """What the request has said since this was called last.

        shared  what bounds the work of all parsers that finish in a step, by their class
        """
        parser = self.parser
        if parser.is_finished:
            return []
        tokens = self.unread(request)
        if request.live:
            return parser.feed(tokens)
        if tokens and parser.leaves_out(tokens[-1], request.stop_reason):
            tokens.pop()
        if type(parser) not in shared:
            shared[type(parser)] = parser.shared_steps(CAPTURE_STEPS_AT_ONCE)
        return parser.feed(tokens) + parser.finish(steps=shared[type(parser)])

    def unread(self, request: Request) -> list[int]:
        """The tokens of the output that are to be read next."""
        tokens: list[int] = request.history.output_token_ids[len(self) :].tolist()
        if request.live and request.bans is not None:
            del tokens[max(request.bans.certain - len(self), 0) :]  # they may be taken back
        return tokens

    def rollback(self, length: int) -> None:
        if len(self) > length or self.parser.is_finished:
            self.parser.rollback(max(len(self) - length, 0))

    def fork(self) -> AnswerReader:
        return AnswerReader(self.parser.fork())


def read_answers(requests: Mapping[int, Request]) -> dict[int, list[Any]]:
    """What the requests with parsers have said since the last step, by index. Those that end share what
    their captures may take."""
    shared: dict[type, Any] = {}
    return {i: request.read_answer(shared) for i, request in requests.items()}


def check_parser(parser: Any, is_search: bool = False) -> None:
    """Raise `ParameterError` for an argument `parser` that cannot follow requests."""
    if parser is None:
        return
    if not isinstance(parser, AnswerParser) or not parser.takes_ids:
        raise not_allowed("parser", parser, "a MessageParser with a tokenizer, or None")
    if is_search:
        raise not_allowed("parser", parser, "None with use_beam_search, whose texts change until it ends")
