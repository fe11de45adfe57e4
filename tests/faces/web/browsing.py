"""The console as it is served, in this process, and pages of a real browser that show it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from operator_sre.app.listeners import Listener
from operator_sre.app.wiring import App
from operator_sre.faces.web.listener import serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["Served", "opened", "served"]


@dataclass
class Served:
    """Where it listens; what is written by a test is written in the loop that serves."""

    url: str
    loop: asyncio.AbstractEventLoop
    complaints: list[str] = field(default_factory=list)
    cookies: dict[str, list[Any]] = field(default_factory=dict)

    def do(self, deed: Any) -> Any:
        """Await something in that loop."""
        return asyncio.run_coroutine_threadsafe(deed, self.loop).result(30)


@contextmanager
def served(home: App) -> Iterator[Served]:
    """The console of a home, for the length of a `with`."""
    began, told, ended = threading.Event(), list[str](), list[Any]()

    def ready(where: str) -> None:
        told.append(where)
        began.set()

    async def listen() -> None:
        ended.append((asyncio.get_running_loop(), asyncio.current_task()))
        await serve(home, Listener("127.0.0.1", 0, rate=1000), ready=ready)

    def run() -> None:
        with suppress(asyncio.CancelledError):
            asyncio.run(listen())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert began.wait(30)
        yield Served(told[0], ended[0][0])
    finally:
        loop, task = ended[0]
        loop.call_soon_threadsafe(task.cancel)
        thread.join(30)
        assert not thread.is_alive()


def opened(browser: Browser, place: Served, secret: str, path: str = "/", **options: Any) -> Page:
    """A page of somebody who is signed in; what the browser complains about is in `complaints`."""
    page = browser.new_context(**options).new_page()
    page.on("console", lambda one: place.complaints.append(f"{one.type}: {one.text}"))
    page.on("pageerror", lambda one: place.complaints.append(str(one)))
    known = place.cookies.get(secret)
    if known is not None:  # so often may nobody sign in as a test opens pages
        page.context.add_cookies(known)
        page.goto(f"{place.url}{path}")
        return page
    page.goto(f"{place.url}/sign-in?next={path}")
    page.get_by_label("Token").fill(secret)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{place.url}{path}")
    place.cookies[secret] = page.context.cookies()
    return page
