"""An engine that does not fit its bridge: the error names the releases and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine_sampler.for_bridges import Peer, PeerError
from engine_sampler.for_bridges.peers import bridges, installed_release

BRIDGE = "engine-sampler-lathe"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Installs a distribution by its metadata, as pip writes it."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def add(name: str, version: str, *lines: str, entry_points: str = "") -> None:
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        text = "\n".join(["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *lines, ""])
        (folder / "METADATA").write_text(text, encoding="utf-8")
        (folder / "entry_points.txt").write_text(entry_points, encoding="utf-8")

    return add


@pytest.fixture
def bridge(install: Any) -> Any:
    """Installs the bridge, tested beside lathe 2.10; its value is the object that its entry point
    names."""

    def add(value: str = "engine_sampler_lathe") -> None:
        install(
            BRIDGE,
            "0.1.0",
            "Provides-Extra: tested",
            "Requires-Dist: numpy==1.0",
            "Requires-Dist: lathe==2.10.0; extra == 'tested'",
            "Requires-Dist: wood==7; extra == 'test'",
            entry_points=f"[engine_sampler.bridges]\nLathe = {value}\n",
        )

    return add


def refusal(installed: str = "") -> str:
    with pytest.raises(PeerError) as raised, Peer("Lathe", BRIDGE).compared():
        raise ImportError("cannot import name 'turn'")
    beside = f"{BRIDGE} cannot be used beside Lathe {installed}".rstrip()
    assert str(raised.value).startswith(f"{beside}: cannot import name 'turn'")
    return str(raised.value).removeprefix(f"{beside}: cannot import name 'turn'")


def test_an_older_release_is_named_with_the_one_to_install(install: Any, bridge: Any) -> None:
    bridge()
    install("lathe", "2.9.1")
    assert refusal("2.9.1") == ". It is tested with Lathe 2.10.0: pip install lathe==2.10.0"


def test_beside_a_newer_release_a_newer_bridge_may_fit(install: Any, bridge: Any) -> None:
    bridge()
    install("lathe", "2.11.0+cpu")
    assert refusal("2.11.0+cpu").endswith(f"lathe==2.10.0, or a newer {BRIDGE}")


def test_an_engine_that_is_not_installed_is_named(bridge: Any) -> None:
    bridge()
    assert refusal().startswith(". Lathe is not installed. It is tested with Lathe 2.10.0: pip install")


def test_beside_the_tested_release_something_is_missing(install: Any, bridge: Any) -> None:
    bridge()
    install("lathe", "2.10.0")
    assert "This is the release that it is tested with: something is missing" in refusal("2.10.0")


def test_a_bridge_that_runs_from_its_sources_names_no_releases() -> None:
    assert refusal() == "."


@pytest.mark.parametrize("fault", [AttributeError("turn"), StopIteration(), OSError("no device")])
def test_whatever_an_import_raises_is_a_peer_error(fault: Exception) -> None:
    failed = f"its import failed: {type(fault).__name__}"
    with pytest.raises(PeerError, match=failed), Peer("Lathe", BRIDGE).compared():
        raise fault


def test_an_interruption_is_not_the_engines() -> None:
    with pytest.raises(KeyboardInterrupt), Peer("Lathe", BRIDGE).compared():
        raise KeyboardInterrupt


def state(*fields: str) -> list[str]:
    (lathe,) = [bridge for bridge in bridges() if bridge.name == "Lathe"]
    assert lathe.bridge == f"{BRIDGE} 0.1.0"
    return [getattr(lathe, name) for name in fields]


def test_a_bridge_is_listed_with_both_releases(install: Any, bridge: Any) -> None:
    bridge()
    assert state("state", "installed", "tested") == ["not installed", "", "2.10.0"]
    install("lathe", "2.9.1")
    assert installed_release("lathe") == "2.9.1"
    assert state("state", "installed", "why") == [
        "ready",
        "2.9.1",
        "import engine_sampler_lathe",
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return True, 'LATHE=1'", ["on", "LATHE=1"]),
        ("return False, 'LATHE=1 switches it on'", ["off", "LATHE=1 switches it on"]),
        ("raise OSError('no oil')", ["failed", "its state failed: OSError: no oil"]),
    ],
)
def test_a_bridge_with_a_switch_says_whether_it_is_on(
    body: str, expected: list[str], install: Any, bridge: Any, tmp_path: Path
) -> None:
    module = f"lathe_{expected[0]}"
    (tmp_path / f"{module}.py").write_text(f"def state():\n    {body}\n", encoding="utf-8")
    bridge(f"{module}:state")
    install("lathe", "2.10.0")
    assert state("state", "why") == expected
