"""Pictures of every page for the docs, taken in a real browser while something real happens.

python -m tests.faces.web.gallery

A rig is started and broken; the ticket appears on a page that is open already, a person says yes in
the browser, and the repair is proven. Nothing is drawn by hand.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from operator_evals.database import Recorded, open_database, read_published
from operator_lab.demo import Event, Plan, play
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.token import Audience, Role
from operator_sre.app import tokens
from operator_sre.app.listeners import Listener
from operator_sre.app.wiring import App, open_app
from operator_sre.config import Config, load_config
from operator_sre.faces.web.listener import serve
from tests.evals.results import campaigns

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page, ViewportSize

__all__ = ["FOLDER", "PICTURES", "Story", "config_at", "incognito", "main", "story"]

FOLDER = Path(__file__).parents[3] / "docs" / "web"
# Every picture, with its alternative text.
PICTURES = {
    "sign-in": "Sign in with a token",
    "overview": "The overview during an incident: health, tickets, pending approvals, agents",
    "overview-phone": "The overview on a phone",
    "overview-dark": "The overview in dark mode",
    "ticket": "A ticket: diagnosis, pending approval, evidence, commands and timeline",
    "approval": "An approval request: the exact command, its effects and the time left",
    "approval-phone": "An approval request on a phone",
    "resolved": "A resolved ticket: the repair and its proof",
    "tickets": "The ticket list, with filters",
    "history": "The command history",
    "audit": "The audit log",
    "terminal": "A command, judged as it is typed",
    "policy": "The policy rules, with their examples",
    "subjects": "Subjects and silences",
    "subject": "One subject: its invariants and readings",
    "evals": "The results of a campaign",
    "settings": "Tokens, notifications, models and secrets",
    "kill-switch": "The kill switch and its confirmation",
}
# The same on every machine, because commands name the home.
HOME = Path("/tmp/operator-web")
HOST, PERSON = "ops-1", "ada"
DESK: ViewportSize = {"width": 1280, "height": 860}
PHONE: ViewportSize = {"width": 375, "height": 760}
SETTLE_MS = 700
# A rig takes a while where many others work as well.
WAIT_MS = 120_000
_CREW = (
    f"import socket, getpass; socket.gethostname = lambda: {HOST!r};"
    f" getpass.getuser = lambda: {PERSON!r};"
    " from operator_sre.faces.cli.main import main; main()"
)
Take = Callable[["Page", str], Awaitable[None]]


class Story:
    """What was seen on the way, for whoever tells it."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.loads = 0
        self.report = b""


def config_at(folder: Path) -> Config:
    """A home in which a person answers, and looks are frequent."""
    pace = {"interval_s": "2", "stable_s": "5", "timeout_s": "2"}
    flags = {"home": str(folder), "mode": "approve", "profile": "lab", "model": "reasoner", **pace}
    return load_config(flags=flags, environ={}, cwd=folder)


@contextmanager
def incognito() -> Iterator[None]:
    """Neither this machine nor whoever sits at it is named."""
    with (
        mock.patch.object(socket, "gethostname", return_value=HOST),
        mock.patch("getpass.getuser", return_value=PERSON),
    ):
        yield


def main() -> None:
    """Take all pictures, and write them."""
    HOME.mkdir(mode=0o700)
    FOLDER.mkdir(exist_ok=True)

    async def take(page: Page, name: str) -> None:
        await page.wait_for_timeout(SETTLE_MS)
        picture = await page.screenshot(path=FOLDER / f"{name}.png")
        sys.stdout.write(f"{name}.png  {len(picture) // 1024} KiB\n")

    try:
        with incognito():
            told = asyncio.run(story(config_at(HOME), take))
    finally:
        shutil.rmtree(HOME, ignore_errors=True)
    for one in told.complaints:
        sys.stdout.write(f"the browser says: {one}\n")


async def story(config: Config, take: Take) -> Story:
    """A fault, a ticket that appears by itself, a yes in the browser, a repair, a proof."""
    told = Story()
    published = read_published(campaigns()["reference"])
    with open_database(config.home / "eval.db") as database:
        database.begin(Recorded(published.campaign, published.started_at, published.machine))
        for trial in published.trials:
            database.keep(trial)
    with open_app(config) as app:
        _, secret = await tokens.create(app, "browser of ada", Role.ADMIN, audience=Audience.WEB)
        async with _served(app) as url, _chromium() as browser:
            desk = await _context(browser, told, url)
            page = await _signed_in(desk, url, secret, take)
            page.on("load", lambda _: _count(told))
            plan = Plan("ratelimiter", "node_kill", (sys.executable, "-P", "-c", _CREW), seed=3)
            async with aclosing(play(app, plan)) as feed:
                async for one in feed:
                    if isinstance(one, Event) and one.kind == Kind.APPROVAL_REQUESTED:
                        await _answered(page, url, take)
                    elif isinstance(one, Event) and one.kind == Kind.TICKET_RESOLVED:
                        await _over(page, take)
                        await _round(page, url, take)
            report = await desk.request.get(f"{url}/tickets/1/report.html")
            told.report = await report.body()
            await desk.close()
    return told


