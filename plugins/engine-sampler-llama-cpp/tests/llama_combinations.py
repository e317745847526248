"""Completions with a `LogitsProcessor` and one more argument each, for a process of their own.

    python llama_combinations.py MODEL.gguf

llama.cpp can end the process that it runs in. So each line is written at once: the name of a combination, and
the type of its exception, or the tokens that the processor has drawn and those that the caller got.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import llama_cpp
from engine_sampler_llama_cpp import LogitsProcessor, tokenizer_of

from engine_sampler import SamplingParams

Answer = Callable[..., Any]

PROMPT = "the cat sat on a mat."
CHAT = [{"role": "user", "content": "hello"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FUNCTION = {"name": "f", "parameters": SCHEMA}
TOOLS = [{"type": "function", "function": FUNCTION}]
CALL = {"type": "function", "function": {"name": "f"}}
PARAMS = SamplingParams(regex="[a-h]{30}", seed=8, max_tokens=9)


def grammar(text: str = 'root ::= "x" [x-z]*') -> Any:
    return llama_cpp.LlamaGrammar.from_string(text, verbose=False)


TWICE: Mapping[str, Mapping[str, Any]] = {
    "grammar": {"grammar": grammar()},
    "stop": {"stop": ["b"]},
    "max_tokens": {"max_tokens": 3},
    "temperature": {"temperature": 0.5},
    "mirostat_mode": {"mirostat_mode": 2},
}
"""Keywords that `settings` have: beside these, Python refuses them."""

OWN_GRAMMARS: Mapping[str, Mapping[str, Any]] = {
    "another grammar": {"grammar": grammar()},
    "a grammar of the same texts": {"grammar": grammar("root ::= [a-h]*")},
    "json_object": {"response_format": {"type": "json_object"}},
    "json_object with a schema": {"response_format": {"type": "json_object", "schema": SCHEMA}},
    "a forced tool": {"tools": TOOLS, "tool_choice": CALL},
    "a forced function": {"functions": [FUNCTION], "function_call": {"name": "f"}},
}
"""What makes a grammar of llama-cpp-python's own."""

BIASES: Mapping[str, Mapping[str, Any]] = {
    "logit_bias": {"logit_bias": {"100": 30.0}},
    "an empty logit_bias": {"logit_bias": {}},
}

ALLOWED: Mapping[str, Mapping[str, Any]] = {
    "nothing": {},
    "seed": {"seed": 3},
    "mirostat 1": {"temperature": 0.8, "mirostat_mode": 1},
    "mirostat 2": {"temperature": 0.8, "mirostat_mode": 2, "mirostat_tau": 2.0},
    "hot": {"temperature": 5.0, "top_k": 3, "top_p": 0.2, "min_p": 0.4, "typical_p": 0.3},
    "penalties": {"repeat_penalty": 1.8, "frequency_penalty": 1.9, "presence_penalty": 1.9},
    "drawn by a generator": {"temperature": -1.0},
    "logprobs": {"logprobs": 2},
}
"""Arguments that do not change the tokens."""

ALLOWED_IN_CHATS: Mapping[str, Mapping[str, Any]] = {
    "text": {"response_format": {"type": "text"}},
    "tools": {"tools": TOOLS, "tool_choice": "auto"},
    "functions": {"functions": [FUNCTION], "function_call": "none"},
}


def report(name: str, outcome: Any) -> None:
    print(json.dumps([name, outcome]), flush=True)


def outcome_of(llm: Any, processor: LogitsProcessor, answer: Answer) -> Any:
    """The type of the exception, or the drawn tokens and the text that the caller got."""
    llm.reset()
    try:
        given = answer()
        given = [given] if isinstance(given, dict) else list(given)
    except Exception as error:
        return type(error).__name__
    choices = [part["choices"][0] for part in given]
    bodies = [choice.get("message", choice.get("delta", choice)) for choice in choices]
    text = "".join(body.get("content", body.get("text")) or "" for body in bodies)
    record = processor.record
    return [[] if record is None else record.token_ids, text]


def twice(create: Answer, prompt: Any, more: Mapping[str, Any], settings: Mapping[str, Any]) -> Any:
    return create(prompt, **more, **settings)


def try_methods(llm: Any, tokenizer: Any) -> None:
    """Every combination with both methods, streamed and not."""
    chats = ("response_format", "tools", "functions")
    for chat in (False, True):
        create = llm.create_chat_completion if chat else llm.create_completion
        prompt: Any = CHAT if chat else PROMPT
        given = {**ALLOWED, **OWN_GRAMMARS, **BIASES, **(ALLOWED_IN_CHATS if chat else {})}
        processor = LogitsProcessor(PARAMS, tokenizer)  # one for all of them
        for name, more in given.items():
            if not chat and not more.keys().isdisjoint(chats):
                continue
            for stream in (False, True):
                keywords = {**processor.settings, **more, "stream": stream}
                label = f"{'chat' if chat else 'text'}, {name}{', streamed' * stream}"
                report(label, outcome_of(llm, processor, partial(create, prompt, **keywords)))
        for name, more in TWICE.items():
            answer = partial(twice, create, prompt, more, processor.settings)
            report(f"{'chat' if chat else 'text'}, {name} twice", outcome_of(llm, processor, answer))


def try_others(llm: Any, tokenizer: Any) -> None:
    """Ways to meet a grammar that are not keywords of the two methods, and tokenizers of other sources."""
    processor = LogitsProcessor(PARAMS, tokenizer)
    keywords = {"temp": 0.0, "logits_processor": [processor], "grammar": grammar()}
    ids = llm.tokenize(PROMPT.encode(), special=True)
    report("generate", outcome_of(llm, processor, partial(llm.generate, ids, **keywords)))
    llm.chat_format = "chatml-function-calling"
    keywords = {**processor.settings, "tools": TOOLS, "tool_choice": "auto"}
    answer = partial(llm.create_chat_completion, CHAT, **keywords)
    report("a handler with grammars of its own", outcome_of(llm, processor, answer))
    other = LogitsProcessor(SamplingParams(max_tokens=6), vocab_size=len(tokenizer), eos_token_ids=[2])
    for temperature in (0.0, 1e-9, 9.0):
        settings = {**other.settings, "grammar": grammar(), "temperature": temperature}
        answer = partial(llm.create_completion, PROMPT, **settings)
        report(f"another tokenizer, temperature {temperature}", outcome_of(llm, other, answer))


def main(path: str) -> None:
    logging.disable(logging.CRITICAL)
    llm = llama_cpp.Llama(path, n_ctx=200, verbose=False, logits_all=True)
    tokenizer = tokenizer_of(llm)
    try_methods(llm, tokenizer)
    try_others(llm, tokenizer)


if __name__ == "__main__":
    main(sys.argv[1])
