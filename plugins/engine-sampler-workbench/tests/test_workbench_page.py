"""The page in a browser: Chromium, driven by playwright; the server runs as people start it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nicegui")
sync_api = pytest.importorskip("playwright.sync_api")

from engine_sampler_workbench.server import MOST_PAGES  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update "
    "--disable-sync --no-first-run"
).split()
SERVE = """
import argparse, contextlib, sys
from engine_sampler_workbench import command
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    command.add_options(parser)
    with contextlib.suppress(KeyboardInterrupt):
        command.run(parser.parse_args(sys.argv[1:]))
"""
PLUGIN = Path(__file__).resolve().parents[1]
PATIENCE = 30_000
"""Milliseconds, on a busy machine."""


@contextlib.contextmanager
def served(*options: str) -> Iterator[str]:
    """The address of a workbench."""
    path = os.pathsep.join([str(PLUGIN), *filter(None, sys.path)])
    # pytest's own settings change NiceGUI, which looks for them.
    environment = {k: v for k, v in os.environ.items() if "PYTEST" not in k} | {"PYTHONPATH": path}
    command = [sys.executable, "-c", SERVE, "--no-browser", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            match = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line)
            assert match, line
            yield match.group()
        finally:
            server.send_signal(signal.SIGINT)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served() as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


@pytest.fixture
def page(context: Any, address: str) -> Any:
    return opened(context, address)


def opened(context: Any, address: str) -> Any:
    """The page at an address, once its text is drawn; it may ask for nothing that is elsewhere."""
    page = context.new_page()
    page.faults = []
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.on("request", lambda request: page.faults.append(request.url) if is_foreign(request.url) else None)
    page.goto(address)
    settled(page)
    return page


def is_foreign(url: str) -> bool:
    return not url.startswith(("http://127.0.0.1", "data:", "blob:"))


def settled(page: Any) -> None:
    page.locator(".text .tokens button").first.wait_for()
    page.wait_for_function("() => !document.querySelector('[role=status]').textContent.includes('working')")


def tokens(page: Any) -> list[str]:
    return list(page.locator(".text .tokens button").all_inner_texts())


def with_another_text(page: Any, before: list[str]) -> list[str]:
    page.wait_for_function(
        "before => JSON.stringify([...document.querySelectorAll('.text .tokens button')]"
        ".map(b => b.innerText)) != JSON.stringify(before)",
        arg=before,
    )
    settled(page)
    return tokens(page)


def tab(page: Any, name: str) -> None:
    page.get_by_role("tab", name=name).click()


def test_it_opens_with_a_text_and_the_row_of_its_first_token(page):
    assert len(tokens(page)) == 40
    assert page.get_by_text("row 1 of 40").is_visible()
    assert page.locator(".row-picture .step").all_text_contents() == [
        "logits",
        "top_k",
        "top_p",
        "min_p",
        "temperature",
    ]
    assert page.locator(".row-picture line.gone").count() == 3
    assert "it fell between" in page.locator(".tabs").inner_text()
    assert page.faults == []


def test_a_prompt_is_continued_and_a_step_adds_one_token(page):
    before = tokens(page)
    page.get_by_label("Prompt").fill("The list")
    page.get_by_label("tokens", exact=True).fill("5")
    page.get_by_role("button", name="Generate").click()
    after = with_another_text(page, before)
    assert len(after) == 5
    page.get_by_role("button", name="Step", exact=True).click()
    assert with_another_text(page, after)[:5] == after
    assert page.get_by_text("row 6 of 6").is_visible()


def test_a_slider_moved_by_keys_changes_text_and_picture_at_once(page):
    before = tokens(page)
    slider = page.get_by_role("slider", name="temperature", exact=True)
    slider.focus()
    slider.press("PageUp")
    page.get_by_label("temperature, as a number").fill("2")
    after = with_another_text(page, before)
    assert page.locator(".text .tokens .differs").count() == sum(
        one != other for one, other in zip(after, before, strict=False)
    )
    page.get_by_text("2", exact=True).first.wait_for()


def test_tokens_are_walked_by_arrow_keys(page):
    page.locator(".text .tokens button").nth(3).click()
    page.get_by_text("row 4 of 40").wait_for()
    page.locator(".text .tokens button").nth(3).focus()
    page.keyboard.press("ArrowRight")
    page.get_by_text("row 5 of 40").wait_for()
    page.wait_for_function("() => document.activeElement.dataset.i === '4'")


NAMES = "() => [...document.querySelectorAll('.samplers > .sampler')].map(s => s.dataset.name)"
"""The samplers of the page, in order."""


def test_samplers_are_ordered_by_keys(page):
    move = page.get_by_role("button", name="move temperature up")
    names = page.evaluate(NAMES)
    for _ in range(names.index("temperature") - names.index("top_p")):
        move.focus()
        page.keyboard.press("Enter")
        page.wait_for_timeout(150)
    page.wait_for_function(
        "() => [...document.querySelectorAll('.row-picture .step')].map(s => s.textContent).join()"
        " == 'logits,top_k,temperature,top_p,min_p'"
    )


def test_samplers_are_ordered_by_dragging(page):
    names = page.evaluate(NAMES)
    assert names.index("top_k") < names.index("top_p")
    page.locator('[data-name="top_p"] .grip').scroll_into_view_if_needed()
    page.locator('[data-name="top_p"] .grip').drag_to(page.locator('[data-name="top_k"] .grip'))
    page.wait_for_function(
        "() => [...document.querySelectorAll('.row-picture .step')].map(s => s.textContent).join()"
        " == 'logits,top_p,top_k,min_p,temperature'"
    )


def test_why_not_a_token(page):
    page.get_by_label("Why not").fill("the")
    page.get_by_text("removed it when it had").first.wait_for()
    page.get_by_label("Why not").fill("no such token, surely")
    page.get_by_text("No token is written").wait_for()


def test_a_value_that_is_not_allowed_is_an_error_in_words(page):
    page.get_by_label("min_p, as a number").fill("7")
    page.get_by_text("min_p=7.0 is not allowed").wait_for()
    assert len(tokens(page)) == 40


def test_two_chains_are_compared(page):
    tab(page, "Side by side")
    page.get_by_text(re.compile(r"\d+ of 40 tokens differ")).wait_for()
    assert page.locator(".draws b").count() > 5
    page.get_by_role("button", name="B: the chain as it is now").click()
    page.get_by_text("0 of 40 tokens differ", exact=True).wait_for()


def test_settings_pictures_and_a_table_are_taken_along(page, context):
    tab(page, "Take it with you")
    page.get_by_text("llama-cli -m MODEL").wait_for()
    assert "vLLM runs temperature, min_p, top_k, top_p in this order" in page.locator(".tabs").inner_text()
    begins = {"PNG": b"\x89PNG", "SVG": b"<?xml", "CSV": b"token_id,text"}
    for kind, beginning in begins.items():
        with page.expect_download() as download:
            page.get_by_role("button", name=kind, exact=True).click()
        assert Path(download.value.path()).read_bytes().startswith(beginning)


def test_a_link_restores_the_page(page, context):
    before = tokens(page)
    page.locator(".text .tokens button").nth(2).click()
    page.get_by_label("top_k, as a number").fill("3")
    page.get_by_label("temperature, as a number").fill("1.5")
    after = with_another_text(page, before)
    tab(page, "Take it with you")
    page.wait_for_function(
        "() => [...document.querySelectorAll('input')].some(i => i.value.includes('state='))"
    )
    page.get_by_text("top_k=3").wait_for()
    again = opened(context, page.get_by_label("Link that restores").input_value())
    assert tokens(again) == after
    assert again.get_by_text("row 3 of 40").is_visible()


def test_a_link_that_is_none_is_an_error_in_words(context, address):
    page = opened(context, address + "&state=nonsense")
    assert page.get_by_text("not one that the workbench has made").is_visible()


def test_a_grammar_is_followed_and_a_wrong_one_has_a_place(page):
    before = tokens(page)
    tab(page, "Grammar")
    page.get_by_role("button", name="Lark").click()
    text = page.get_by_label("Grammar", exact=True)
    text.fill("start: nowhere\n")
    page.get_by_role("button", name="Use it").click()
    page.get_by_text(re.compile("line 1, column 8")).wait_for()
    assert tokens(page) == before
    text.fill('start: "{" noun "}"\nnoun[capture]: /[a-z]+/')
    page.get_by_role("button", name="Use it").click()
    after = "".join(with_another_text(page, before))
    assert after.startswith("{")
    page.locator(".text .tokens button").last.click()
    page.get_by_text(re.compile("noun: '[a-z]")).wait_for()
    assert page.locator(".chip.True").count() > 0
    assert page.get_by_text("may come next").first.is_visible()
    page.get_by_role("button", name="Remove it").click()
    assert "".join(with_another_text(page, [after])) != after


def test_two_tabs_do_not_know_of_each_other(page, context, address):
    other = opened(context, address)
    before = tokens(page)
    other.get_by_label("temperature, as a number").fill("2")
    with_another_text(other, before)
    assert tokens(page) == before
    assert page.get_by_label("temperature, as a number").input_value() == "0.8"


def test_an_engine_that_dies_is_shown_and_the_page_lives_on(context):
    with served() as address:
        page = opened(context, address)
        os.kill(engine_of(address), signal.SIGKILL)
        page.get_by_role("button", name="Generate").click()
        page.get_by_text("has died, with exit code -9").wait_for()
        page.get_by_label("min_p, as a number").fill("0.2")
        page.get_by_role("button", name="Start the engine again").click()
        page.get_by_text("has died").wait_for(state="hidden")
        settled(page)
        assert len(tokens(page)) == 40


def engine_of(address: str) -> int:
    """The process of the model, a child of the one that listens at the address."""
    port = int(re.search(r":(\d+)/", address).group(1))  # type: ignore[union-attr]
    table = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()
    socket_name = f"socket:[{next(line.split()[9] for line in table if f':{port:04X} 00000000' in line)}]"
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if socket_name in map(os.readlink, (folder / "fd").iterdir()):
                children = " ".join(file.read_text() for file in (folder / "task").glob("*/children")).split()
                return next(
                    int(pid) for pid in children if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()
                )
    raise AssertionError(address)


def test_a_narrow_page_does_not_scroll_sideways(browser, address):
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = opened(context, address)
    for name in ("Side by side", "Grammar", "Take it with you", "Row"):
        tab(page, name)
        page.wait_for_timeout(100)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390, name
    context.close()


def request(address: str, path: str, **headers: str) -> bytes:
    """The first line that the server answers."""
    port = int(re.search(r":(\d+)/", address).group(1))  # type: ignore[union-attr]
    with socket.create_connection(("127.0.0.1", port)) as connection:
        lines = [f"GET {path} HTTP/1.1", f"Host: {headers.pop('Host', f'127.0.0.1:{port}')}"]
        lines += [f"{key.replace('_', '-')}: {value}" for key, value in headers.items()]
        connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        return connection.makefile("rb").readline().strip()


def test_who_only_reads_the_address_takes_no_page_from_others(context, address):
    for _ in range(MOST_PAGES):
        assert request(address, address[address.index("/?") :]) == b"HTTP/1.1 200 OK"
    assert len(tokens(opened(context, address))) == 40


def test_nobody_is_answered_without_the_token_or_under_another_name(address):
    path = address[address.index("/?") :]
    websocket = {
        "Upgrade": "websocket",
        "Sec_WebSocket_Version": "13",
        "Sec_WebSocket_Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    assert request(address, path) == b"HTTP/1.1 200 OK"
    for refused in (
        request(address, "/"),
        request(address, "/?token=wrong"),
        request(address, "/_nicegui_ws/socket.io/?EIO=4&transport=polling"),
        request(address, path, Host="evil.example"),
        request(address, path, Origin="http://evil.example"),
        request(address, "/", Cookie="workbench_1=x; =; ;"),
        request(address, "/_nicegui_ws/socket.io/?EIO=4&transport=websocket", **websocket),
    ):
        assert refused == b"HTTP/1.1 403 Forbidden"
