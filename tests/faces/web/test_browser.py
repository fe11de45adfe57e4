"""The console in a real browser: for everybody, on a phone, in the dark, in two tabs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from operator_protocols.domain.entry import Actor
from tests.contract.samples import approval
from tests.e2e.warm import Warm
from tests.evals.samples import fill
from tests.faces.api.server import Desk
from tests.faces.web.browsing import Served, opened, served
from tests.faces.web.world import Web

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
AXE = Path(__file__).parent / "axe" / "axe.min.js"
PHONE = {"width": 375, "height": 800}
PAGES = (
    *("/", "/tickets", "/approvals", "/terminal", "/history", "/audit", "/policy", "/subjects"),
    *("/evals", "/settings", "/kill-switch", "/evals/campaign?name=reference", "/nothing"),
    *("/tickets/1", "/approvals/pending", "/audit/5", "/history/statistics", "/subjects/shop"),
    *("/tickets?state=any", "/approvals?every=true"),
)
WORDS = "<img src=x onerror=document.title='pwned'><script>document.title='pwned'</script>\x1b[31m"


@pytest.fixture(scope="module")
def place(web: Web) -> Iterator[Served]:
    """The console of a home in which everything has happened."""
    fill(web.app.config.home / "eval.db")
    with served(web.app) as place:
        yield place


def _ask(web: Web, place: Served, name: str, **changes: Any) -> None:
    wanted = replace(approval(name, at=web.clock.now()), **changes)
    place.do(web.app.store.approvals.request(wanted))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page(
    web: Web, place: Served, chromium: Browser, scheme: str
) -> None:
    secret = web.api.secrets["admin"]
    page = opened(chromium, place, secret, color_scheme=scheme, bypass_csp=True)
    found = []
    for path in PAGES:
        page.goto(place.url + path)
        page.add_script_tag(path=AXE)
        told = page.evaluate("axe.run({resultTypes: ['violations']})")
        found += [
            (path, one["id"], one["nodes"][0]["html"][:200])
            for one in told["violations"]
            if one["impact"] in ("serious", "critical")
        ]
    page.context.close()
    assert found == []


def test_every_page_fits_a_phone_and_obeys_the_policy(
    web: Web, place: Served, chromium: Browser
) -> None:
    page = opened(chromium, place, web.api.secrets["admin"], viewport=PHONE)
    place.complaints.clear()
    wide = {}
    for path in PAGES:
        page.goto(place.url + path)
        wide[path] = page.evaluate("document.documentElement.scrollWidth")
    assert {path: one for path, one in wide.items() if one > PHONE["width"]} == {}
    missing = "error: Failed to load resource: the server responded with a status of 404"
    assert [one for one in place.complaints if not one.startswith(missing)] == []
    page.close()


def test_words_of_others_stay_words_and_the_countdown_counts(
    web: Web, place: Served, chromium: Browser
) -> None:
    page = opened(chromium, place, web.api.secrets["admin"])
    _ask(web, place, "hostile", explanation=WORDS, requester=Actor(WORDS, "agent"), subject=WORDS)
    wanted = page.locator("section[aria-label='Waiting for an answer']")
    wanted.get_by_text("<img src=x").first.wait_for()
    assert page.locator("main img, main script").count() == 0
    assert "pwned" not in page.title()
    assert page.locator("[data-until]").first.inner_text().endswith("left")
    page.close()


def test_two_tabs_share_one_stream_and_the_second_takes_over(
    web: Web, place: Served, chromium: Browser
) -> None:
    first = opened(chromium, place, web.api.secrets["admin"])
    second = first.context.new_page()
    second.goto(place.url)
    for page in (first, second):
        page.wait_for_load_state()
    place.do(web.app.store.switch.turn_on(by="bob", reason="first"))
    for page in (first, second):
        page.locator("#standing").get_by_text("kill switch is on").wait_for()
    first.close()
    place.do(web.app.store.switch.turn_off(by="bob", reason="over"))
    second.locator("#standing").get_by_text("kill switch is on").wait_for(state="detached")
    second.context.close()


def test_by_the_keyboard_alone(web: Web, place: Served, chromium: Browser) -> None:
    page = opened(chromium, place, web.api.secrets["admin"])
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.hasAttribute('data-row')")
    page.keyboard.press("g")
    page.keyboard.press("e")
    page.wait_for_url(f"{place.url}/evals")
    page.keyboard.press("?")
    page.get_by_label("Letters are shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("o")
    assert page.url == f"{place.url}/evals"
    page.close()


def test_stopping_everything_and_signing_out(web: Web, place: Served, chromium: Browser) -> None:
    page = opened(chromium, place, web.api.secrets["admin"])
    page.get_by_role("link", name="Kill switch: stop everything").click()
    page.get_by_label("Type stop").fill("stop")
    page.get_by_label("Why").fill("a test")
    page.get_by_role("button", name="Stop everything").click()
    page.locator("#toasts").get_by_text("The kill switch is on").wait_for()
    page.go_back()
    page.go_forward()
    page.get_by_label("Why").fill("over")
    page.get_by_role("button", name="Turn the kill switch off").click()
    page.locator("#toasts").get_by_text("The kill switch is off").wait_for()
    page.locator("#me summary").click()
    place.cookies.clear()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(f"{place.url}/sign-in")
    page.goto(place.url)
    assert "/sign-in" in page.url
    page.close()


def test_a_page_comes_back_when_the_console_does(web: Web, chromium: Browser) -> None:
    """Nothing is missed: what was written meanwhile is on the screen, without a click."""
    with suppress(asyncio.CancelledError), served(web.app) as place:
        page = opened(chromium, place, web.api.secrets["admin"])
        page.context.set_offline(True)
        place.do(web.app.store.switch.turn_on(by="bob", reason="away"))
        page.context.set_offline(False)
        page.locator("#standing").get_by_text("kill switch is on").wait_for(timeout=60_000)
        place.do(web.app.store.switch.turn_off(by="bob", reason="over"))
        page.close()


def test_as_it_is_typed(tmp_path: Path) -> None:
    """`operator web` in a process of its own: pages, the API, a stream, and an orderly end."""
    warm = Warm()
    try:
        desk = Desk(tmp_path, warm)
        everywhere = "0.0.0.0"  # noqa: S104 - what is refused
        assert desk.run("web", "--bind", everywhere).code == 2
        assert desk.run("web", "--bind", everywhere, "--insecure-public").code == 4
        with desk.served(verb="web") as server, httpx2.Client(base_url=server.url) as client:
            assert client.get("/v1/tickets", headers=server.headers).status_code == 200
            fields = {"token": server.secret}
            answer = client.post("/sign-in", data=fields, headers={"origin": server.url})
            assert (answer.status_code, answer.headers["location"]) == (303, "/")
            assert client.get("/").status_code == 200
            with client.stream("GET", "/stream?after=0", timeout=60) as stream:
                lines = stream.iter_lines()
                assert any(line.startswith("id: ") for line in lines)
                server.process.send_signal(signal.SIGINT)
                list(lines)
            assert server.process.wait(30) == 130
            said = server.errors.read_text()
            assert ("Traceback" in said, server.secret in said) == (False, False)
    finally:
        warm.close()
