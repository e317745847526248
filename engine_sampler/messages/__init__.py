"""Answers of models as messages: the definition that constrains an answer also reads it.

    parser = MessageParser("qwen_3", tools, tokenizer=tokenizer)
    for token_id in answer:
        send(chat_deltas(parser.feed([token_id])))
    send(chat_deltas(parser.finish()))
    message = chat_message(parser)

`definition` makes of a family, `tags` of a structural tag, what `reading` follows through a text;
`arguments` has a reader for each way to write arguments. `replies` say what was read in the forms of
interfaces.
"""

from ..params.families.templates import family_of
from .events import Event, MalformedCallError
from .format import ChatFormat
from .message import MessagePart
from .parser import MessageParser
from .replies import (
    AnthropicStream,
    ChatChoice,
    ChatChunk,
    ChatCompletion,
    ChatUsage,
    ResponsesStream,
    TextOffset,
    anthropic_content,
    chat_deltas,
    chat_finish_reason,
    chat_logprobs,
    chat_message,
    completion_logprobs,
    error_body,
    response_items,
)
from .value import ValueReader

__all__ = [
    "AnthropicStream",
    "ChatChoice",
    "ChatChunk",
    "ChatCompletion",
    "ChatFormat",
    "ChatUsage",
    "Event",
    "MalformedCallError",
    "MessageParser",
    "MessagePart",
    "ResponsesStream",
    "TextOffset",
    "ValueReader",
    "anthropic_content",
    "chat_deltas",
    "chat_finish_reason",
    "chat_logprobs",
    "chat_message",
    "completion_logprobs",
    "error_body",
    "family_of",
    "response_items",
]
