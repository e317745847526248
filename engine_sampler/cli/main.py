"""The `engine-sampler` command: demo, generate, serve, plugins, explain, new, check, grammar, bench."""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from .. import __version__
from ..backends.library import LibraryError
from ..base.errors import TokenizerMissing
from ..explain import TraceReading, plot, read_rows, trace
from ..explain.labels import shortened
from ..for_bridges import to_numpy
from ..for_bridges.peers import PeerError, installed_release
from ..registry import PluginError, default_registry
from ..scheduler import sibling_count
from .bench.report import bench_options, run_bench
from .commands import plugin_commands
from .listing import inventory
from .options import add_parameter_options, of_rows, parameters_of, read_text, refuse_option, utf8_text
from .progress import working
from .sections import sections
from .serve.command import run_serve, serve_options
from .token_log import TokenLog

if TYPE_CHECKING:
    from ..demo.engine import DemoSession
    from ..scheduler import Record
    from ..session import Session
    from ..testing.results import CheckResult

OPTIONAL = (("rich", "tokenizers", "matplotlib"), ("sentencepiece",), ("mistral-common",))
"""Optional distributions; those that one command needs together."""

ENGINES = {
    "transformers": "engine_sampler_transformers",
    "llama.cpp": "engine_sampler_llama_cpp",
}
"""Engines that run a model supplied by the user → the distribution in plugins/ that has their `Session`."""

logger = logging.getLogger("engine_sampler")

FAILURE = 1
USAGE_ERROR = 2
INTERRUPTED = 130

PLUGIN_KINDS = ("sampler", "selector", "criterion", "backend", "grammar", "library", "drafter", "observer")
"""What `new` writes; a library is a backend in C."""

