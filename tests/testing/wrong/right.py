"""Right plugins, one of every kind, none of them registered: the wrong ones differ by one mistake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from engine_sampler import Tokenizer
from engine_sampler.arithmetic import coin, settle
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.contract import (
    Backend,
    Drafter,
    Example,
    Param,
    Sampler,
    Selection,
    Selector,
    StoppingCriteria,
    StopVerdict,
    TextCriteria,
    TextMatch,
    TextMatcher,
    Truncation,
    Work,
    spending,
)
from engine_sampler.testing import (
    BackendContract,
    DrafterContract,
    GrammarContract,
    MatcherContract,
    ObserverContract,
    SamplerContract,
    SelectorContract,
    StoppingContract,
)

# --- samplers ------------------------------------------------------------------------------------


class Near(Truncation):
    """Keep the tokens at most `near` below the best."""

    name = "near"
    params = (Param("near", float, neutral=-1.0, low=-1, high=1e6),)
    argmax_invariant = True
    examples = (Example((3.0, 2.0, 1.5, 0.0), {"near": 1.5}, (3.0, 2.0, 1.5, -np.inf)),)

    def keep(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        near = rows["near"].astype(np.float32)
        floor = np.where(near < 0, np.float32(-np.inf), logits.max(axis=1) - near)
        return logits >= floor[:, None]


class Tilt(Sampler):
    """Add `tilt` to the tokens with even ids."""

    name = "tilt"
    params = (Param("tilt", float, neutral=0.0, low=-1e6, high=1e6),)
    examples = (Example((1.0, 1.0, 0.0), {"tilt": 0.5}, (1.5, 1.0, 0.5)),)

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        alive = logits > -np.inf
        shift = self.shift(rows).astype(np.float32)[:, None]
        logits += np.where(self.ids(logits, rows) % 2 == 0, shift, np.float32(0))
        settle(logits, alive)

    def shift(self, rows: Any) -> np.ndarray:
        return rows["tilt"]

    def ids(self, logits: np.ndarray, rows: Any) -> np.ndarray:
        return np.arange(logits.shape[1])[None] if rows.ids is None else rows.ids


class Flip(Tilt):
    """Add `tilt` to the tokens with even ids, and subtract it if a coin shows tails."""

    name = "flip"

    examples = (Example((1.0, 1.0, 0.0), {"tilt": 0.0}, (1.0, 1.0, 0.0)),)

    def shift(self, rows: Any) -> np.ndarray:
        return rows["tilt"] * np.where(coin(self.bits(rows), np.full(len(rows), 0.5)), 1.0, -1.0)

    def bits(self, rows: Any) -> np.ndarray:
        return rows.draw()


class Streak(Sampler):
    """Lower the last accepted token by `streak` for each time in a row, counted in a state."""

    name = "streak"
    role = "penalty"
    params = (Param("streak", float, neutral=0.0, low=0, high=1e6),)
    examples = (Example((1.0, 1.0), {"streak": 0.5}, (1.0, 0.0), output_token_ids=(0, 1, 1)),)

    def new_state(self, params: Any, prompt_token_ids: np.ndarray) -> Any:
        return []

    def accept(self, state: Any, token_ids: Any) -> None:
        state.extend(token_ids)

    def rollback(self, state: Any, n: int) -> None:
        del state[len(state) - n :]

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        alive = logits > -np.inf
        for i, state in enumerate(rows.states):
            if state:
                columns, _ = rows.columns(i, np.array(state[-1:]))
                logits[i, columns] -= np.float32(rows["streak"][i] * self.length(state))
        settle(logits, alive)

    def length(self, state: Any) -> int:
        return next((n for n, t in enumerate(reversed(state)) if t != state[-1]), len(state))


class Toll(Sampler):
    """Lower the last accepted token by `toll` for each time that the output has it; they are counted in
    `prepare`."""

    name = "toll"
    role = "penalty"
    params = (Param("toll", float, neutral=0.0, low=0, high=1e6),)
    examples = (Example((1.0, 1.0), {"toll": 0.25}, (1.0, 0.5), output_token_ids=(1, 0, 1)),)

    def new_state(self, params: Any, prompt_token_ids: np.ndarray) -> Any:
        return {"tokens": [], "seen": 0, "count": 0}

    def accept(self, state: Any, token_ids: Any) -> None:
        state["tokens"] += token_ids
        self.forget(state)

    def rollback(self, state: Any, n: int) -> None:
        del state["tokens"][len(state["tokens"]) - n :]
        self.forget(state)

    def forget(self, state: Any) -> None:
        state["seen"] = state["count"] = 0

    def prepare(self, rows: Any, work: Work | None) -> None:
        (state,) = rows.states
        self.count(state, spending(work))

    def count(self, state: Any, spend: Callable[[int], None]) -> int:
        tokens = state["tokens"]
        while state["seen"] < len(tokens):
            spend(1000)
            state["count"] += tokens[state["seen"]] == tokens[-1]
            state["seen"] += 1
        return state["count"]

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        alive = logits > -np.inf
        for i, state in enumerate(rows.states):
            if state["tokens"]:
                columns, _ = rows.columns(i, np.array(state["tokens"][-1:]))
                logits[i, columns] -= np.float32(rows["toll"][i] * self.count(state, spending(None)))
        settle(logits, alive)


# --- selectors -----------------------------------------------------------------------------------


class Last(Selector):
    """Choose the last surviving token, or after each accepted token the one before."""

    name = "last"
    params = (Param("last", bool, neutral=False),)
    examples = (Example((0.0, 1.0, -np.inf), {"last": True}, token=1),)

    def new_state(self, params: Any, prompt_token_ids: np.ndarray) -> Any:
        return {"accepted": 0}

    def accept(self, state: Any, token_ids: Any, notes: Any = ()) -> None:
        state["accepted"] += len(token_ids)

    def rollback(self, state: Any, n: int) -> None:
        state["accepted"] -= n

    def select(self, logits: np.ndarray, rows: Any) -> Selection:
        return Selection(np.array([self.choose(*pair) for pair in zip(logits, rows.states, strict=True)]))

    def choose(self, row: np.ndarray, state: Any) -> int:
        alive = np.flatnonzero(row > -np.inf)
        return int(alive[-1 - state["accepted"] % len(alive)])


class Uniform(Selector):
    """Draw any surviving token, with the number of them as a note."""

    name = "uniform"
    params = (Param("uniform", bool, neutral=False),)
    examples = (Example((-np.inf, 1.0), {"uniform": True}, token=1),)

    def select(self, logits: np.ndarray, rows: Any) -> Selection:
        alive = logits > -np.inf
        count = alive.sum(axis=1)
        which = (self.bits(rows) % count.astype(np.uint64)).astype(np.int64)
        columns = (alive.cumsum(axis=1) <= which[:, None]).sum(axis=1)
        return Selection(columns, self.notes(count, rows))

    def bits(self, rows: Any) -> np.ndarray:
        return rows.draw()

    def notes(self, count: np.ndarray, rows: Any) -> np.ndarray | None:
        return count.astype(np.float64)

    def candidates(self, logits: np.ndarray, rows: Any) -> Any:
        return logits > -np.inf, {}


# --- criteria ------------------------------------------------------------------------------------


class Budget(StoppingCriteria):
    """Ends an output when the sum of its token ids reaches `budget`."""

    name = "budget"
    params = (Param("budget", int, None, low=0),)

    def new_state(self, params: Any, prompt_token_ids: Any, vocabulary: Any) -> Any:
        return {"most": params["budget"], "tokens": []}

    def check(self, state: Any, token_ids: Any, text: str) -> Any:
        state["tokens"] += token_ids
        return StopVerdict("budget", "length") if sum(state["tokens"]) >= state["most"] else None

    def rollback(self, state: Any, n: int) -> None:
        del state["tokens"][len(state["tokens"]) - n :]


class Balanced(StoppingCriteria):
    """Ends an output when as many parentheses have been closed as were opened."""

    name = "balanced"
    params = (Param("balanced", bool, False),)
    examples = ({"balanced": True},)
    texts = ("f(x)", '("Ab" (c))')

    def new_state(self, params: Any, prompt_token_ids: Any, vocabulary: Any) -> Any:
        return [(vocabulary.tokenizer, 0, False)]

    def check(self, state: Any, token_ids: Any, text: str) -> Any:
        verdict = None
        for token_id in token_ids:
            tokenizer, depth, ended = state[-1]
            for byte in tokenizer.text_bytes(token_id):
                depth += byte == ord("(")
                ended |= byte == ord(")") and depth == 1
                depth -= byte == ord(")") and depth > 0
            verdict = verdict or (StopVerdict("balanced") if ended else None)
            state.append((tokenizer, depth, False))
        return verdict

    def rollback(self, state: Any, n: int) -> None:
        del state[len(state) - n :]

    def fork(self, state: Any) -> Any:
        return state.copy()


class Word(TextMatcher):
    """Finds a word; a state is how much of it has been read."""

    start: Any = 0

    def __init__(self, word: bytes) -> None:
        self.word = word

    def advance(self, state: Any, data: bytes) -> Any:
        match = None
        for i, byte in enumerate(data):
            read = self.word[:state] + bytes([byte])
            state = next(n for n in range(len(read), -1, -1) if self.word.startswith(read[len(read) - n :]))
            if state == len(self.word):
                match = match or self.match(i + 1)
                state = next(n for n in range(state - 1, -1, -1) if self.word.endswith(self.word[:n]))
        return state, match

    def match(self, end: int) -> TextMatch:
        return TextMatch(end, end - len(self.word), self.word.decode())

    def held(self, state: Any) -> int:
        return state


class AtWord(TextCriteria):
    """Ends an output at a word."""

    name = "word"
    params = (Param("word", str, ""),)
    kind: type[Word] = Word

    def matcher(self, params: Any, vocabulary: Any) -> TextMatcher:
        return self.kind(params["word"].encode())


# --- matchers ------------------------------------------------------------------------------------

PIECES = (b"a", b"b", b"c", b"d", b"ab", b"ac", b"bd", b"cd", b"aba", b"ad", b"bb", b"d!", b"!", b"<end>")
EOS = len(PIECES) - 1
TOKENIZER = Tokenizer(PIECES, [EOS])


class Language:
    """What makes new matchers of a class."""

    def __init__(self, kind: type[Steps]) -> None:
        self.matcher = kind


class Steps:
    """The texts (ab|ac)*d!: one text, followed by a small automaton."""

    moves: Mapping[tuple[int, int], int] = {
        (0, ord("a")): 1,
        (1, ord("b")): 0,
        (1, ord("c")): 0,
        (0, ord("d")): 2,
        (2, ord("!")): 3,
    }

    def __init__(self) -> None:
        self.states: list[int] = [0]
        """The state before and after each accept; −1 after EOS."""

    def after(self, data: bytes) -> int | None:
        state: int | None = self.states[-1]
        for byte in data:
            state = None if state is None else self.moves.get((state, byte))
        return state

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0) -> None:
        bits = np.zeros(32 * bitmask.shape[1], bool)
        bits[[token for token in range(len(PIECES)) if self.allows(token)]] = True
        bitmask[row] = np.packbits(bits, bitorder="little").view(np.int32)

    def allows(self, token_id: int) -> bool:
        if self.is_terminated():
            return token_id == EOS
        return self.is_accepting() if token_id == EOS else self.after(PIECES[token_id]) is not None

    def accept(self, token_id: int) -> bool:
        if not 0 <= token_id < len(PIECES) or self.is_terminated():
            return False
        if token_id == EOS:
            return self.is_accepting() and self.push(-1)
        return self.accept_bytes(PIECES[token_id])

    def accept_bytes(self, data: bytes) -> bool:
        after = self.after(data)
        return after is not None and self.push(after)

    def push(self, state: int) -> bool:
        self.states.append(state)
        return True

    def rollback(self, n: int) -> None:
        del self.states[len(self.states) - n :]

    def fork(self) -> Any:
        child = type(self)()
        child.states = self.states.copy()
        return child

    def is_accepting(self) -> bool:
        return self.states[-1] == 3

    def is_terminated(self) -> bool:
        return self.states[-1] == -1

    def validate(self, token_ids: Sequence[int]) -> int:
        trial = self.fork()
        return next((i for i, token in enumerate(token_ids) if not trial.accept(token)), len(token_ids))

    def forced_tokens(self) -> list[int]:
        return [PIECES.index(b"!")] if self.states[-1] == 2 else []


class BoundedSteps(Steps):
    """The same, but the mask is found token by token, as far as the work goes."""

    bounded = True

    def __init__(self) -> None:
        super().__init__()
        self.found: list[bool] = []

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0, work: Work | None = None) -> None:
        spend = spending(work)
        while len(self.found) < len(PIECES):
            spend(1000)
            self.found.append(self.allows(len(self.found)))
        bits = np.zeros(32 * bitmask.shape[1], bool)
        bits[: len(self.found)] = self.found
        bitmask[row] = np.packbits(bits, bitorder="little").view(np.int32)

    def accept(self, token_id: int, work: Work | None = None) -> bool:
        spending(work)(200)
        return super().accept(token_id)

    def push(self, state: int) -> bool:
        self.found = []
        return super().push(state)

    def rollback(self, n: int) -> None:
        self.found = []
        super().rollback(n)

    def forced_tokens(self, *, work: Work | None = None) -> list[int]:
        spending(work)(200)
        return super().forced_tokens()


# --- grammars ------------------------------------------------------------------------------------


class Spelling(Steps):
    """The same texts in the tokens of any tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.tokenizer = tokenizer

    def piece(self, token_id: int) -> bytes:
        """The bytes of a token, none if it has no text."""
        inside = 0 <= token_id < len(self.tokenizer) and token_id not in self.tokenizer.special_token_ids
        return self.tokenizer.token_bytes[token_id] if inside else b""

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0) -> None:
        bits = np.zeros(32 * bitmask.shape[1], bool)
        bits[[token for token in range(len(self.tokenizer)) if self.allows(token)]] = True
        bitmask[row] = np.packbits(bits, bitorder="little").view(np.int32)

    def allows(self, token_id: int) -> bool:
        if token_id in self.tokenizer.eos_token_ids:
            return self.is_accepting() or self.is_terminated()
        piece = b"" if self.is_terminated() else self.piece(token_id)
        return bool(piece) and self.after(piece) is not None

    def accept(self, token_id: int) -> bool:
        if self.is_terminated() or not self.allows(token_id):
            return False
        if token_id in self.tokenizer.eos_token_ids:
            return self.push(-1)
        return self.accept_bytes(self.piece(token_id))

    def fork(self) -> Any:
        child = type(self)(self.tokenizer)
        child.states = self.states.copy()
        return child

    def forced_tokens(self) -> list[int]:
        return []


