"""llama.cpp: our chain inside llama-cpp-python, its server's requests, and its models with our scheduler.

`LogitsProcessor` and `StoppingCriteria` are callables for `llama_cpp.Llama`; `tokenizer_of` returns its
tokenizer. `from_request` reads a request body of llama.cpp's server. `Session` runs a GGUF file. `candidates`
returns the tokens of a processed row as llama.cpp's samplers see them.
"""

from .processor import LogitsProcessor, StoppingCriteria, neutral_settings
from .requests import from_request
from .session import Session
from .token_data import Candidates, candidates
from .vocabulary import tokenizer_of

__all__ = [
    "Candidates",
    "LogitsProcessor",
    "Session",
    "StoppingCriteria",
    "candidates",
    "from_request",
    "neutral_settings",
    "tokenizer_of",
]