DEFAULT_TOKENS = 200
"""The default of `generate --max-tokens`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status. An error that the user can fix is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    logger.addHandler(logging.NullHandler())  # `plugins` lists what failed
    try:
        parsed, unknown = parser().parse_known_args(arguments)
        if unknown:
            _refuse(unknown[0], parsed)
        _report_missing_plugins(parsed)
        failed = parsed.run(parsed)
        sys.stdout.flush()
        return FAILURE if failed else 0
    except ImportError as error:
        module = (error.name or "").partition(".")[0]
        if module in ENGINES.values():
            return _fail(f"this needs {module}: pip install ./plugins/{module.replace('_', '-')}")
        together = next((names for names in OPTIONAL if module.replace("_", "-") in names), None)
        if together is None:
            raise
        missing = [name for name in together if not installed_release(name)]
        return _fail(f"this needs {error.name}: pip install {' '.join(missing or together)}")
    except BrokenPipeError:  # the reader has closed the pipe; keep Python from flushing to it at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except TokenizerMissing as error:
        return _fail(error.need)
    except (PluginError, LibraryError, PeerError, OSError, ValueError) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED


def _report_missing_plugins(parsed: argparse.Namespace) -> None:
    """Name the plugins that ENGINE_SAMPLER_PLUGINS selects in vain, except where all plugins are listed."""
    if parsed.run is not run_plugins:
        for status in default_registry().plugins:
            if status.state == "failed":
                print(f"engine-sampler: plugin {status.name} is not used: {status.error}", file=sys.stderr)


# --- commands ------------------------------------------------------------------------------------


def run_demo(arguments: argparse.Namespace) -> None:
    """Run many requests side by side, each with its own configuration."""
    from ..demo.app import Demo
    from ..demo.view import result_tables, run_live, run_plain
    from ..explain.terminal import make_console

    console = make_console()
    with console.status("learning a vocabulary and a model …"):
        demo = Demo(_embedded(arguments), arguments.prompt, arguments.seed)
    if console.is_terminal and not arguments.plain:
        run_live(demo, arguments.steps, console, arguments.pace)
    else:
        run_plain(demo, arguments.steps, console)
    console.print(*result_tables(demo, demo.again(arguments.steps)))


def run_generate(arguments: argparse.Namespace) -> None:
    """Stream a completion to stdout, or print the n best once they are finished; statistics go to stderr."""
    params = parameters_of(arguments, max_tokens=DEFAULT_TOKENS)
    session = _session(arguments, sibling_count(params))
    request_ids = session.add_group(params, arguments.prompt)
    streams = len(request_ids) == 1
    log = TokenLog(session.scheduler.vocabulary.tokenizer)
    if params.prompt_logprobs is not None or params.prompt_logprob_token_ids is not None:
        for line in log.prompt_lines(session, request_ids[0], params.prompt_logprob_start):
            print(line, file=sys.stderr)
    first = 0.0
    while session.scheduler.request_ids:
        result = session.step()
        first = first or session.sampling_seconds
        log.add(result)
        if streams:
            print(result.text[0] or "", end="", flush=True)
    for request_id in session.scheduler.best(request_ids):
        record = session.scheduler.record(request_id)
        if record.error is not None:
            raise ValueError(record.error)
        print("" if streams else record.text)
        for line in log.lines(request_id):
            print(line, file=sys.stderr)
        _print_statistics(record)
    if params.drafter:
        drafts = f"{session.drafted} drafted tokens, {session.accepted} of them accepted"
        print(f"{session.steps} steps, {drafts}", file=sys.stderr)
    _print_times(session, len(request_ids), first)


def _print_times(session: Session, requests: int, first: float) -> None:
    """Print the times of a run to stderr; its first step took `first` seconds to sample."""
    later = ""
    if session.rows > requests:
        seconds = (session.sampling_seconds - first) / (session.rows - requests)
        later = f"{1e3 * seconds:.2f} ms, "
    print(
        f"per row: model {1e3 * session.model_seconds / session.rows:.2f} ms, sampling {later}"
        f"in the first step {1e3 * first:.0f} ms, as it loads the backend",
        file=sys.stderr,
    )


def _print_statistics(record: Record) -> None:
    """Print a completion's length, finish reason, seed, score and rewinds to stderr."""
    reason = f"{record.finish_reason} ({record.stop_reason or 'end of text'})"
    score = "" if record.score is None else f", score {record.score:.4f}"
    banned = f", rewinds of banned text: {record.rewinds}" if record.rewinds else ""
    print(f"{len(record.token_ids)} tokens, {reason}, seed {record.seed}{score}{banned}", file=sys.stderr)


def run_plugins(arguments: argparse.Namespace) -> None:
    """Show what is in effect (backend, bridges, environment), then the plugins and all that there is."""
    listed = inventory(default_registry())
    if arguments.json:
        print(json.dumps(listed, indent=2))
        return
    shown = [*sections(listed, arguments.details)]
    try:
        from ..explain.terminal import make_console
        from .tables import section_table
    except ImportError as error:
        _print_plain(error, lambda plain: chain.from_iterable(map(plain.section_lines, shown)))
    else:
        make_console().print(*map(section_table, shown))


def run_explain(arguments: argparse.Namespace) -> None:
    """Show what each step of the chain does to one row of logits."""
    params = parameters_of(arguments)
    row, title, context = _row_to_explain(arguments)
    steps = trace(row, params, top=arguments.top, backend=arguments.backend, **context)
    position = len(context.get("prompt_token_ids", ()))
    reading = TraceReading(steps, context.get("tokenizer"), seed=params.seed, position=position)
    fates = [reading.why(token_id) for token in arguments.token for token_id in _named(reading, token)]
    if arguments.plot:
        plot(steps, arguments.plot, title=title, top=arguments.top)
    try:
        from ..explain.terminal import explanation, make_console
    except ImportError as error:
        _print_plain(error, lambda plain: (title, *plain.explanation_lines(steps, arguments.top)))
    else:
        console = make_console()
        console.print(title, style="bold")
        console.print(*explanation(steps, arguments.top, console.width))
    print(*fates, sep="\n", end="\n" * bool(fates))
    if arguments.plot:
        print(f"the picture is in {arguments.plot}", file=sys.stderr)


