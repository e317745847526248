"""The command `engine-sampler workbench`. It is imported with every command, so it imports little."""

from __future__ import annotations

import argparse
from typing import Any


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--gguf", metavar="FILE", help="run this model in llama.cpp (llama-cpp-python)")
    source.add_argument("--transformers", metavar="PATH", help="run the model in this directory")
    rows = "rows of logits: a .npy, or a .jsonl of a server's logprobs"
    source.add_argument("--rows", metavar="FILE", help=rows)
    parser.add_argument("--port", type=int, default=0, metavar="N", help="port (default: any free one)")
    parser.add_argument("--restore", metavar="LINK", help="a link that the page has made")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def run(arguments: argparse.Namespace) -> None:
    """Open a page in the browser that shows what sampling does."""
    from .server import serve

    if not 0 <= arguments.port < 65536:
        raise ValueError(f"--port {arguments.port} is not allowed: 0 to 65535")
    source = _source(arguments)
    try:
        serve(source, arguments.port, restore=arguments.restore, browser=not arguments.no_browser)
    finally:
        source.close()


def _source(arguments: argparse.Namespace) -> Any:
    from .sources import FileRows, ModelProcess

    if arguments.rows is not None:
        return FileRows(arguments.rows)
    if arguments.gguf is not None:
        return ModelProcess("llama.cpp", arguments.gguf)
    return ModelProcess("transformers", arguments.transformers) if arguments.transformers else ModelProcess()
