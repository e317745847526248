"""How many steps drafts save calls of tools: python -m benchmarks.generation.saved_steps [--write]

Prints a Markdown table; --write also writes it into docs/benchmarks. Nothing is timed: steps are counted.

There is no model: each row's logits come from the text that the request is to write. They are noise N(0, 1)
over the whole vocabulary of tekken (131,072 tokens), and the next token of that text stands out of it: with a
probability of about 0.9 at temperature 1 where the grammar refuses nothing. Where another token is drawn, the
rest of the text follows from the first place on at which the grammar accepts it. A prompt has the tools and
the values, as prompts of agents mostly have.

The tokens are compared: with drafts they are the same.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from engine_sampler import Grammar, SamplingParams, Scheduler, Tokenizer

from ..render import table, write_between

START, END = "<!-- saved steps -->", "<!-- end of saved steps -->"
MOST = 12
"""The most tokens of a draft."""
LIKELY = 14.5
"""The logit of the next token of the text."""

TOOLS: Mapping[str, Mapping[str, Any]] = {
    "get_current_weather": {
        "location": {"type": "string"},
        "unit": {"enum": ["celsius", "fahrenheit"]},
    },
    "search_flights": {
        "origin": {"type": "string"},
        "destination": {"type": "string"},
        "departure_date": {"type": "string", "format": "date"},
        "passengers": {"type": "integer", "minimum": 1},
    },
    "create_calendar_event": {
        "title": {"type": "string"},
        "start_date": {"type": "string", "format": "date"},
        "attendees": {"type": "array", "items": {"type": "string"}},
        "send_invitations": {"type": "boolean"},
    },
}
CITIES = ("Paris", "San Francisco", "Ouagadougou", "Kyoto", "Buenos Aires", "Reykjavik")
TITLES = ("Quarterly budget review", "Dentist", "Lunch with the Lisbon team", "Launch rehearsal")
PEOPLE = ("ana.souza@example.com", "li.wei@example.org", "j.doe@example.net", "maria@example.com")

WRITING: Mapping[str, tuple[Any, tuple[str, str]]] = {
    "compact": (0, (",", ":")),
    "blanks after comma and colon": ("compact", (", ", ": ")),
    "indented": (None, (",", ": ")),
}
"""Name → (the parameter `whitespace`, the separators of `json.dumps`)."""
DRAFTERS: Mapping[str, tuple[str, ...]] = {
    "grammar": ("grammar",),
    "ngram": ("ngram",),
    "grammar, then ngram": ("grammar", "ngram"),
}


class Task(NamedTuple):
    """A prompt, and the calls to be written."""

    prompt: str
    text: str


class Count(NamedTuple):
    """What some requests took: steps, the tokens of each, drafted tokens and those accepted."""

    steps: int
    tokens: list[list[int]]
    drafted: int = 0
    accepted: int = 0


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.generation.saved_steps", description="Count steps."
    )
    parser.add_argument("--requests", type=int, default=24, help="per line")
    parser.add_argument("--write", action="store_true", help="write the table into docs/benchmarks")
    options = parser.parse_args()
    text = report(tekken(), options.requests)
    print(text)
    if options.write:
        write_between(START, END, text)


def report(tokenizer: Tokenizer, requests: int) -> str:
    """The table, for so many requests in each line."""
    lines = []
    for name in WRITING:
        for temperature in (0.0, 1.0):
            run = Run(tokenizer, name, temperature, requests)
            plain = run.count(())
            cells = [f"{plain.steps / requests:.1f}"]
            for drafters in DRAFTERS.values():
                drafted = run.count(drafters)
                assert drafted.tokens == plain.tokens, "a draft has changed a token"
                share = drafted.accepted / max(drafted.drafted, 1)
                cells.append(f"{plain.steps / drafted.steps:.2f} × ({share:.0%})")
            lines.append([f"{name}, temperature {temperature:g}", *cells])
    return table(["tool calls", "steps without drafts", *DRAFTERS], lines)


class Run:
    """Some requests that write calls of tools in one way."""

    def __init__(self, tokenizer: Tokenizer, writing: str, temperature: float, requests: int) -> None:
        whitespace, separators = WRITING[writing]
        indent = 2 if writing == "indented" else None
        self.tasks = [task(np.random.default_rng(i), separators, indent) for i in range(requests)]
        options = {"key_order": "schema"} | ({} if whitespace is None else {"whitespace": whitespace})
        self.grammar = Grammar.from_json_schema(schema(), **options)
        self.settings = {"json_schema": schema(), "temperature": temperature, "max_tokens": 400, **options}
        self.tokenizer = tokenizer
        self.noise = np.random.default_rng(0).standard_normal(1 << 20, np.float32)

    def count(self, drafters: Sequence[str]) -> Count:
        """One request after the other."""
        counts = [self._count(number, task, drafters) for number, task in enumerate(self.tasks)]
        return Count(
            sum(c.steps for c in counts),
            [c.tokens[0] for c in counts],
            sum(c.drafted for c in counts),
            sum(c.accepted for c in counts),
        )

    def _count(self, number: int, task: Task, drafters: Sequence[str]) -> Count:
        scheduler = Scheduler(len(self.tokenizer), self.tokenizer)
        params = SamplingParams(**self.settings, seed=number, drafter=drafters)
        request = scheduler.add(params, self.tokenizer.encode(task.prompt))
        steps = drafted = accepted = 0
        while scheduler.request_ids:
            drafts = scheduler.draft(max_tokens=MOST)
            draft = drafts.get(request, [])
            written = scheduler.record(request).token_ids
            rows = [self.logits(number, task, [*written, *draft[:n]]) for n in range(len(draft) + 1)]
            result = scheduler.step(np.stack(rows), draft_token_ids=drafts or None)
            steps, drafted = steps + 1, drafted + len(draft)
            accepted += len(result.tokens(0)) - 1
        return Count(steps, [scheduler.record(request).token_ids], drafted, accepted)

    def logits(self, number: int, task: Task, written: Sequence[int]) -> np.ndarray:
        """What a model that is to write the task's text makes of what is written: float32 [vocab]."""
        begin = (7919 * number + 104_729 * len(written)) % (len(self.noise) - len(self.tokenizer))
        row = self.noise[begin : begin + len(self.tokenizer)].copy()
        so_far = b"".join(self.tokenizer.text_bytes(t) for t in written)
        rest = self._rest(so_far, task.text.encode())
        token_id = self.tokenizer.encode_bytes(rest)[0] if rest else self.tokenizer.eos_token_ids[0]
        row[token_id] = LIKELY
        return row

    def _rest(self, written: bytes, text: bytes) -> bytes:
        """What is left to write: where the text agrees, or else from where the grammar accepts the rest."""
        if text.startswith(written):
            return text[len(written) :]
        matcher = self.grammar.compile(self.tokenizer).matcher()
        matcher.accept_bytes(written)
        for at in range(max(len(written) - 24, 0), len(text)):
            trial = matcher.fork()
            if trial.accept_bytes(text[at:]) and trial.is_accepting():
                return text[at:]
        completed: bytes | None = self.grammar.complete(written)
        return completed or b""