def _named(reading: TraceReading, token: str) -> list[int]:
    """The tokens that `--token` names, by an id or a text."""
    if named := reading.named(f"#{token}" if token.isdecimal() else token):
        return named
    size = len(reading.removed_at)
    raise ValueError(f"--token {token!r} is not allowed: an id below {size}, or the text of a token")


def run_check(arguments: argparse.Namespace) -> bool:
    """Check whether a plugin or a compiled backend keeps the contract; exit status 1 if it does not."""
    from .check import check

    return check(arguments, _print_check, lambda heading: print(f"\n{heading}"))


def _print_check(check: CheckResult) -> None:
    try:
        from ..explain.terminal import make_console
        from .tables import check_line
    except ImportError as error:
        _print_plain(error, lambda plain: [plain.check_text(check)])
    else:
        make_console().print(check_line(check), soft_wrap=True)


def run_new(arguments: argparse.Namespace) -> None:
    """Write a plugin from a template: a package whose tests pass at once."""
    from .new import create

    print(*create(arguments), sep="\n")


def run_grammar(arguments: argparse.Namespace) -> bool:
    """Print a grammar, or what may follow the beginning of a text; or check or complete a text.
    Exit status 1 if it does not match."""
    from .grammar import grammar_of, print_mask, print_rules, process_text

    if arguments.text is None and arguments.action == "complete":
        raise ValueError("--complete needs a text: --text FILE")
    if arguments.mask is None and (arguments.tokenizer, arguments.engine) != (None, "auto"):
        raise ValueError("--tokenizer and --engine need a beginning of a text: --mask BEGINNING")
    with working("compiling the grammar …"):
        grammar = grammar_of(arguments)
    if arguments.mask is not None:
        return print_mask(grammar, arguments.mask, arguments.tokenizer, arguments.engine)
    if arguments.action == "rules" or arguments.text is None:
        print_rules(grammar, as_read=arguments.action != "rules")
        return False
    return process_text(grammar, read_text(arguments.text), arguments.action)


def _print_plain(error: ImportError, lines_of: Callable[[Any], Iterable[str]]) -> None:
    """Print lines without rich, if it is rich that is missing."""
    if (error.name or "").partition(".")[0] != "rich":
        raise error
    from . import plain

    for line in lines_of(plain):
        print(line)


def _session(arguments: argparse.Namespace, requests: int) -> Session:
    """A session of the engine that `generate` runs, with capacity for `requests` requests."""
    engine = arguments.engine
    if engine is None and arguments.model is not None:
        engine = "transformers" if Path(arguments.model).is_dir() else "llama.cpp"
    if engine not in ENGINES:
        if arguments.model is not None:
            raise ValueError(f"--model is not allowed with --engine embedded: one of {', '.join(ENGINES)}")
        return _embedded(arguments)
    if arguments.model is None:
        raise ValueError(f"--engine {engine} needs a model: --model PATH")
    if arguments.corpus is not None:
        raise ValueError(f"--corpus is not allowed with --engine {engine}: it is for embedded")
    module = importlib.import_module(ENGINES[engine])
    session: Session = module.Session(arguments.model, arguments.backend, max_requests=requests)
    return session


def _embedded(arguments: argparse.Namespace) -> DemoSession:
    from ..demo.engine import DemoSession, Engine

    return DemoSession(Engine.load(arguments.corpus), arguments.backend)