def _count(told: Story) -> None:
    told.loads += 1


async def _answered(page: Page, url: str, take: Take) -> None:
    """The page that is open shows what is wanted; a person looks around, and says yes."""
    wanted = page.locator("section[aria-label='Pending approvals'] a[data-row]").first
    await wanted.wait_for(timeout=WAIT_MS)
    await page.locator("section[aria-label='Open tickets'] a[data-row]").first.click()
    await take(page, "ticket")
    # The rig is gone when the story is over.
    await page.goto(f"{url}/subjects")
    await take(page, "subjects")
    await page.goto(f"{url}/subjects/ratelimiter")
    await take(page, "subject")
    await _typed(page, url)
    await take(page, "terminal")
    await page.goto(url)
    await take(page, "overview")
    await _small(page, take, "overview-phone")
    await page.emulate_media(color_scheme="dark")
    await take(page, "overview-dark")
    await page.emulate_media(color_scheme="light")
    await page.locator("section[aria-label='Pending approvals'] a[data-row]").first.click()
    await take(page, "approval")
    await _small(page, take, "approval-phone")
    await page.keyboard.press("a")
    await page.get_by_label("Reason (optional)").first.fill("traffic is low")
    await page.get_by_role("button", name="Approve once").click()
    await page.locator("#toasts .toast").first.wait_for(timeout=WAIT_MS)
    await page.locator("nav").get_by_role("link", name="Tickets").click()
    await page.locator("main a[data-row]").first.click()
    await page.wait_for_url("**/tickets/1")


async def _typed(page: Page, url: str) -> None:
    """A command that the gate refuses, as it is typed."""
    await page.goto(f"{url}/terminal")
    await page.get_by_label("Subject").select_option("ratelimiter")
    await page.get_by_label("Target").fill("node-1")
    field = page.locator("main input[name=command], main textarea[name=command]").first
    await field.press_sequentially("rm -rf /var/log/*", delay=5)
    await page.locator("#verdict .badge").first.wait_for()


async def _over(page: Page, take: Take) -> None:
    """The ticket, as the proof ends it, on the page that was open all the time."""
    await page.locator("main .badge.resolved").first.wait_for(timeout=WAIT_MS)
    await take(page, "resolved")


async def _round(page: Page, url: str, take: Take) -> None:
    """Every other page."""
    for name in ("tickets", "history", "audit", "policy", "settings", "kill-switch"):
        await page.goto(f"{url}/{name}")
        await take(page, name)
    await page.goto(f"{url}/evals/campaign?name=reference")
    await take(page, "evals")


async def _small(page: Page, take: Take, name: str) -> None:
    await page.set_viewport_size(PHONE)
    await take(page, name)
    await page.set_viewport_size(DESK)


async def _signed_in(desk: BrowserContext, url: str, secret: str, take: Take) -> Page:
    page = await desk.new_page()
    await page.goto(url)
    await take(page, "sign-in")
    await page.get_by_label("Token").fill(secret)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(f"{url}/")
    return page


async def _context(browser: Browser, told: Story, url: str) -> BrowserContext:
    desk = await browser.new_context(viewport=DESK, timezone_id="UTC", locale="en-GB")
    desk.set_default_timeout(WAIT_MS)
    desk.on("console", lambda one: told.complaints.append(f"{one.type}: {one.text}"))
    desk.on("weberror", lambda one: told.complaints.append(str(one.error)))
    return desk


@asynccontextmanager
async def _chromium() -> AsyncIterator[Browser]:
    from playwright.async_api import async_playwright

    program = shutil.which("chromium")
    assert program is not None, "there is no chromium: apt install chromium"
    async with async_playwright() as driver:
        words = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = await driver.chromium.launch(executable_path=program, args=words)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def _served(app: App) -> AsyncIterator[str]:
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    listener = Listener("127.0.0.1", 0, rate=1000)
    serving = asyncio.ensure_future(serve(app, listener, ready=ready.set_result))
    try:
        both: list[asyncio.Future[Any]] = [ready, serving]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        yield ready.result()
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


if __name__ == "__main__":
    main()
