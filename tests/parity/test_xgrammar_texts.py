"""What xgrammar's structural tags of models allow is read here.

Texts come from random walks along xgrammar's masks, so they need not look like those of this library.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import numpy as np
import pytest

from engine_sampler.messages import MessageParser

from .test_structural_tags import MODELS, NAMES, TOOLS, theirs, vocabulary

xgrammar = pytest.importorskip("xgrammar")

WALKS, STEPS = 12, 400
ENDS = ["</｜DSML｜parameter>", "</｜DSML｜ parameter>"]
"""What ends values, and does not come from the tags."""


class Walker:
    """Walks along the masks of a structural tag."""

    def __init__(self, tag: Any) -> None:
        self.tokens = vocabulary(tag, ENDS)
        self.eos = len(self.tokens) - 1
        kind = xgrammar.VocabType.RAW
        known = xgrammar.TokenizerInfo(self.tokens, vocab_type=kind, stop_token_ids=[self.eos])
        self.compiled = xgrammar.GrammarCompiler(known).compile_structural_tag(json.dumps(tag))

    def _rank(self, token: int) -> tuple[bool, int, int]:
        """What ends an element comes first, then what is long."""
        data = self.tokens[token]
        return data.startswith(b"</"), len(data), -token

    def text(self, seed: int) -> str | None:
        """A text that the tag allows; None if the walk does not come to an end."""
        generator, data = Random(seed), b""
        matcher = xgrammar.GrammarMatcher(self.compiled)
        mask = xgrammar.allocate_token_bitmask(1, len(self.tokens))
        for _ in range(STEPS):
            mask.fill_(-1)
            matcher.fill_next_token_bitmask(mask)
            bits = np.unpackbits(mask.numpy()[0].view(np.uint8), bitorder="little")[: len(self.tokens)]
            allowed = np.flatnonzero(bits).tolist()
            if self.eos in allowed and (len(allowed) == 1 or generator.random() < 0.5):
                return data.decode()
            allowed = [one for one in allowed if one != self.eos]
            marks = [one for one in allowed if self.tokens[one][:1] in (b"<", b'"', b"}", b"]", b"/", b"\n")]
            longest = max(marks or allowed, key=self._rank)
            token = longest if generator.random() < 0.5 else generator.choice(allowed)
            assert matcher.accept_token(token)
            data += self.tokens[token]
        return None


@pytest.mark.parametrize("model", [model for model in MODELS if model != "harmony"])
def test_what_the_tag_of_a_model_allows_is_read(model: str) -> None:
    walker = Walker(theirs(model, "required", reasoning="disabled", parallel_tool_calls=False))
    read = 0
    for seed in range(WALKS):
        text = walker.text(seed)
        if text is None:
            continue
        inside = text.lstrip().startswith("</think>")  # which the prompt of MiniMax opens
        parser = MessageParser(model, TOOLS, starts_inside=inside)
        parser.feed(text)
        parser.finish()
        assert parser.deviation is None, text
        calls = [one for one in parser.parts if one.kind == "call"]
        assert [one.is_complete for one in calls] == [True], text
        assert calls[0].name in NAMES
        assert isinstance(json.loads(calls[0].text), dict)
        read += 1
    assert read >= 2