def _row_to_explain(arguments: argparse.Namespace) -> tuple[np.ndarray, str, dict[str, Any]]:
    """Logits, a title for them, and further keywords for `trace`."""
    if arguments.logits is not None:
        if (arguments.engine, arguments.model) != (None, None):
            raise ValueError("--engine and --model are not allowed with --logits: they are for --prompt")
        rows, tokenizer = read_rows(arguments.logits)
        if len(rows) > 1 and not arguments.logits.endswith(".jsonl"):
            raise ValueError(f"{arguments.logits} has {len(rows)} rows of logits: one is allowed")
        return rows[0].astype(np.float32), Path(arguments.logits).name, {"tokenizer": tokenizer}
    session = _session(arguments, 1)
    token_ids = session.encode(arguments.prompt)
    vocabulary = session.scheduler.vocabulary
    row = to_numpy(session.forward({"explained": token_ids}))[0, : vocabulary.size]
    context = {
        "prompt_token_ids": token_ids,
        "tokenizer": vocabulary.tokenizer,
        "eos_token_ids": vocabulary.eos_token_ids,
    }
    return row.astype(np.float32, copy=False), f"“{shortened(arguments.prompt, 60)}”", context


# --- the command line ----------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"{self.prog}: {message}\n")


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    whole = _Parser(prog="engine-sampler", description="Logits in, tokens out, for many requests at once.")
    whole.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    whole.set_defaults(run=lambda _: whole.print_help())
    commands = whole.add_subparsers(title="commands", metavar="COMMAND")
    for name, run, add_options in (
        ("demo", run_demo, _demo_options),
        ("generate", run_generate, _generate_options),
        ("serve", run_serve, serve_options),
        ("plugins", run_plugins, _plugins_options),
        ("explain", run_explain, _explain_options),
        ("new", run_new, _new_options),
        ("check", run_check, _check_options),
        ("grammar", run_grammar, _grammar_options),
        ("bench", run_bench, bench_options),
    ):
        _add_command(commands, name, run, add_options)
    for command in plugin_commands(commands.choices):
        _add_command(commands, *command)
    return whole


def _add_command(commands: Any, name: str, run: Callable[..., Any], add_options: Callable[..., None]) -> None:
    command = commands.add_parser(name, help=run.__doc__, description=run.__doc__, allow_abbrev=False)
    command.set_defaults(run=run)
    add_options(command)


def _engine_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--corpus", metavar="FILE", help="text to train on (default: Python's own docs)")
    parser.add_argument("--backend", default="auto", metavar="NAME", help="sampling backend (default: auto)")


def _model_options(parser: argparse.ArgumentParser) -> None:
    engines = ("embedded", *ENGINES)
    source = "source of the logits (default: that of --model, or embedded)"
    parser.add_argument("--engine", choices=engines, help=source)
    parser.add_argument("--model", metavar="PATH", help="a directory for transformers, a file for llama.cpp")


def _demo_options(parser: argparse.ArgumentParser) -> None:
    _engine_options(parser)
    parser.add_argument(
        "--prompt", type=utf8_text, default="A class method", metavar="TEXT", help="prompt of all requests"
    )
    parser.add_argument("--steps", type=int, default=1000, metavar="N", help="maximum steps")
    parser.add_argument("--seed", type=int, default=42, metavar="N", help="seed of the first request")
    parser.add_argument(
        "--pace", type=float, default=25, metavar="N", help="maximum steps per second; 0: no limit"
    )
    parser.add_argument("--plain", "--no-live", action="store_true", help="print lines instead of panels")


def _generate_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s --prompt TEXT [option ...]"
    parser.add_argument("--prompt", type=utf8_text, required=True, metavar="TEXT", help="text to continue")
    _model_options(parser)
    _engine_options(parser)
    add_parameter_options(parser)


def _plugins_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--details", action="store_true", help="also say what each object does")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _explain_options(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s (--prompt TEXT | --logits FILE) [option ...]"
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--prompt", type=utf8_text, metavar="TEXT", help="explain the token after this text")
    logits = "explain this row of logits: a .npy, or the first row of a .jsonl of a server's logprobs"
    source.add_argument("--logits", metavar="FILE", help=logits)
    _model_options(parser)
    _engine_options(parser)
    parser.add_argument("--top", type=int, default=12, metavar="N", help="tokens to follow (default: 12)")
    token = "also say what became of this token, by its id or its text: which step removed it; repeatable"
    parser.add_argument("--token", type=utf8_text, action="append", default=[], metavar="ID", help=token)
    parser.add_argument("--plot", metavar="FILE", help="also draw a plot, as .png or .svg")
    add_parameter_options(parser, of_rows().__contains__)


def _new_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=PLUGIN_KINDS, metavar="KIND", help=", ".join(PLUGIN_KINDS))
    parser.add_argument("name", metavar="NAME", help="its name, and that of its parameter: my_sampler, say")
    parser.add_argument("--directory", metavar="DIR", help="where to write it (default: engine-sampler-NAME)")