class Compiled:
    """An automaton for one tokenizer."""

    def __init__(self, tokenizer: Tokenizer, kind: type[Spelling]) -> None:
        self.tokenizer, self.kind = tokenizer, kind

    def matcher(self) -> Any:
        return self.kind(self.tokenizer)


class Automaton:
    """The texts (ab|ac)*d!, as a plugin registers them."""

    kind: type[Spelling] = Spelling

    def compile(self, tokenizer: Tokenizer) -> Any:
        return Compiled(tokenizer, self.kind)


# --- drafters ------------------------------------------------------------------------------------


class Echo(Drafter):
    """Drafts what followed the last token before."""

    name = "echo"

    def new_state(self, params: Any, vocabulary: Any) -> Any:
        return []

    def accept(self, state: Any, token_ids: Any) -> None:
        state += token_ids

    def rollback(self, state: Any, n: int) -> None:
        del state[len(state) - n :]

    def draft(self, state: Any, text: Any, count: int) -> Any:
        before = state[:-1]
        at = len(before) - before[::-1].index(state[-1]) if state and state[-1] in before else len(state)
        return state[at : at + count]


# --- observers -----------------------------------------------------------------------------------


class Tokens:
    """Counts tokens."""

    tokens = 0

    def step_finished(self, result: Any) -> None:
        self.tokens += int((result.token_ids >= 0).sum())