def schema() -> dict[str, Any]:
    """An array of calls, as `tool_choice: "required"` constrains it."""
    calls = [
        {
            "type": "object",
            "properties": {
                "name": {"const": name},
                "arguments": {
                    "type": "object",
                    "properties": dict(arguments),
                    "required": list(arguments),
                    "additionalProperties": False,
                },
            },
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for name, arguments in TOOLS.items()
    ]
    return {"type": "array", "items": {"anyOf": calls}, "minItems": 1}


def task(random: np.random.Generator, separators: tuple[str, str], indent: int | None) -> Task:
    """One to three calls with values that the prompt has, too."""
    calls, wishes = [], []
    for _ in range(int(random.integers(1, 4))):
        name = list(TOOLS)[random.integers(len(TOOLS))]
        values = {key: value_of(random, key, kind) for key, kind in TOOLS[name].items()}
        calls.append({"name": name, "arguments": values})
        wishes.append(", ".join(", ".join(v) if isinstance(v, list) else str(v) for v in values.values()))
    prompt = f"Tools: {json.dumps(TOOLS)}\n\nPlease see to this: {'; '.join(wishes)}.\n\nCalls: "
    return Task(prompt, json.dumps(calls, separators=separators, indent=indent))


def value_of(random: np.random.Generator, key: str, kind: Mapping[str, Any]) -> Any:
    """A value of an argument."""
    if "enum" in kind:
        return str(random.choice(kind["enum"]))
    if kind["type"] == "integer":
        return int(random.integers(1, 6))
    if kind["type"] == "boolean":
        return bool(random.random() < 0.5)
    if kind["type"] == "array":
        return random.choice(PEOPLE, int(random.integers(1, 4)), replace=False).tolist()
    if kind.get("format") == "date":
        return f"2026-{random.integers(1, 13):02}-{random.integers(1, 29):02}"
    return str(random.choice(TITLES if key == "title" else CITIES))


@cache
def tekken() -> Tokenizer:
    """The tokenizer of mistral-common: byte-level BPE, 131,072 tokens."""
    import mistral_common

    return Tokenizer.from_mistral_common(Path(mistral_common.__file__).parent / "data" / "tekken_240911.json")


if __name__ == "__main__":
    main()
