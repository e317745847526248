"""The command `engine-sampler serve`: its options, and the model that it serves."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from engine_sampler import ParameterError
from engine_sampler.messages import family_of
from engine_sampler.session import Session

from .replies import ServedModel
from .templates import jinja, plain

logger = logging.getLogger("engine_sampler")

DEMO_FAMILY = "qwen_3"
OTHER_FAMILY = "json_list"
"""How calls are asked for where nothing is known of a model: as a list in JSON."""


def serve_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    models = parser.add_mutually_exclusive_group()
    models.add_argument("--gguf", metavar="FILE", help="serve a GGUF file, in llama.cpp")
    models.add_argument(
        "--transformers", metavar="DIR", help="serve a model of transformers from its directory"
    )
    models.add_argument("--corpus", metavar="FILE", help="serve the demo, trained on this text")
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="default: this machine alone")
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="default: 8000")
    template = "a chat template in Jinja (default: the model's own)"
    parser.add_argument("--chat-template", metavar="FILE", help=template)
    family = "how the model writes calls, such as qwen_3 (default: auto, by its chat template)"
    parser.add_argument("--tool-family", default="auto", metavar="NAME", help=family)
    unknown = "what becomes of keys that it does not know (default: log, once each)"
    parser.add_argument("--unknown", choices=("error", "log", "ignore"), default="log", help=unknown)
    drafter = (
        "what drafts tokens for requests that name no drafter: grammar, ngram, or a plugin's; repeatable"
    )
    parser.add_argument("--drafter", action="append", metavar="NAME", help=drafter)
    requests = "requests that run at once, each with its part of the memory of --gguf (default: 8)"
    parser.add_argument("--max-requests", type=int, default=8, metavar="N", help=requests)
    parser.add_argument("--backend", default="auto", metavar="NAME", help="sampling backend (default: auto)")


def run_serve(arguments: argparse.Namespace) -> None:
    """Serve a model by OpenAI's protocol: chat completions and completions, with FastAPI and uvicorn."""
    try:
        import jinja2  # noqa: F401
        import uvicorn

        from .asgi import StoppingServer, build_app
    except ImportError as error:
        raise ValueError(f'this needs {error.name}: in a checkout, pip install ".[serve]"') from None
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    app = build_app(model_of(arguments))
    config = uvicorn.Config(app, arguments.host, arguments.port, timeout_graceful_shutdown=5)
    StoppingServer(config).run()


def model_of(arguments: argparse.Namespace) -> ServedModel:
    """The model that the options name."""
    path = arguments.gguf or arguments.transformers
    session = _session_of(arguments)
    text = session.chat_template
    if arguments.chat_template is not None:
        text = Path(arguments.chat_template).read_text(encoding="utf-8")
    family = arguments.tool_family
    if family == "auto":
        family = _family_of(text) if path or text else DEMO_FAMILY
    render = plain if text is None else jinja(text, **session.template_tokens)
    name = Path(path).stem if path else "demo"
    return ServedModel(session, name, family, render, arguments.unknown, arguments.drafter)


def _session_of(arguments: argparse.Namespace) -> Session:
    if arguments.gguf:
        from engine_sampler_llama_cpp import Session as LlamaSession

        return LlamaSession(arguments.gguf, arguments.backend, max_requests=arguments.max_requests)
    if arguments.transformers:
        from engine_sampler_transformers import Session as TransformersSession

        return TransformersSession(
            arguments.transformers, arguments.backend, max_requests=arguments.max_requests
        )
    from engine_sampler.demo.engine import DemoSession, Engine

    return DemoSession(Engine.load(arguments.corpus), arguments.backend)


def _family_of(template: str | None) -> str:
    """The family that a chat template shows; `OTHER_FAMILY` without one, or with one of no family."""
    try:
        return OTHER_FAMILY if template is None else family_of(template)
    except ParameterError as error:
        logger.warning("--tool-family auto takes %s, as %s", OTHER_FAMILY, error)
        return OTHER_FAMILY