# --- backends ------------------------------------------------------------------------------------


class Plain(NumpyBackend):
    """The reference under another name."""

    name = "plain"


# --- kits ----------------------------------------------------------------------------------------

ATTRIBUTES: Mapping[type, Mapping[str, Any]] = {
    Near: {"params": [{"near": 0.0}, {"near": 2.5}]},
    Tilt: {"params": [{"tilt": 0.75}], "removes": False, "apply_at_neutral": False},
    Flip: {"params": [{"tilt": 0.75}], "removes": False, "apply_at_neutral": False},
    Streak: {"params": [{"streak": 0.75}], "removes": False},
    Toll: {"params": [{"toll": 0.75}], "removes": False},
    Last: {"params": [{"last": True}]},
    Uniform: {"params": [{"uniform": True}]},
    Budget: {"params": [{"budget": 60}, {"budget": 150}]},
    Balanced: {},
    AtWord: {"params": [{"word": "ab"}, {"word": "xy"}, {"word": "é"}]},
    Steps: {"texts": [b"d!", b"abacd!"], "other_texts": [b"ab", b"abd", b""]},
    BoundedSteps: {"texts": [b"d!", b"abacd!"], "other_texts": [b"ab", b"abd", b""]},
    Automaton: {"texts": [b"d!", b"abacd!"], "other_texts": [b"ab", b""]},
    Echo: {},
    Tokens: {},
    Plain: {},
}
"""What the kit of each right plugin is given."""

