"""What servers send of answers: `chat` and `completions` in OpenAI's first forms, `responses` and `anthropic`
in those of these interfaces, made of `blocks`; `refusals` for requests that are not allowed."""

from .anthropic import AnthropicStream, anthropic_content
from .chat import REASONING_KEYS, chat_deltas, chat_message
from .completions import (
    ChatChoice,
    ChatChunk,
    ChatCompletion,
    ChatUsage,
    TextOffset,
    chat_finish_reason,
    chat_logprobs,
    completion_logprobs,
)
from .refusals import error_body
from .responses import ResponsesStream, response_items

__all__ = [
    "REASONING_KEYS",
    "AnthropicStream",
    "ChatChoice",
    "ChatChunk",
    "ChatCompletion",
    "ChatUsage",
    "ResponsesStream",
    "TextOffset",
    "anthropic_content",
    "chat_deltas",
    "chat_finish_reason",
    "chat_logprobs",
    "chat_message",
    "completion_logprobs",
    "error_body",
    "response_items",
]
