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
