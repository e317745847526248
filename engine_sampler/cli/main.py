"""The `engine-sampler` command: demo, generate, plugins, explain, check, grammar."""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ..explain import trace
from ..explain.labels import shortened
from ..registry import PluginError, default_registry
from ..scheduler import sibling_count
from .listing import inventory
from .options import add_parameter_options, parameters_of, refuse_option

if TYPE_CHECKING:
    from ..demo.session import Session as DemoSession
    from ..scheduler import Record
    from ..session import Session

EXTRAS = {
    **dict.fromkeys(("rich", "tokenizers", "matplotlib"), "demo"),
    **dict.fromkeys(("torch", "transformers", "llama_cpp"), "peers"),
}
"""The extra that installs a module."""

ENGINES = {
    "transformers": "engine_sampler.adapters.transformers",
    "llama.cpp": "engine_sampler.adapters.llama_cpp",
}
"""Where the `Session` of each engine is that runs a model of the user's."""

FAILURE = 1
USAGE_ERROR = 2
INTERRUPTED = 130

DEFAULT_TOKENS = 200
"""What `generate` stops at unless told otherwise."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status. Whatever the user can mend is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    logging.getLogger("engine_sampler").addHandler(logging.NullHandler())  # `plugins` tells what failed
    try:
        parsed, unknown = _parser().parse_known_args(arguments)
        if unknown:
            _refuse(unknown[0], parsed)
        failed = parsed.run(parsed)
        sys.stdout.flush()
        return FAILURE if failed else 0
    except ImportError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        return _fail(f'this needs {error.name}: pip install "engine-sampler[{extra}]"')
    except BrokenPipeError:  # the reader has gone; keep Python from flushing to it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (PluginError, OSError, ValueError) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED


# --- commands ------------------------------------------------------------------------------------


def demo(arguments: argparse.Namespace) -> None:
    """Run many requests side by side, each with a configuration of its own."""
    from ..demo.app import Demo
    from ..demo.view import results, tell, watch
    from ..explain.terminal import make_console

    console = make_console()
    with console.status("learning a vocabulary and a model …"):
        shown = Demo(_embedded(arguments), arguments.prompt, arguments.seed)
    if console.is_terminal and not arguments.plain:
        watch(shown, arguments.steps, console, arguments.pace)
    else:
        tell(shown, arguments.steps, console)
    console.print(*results(shown))


def generate(arguments: argparse.Namespace) -> None:
    """Stream a completion to stdout, or write the n best when they are done; figures go to stderr."""
    params = parameters_of(arguments, max_tokens=DEFAULT_TOKENS)
    session = _session(arguments, sibling_count(params))
    request_ids = session.add_group(params, arguments.prompt)
    streams = len(request_ids) == 1
    while session.scheduler.request_ids:
        text = session.step().text[0]
        if streams:
            print(text or "", end="", flush=True)
    for request_id in session.scheduler.best(request_ids):
        record = session.scheduler.record(request_id)
        if record.error is not None:
            raise ValueError(record.error)
        print("" if streams else record.text)
        _tell(record)
    tokens = session.rows
    print(
        f"model {1e3 * session.model_seconds / tokens:.2f} ms, "
        f"sampling {1e3 * session.sampling_seconds / tokens:.2f} ms a token",
        file=sys.stderr,
    )


def _tell(record: Record) -> None:
    """How a completion came about, to stderr."""
    reason = f"{record.finish_reason} ({record.stop_reason or 'end of text'})"
    score = "" if record.score is None else f", score {record.score:.4f}"
    print(f"{len(record.token_ids)} tokens, {reason}, seed {record.seed}{score}", file=sys.stderr)


def plugins(arguments: argparse.Namespace) -> None:
    """List samplers, criteria, backends, grammars and plugins, with origin and state."""
    listed = inventory(default_registry())
    if arguments.json:
        print(json.dumps(listed, indent=2))
        return
    from ..explain.terminal import make_console
    from .tables import plugin_tables

    make_console().print(*plugin_tables(listed))


def explain(arguments: argparse.Namespace) -> None:
    """Show what each step of the chain does to one row of logits."""
    params = parameters_of(arguments)
    from ..explain.terminal import explanation, make_console

    row, about, known = _row_to_explain(arguments)
    steps = trace(row, params, top=arguments.top, backend=arguments.backend, **known)
    if arguments.plot:
        from ..explain.plots import draw

        draw(steps, arguments.plot, title=about, top=arguments.top)
    console = make_console()
    console.print(about, style="bold")
    console.print(*explanation(steps, arguments.top, console.width))


def check(arguments: argparse.Namespace) -> bool:
    """Try whether a compiled backend keeps the contract; exit status 1 if it does not."""
    from ..explain.terminal import make_console
    from ..testing.library import FAILED, check_apart
    from .tables import check_line

    console, failed = make_console(), False
    for found in check_apart(arguments.path):
        console.print(check_line(found))
        failed |= found.outcome == FAILED
    return failed


def grammar(arguments: argparse.Namespace) -> bool:
    """Print a grammar as Lark, or hold a text against it; exit status 1 if the text is not in it."""
    from .grammar import language_of, try_text

    if arguments.text is None and arguments.action != "check":
        raise ValueError(f"--{arguments.action} needs a text: --text FILE")
    language = language_of(arguments)
    if arguments.text is None:
        print(language.lark())
        return False
    text = sys.stdin.read() if arguments.text == "-" else Path(arguments.text).read_text(encoding="utf-8")
    return try_text(language, text, arguments.action)


def _session(arguments: argparse.Namespace, requests: int) -> Session:
    """The engine that `generate` is asked to run, with room for so many requests."""
    if arguments.engine not in ENGINES:
        if arguments.model is not None:
            raise ValueError(f"--model is not allowed with --engine embedded: one of {', '.join(ENGINES)}")
        return _embedded(arguments)
    if arguments.model is None:
        raise ValueError(f"--engine {arguments.engine} needs a model: --model PATH")
    if arguments.corpus is not None:
        raise ValueError(f"--corpus is not allowed with --engine {arguments.engine}: it is for embedded")
    module = importlib.import_module(ENGINES[arguments.engine])
    session: Session = module.Session(arguments.model, arguments.backend, max_requests=requests)
    return session


def _embedded(arguments: argparse.Namespace) -> DemoSession:
    from ..demo.engine import Engine
    from ..demo.session import Session

    return Session(Engine.load(arguments.corpus), arguments.backend)


def _row_to_explain(arguments: argparse.Namespace) -> tuple[np.ndarray, str, dict[str, Any]]:
    """Logits, what they are called, and what `trace` may know besides."""
    if arguments.logits is not None:
        return _read_row(arguments.logits), Path(arguments.logits).name, {}
    from ..demo.engine import Engine

    engine = Engine.load(arguments.corpus)
    token_ids = engine.tokenizer.encode(arguments.prompt)
    known = {"prompt_token_ids": token_ids, "tokenizer": engine.tokenizer}
    return engine.model.logits([token_ids])[0], f"“{shortened(arguments.prompt, 60)}”", known


def _read_row(path: str) -> np.ndarray:
    """One row of logits from a .npy file, [vocab] or [1, vocab]."""
    try:
        row = np.load(path, allow_pickle=False)
    except (ValueError, EOFError):
        row = None
    is_row = isinstance(row, np.ndarray) and row.ndim > 0 and row.size == row.shape[-1] > 0
    if not is_row or not np.issubdtype(row.dtype, np.floating):
        raise ValueError(f"{path} holds no row of logits; allowed are floats of shape [vocab] or [1, vocab]")
    return row.reshape(-1)


# --- the command line ----------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="engine-sampler", description="Logits in, tokens out, for many requests at once.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command, add_options in (
        (demo, _demo_options),
        (generate, _generate_options),
        (plugins, _plugins_options),
        (explain, _explain_options),
        (check, _check_options),
        (grammar, _grammar_options),
    ):
        about = command.__doc__
        added = commands.add_parser(command.__name__, help=about, description=about, allow_abbrev=False)
        added.set_defaults(run=command)
        add_options(added)
    return parser


def _engine_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--corpus", metavar="FILE", help="text to learn from (default: Python's own docs)")
    parser.add_argument("--backend", default="auto", metavar="NAME", help="who samples (default: auto)")


def _demo_options(parser: argparse.ArgumentParser) -> None:
    _engine_options(parser)
    parser.add_argument(
        "--prompt", default="A class method", metavar="TEXT", help="what all requests continue"
    )
    parser.add_argument("--steps", type=int, default=1000, metavar="N", help="steps at most")
    parser.add_argument("--seed", type=int, default=42, metavar="N", help="seed of the first request")
    parser.add_argument("--pace", type=float, default=25, metavar="N", help="steps a second at most; 0: all")
    parser.add_argument("--plain", "--no-live", action="store_true", help="lines instead of panels")


def _generate_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s --prompt TEXT [option ...]"
    parser.add_argument("--prompt", required=True, metavar="TEXT", help="what to continue")
    engines = ("embedded", *ENGINES)
    parser.add_argument("--engine", choices=engines, default="embedded", help="where logits come from")
    parser.add_argument("--model", metavar="PATH", help="for transformers a directory, for llama.cpp a file")
    _engine_options(parser)
    add_parameter_options(parser)


def _plugins_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON on stdout")


def _explain_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s (--prompt TEXT | --logits FILE) [option ...]"
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--prompt", metavar="TEXT", help="explain the token after this text")
    source.add_argument("--logits", metavar="FILE", help="explain this row of logits, a .npy file")
    _engine_options(parser)
    parser.add_argument("--top", type=int, default=12, metavar="N", help="tokens to follow (default: 12)")
    parser.add_argument("--plot", metavar="FILE", help="also draw a picture, .png or .svg")
    add_parameter_options(parser)


def _check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a shared library behind engine_sampler.h")


def _grammar_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s (--schema FILE | --lark FILE | --regex TEXT | --name NAME) [option ...]"
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--schema", metavar="FILE", help="a JSON Schema")
    source.add_argument("--lark", metavar="FILE", help="a grammar in Lark's language")
    source.add_argument("--regex", metavar="TEXT", help="a regular expression for the whole text")
    source.add_argument("--name", metavar="NAME", help="a grammar of a plugin or of the package")
    parser.add_argument("--text", metavar="FILE", help="a text to try; - is standard input")
    action = parser.add_mutually_exclusive_group()
    for name, about in (("complete", "print what completes the text"), ("repair", "print the text repaired")):
        action.add_argument(f"--{name}", dest="action", action="store_const", const=name, help=about)
    parser.set_defaults(action="check")
    unsupported = "keywords that cannot be enforced: an error, or a warning"
    parser.add_argument("--unsupported", choices=("error", "warn"), default="error", help=unsupported)


def _refuse(argument: str, parsed: argparse.Namespace) -> NoReturn:
    if parsed.run in (generate, explain) and argument.startswith("--"):
        refuse_option(argument)
    raise ValueError(f"unexpected argument {argument!r}")


def _fail(message: str) -> int:
    print(f"engine-sampler: {message}", file=sys.stderr)
    return USAGE_ERROR
