"""`ParsedAnswers`: the parsers that follow the outputs of requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.arguments import not_allowed
from ..contract import AnswerParser
from ..contract.work import CAPTURE_STEPS_AT_ONCE
from .request import Request, RequestError
from .results import RequestId, StepResult


class ParsedAnswers:
    """Parsers by request. Each is brought up to its request's output after a step, however that has come.

    find     gives a request by its id, or raises `RequestError`
    parsers  the parsers by request
    """

    def __init__(self, find: Callable[[RequestId], Request]) -> None:
        self._find = find
        self.parsers: dict[RequestId, AnswerParser] = {}

    def add(self, ids: Sequence[RequestId], parser: AnswerParser, output: Sequence[int]) -> None:
        """Follow requests that begin with some output: the first with `parser`, the others with copies."""
        parser.feed(output[len(parser) :])
        for request_id in reversed(ids):
            self.parsers[request_id] = parser if request_id == ids[0] else parser.fork()

    def fork(self, request_id: RequestId, child_id: RequestId) -> None:
        """Follow a copy of a request."""
        if request_id in self.parsers:
            self.parsers[child_id] = self.parsers[request_id].fork()

    def cut(self, request_id: RequestId, length: int) -> None:
        """Follow a request back to an output of some length."""
        parser = self.parsers.get(request_id)
        if parser is not None and len(parser) > length:
            parser.rollback(len(parser) - length)

    def forget(self, request_id: RequestId) -> None:
        """Follow a request no longer."""
        self.parsers.pop(request_id, None)

    def deltas(self, result: StepResult) -> list[list[Any]]:
        """What each request of a step has said since the last one; [] for those without a parser."""
        count = len(result.request_ids)
        self._steps, self._first = Steps(CAPTURE_STEPS_AT_ONCE), (self._first + 1) % max(count, 1)
        found = {i % count: self._delta(result, i % count) for i in range(self._first, self._first + count)}
        return [found[i] for i in range(count)]

    def _delta(self, result: StepResult, i: int) -> list[Any]:
        request_id = result.request_ids[i]
        parser = self.parsers.get(request_id)
        if parser is None or parser.is_finished:
            return []
        try:
            tokens = self._find(request_id).history.output_token_ids[len(parser) :].tolist()
        except RequestError:  # another thread has removed it
            tokens = result.tokens(i)
        if result.finish_reasons[i] is None:
            return parser.feed(tokens, steps=self._steps)
        if tokens and parser.leaves_out(tokens[-1], result.stop_reasons[i]):
            tokens.pop()
        return parser.feed(tokens, steps=self._steps) + parser.finish(steps=self._steps)


def check_parser(parser: Any, is_search: bool = False) -> None:
    """Raise `ParameterError` for an argument `parser` that cannot follow requests."""
    if parser is None:
        return
    if not isinstance(parser, AnswerParser) or not parser.takes_ids:
        raise not_allowed("parser", parser, "a MessageParser with a tokenizer, or None")
    if is_search:
        raise not_allowed("parser", parser, "None with use_beam_search, whose texts change until it ends")
