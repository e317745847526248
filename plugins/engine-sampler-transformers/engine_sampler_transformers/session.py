"""A local model of transformers in a loop with a scheduler."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from engine_sampler import RequestLimits, Scheduler, Tokenizer
from engine_sampler.for_backends import RequestId
from engine_sampler.for_bridges import Session as AnySession
from engine_sampler.for_bridges import instance_of, integer_of, named_backend

from .caller import PEER

_CACHE_NAMES = ("past_key_values", "cache_params")
"""Models' names for their caches, of attention or of recurrent layers."""


class _Cache(NamedTuple):
    """A request's cache as keywords of the model, its number of tokens, and the logits after them or None."""

    keywords: dict[str, Any]
    tokens: int
    logits: Any


class Session(AnySession):
    """One `Scheduler` fed by a causal language model of transformers.

    model         the directory of a model and its tokenizer, as `save_pretrained` writes it.
    backend       as in `Scheduler`.
    max_requests  maximum number of live requests; None: any number.

    The model runs on a GPU if torch finds one. Each request has its own cache, and its new tokens run through
    the model in a forward pass of their own: a request gets the logits that it would get alone.

    Raises ValueError or OSError naming the directory if it contains no loadable model.
    """

    def __init__(self, model: str, backend: str = "auto", *, max_requests: int | None = None) -> None:
        instance_of((str, os.PathLike), "model", model, "the directory of a model")
        if max_requests is not None:
            integer_of("max_requests", max_requests, 1)
        named_backend(backend)
        if not Path(model).is_dir():
            raise ValueError(f"{model} is not a directory; allowed is that of a transformers model")
        with PEER.compared():
            import torch  # type: ignore[import-not-found]   # first, as transformers hides that it is missing
            from transformers import AutoModelForCausalLM, AutoTokenizer  # type: ignore[import-not-found]
        with _quiet(), _named_errors(model):
            self._tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
            self._model = AutoModelForCausalLM.from_pretrained(model, local_files_only=True, dtype="auto")
            tokenizer = Tokenizer.from_transformers(self._tokenizer)
        self._model.eval().to("cuda" if torch.cuda.is_available() else "cpu")
        config = self._model.config.get_text_config()
        size = min(config.vocab_size, len(tokenizer))
        eos = _as_list(self._model.generation_config.eos_token_id)
        super().__init__(
            Scheduler(
                size,
                tokenizer,
                eos_token_ids=[i for i in eos if 0 <= i < size],
                max_model_len=getattr(config, "max_position_embeddings", None),
                backend=backend,
                limits=RequestLimits.none(),
            ),
            max_requests,
        )
        template = self._tokenizer.chat_template
        if isinstance(template, Mapping):  # several by name
            template = template.get("tool_use", template.get("default"))
        self.chat_template = template
        names = ("bos_token", "eos_token")
        self.template_tokens = {name: getattr(self._tokenizer, name) or "" for name in names}
        self._caches: dict[RequestId, _Cache] = {}
        parameters = inspect.signature(self._model.forward).parameters
        self._keeps_logits = "logits_to_keep" in parameters

    def encode(self, prompt: str) -> list[int]:
        """The prompt's tokens, after the special tokens that the tokenizer prepends."""
        instance_of(str, "prompt", prompt, "a text")
        token_ids: list[int] = self._tokenizer(prompt)["input_ids"]
        if not token_ids:
            raise ValueError(f"prompt={prompt!r} has no tokens; the model needs at least one")
        return token_ids

    def forward(self, contexts: Mapping[RequestId, list[int]]) -> Any:
        """Logits after each context, a float tensor [rows, width] on the host: the same again for a request
        without a new token, which was postponed."""
        return self.forward_drafts(contexts, {})

    def forward_drafts(
        self, contexts: Mapping[RequestId, list[int]], drafts: Mapping[RequestId, Sequence[int]]
    ) -> Any:
        """As `forward`, and the logits after each draft, in the same pass. Their last bits may differ from
        those of a pass for one token."""
        import torch

        with torch.inference_mode():
            return torch.cat([self._logits(r, ids, drafts.get(r, ())) for r, ids in contexts.items()]).cpu()

    @property
    def checks_drafts(self) -> bool:
        """Not for recurrent models, whose state cannot be cut."""
        return not getattr(self._model, "_is_stateful", False)

    def rewind(self, request_id: RequestId, length: int) -> None:
        """Cut a request's cache, if it is one that can be cut."""
        cache = self._caches.pop(request_id, None)
        past: Any = None if cache is None else cache.keywords.get("past_key_values")
        if cache is None or not hasattr(past, "crop"):
            return
        kept = min(cache.tokens, length - 1)  # the last token runs again, for its logits
        with contextlib.suppress(RuntimeError, ValueError):  # not in every model can all layers be cut
            past.crop(kept - cache.tokens)
            self._caches[request_id] = _Cache(cache.keywords, kept, None)

    def forget(self, request_id: RequestId) -> None:
        """Drop a request's cache."""
        self._caches.pop(request_id, None)

    def _logits(self, request_id: RequestId, context: list[int], draft: Sequence[int]) -> Any:
        """Logits [1 + k, width] after a context, a prefix of which is in the cache, and each token of its
        draft."""
        import torch

        cache = self._caches.get(request_id, _Cache({}, 0, None))
        new = [*context[cache.tokens :], *draft]
        if not new:
            return cache.logits
        known = [cache.logits] if cache.tokens == len(context) else []
        wanted = 1 + len(draft) - len(known)
        only_last = {"logits_to_keep": wanted} if self._keeps_logits else {}
        ids = torch.tensor([new], device=self._model.device)
        outputs = self._model(input_ids=ids, use_cache=True, **cache.keywords, **only_last)
        keywords = {name: outputs[name] for name in _CACHE_NAMES if name in outputs}
        logits = torch.cat([*known, outputs.logits[0, -wanted:]])  # the others are not kept
        self._caches[request_id] = _Cache(keywords, len(context) + len(draft), logits[-1:].clone())
        return logits


def _as_list(token_ids: int | list[int] | None) -> list[int]:
    if token_ids is None:
        return []
    return [token_ids] if isinstance(token_ids, int) else list(token_ids)


@contextlib.contextmanager
def _named_errors(model: str) -> Iterator[None]:
    """Turn transformers' exceptions for a directory into a one-line ValueError that names it."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = str(error).strip() or type(error).__name__
        raise ValueError(f"{model} contains no loadable model: {message.splitlines()[0]}") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence transformers' progress bars and warnings; its settings are restored afterwards."""
    from transformers.utils import logging  # type: ignore[import-not-found]

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
