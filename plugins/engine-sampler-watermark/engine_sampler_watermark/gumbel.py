"""watermark_gumbel: draw by noise that a key and the tokens before determine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from engine_sampler.arithmetic import LN_2, distances, log2_64, pick_by_weight, weights
from engine_sampler.contract import Example, Param, Rows, Selection, Selector

from .contexts import contexts_of, first_of_each, newest_context, rows_by
from .detection import Detection, checked_ids, gamma_tail
from .keyed_noise import SCHEMES, contexts_include_prompt, key_from

WIDEST = 64


class Gumbel(Selector):
    """Choose the token with the greatest logit + g, where its noise g is determined by a key and the context.

    Formula: g = −ln(−ln u) in float64, ln x = log2_64(x)·ln 2, u uniform, from key, context and token as the
    scheme says (`keyed_noise`). Ties go to the lowest id. Over all keys, the tokens have the probabilities of
    their softmax: nothing is lost but chance. A context that an earlier token of the output had draws as
    `dist` does, so that texts do not run in circles.

    The scheme "vllm" begins with an empty context, "sglang" with the end of the prompt. Greedy requests are
    not marked. Sources: Aaronson 2022; vLLM's `gumbel` and SGLang's watermark, whose detectors find it.
    """

    name = "watermark_gumbel"
    params = (
        Param("watermark_gumbel_key", int, neutral=None, low=0, high=2**64 - 1, convert=key_from,
              doc="the secret, 64 bits: an integer, or a string of hexadecimal digits; None is off"),
        Param("watermark_gumbel_width", int, neutral=4, low=1, high=WIDEST, switch=False,
              doc="so many tokens before a token determine its noise"),
        Param("watermark_gumbel_scheme", str, neutral="vllm", choices=tuple(SCHEMES), switch=False,
              doc="whose random numbers"),
    )  # fmt: skip
    examples = (
        Example((0.0, -np.inf, -np.inf), {"watermark_gumbel_key": 1}, token=0, note="the only token left"),
        Example((0.0, 40.0, 0.0), {"watermark_gumbel_key": 1}, token=1, note="noise is below 17"),
    )

    def select(self, logits: np.ndarray, rows: Rows) -> Selection:
        columns = np.full(len(rows), -1)
        settings = (rows[f"watermark_gumbel_{name}"].tolist() for name in ("key", "width", "scheme"))
        for (key, width, scheme), some in rows_by(zip(*settings, strict=True)).items():
            contexts = {i: c for i in some if (c := _context(rows, i, width, scheme)) is not None}
            if contexts:
                marked, which = [*contexts], np.stack([*contexts.values()])
                columns[marked] = _choose(logits, marked, rows, partial(SCHEMES[scheme], key, which))
        if len(plain := np.flatnonzero(columns < 0)):
            columns[plain] = pick_by_weight(weights(distances(logits[plain])), rows.draw()[plain])
        return Selection(columns)


def _context(rows: Rows, i: int, width: int, scheme: str) -> np.ndarray | None:
    prompt, output = rows.prompt_token_ids(i), rows.output_token_ids(i)
    return newest_context(prompt if contexts_include_prompt(scheme) else prompt[:0], output, width, -1)


def _choose(
    logits: np.ndarray, marked: list[int], rows: Rows, uniform: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> list[int]:
    """The columns of the rows `marked`. `uniform` takes their indices and token ids."""
    alive = [np.flatnonzero(logits[i] > -np.inf) for i in marked]
    which = np.repeat(np.arange(len(marked)), [len(columns) for columns in alive])
    row, column = np.array(marked)[which], np.concatenate(alive)
    ids = column if rows.ids is None else rows.ids[row, column]
    noisy = logits[row, column] + _gumbel(uniform(which, ids))
    starts = np.searchsorted(which, np.arange(len(marked)))
    best = [some.argmax() for some in np.split(noisy, starts[1:])]
    return [int(columns[b]) for columns, b in zip(alive, best, strict=True)]


def _gumbel(uniform: np.ndarray) -> np.ndarray:
    """−ln(−ln u), float64."""
    return -log2_64(-log2_64(uniform) * LN_2) * LN_2


class GumbelDetector:
    """Finds the mark of `watermark_gumbel` in token ids.

    score = Σ −ln(1 − u) over the tokens whose context occurs for the first time; without the mark it is the
    sum of that many exponential variables, and the p-value is its tail. Arguments are those of the request.
    """

    def __init__(self, key: int | str, *, width: int = 4, scheme: str = "vllm") -> None:
        by_name = {param.name: param for param in Gumbel.params}
        self.key = by_name["watermark_gumbel_key"].check(key)
        if self.key is None:
            raise by_name["watermark_gumbel_key"].error(key, "the key")
        self.width = by_name["watermark_gumbel_width"].check(width)
        self.scheme = by_name["watermark_gumbel_scheme"].check(scheme)

    def detect(self, token_ids: Iterable[int], prompt_token_ids: Iterable[int] = ()) -> Detection:
        """What is in an output. In the scheme "sglang", the first tokens count only with their prompt."""
        output = checked_ids("token_ids", token_ids)
        prompt = checked_ids("prompt_token_ids", prompt_token_ids)[-self.width :]
        if not contexts_include_prompt(self.scheme):
            prompt = prompt[:0]
        elif not len(prompt):
            prompt, output = output[: self.width], output[self.width :]
        contexts = contexts_of(np.concatenate((prompt, output)), len(output) + 1, self.width, -1)[:-1]
        first = first_of_each(contexts)
        shares = SCHEMES[self.scheme](self.key, contexts[first], np.arange(len(first)), output[first])
        score = float(-np.log1p(-shares).sum())
        return Detection(score, len(first), gamma_tail(score, len(first)))
