"""Pages as a browser shows them: headless Chromium, with what it complains of and what it asks for."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
LOCAL = ("file:", "data:", "about:", "blob:")


def require(there: bool, what: str, cure: str) -> None:
    """Skip a test whose tools are missing; fail instead where LATENTSTRUCT_BROWSER=required."""
    if there:
        return
    if os.environ.get("LATENTSTRUCT_BROWSER") == "required":
        pytest.fail(f"{what} is missing, but LATENTSTRUCT_BROWSER=required: {cure}")
    pytest.skip(f"{what} is missing: {cure}")


def chromium() -> str:
    """Return the program."""
    named = os.environ.get("LATENTSTRUCT_CHROMIUM")
    found = named or shutil.which("chromium") or shutil.which("chromium-browser")
    require(bool(found), "Chromium", "install it, or name it in LATENTSTRUCT_CHROMIUM")
    return str(found)


@dataclass
class Opened:
    """A page, and what went wrong while it was loaded."""

    page: Any
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@contextmanager
def browsing() -> Iterator[Any]:
    """Yield a browser."""
    from playwright.sync_api import sync_playwright

    program = chromium()
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Any, path: Path, width: int = 1440, height: int = 900, dark: bool = False) -> Iterator[Opened]:
    """Yield a file as a page of the given size and theme."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", device_scale_factor=1
    )
    try:
        found = Opened(context.new_page())
        found.page.on(
            "console", lambda one: found.errors.append(one.text) if one.type in ("error", "warning") else None
        )
        found.page.on("pageerror", lambda error: found.errors.append(str(error)))
        found.page.on("requestfailed", lambda request: found.errors.append(f"failed: {request.url[:200]}"))
        found.page.on(
            "request", lambda one: None if one.url.startswith(LOCAL) else found.requests.append(one.url[:200])
        )
        found.page.goto(path.resolve().as_uri(), wait_until="load")
        yield found
    finally:
        context.close()
