"""Screens of the workbench for its page, from a real run: `python -m docs.screens`.

Needs engine-sampler-workbench, playwright, Pillow and Chromium. Browsers differ, so no test compares them.
"""

from __future__ import annotations

import io
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).parent / "pictures" / "workbench"
SIZES = {"desktop": (1240, 800), "phone": (390, 780)}


def draw(browser: Any, address: str, device: str, scheme: str) -> None:
    """One screen, once the text is drawn."""
    width, height = SIZES[device]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    context.set_default_timeout(120_000)
    page = context.new_page()
    page.goto(address)
    page.locator(".row-picture svg.names").wait_for()
    page.wait_for_function("() => document.querySelectorAll('.text .tokens button').length == 40")
    page.wait_for_timeout(1500)
    picture = Image.open(io.BytesIO(page.screenshot()))
    FOLDER.mkdir(exist_ok=True)
    picture.save(FOLDER / f"{device}-{scheme}.webp", quality=82, method=6)
    context.close()


def main() -> None:
    """Draw every screen."""
    command = [sys.executable, "-m", "engine_sampler", "workbench", "--no-browser"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
        sync_playwright() as playwright,
    ):
        assert server.stdout is not None
        address = re.search(r"http://\S+", server.stdout.readline())
        assert address is not None
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=options)
        for device in SIZES:
            for scheme in ("light", "dark"):
                draw(browser, address.group(), device, scheme)
        browser.close()
        server.send_signal(signal.SIGINT)


if __name__ == "__main__":
    main()