def _check_options(parser: argparse.ArgumentParser) -> None:
    target = "an installed plugin or anything that it registers, or a shared library behind engine_sampler.h"
    parser.add_argument("target", metavar="NAME|PATH", help=target)
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=0.0,
        metavar="N",
        help="also search at random for so long (of a plugin, in processor time)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="the first seed of that search (default: 0)"
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="only this law of a plugin, or this check of a library, such as rows; repeatable",
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < 1e6:
        raise ValueError(text)
    return seconds


def _grammar_options(parser: argparse.ArgumentParser) -> None:
    sources = "FILE | --schema FILE | --lark FILE | --gbnf FILE | --regex TEXT | --name NAME"
    parser.usage = f"%(prog)s ({sources}) [option ...]"
    file = "a file whose name ends in .json (a JSON Schema), .lark, .gbnf or .grammar (a saved one)"
    parser.add_argument("file", nargs="?", metavar="FILE", help=file)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--schema", metavar="FILE", help="a JSON Schema")
    source.add_argument("--lark", metavar="FILE", help="a grammar in Lark's language")
    source.add_argument("--gbnf", metavar="FILE", help="a grammar in GBNF, llama.cpp's language")
    source.add_argument(
        "--regex", type=utf8_text, metavar="TEXT", help="a regular expression for the whole text"
    )
    source.add_argument("--name", metavar="NAME", help="a grammar that a plugin or this package provides")
    lexer = "how text in Lark's language is to be read, as by lark (default: dynamic_complete)"
    lexers = ("dynamic_complete", "contextual")
    parser.add_argument("--lexer", choices=lexers, default="dynamic_complete", help=lexer)
    parser.add_argument("--text", metavar="FILE", help="a text to check; -: standard input")
    action = parser.add_mutually_exclusive_group()
    complete = "print the shortest completion of the text"
    action.add_argument("--complete", dest="action", action="store_const", const="complete", help=complete)
    action.add_argument(
        "--rules", dest="action", action="store_const", const="rules", help="print the rules state by state"
    )
    mask = "print what may follow this beginning of a text, and why"
    action.add_argument("--mask", type=utf8_text, metavar="BEGINNING", help=mask)
    parser.set_defaults(action="check")
    tokens = "tokens for --mask: a tokenizer.json, .gguf, .model or a JSON list (default: all bytes)"
    parser.add_argument("--tokenizer", metavar="FILE", help=tokens)
    engines = "the engine of --mask; the other one is compared"
    parser.add_argument("--engine", choices=("auto", "native", "reference"), default="auto", help=engines)
    unsupported = "how to treat keywords that cannot be enforced (default: error)"
    choices = ("error", "warn", "ignore")
    parser.add_argument("--unsupported", choices=choices, default="error", help=unsupported)


def _refuse(argument: str, parsed: argparse.Namespace) -> NoReturn:
    if parsed.run in (run_generate, run_explain) and argument.startswith("--"):
        refuse_option(argument, "generate" if parsed.run is run_generate else "explain")
    raise ValueError(f"unexpected argument {argument!r}")


def _fail(message: str) -> int:
    print(f"engine-sampler: {message}", file=sys.stderr)
    return USAGE_ERROR
