"""Prometheus metrics of engine-sampler.

Once installed, every `Scheduler` of the process is counted in prometheus_client's default registry, which an
engine's own HTTP server exposes (`prometheus_client.make_asgi_app`, `make_wsgi_app`). Without such a server,

    ENGINE_SAMPLER_METRICS=9400             or 127.0.0.1:9400

starts one. `ENGINE_SAMPLER_PLUGINS=` (without `metrics`) turns everything off: an engine without observers
measures nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client import start_http_server

from engine_sampler.contract import hookimpl

from .observer import MetricsObserver

__all__ = ["DASHBOARD", "MetricsObserver"]

DASHBOARD = Path(__file__).parent / "dashboard.json"
"""A dashboard for Grafana: import it, and choose a Prometheus data source."""

_ADDRESS = "ENGINE_SAMPLER_METRICS"
_MOST_PORTS = 65_535


@hookimpl
def register_observers(register: Callable[[Any], None]) -> None:
    register(MetricsObserver())
    if address := os.environ.get(_ADDRESS):
        host, port = _address(address)
        start_http_server(port, host)


def _address(text: str) -> tuple[str, int]:
    """The host and port of "PORT" or "HOST:PORT"; raises ValueError for anything else."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdecimal() or not 0 < int(port) <= _MOST_PORTS:
        raise ValueError(f"{_ADDRESS}={text!r} is not allowed: PORT or HOST:PORT, 1..{_MOST_PORTS}")
    return host.strip("[]") or "0.0.0.0", int(port)
