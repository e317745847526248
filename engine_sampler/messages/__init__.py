"""Answers of models as messages: the definition that constrains an answer also reads it."""

from .events import Event, EventKind
from .message import MessagePart
from .parser import MessageParser
from .value import ValueReader

__all__ = ["Event", "EventKind", "MessageParser", "MessagePart", "ValueReader"]
