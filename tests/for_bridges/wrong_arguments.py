"""Calls of every public function of the integrations with an argument that belongs elsewhere.

An `Entry` is a function with arguments that it takes; `wrong_calls` replaces each of them in turn by each of
`WRONG_VALUES`. Its error is clear if it names the argument.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from types import SimpleNamespace
from typing import Any

import engine_sampler_koboldai as koboldai
import engine_sampler_llama_cpp as llama_cpp
import engine_sampler_mindie as mindie
import engine_sampler_mlx as mlx
import engine_sampler_transformers as transformers
import numpy as np
from engine_sampler_mindie.atb import TopkToppSampling, TopkToppSamplingParam, TopkToppSamplingType
from engine_sampler_vllm import logits_processor as vllm

from engine_sampler import SamplingParams, Tokenizer

VOCAB = 8
PIECES = Tokenizer([bytes([65 + i]) for i in range(VOCAB - 1)] + [b"</s>"], [VOCAB - 1])


class LoadedModel:
    """Like `llama_cpp.Llama`, which is mistaken for a tokenizer, a path or a model."""

    def tokenize(self, text: bytes) -> list[int]:
        return list(text)


@dataclass
class Entry:
    """name  as a user writes it. call  the function. usual  arguments with which it succeeds."""

    name: str
    call: Callable[..., Any]
    usual: Mapping[str, Any] = field(default_factory=dict)
    free: tuple[str, ...] = ()
    """Arguments that may be anything, as they are passed on to be looked at later."""
    takes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Values among them that an argument takes, by argument; it is another argument that is refused then."""


WRONG_VALUES: Mapping[str, Any] = {
    "None": None,
    "an integer": 7,
    "a negative integer": -3,
    "a float": 0.5,
    "a text": "abc",
    "bytes": b"abc",
    "a list of texts": ["a", "b"],
    "a list of integers": [1, 2],
    "a list of None": [None],
    "a dict": {"a": 1},
    "an object": SimpleNamespace(),
    "a function": len,
    "a SamplingParams": SamplingParams(),
    "a Tokenizer": PIECES,
    "a Llama": LoadedModel(),
    "an array of no dimension": np.float32(1.0),
    "a row": np.zeros(VOCAB, np.float32),
    "a cube": np.zeros((2, 2, VOCAB), np.float32),
    "complex numbers": np.zeros((2, VOCAB), np.complex64),
    "texts in an array": np.full((2, VOCAB), "a"),
    "objects in an array": np.full((2, VOCAB), None),
}


@dataclass(frozen=True)
class WrongCall:
    """`entry` with `argument` replaced by the wrong value of this name."""

    entry: Entry
    argument: str
    value: str

    def __str__(self) -> str:
        return f"{self.entry.name}({self.argument}={self.value})"

    def fault(self) -> str | None:
        """What is unclear about the error; None if it is clear, or there is none."""
        arguments = {**self.entry.usual, self.argument: WRONG_VALUES[self.value]}
        try:
            self.entry.call(**arguments)
        except ImportError:
            return None  # another library that this machine lacks
        except (ValueError, TypeError, OSError) as error:
            named = re.search(rf"(?<![a-zA-Z]){re.escape(self.argument)}(?![a-zA-Z])", str(error))
            is_file = isinstance(error, FileNotFoundError) and error.filename == arguments[self.argument]
            return None if named or is_file else f"{type(error).__name__}: {error}"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return None


def wrong_calls(entry: Entry) -> Iterator[WrongCall]:
    for argument in entry.usual:
        if argument not in entry.free:
            taken = entry.takes.get(argument, ())
            yield from (WrongCall(entry, argument, value) for value in WRONG_VALUES if value not in taken)


# --- the functions -------------------------------------------------------------------------------

_ROW = np.linspace(0, 1, VOCAB, dtype=np.float32)
_ROWS = np.tile(_ROW, (2, 1))
_IDS = np.array([1, 2], np.int64)
_CHAIN = {"params": SamplingParams(), "tokenizer": PIECES, "eos_token_ids": (7,)}
_FOLLOWER = {**_CHAIN, "grammar": None, "backend": "auto"}
_ENDS = {"eos_token_ids": None, "special_token_ids": None, "eot_token_id": None}
_BODIES = {"body": ("a dict", "a SamplingParams")}  # whose keys are then named
_COUNTS = ("None", "an integer")
_SINGLE = {"input_ids": ("a negative integer",)}  # one token, whose id is then refused


def _called(make: Callable[..., Any], **arguments: Any) -> Any:
    """The result of a new object of `make`."""
    return make()(**arguments)


def _tokenizers() -> Iterator[Entry]:
    sources: dict[str, dict[str, Any]] = {
        "transformers": {"tokenizer": _word_pieces()},
        "tokenizers": {"tokenizer": _pieces()},
        "tiktoken": {"encoding": _Encoding()},
        "sentencepiece": {"processor": _Processor()},
        "mistral_common": {"tokenizer": _Tekken()},
    }
    for name, source in sources.items():
        yield Entry(f"Tokenizer.from_{name}", getattr(Tokenizer, f"from_{name}"), {**source, **_ENDS})
    yield Entry("Tokenizer.from_gguf", Tokenizer.from_gguf, {"source": LoadedModel()})
    ends = {"eos_token_ids": [1], "special_token_ids": [1], "eot_token_id": 1}
    yield Entry("Tokenizer", Tokenizer, {"token_bytes": [b"a", b"b"], **ends, "encode": None})


