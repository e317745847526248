"""penalties: make tokens that have already occurred less likely (repetition, frequency, presence)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arithmetic import FLT_MAX
from ..contract import Example, Param, Rows, Sampler, Vocabulary
from ._columns import finite_columns, store

_NOTHING = np.zeros(0, np.int64)
_NEUTRAL = {"repetition_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0}
"""With these values, nothing else matters."""
_LONGEST = 2**62
"""A longer window is no other one."""


class CountedWindow:
    """The last `size` tokens of a growing list (−1: all of them), and how often each occurs.

    `ids` is ascending, int64; `counts` is parallel to it. Both are counted when they are first needed, and
    then updated with every token, so the cost of reading them does not depend on the length of the list. A
    size of 0 is off: nothing is kept.
    """

    __slots__ = ("_added", "_counts", "_ids", "_size", "_start")

    def __init__(self, token_ids: np.ndarray, size: int) -> None:
        """The list begins with `token_ids`, which nothing may change."""
        self._size = size
        self._start = token_ids if size else _NOTHING
        self._added: list[int] = []
        self._ids: np.ndarray | None = None
        self._counts = _NOTHING

    @property
    def ids(self) -> np.ndarray:
        return self._counted()[0]

    @property
    def counts(self) -> np.ndarray:
        return self._counted()[1]

    def extend(self, token_ids: Sequence[int]) -> None:
        """Append tokens; once the window is full, as many leave it at the start."""
        if not self._size:
            return
        self._counted()
        for token in token_ids:
            self._added.append(token)
            self._add(token)
            if self._is_full():
                self._remove(self._at_the_edge())

    def retract(self, n: int) -> None:
        """Remove the last n tokens; those that had left the window for them re-enter it."""
        if not self._size:
            return
        self._counted()
        for _ in range(n):
            if self._is_full():
                self._add(self._at_the_edge())
            self._remove(self._added.pop())

    def copy(self) -> CountedWindow:
        twin = object.__new__(CountedWindow)
        twin._size, twin._start, twin._added = self._size, self._start, self._added.copy()
        twin._ids, twin._counts = self._ids, self._counts.copy()  # ids are replaced, counts change in place
        return twin

    def _counted(self) -> tuple[np.ndarray, np.ndarray]:
        if self._ids is None:
            inside = self._start if self._size < 0 else self._start[-self._size :]
            self._ids, self._counts = np.unique(inside, return_counts=True)
        return self._ids, self._counts

    def _is_full(self) -> bool:
        """Whether the list is longer than the window."""
        return 0 < self._size < len(self._start) + len(self._added)

    def _at_the_edge(self) -> int:
        """The newest token that is outside the window."""
        i = len(self._added) - self._size - 1
        return self._added[i] if i >= 0 else int(self._start[i])

    def _add(self, token: int) -> None:
        ids, counts = self._counted()
        i = ids.searchsorted(token)
        if i < len(ids) and ids[i] == token:
            counts[i] += 1
        else:
            self._ids = np.concatenate((ids[:i], (token,), ids[i:]))
            self._counts = np.concatenate((counts[:i], (1,), counts[i:]))

    def _remove(self, token: int) -> None:
        ids, counts = self._counted()
        i = ids.searchsorted(token)
        counts[i] -= 1
        if not counts[i]:
            self._ids = np.concatenate((ids[:i], ids[i + 1 :]))
            self._counts = np.concatenate((counts[:i], counts[i + 1 :]))


@dataclass(frozen=True)
class PenaltyWindows:
    """The window of the repetition penalty, and that of the frequency and presence penalties."""

    repeated: CountedWindow
    counted: CountedWindow


@dataclass(frozen=True)
class _Settings:
    """The effective penalties of one request. A reach of −1 is the whole history, 0 is off; it includes the
    tokens over which penalties fade: the last `repetition_decay` and `decay` of the windows, less one, 0 if
    they do not."""

    repetition: float
    repetition_reach: int
    slope: float
    frequency: float
    presence: float
    reach: int
    scope: str
    repetition_decay: int
    decay: int

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> _Settings:
        last_n, own_reach = params["penalty_last_n"], params["repetition_penalty_range"]
        own = last_n if own_reach is None else own_reach
        decay = params["penalty_decay_range"]
        slope = params["repetition_penalty_slope"] if own > 0 else 0.0
        repetition_reach = own if slope else _with_fading(own, decay)
        repetition_reach = repetition_reach if params["repetition_penalty"] != 1 else 0
        counts = params["frequency_penalty"] or params["presence_penalty"]
        reach = _with_fading(last_n, decay) if counts else 0
        return cls(
            params["repetition_penalty"],
            repetition_reach,
            slope,
            params["frequency_penalty"],
            params["presence_penalty"],
            reach,
            params["penalty_scope"],
            decay if repetition_reach > 0 and not slope else 0,
            decay if reach > 0 else 0,
        )


def _with_fading(reach: int, decay: int) -> int:
    """The window of a full penalty, and the tokens behind it of which the penalty is not yet 0."""
    return min(reach + decay - 1, _LONGEST) if decay and reach >= 0 else reach


class Penalties(Sampler):
    """Lower the logits of tokens that have already occurred: by a factor, per occurrence, and once.

    Formula: repetition first, q = float32(repetition_penalty), l > 0 ? l / q : l·q with a true
    division; then l − float32(count·frequency_penalty + presence_penalty), summed in float64. Each
    result is clamped to ±FLT_MAX, q to FLT_MAX; removed tokens stay removed.

    The history: with penalty_scope "default", prompt and output for repetition (CTRL, transformers,
    vLLM) and the output for frequency and presence (OpenAI); with "all", prompt and output for
    everything (llama.cpp); with "output", the output alone. Only its last penalty_last_n tokens count
    (−1 all, 0 none); repetition_penalty_range replaces that number for repetition. penalize_nl=False
    exempts the tokens that are exactly a newline.

    With repetition_penalty_slope s > 0 and a range of n tokens, the factor falls with age a (0 for the
    newest token; a token's last occurrence counts), in float64, rounded once: x = 1 − 2a/(n − 1), x = 1
    for n = 1; y = s·x / (1 + |x|·(s − 1)) within ±1; q = 1 + (y + 1)/2·(repetition_penalty − 1).
    The curve spans the whole range even if the history is shorter.

    With penalty_decay_range d > 0, every penalty fades over the d tokens behind its window: of one that is
    b tokens further back, f = (d − b)/d is left, down to 0; of others 1. Repetition takes f of a token's
    newest occurrence, in float64, rounded once: l > 0 ? l / (q/((1 − f)·q + f)) : l·((1 − f) + f·q), so that
    the result lies between l and the full penalty. Presence takes the same f, frequency the sum of f over
    the occurrences: l − float32(Σf·frequency_penalty + f·presence_penalty). A window without an end has
    nothing behind it, one of 0 fades from the newest token on, and with a slope repetition has
    already faded.

    Neutral: repetition_penalty 1, frequency_penalty and presence_penalty 0.
    Sources: Keskar et al. 2019, arXiv 1909.05858 (repetition); OpenAI's API (frequency, presence);
    KoboldAI (range and slope, which use float32 there); llama.cpp (windows; there an unlimited window
    means off); exllamav3 (fading). KoboldAI's range of 0 is −1 here.
    """

    name = "penalties"
    role = "penalty"
    cost = "history"
    lazy = True
    params = (
        Param("repetition_penalty", float, neutral=1.0, low=0, low_open=True, doc="factor on seen tokens"),
        Param("repetition_penalty_range", int, neutral=None, low=-1, switch=False,
              doc="newest tokens that count for repetition; -1 all, None: penalty_last_n"),
        Param("repetition_penalty_slope", float, neutral=0.0, low=0, switch=False,
              doc="how the factor falls with age within the range; 0 flat"),
        Param("frequency_penalty", float, neutral=0.0, doc="subtracted per occurrence"),
        Param("presence_penalty", float, neutral=0.0, doc="subtracted once"),
        Param("penalty_last_n", int, neutral=-1, low=-1, switch=False,
              doc="newest tokens that count; -1 all, 0 none"),
        Param("penalty_decay_range", int, neutral=0, low=0, high=2**31 - 1, switch=False,
              doc="tokens behind the window over which the penalties fade to none"),
        Param("penalty_scope", str, neutral="default", choices=("default", "all", "output"), switch=False,
              doc="whether prompt and output count, or only the output"),
        Param("penalize_nl", bool, neutral=True, switch=False, doc="False exempts newline tokens"),
    )  # fmt: skip
    examples = (
        Example((2.0, -2.0, 1.0), {"repetition_penalty": 2.0}, (1.0, -4.0, 1.0), prompt_token_ids=(0, 1)),
        Example((2.0, 2.0), {"frequency_penalty": 0.5, "presence_penalty": 0.25}, (0.75, 2.0),
                prompt_token_ids=(1,), output_token_ids=(0, 0), note="the prompt does not count"),
        Example((2.0, 2.0), {"presence_penalty": 1.0, "penalty_scope": "all", "penalty_last_n": 1},
                (1.0, 2.0), prompt_token_ids=(1, 0), note="a window of one token"),
        Example((3.0, 3.0, 3.0),
                {"repetition_penalty": 2.0, "repetition_penalty_range": 3, "repetition_penalty_slope": 1.0},
                (3.0, 2.0, 1.5), prompt_token_ids=(0, 1, 2), note="factors 1, 1.5 and 2"),
        Example((3.0, 3.0, 3.0),
                {"repetition_penalty": 3.0, "penalty_last_n": 1, "penalty_decay_range": 2},
                (3.0, 2.0, 1.0), prompt_token_ids=(0, 1, 2), note="0, 0.5 and 1 of the penalty are left"),
    )  # fmt: skip

    def is_active(self, params: Mapping[str, Any]) -> bool:
        if all(params[name] == neutral for name, neutral in _NEUTRAL.items()):
            return False
        settings = _Settings.of(params)
        return settings.repetition_reach != 0 or settings.reach != 0

    def resolve(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> tuple[_Settings, np.ndarray]:
        """The settings, and the exempt ids."""
        settings = _Settings.of(params)
        if params["penalize_nl"]:
            return settings, _NOTHING
        tokenizer = vocabulary.need_tokenizer(
            "penalize_nl=False", "needs a tokenizer to find the newline tokens"
        )
        newlines = [t for t in tokenizer.ids_of(b"\n") if t < vocabulary.size]
        return settings, np.array(newlines, np.int64)

    def new_state(self, params: Mapping[str, Any], prompt_token_ids: np.ndarray) -> PenaltyWindows:
        settings = _Settings.of(params)
        flat_reach = 0 if settings.slope or settings.repetition_decay else settings.repetition_reach
        return PenaltyWindows(
            CountedWindow(prompt_token_ids if settings.scope != "output" else _NOTHING, flat_reach),
            CountedWindow(
                prompt_token_ids if settings.scope == "all" else _NOTHING,
                0 if settings.decay else settings.reach,
            ),
        )

    def accept(self, state: PenaltyWindows, token_ids: Sequence[int]) -> None:
        state.repeated.extend(token_ids)
        state.counted.extend(token_ids)

    def rollback(self, state: PenaltyWindows, n: int) -> None:
        state.repeated.retract(n)
        state.counted.retract(n)

    def fork(self, state: PenaltyWindows) -> PenaltyWindows:
        return PenaltyWindows(state.repeated.copy(), state.counted.copy())

    def apply(self, logits: np.ndarray, rows: Rows) -> None:
        entries = zip(logits, rows.resolved, rows.states, strict=True)
        for i, (row, (settings, exempt), windows) in enumerate(entries):
            exempt_columns = rows.columns(i, exempt)[0]
            exempt_logits = row[exempt_columns]
            ids, divisors, factors = repetition_factors(settings, windows.repeated, rows, i)
            columns, which = finite_columns(row, rows, i, ids)
            store(row, columns, divided(row[columns], divisors[which], factors[which]))
            ids, shifts = counted_shifts(settings, windows.counted, rows, i)
            columns, which = finite_columns(row, rows, i, ids)
            store(row, columns, row[columns] - shifts[which])
            row[exempt_columns] = exempt_logits


def divided(logits: np.ndarray, divisors: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """float32 logits of tokens in the history, after repetition with float32 `divisors` of positive logits
    and `factors` of others."""
    return np.where(logits > 0, logits / divisors, logits * factors)


def lowered(
    logits: np.ndarray, counts: np.ndarray, frequency: float | np.ndarray, presence: float | np.ndarray
) -> np.ndarray:
    """float32 logits of tokens that occur `counts` times, after frequency and presence."""
    return logits - occurrence_shift(counts, frequency, presence)


def occurrence_shift(
    counts: np.ndarray, frequency: float | np.ndarray, presence: float | np.ndarray
) -> np.ndarray:
    """What frequency and presence subtract from the logits of tokens that occur `counts` times, float32."""
    total: np.ndarray = counts * frequency + presence
    return total.astype(np.float32)


def counted_shifts(
    settings: _Settings, counted: CountedWindow, rows: Rows, i: int
) -> tuple[np.ndarray, np.ndarray]:
    """The ids that frequency and presence apply to in row i, and what they subtract, float32."""
    if not settings.decay:
        return counted.ids, occurrence_shift(counted.counts, settings.frequency, settings.presence)
    history = _history(rows, i, with_prompt=settings.scope == "all")
    ids, newest, every = _left_of_penalties(history, settings.reach, settings.decay)
    return ids, (every * settings.frequency + newest * settings.presence).astype(np.float32)


def repetition_factors(
    settings: _Settings, repeated: CountedWindow, rows: Rows, i: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ids that repetition_penalty applies to in row i, and float32 divisors of positive logits and
    factors of others for each; both are the same unless they fade."""
    if settings.repetition_decay:
        history = _history(rows, i, with_prompt=settings.scope != "output")
        ids, left, _ = _left_of_penalties(history, settings.repetition_reach, settings.repetition_decay)
        full, rest = settings.repetition, 1.0 - left
        return ids, _rounded(full / (rest * full + left)), _rounded(rest + left * full)
    if settings.slope and settings.repetition_reach:
        history = _history(rows, i, with_prompt=settings.scope != "output")
        ids, age = np.unique(history[::-1][: settings.repetition_reach], return_index=True)
        q = _rounded(_factor_of_age(age, settings))
    else:
        ids = repeated.ids
        q = _rounded(np.full(len(ids), settings.repetition))
    return ids, q, q


def _history(rows: Rows, i: int, *, with_prompt: bool) -> np.ndarray:
    return rows.token_ids(i) if with_prompt else rows.output_token_ids(i)


def _rounded(factors: np.ndarray) -> np.ndarray:
    return np.minimum(factors, FLT_MAX).astype(np.float32)


def _left_of_penalties(
    history: np.ndarray, reach: int, decay: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ids in the window of the last `reach` tokens, over the first of which penalties fade, and float64
    for each: what is left of a penalty at its newest occurrence, and the sum over all its occurrences."""
    window = history[::-1][:reach]
    ids, newest, which, counts = np.unique(window, return_index=True, return_inverse=True, return_counts=True)
    beyond = np.maximum(np.arange(len(window)) + (decay - reach), 0)
    lost = np.zeros(len(ids), np.int64)
    np.add.at(lost, which, beyond)
    return ids, (decay - beyond[newest]) / decay, (counts * decay - lost) / decay


def _factor_of_age(age: np.ndarray, settings: _Settings) -> np.ndarray:
    """KoboldAI's curve, float64: the full penalty for the newest token, none at the far end of the range."""
    slope = settings.slope
    x = 1.0 - 2.0 * age / max(settings.repetition_reach - 1, 1)
    y = np.clip(slope * x / (1.0 + np.abs(x) * (slope - 1.0)), -1.0, 1.0)
    return 1.0 + (y + 1.0) / 2.0 * (settings.repetition - 1.0)
