"""The numbers of the page about the grammar engine, for one schema and a small vocabulary."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from engine_sampler import Tokenizer
from engine_sampler.contract import allocate_bitmask
from engine_sampler.explain.labels import token_text
from engine_sampler.explain.mask_text import mask_lines
from engine_sampler.explain.masks import explain_mask
from engine_sampler.grammar import Grammar
from engine_sampler.grammar.engines.reference import ReferenceGrammar, ReferenceVocabulary
from engine_sampler.grammar.engines.reference.scans import DEAD, Scans
from engine_sampler.grammar.engines.reference.vocabulary import ROOT, Trie
from engine_sampler.grammar.printing.listing import Listing

from .tables import table

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^[A-Z][a-z]*$"}, "age": {"type": "integer"}},
    "required": ["name"],
    "additionalProperties": False,
}
TOKENS = [
    "{",
    '{"',
    '"',
    '",',
    '"}',
    '":',
    ":",
    ": ",
    "name",
    "age",
    "K",
    "Kim",
    "im",
    "i",
    "4",
    "42",
    "2}",
    "}",
    "\n",
]
BEGINNING = b'{"name": "K'
DOCUMENTS = (
    b'{"name": "Kim", "age": 42}',
    b'{"name": "Kim", "age": 42}',
    b'{"age": 7, "name": "Bo"}',
    b'{"name": "Kimberley", "age": 36}',
)


def schema() -> str:
    """The schema and the vocabulary, as files for the command line."""
    return _fenced("json", json.dumps(SCHEMA)) + "\n\n" + _fenced("json", json.dumps(TOKENS))


def rules() -> str:
    """The rules of the object, and its terminals."""
    lines = Listing(_grammar().program).text().splitlines()
    first = lines.index("object:")
    last = next(i for i in range(first + 1, len(lines)) if not lines[i].startswith(" "))
    named = [
        line for line in lines if line.startswith(("OBJECT_", "COLON", "COMMA", "KEY", "STRING", "NUMBER"))
    ]
    return _fenced("text", "\n".join([*lines[first:last], "", *named]))


def reading() -> str:
    """What the command line prints for the beginning, without the comparison of the engines."""
    tokenizer = Tokenizer([token.encode() for token in TOKENS])
    lines = list(mask_lines(explain_mask(_grammar(), tokenizer, BEGINNING, "reference"), tokenizer))
    return _fenced("text", "\n".join(lines[:-2]))


def derivatives() -> str:
    """What is left of terminals after some bytes."""
    rows = []
    for name, texts in (
        ("KEY", (b"{", b'{"', b'{"na')),
        ("STRING", (b'{"name":"', BEGINNING, BEGINNING + b"im")),
    ):
        for text in texts:
            readings = explain_mask(_grammar(), Tokenizer([b"a"]), text, "reference").readings
            for thread in readings.threads:
                if thread.terminal.startswith(name):
                    rows.append(
                        [f"`{text.decode()}`", thread.terminal, f"`{thread.rest}`", f"`{thread.next}`"]
                    )
    return table(["read", "terminal", "still to come", "next byte"], rows)


def walk() -> str:
    """The nodes of the trie that are visited within the string, and what becomes of them."""
    grammar = _reference()
    matcher = grammar.matcher()
    matcher.accept_bytes(BEGINNING)
    with matcher.inspected() as (tables, configuration):
        (thread,) = tables.configurations.threads[configuration]
        visits = list(_visits(grammar.vocabulary.trie, tables.configurations.scans, ROOT, thread.scan, b""))
    rows = [_visit_row(*visit) for visit in visits if visit[1] is not None]
    dead = ", ".join(f"`{literal(text)}`" for text, rest, *_ in visits if rest is None)
    rows.append([dead, "", "nothing can follow: no node below is visited"])
    nodes = len(grammar.vocabulary.trie.byte) - 1
    return (
        table(["read", "still to come of STRING", "so"], rows)
        + f"\n\n{len(visits)} of the {nodes} nodes below the root are visited."
    )


Visit = tuple[bytes, "str | None", list[str], bool]
"""The path to a node, the rest of the terminal or None, the tokens there, whether the terminal can end."""


def _visits(trie: Trie, scans: Scans, node: int, scan: int, path: bytes) -> Iterator[Visit]:
    """The visited nodes below a node, depth first."""
    for child in range(int(trie.child_starts[node]), int(trie.child_starts[node + 1])):
        text = path + bytes([int(trie.byte[child])])
        after = scans.step(scan, text[-1])
        if after == DEAD:
            yield text, None, [], False
            continue
        tokens = [TOKENS[token] for token in trie.tokens_at(np.array([child])).tolist()]
        yield text, scans.expressions.text(scans.pairs[after][0]), tokens, scans.can_end(after)
        if scans.continues(after):
            yield from _visits(trie, scans, child, after, text)


def _visit_row(text: bytes, rest: str, tokens: list[str], ends: bool) -> list[str]:
    verdict = [f"the token `{token}` may follow" for token in tokens]
    verdict += ["the string has ended: the parser reads what is below"] * ends
    return [f"`{literal(text)}`", f"`{rest}`" if rest else "nothing", "; ".join(verdict)]


def literal(text: bytes) -> str:
    """Bytes on one line."""
    return text.decode().replace("\n", "\\n")


def mask() -> str:
    """The mask of the beginning as bits and as the word that a backend gets."""
    matcher = _reference().matcher()
    matcher.accept_bytes(BEGINNING)
    bitmask = allocate_bitmask(1, len(TOKENS))
    matcher.fill_bitmask(bitmask)
    word = int(bitmask[0, 0]) & 0xFFFFFFFF
    tokenizer = Tokenizer([token.encode() for token in TOKENS])
    rows = [[str(i), f"`{token_text(tokenizer, i)}`", str(word >> i & 1)] for i in range(len(TOKENS))]
    return table(["token", "text", "bit"], rows) + f"\n\nIn one word: {word:#x}."


def counts() -> str:
    """What the tables hold after one document after the other."""
    grammar, rows = _reference(), []
    bitmask = allocate_bitmask(1, len(TOKENS))
    for text in DOCUMENTS:
        matcher = grammar.matcher()
        matcher.fill_bitmask(bitmask)
        for byte in text:
            assert matcher.accept_bytes(bytes([byte]))
            matcher.fill_bitmask(bitmask)
        with matcher.inspected() as (tables, _):
            configurations = tables.configurations
            numbers = (
                len(tables.expressions.nodes), len(configurations.rows.rows), len(configurations.threads)
            )  # fmt: skip
        rows.append([f"`{text.decode()}`", str(len(text)), *map(str, numbers)])
    return table(["after", "bytes", "expressions", "rows", "sets of threads"], rows)


SECTIONS = {
    "a schema": schema,
    "its rules": rules,
    "its derivatives": derivatives,
    "its readings": reading,
    "a walk": walk,
    "a mask": mask,
    "the tables": counts,
}
"""The generated parts of the page."""


def _grammar() -> Grammar:
    return Grammar.from_json_schema(SCHEMA)


def _reference() -> ReferenceGrammar:
    return ReferenceGrammar(_grammar().program, ReferenceVocabulary([token.encode() for token in TOKENS]))


def _fenced(kind: str, text: str) -> str:
    return f"```{kind}\n{text}\n```"
