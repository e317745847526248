"""Timelines: the tokens of a request until a criterion ends it, and the text that each of them streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from engine_sampler import SamplingParams, Scheduler, Tokenizer
from engine_sampler.contract import StoppingCriteria
from engine_sampler.explain.labels import settings_text
from engine_sampler.stopping import max_time

from ..svg import BLUE, FAINT, MONO_WIDTH, ORANGE, PINK, TEXT, Drawing

MARGIN, LABELS = 6.0, 74.0
SIZE, GAP = 12.0, 5.0
BOX = 26.0
END = "<end>"
SECONDS = 0.4
"""The time between two tokens, where it matters."""


@dataclass(frozen=True)
class Story:
    """What one timeline shows.

    params   the parameters of the request.
    tokens   what the model would write without the criterion.
    prompt   tokens before them.
    shares   the probability of each token, for a criterion that looks at it.
    timed    whether to show when each token comes.
    """

    params: Mapping[str, Any]
    tokens: tuple[str, ...]
    prompt: tuple[str, ...] = ()
    shares: tuple[float, ...] = ()
    timed: bool = False


def _tokens(text: str) -> tuple[str, ...]:
    """Tokens divided by bars."""
    return tuple(text.replace("\\n", "\n").split("|"))


STORIES: Mapping[str, Story] = {
    "eos": Story({}, _tokens("It| works|.|<end>| And| so")),
    "stop": Story({"stop": ["\n\n"]}, _tokens("One| line|.\\n|Two|.\\n|\\n|Three")),
    "stop_regex": Story({"stop_regex": [r"[.!?]\s"]}, _tokens("Is| it| 3|.|1|4|?| Yes|,| it")),
    "banned_strings": Story(
        {"banned_strings": ["shiver down"]}, _tokens("It| sends| a| shiver| down| letter| to"),
    ),
    "banned_regex": Story(
        {"banned_regex": [r"not \w+, but"]}, _tokens("It| is| not| big|,| but| small|.| And"),
    ),
    "stop_token_ids": Story({"stop_token_ids": [4]}, _tokens("It| works|,| and| stops| here")),
    "max_tokens": Story({"max_tokens": 4}, _tokens("One| two| three| four| five| six"), _tokens("Count|:")),
    "max_length": Story({"max_length": 6}, _tokens("One| two| three| four| five| six"), _tokens("Count|:")),
    "max_time": Story({"max_time": 1.5}, _tokens("Time| and| tide| wait| for| no"), timed=True),
    "repetition": Story(
        {"repetition_detection": (3, 1, 3)}, _tokens("Well|,| no|,| no|,| no|,| no"),
    ),
    "loop": Story(
        {"loop_detect_window": 6}, _tokens("Well|,| no|,| no|,| no|,| no"),
    ),
    "confidence": Story(
        {"assistant_confidence_threshold": 0.4}, _tokens("The| cat| sat| under| the| sofa"),
        shares=(0.9, 0.75, 0.62, 0.31, 0.8, 0.5),
    ),
    "deepconf": Story(
        {"deepconf_threshold": 2.1, "deepconf_window_size": 3}, _tokens("The| answer| may| well| be| 12"),
        shares=(0.9, 0.95, 0.6, 0.4, 0.3, 0.5),
    ),
}  # fmt: skip


def story_of(criterion: StoppingCriteria) -> Story:
    """The story of a criterion; without one of its own, its first example, and a text that ends by it."""
    if criterion.name in STORIES:
        return STORIES[criterion.name]
    tokens = _tokens("One| two| three| four| five| six")
    return Story(criterion.examples[0], tuple(criterion.texts[0]) if criterion.texts else tokens)


@dataclass
class Course:
    """What happened: the text streamed with each token, how it ended, and the whole text."""

    streamed: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: Any = None
    text: str = ""


def draw(criterion: StoppingCriteria) -> str:
    """The timeline of a criterion, as SVG."""
    story = story_of(criterion)
    course = _run(story)
    picture = Drawing(0, 182, f"{criterion.name}: where a request ends")
    picture.text(MARGIN, 20, settings_text(story.params) or "no settings", 13, ORANGE, mono=True, bold=True)
    for y, label in ((72, "tokens"), (106, "streamed"), (140, "the text"), (166, "the end")):
        picture.text(MARGIN, y, label, 11.5)
    x = LABELS
    for word in story.prompt:
        x = _box(picture, x, word, FAINT, 0.25, TEXT)
    for number, word in enumerate(story.tokens):
        x = _token(picture, x, story, course, number, word)
    _mono(picture, LABELS, 140, _quoted(course.text))
    end = f"finish_reason={course.finish_reason!r}  stop_reason={course.stop_reason!r}"
    _mono(picture, LABELS, 166, end, ORANGE)
    picture.width = max(x, LABELS + len(end) * SIZE * MONO_WIDTH) + MARGIN
    return picture.svg()


def _run(story: Story) -> Course:
    """The course of a request whose model writes the story's tokens."""
    vocabulary = tuple(dict.fromkeys((*story.prompt, *story.tokens)))
    ends = [vocabulary.index(END)] if END in vocabulary else []
    tokenizer = Tokenizer([word.encode() for word in vocabulary], ends)
    clock = [0.0]
    course = Course()
    with _time(lambda: clock[0]):
        scheduler = Scheduler(len(vocabulary), tokenizer)
        params = SamplingParams(temperature=0, **story.params)
        scheduler.add(params, [vocabulary.index(word) for word in story.prompt])
        for number, word in enumerate(story.tokens):
            clock[0] += SECONDS
            share = story.shares[number] if story.shares else 0.9
            row = np.full(len(vocabulary), np.log((1 - share) / (len(vocabulary) - 1)), np.float32)
            row[vocabulary.index(word)] = np.log(share)
            result = scheduler.step(row[None])
            course.streamed.append(result.text[0] or "")
            if result.finish_reasons[0] is not None:
                course.finish_reason, course.stop_reason = result.finish_reasons[0], result.stop_reasons[0]
                break
    course.text = "".join(course.streamed)
    return course