def _pieces() -> Any:
    import tokenizers

    pieces = tokenizers.Tokenizer(tokenizers.models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    pieces.decoder = tokenizers.decoders.WordPiece()
    return pieces


def _word_pieces() -> Any:
    return SimpleNamespace(backend_tokenizer=_pieces(), eos_token_id=None)


class _Encoding:
    """Like `tiktoken.Encoding`."""

    special_tokens_set: frozenset[str] = frozenset()
    n_vocab = 2

    def decode_single_token_bytes(self, token: int) -> bytes:
        return b"ab"[token : token + 1]

    def encode_ordinary(self, text: str) -> list[int]:
        return [0]


class _Processor:
    """Like `sentencepiece.SentencePieceProcessor`."""

    def get_piece_size(self) -> int:
        return 2

    def is_control(self, ids: list[int]) -> list[bool]:
        return [False] * len(ids)

    is_unknown = is_unused = is_control

    def id_to_piece(self, ids: list[int]) -> list[str]:
        return ["a"] * len(ids)

    def eos_id(self) -> int:
        return -1


class _Tekken:
    """Like a `Tekkenizer` of mistral-common."""

    special_ids: frozenset[int] = frozenset()
    n_words = 2
    eos_id = 1

    def id_to_byte_piece(self, i: int) -> bytes:
        return b"ab"[i : i + 1]


def _llama_cpp() -> Iterator[Entry]:
    follower = {**_FOLLOWER, "stopping_criteria": ()}
    yield Entry("llama_cpp.LogitsProcessor", llama_cpp.LogitsProcessor, {**follower, "vocab_size": None})
    yield Entry("llama_cpp.StoppingCriteria", llama_cpp.StoppingCriteria, {**follower, "vocab_size": None})
    processor = partial(llama_cpp.LogitsProcessor, SamplingParams(), PIECES)
    criteria = partial(llama_cpp.StoppingCriteria, SamplingParams(), PIECES)
    yield Entry("LogitsProcessor()", partial(_called, processor), {"input_ids": _IDS, "scores": _ROW})
    yield Entry(
        "LogitsProcessor.with_own_text",
        lambda response: processor().with_own_text(response),
        {"response": {"choices": [{"text": "a", "finish_reason": None}]}},
    )
    yield Entry(
        "LogitsProcessor.stopped",
        lambda input_ids, logits: processor().stopped(input_ids, logits),
        {"input_ids": _IDS, "logits": _ROW},
        free=("input_ids", "logits"),
    )
    yield Entry(
        "StoppingCriteria()",
        partial(_called, criteria),
        {"input_ids": _IDS, "logits": _ROW},
        free=("logits",),
    )
    yield Entry(
        "llama_cpp.candidates",
        llama_cpp.candidates,
        {"logits_row": _ROW, "selected_token_id": 3, "sort": False},
        free=("sort",),
        takes={"logits_row": ("a list of integers",)},
    )
    request = {"body": {"temperature": 1.0, "logit_bias": [["A", 1.0]]}, "tokenizer": PIECES}
    yield Entry(
        "llama_cpp.from_request",
        llama_cpp.from_request,
        {**request, "vocab_size": 8, "tool_family": None, "chat_template": None, "reasoning": "disabled"},
        takes=_BODIES,
    )
    yield Entry(
        "koboldai.from_request", koboldai.from_request, {**request, "system": "koboldai"}, takes=_BODIES
    )
    yield Entry("llama_cpp.tokenizer_of", llama_cpp.tokenizer_of, {"llm": LoadedModel()})
    yield Entry(
        "llama_cpp.Session",
        llama_cpp.Session,
        {"model": "none.gguf", "backend": "auto", "context": None, "max_requests": 1},
        takes={"context": _COUNTS, "max_requests": _COUNTS},
    )


def _transformers() -> Iterator[Entry]:
    chain = {**_FOLLOWER, "prompt_lengths": None, "pad_token_id": None}
    yield Entry("transformers.ChainLogitsProcessor", transformers.ChainLogitsProcessor, chain)
    yield Entry(
        "transformers.stopping_criteria",
        transformers.stopping_criteria,
        {
            "params": SamplingParams(),
            "tokenizer": PIECES,
            "criteria": (),
            "eos_token_ids": (),
            "prompt_length": None,
        },
    )
    if importlib.util.find_spec("torch") is not None:
        import torch  # type: ignore[import-not-found,unused-ignore]

        called = partial(transformers.ChainLogitsProcessor, SamplingParams())
        tensors = {"input_ids": torch.ones(2, 3, dtype=torch.int64), "scores": torch.zeros(2, VOCAB)}
        yield Entry("ChainLogitsProcessor()", partial(_called, called), tensors, takes=_SINGLE)
    stops = partial(transformers.stopping_criteria, SamplingParams(max_tokens=3), PIECES)
    yield Entry(
        "Stops()",
        partial(_called, stops),
        {"input_ids": _IDS[None], "scores": None},
        free=("scores",),
        takes=_SINGLE,
    )
    yield Entry(
        "transformers.Session",
        transformers.Session,
        {"model": "/none", "backend": "auto", "max_requests": 1},
        takes={"max_requests": _COUNTS},
    )


def _vllm() -> Iterator[Entry]:
    request = SimpleNamespace(extra_args={"top_a": 0.1}, seed=1)
    yield Entry("vllm.settings_of", vllm.settings_of, {"request": request}, free=("request",))
    for key in ("extra_args", "seed"):
        yield Entry(
            f"settings_of().{key}",
            lambda **changed: vllm.settings_of(SimpleNamespace(**{**vars(request), **changed})),
            {key: getattr(request, key)},
        )


def _mlx() -> Iterator[Entry]:
    yield Entry(
        "mlx.make_sampler",
        mlx.make_sampler,
        {
            "temp": 0.0, "top_p": 0.0, "min_p": 0.0, "min_tokens_to_keep": 1, "top_k": 0,
            "xtc_probability": 0.0, "xtc_threshold": 0.1, "xtc_special_tokens": None, "seed": None,
        },
    )  # fmt: skip
    penalties = {f"{name}_penalty": 0.5 for name in ("repetition", "presence", "frequency")}
    sizes = {f"{name}_context_size": 20 for name in ("repetition", "presence", "frequency")}
    yield Entry(
        "mlx.make_logits_processors", mlx.make_logits_processors, {"logit_bias": None, **penalties, **sizes}
    )
    yield Entry("MlxSampler()", partial(_called, mlx.make_sampler), {"logprobs": _ROWS})
    (penalty,) = mlx.make_logits_processors(presence_penalty=0.5)
    yield Entry("MlxLogitsProcessor()", penalty, {"tokens": _IDS, "logits": _ROWS})


def _mindie() -> Iterator[Entry]:
    sampler = {
        "mode": "documented", "pad_token_id": None, "eos_token_ids": (), "logprobs": True,
        "return_tensors": False, "count_prompts": False, "idle_rounds": 64, "backend": "auto",
        "num_threads": None,
    }  # fmt: skip
    yield Entry("mindie.Sampler", mindie.Sampler, sampler)
    data = {
        "all_input_ids": _IDS[:, None], "output_ids": _IDS[:, None], "to_tensor": None, "is_prefill": True,
        "request_ids": _IDS,
    }  # fmt: skip
    yield Entry("mindie.SamplingData.from_numpy", mindie.SamplingData.from_numpy, data)
    settings = dict.fromkeys(one.name for one in fields(mindie.SamplingParam))
    yield Entry("mindie.SamplingParam.from_numpy", mindie.SamplingParam.from_numpy, settings)
    batch, param = mindie.SamplingData(request_ids=_IDS), mindie.SamplingParam(top_k=np.array([1, 1]))
    pair = {"sampling_data": batch, "sampling_param": param}
    yield Entry(
        "mindie.Sampler.sample",
        lambda **arguments: mindie.Sampler().sample(**arguments),
        {"logits": _ROWS, **pair, "sampling_metadata": None},
    )
    yield Entry("mindie.Sampler.configure", lambda **arguments: mindie.Sampler().configure(**arguments), pair)
    yield Entry(
        "mindie.Sampler.initialize",
        lambda eos_token_id: mindie.Sampler().initialize("npu", eos_token_id),
        {"eos_token_id": 2},
    )
    yield Entry(
        "mindie.Sampler.clear_cache",
        lambda sequence_ids: mindie.Sampler().clear_cache(sequence_ids),
        {"sequence_ids": _IDS},
    )


def _atb() -> Iterator[Entry]:
    kind = TopkToppSamplingType.BATCH_TOPK_MULTINOMIAL_SAMPLING
    param = TopkToppSamplingParam(kind, randSeeds=[1, 2])
    yield Entry("atb.TopkToppSampling", TopkToppSampling, {"param": param, "mode": "documented"})
    tensors = {
        "probs": np.full((2, 4), 0.25, np.float16),
        "topk": np.ones((2, 1), np.int32),
        "topp": np.ones((2, 1), np.float16),
    }
    yield Entry("TopkToppSampling()", partial(_called, partial(TopkToppSampling, param)), tensors)
    yield Entry(
        "TopkToppSampling.forward",
        lambda tensors: TopkToppSampling(param).forward(tensors),
        {"tensors": list(tensors.values())},
    )
    fields = {"topkToppSamplingType": kind, "randSeed": 0, "topk": 1, "randSeeds": [1, 2], "rsv": [0] * 16}
    yield Entry(
        "TopkToppSamplingParam",
        lambda **arguments: TopkToppSampling(TopkToppSamplingParam(**arguments)),
        fields,
    )


ENTRIES = [
    entry for part in (_tokenizers, _llama_cpp, _transformers, _vllm, _mlx, _mindie, _atb) for entry in part()
]
