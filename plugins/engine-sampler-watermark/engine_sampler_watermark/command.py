"""The command `engine-sampler watermark`. It is imported with every command, so it imports little."""

from __future__ import annotations

import argparse
from typing import Any


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument(
        "--gumbel", metavar="KEY", help="look for watermark_gumbel with this key, in hexadecimal digits"
    )
    kind.add_argument("--green", metavar="KEY", type=int, help="look for watermark_green with this key")
    kind.add_argument("--synthid", metavar="KEY", type=int, nargs="+", help="look for watermark_synthid")
    parser.add_argument(
        "file", help="texts: token ids as a list in JSON, one text a line; - is standard input"
    )
    parser.add_argument("--width", type=int, help="--gumbel: tokens of a context (4)")
    parser.add_argument("--scheme", help="--gumbel: vllm (default) or sglang")
    parser.add_argument("--ratio", type=float, help="--green: the share of green tokens (0.25)")
    parser.add_argument("--vocab-size", type=int, metavar="N", help="--green: that of the model")
    parser.add_argument("--ngram-len", type=int, metavar="N", help="--synthid: tokens of an n-gram (5)")
    parser.add_argument("--table-seed", type=int, metavar="N", help="--synthid: the seed of the table (0)")


def run(arguments: argparse.Namespace) -> None:
    """Say for each text how likely it looks so without a watermark, as a line of JSON."""
    import json
    import sys
    from pathlib import Path

    detector = _detector(arguments)
    text = sys.stdin.read() if arguments.file == "-" else Path(arguments.file).read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        try:
            token_ids = json.loads(line)
        except (ValueError, RecursionError):
            token_ids = None
        if not isinstance(token_ids, list):
            raise ValueError(f"line {number} of {arguments.file} is not allowed: a list of token ids in JSON")
        print(json.dumps(detector.detect(token_ids)._asdict()))


def _detector(arguments: argparse.Namespace) -> Any:
    from . import GreenListDetector, GumbelDetector, SynthIDDetector

    def given(*names: str) -> dict[str, Any]:
        return {name: value for name in names if (value := getattr(arguments, name)) is not None}

    if arguments.gumbel is not None:
        return GumbelDetector(arguments.gumbel, **given("width", "scheme"))
    if arguments.synthid is not None:
        return SynthIDDetector(arguments.synthid, **given("ngram_len", "table_seed"))
    if arguments.vocab_size is None:
        raise ValueError("--green needs --vocab-size, that of the model which made the texts")
    return GreenListDetector(arguments.vocab_size, key=arguments.green, **given("ratio"))