def _time(now: Callable[[], float]) -> Any:
    """`max_time` with a clock of the picture's own."""
    return mock.patch.object(max_time, "time", SimpleNamespace(time=now, monotonic=now))


# --- drawing -------------------------------------------------------------------------------------


def _token(picture: Drawing, x: float, story: Story, course: Course, number: int, word: str) -> float:
    """One token with what it streamed; returns the place of the next one."""
    last = len(course.streamed) - 1
    if number > last:
        return _box(picture, x, word, FAINT, 0.0, FAINT, dashed=True)
    middle = x + _width(word) / 2
    colour, opacity, ink = (ORANGE, 0.9, "#ffffff") if number == last else (BLUE, 0.2, BLUE)
    if note := _note(story, number):
        picture.text(middle, 48, note, 10, ORANGE if number == last else TEXT, anchor="middle")
    if streamed := course.streamed[number]:
        picture.text(middle, 106, _shown(streamed), SIZE - 1, TEXT, anchor="middle", mono=True)
    else:
        picture.text(middle, 106, "–", SIZE, FAINT if number == last else PINK, anchor="middle")
    return _box(picture, x, word, colour, opacity, ink)


def _note(story: Story, number: int) -> str:
    """When a token comes, or how likely it is, if the story is about that."""
    if story.timed:
        return f"{SECONDS * (number + 1):.1f} s"
    return f"{story.shares[number]:.2f}" if story.shares else ""


def _box(
    picture: Drawing, x: float, word: str, fill: str, opacity: float, ink: str, *, dashed: bool = False
) -> float:
    width = _width(word)
    stroke = FAINT if dashed else "none"
    picture.rect(x, 55, width, BOX, fill, opacity=opacity, stroke=stroke, radius=4, dashed=dashed)
    picture.text(x + width / 2, 72, _shown(word), SIZE, ink, anchor="middle", mono=True)
    return x + width + GAP


def _width(word: str) -> float:
    return max(2.2, len(_shown(word))) * SIZE * MONO_WIDTH + 12


def _shown(text: str) -> str:
    return text.replace("\n", "⏎").replace(" ", "␣")


def _quoted(text: str) -> str:
    return '"' + text.replace("\n", "⏎") + '"'


def _mono(picture: Drawing, x: float, y: float, text: str, colour: str = TEXT) -> None:
    picture.text(x, y, text, SIZE, colour, mono=True)