KITS: tuple[tuple[type, type, str, Mapping[str, Any]], ...] = (
    (Sampler, SamplerContract, "sampler", {"vocab_sizes": (2, 17)}),
    (Selector, SelectorContract, "selector", {"vocab_sizes": (2, 17)}),
    (StoppingCriteria, StoppingContract, "criterion", {"rounds": 6}),
    (Steps, MatcherContract, "grammar", {"tokenizer": TOKENIZER, "rounds": 6}),
    (Automaton, GrammarContract, "grammar", {"tokenizer": TOKENIZER, "rounds": 2}),
    (Drafter, DrafterContract, "drafter", {"rounds": 8}),
    (Tokens, ObserverContract, "observer", {}),
    (Backend, BackendContract, "backend", {"vocab_sizes": (40,), "chains": 4}),
)


def kit_of(plugin: type, **attributes: Any) -> type:
    """The kit of a plugin class, with a smaller search than the kits' own."""
    for base, kit, attribute, small in KITS:
        if issubclass(plugin, base):
            right = next(one for one in plugin.__mro__ if one in ATTRIBUTES)
            tested = Language(plugin) if base is Steps else plugin()
            return type("Kit", (kit,), {**small, **ATTRIBUTES[right], attribute: tested, **attributes})
    raise TypeError(plugin)
