"""The console in a real browser: for everybody, on a phone, in the dark, in two tabs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import httpx2
import pytest

from operator_protocols.domain.entry import Actor
from operator_protocols.domain.observation import Observation, Seen
from operator_protocols.domain.token import Audience, Role
from operator_sre.app import tokens
from operator_sre.faces.web.sessions import ASK_AGAIN_S
from tests.contract.samples import approval
from tests.e2e.warm import Warm
from tests.evals.samples import fill
from tests.faces.api.server import Desk
from tests.faces.web.browsing import Served, opened, served
from tests.faces.web.world import Web

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(600)]
AXE = Path(__file__).parent / "axe" / "axe.min.js"
PHONE = {"width": 375, "height": 800}
PAGES = (
    *("/", "/tickets", "/approvals", "/terminal", "/history", "/audit", "/policy", "/subjects"),
    *("/evals", "/settings", "/kill-switch", "/evals/campaign?name=reference", "/nothing"),
    *("/tickets/1", "/approvals/pending", "/audit/5", "/history/statistics", "/subjects/shop"),
    *("/tickets?state=any", "/approvals?every=true"),
)
# Who looks elsewhere, and a browser that writes down what it was to show.
MESSAGES = """
  window.told = [];
  window.Notification = class {
    static permission = "granted";
    static async requestPermission() { return "granted"; }
    constructor(title, more) { Object.assign(this, more, { title }); window.told.push(this); }
    close() {}
  };
  Object.defineProperty(document, "visibilityState", { get: () => "hidden" });
"""
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
    wanted = page.locator("section[aria-label='Pending approvals']")
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
    assert "kill switch is on" not in second.locator("#standing").inner_text()
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
    page.get_by_label("Use single-letter shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("o")
    assert page.url == f"{place.url}/evals"
    page.close()


def test_news_leave_the_focus_where_it_is(web: Web, place: Served, chromium: Browser) -> None:
    """Who has opened an answer presses Enter, whatever was written to the ledger meanwhile."""
    page = opened(chromium, place, web.api.secrets["admin"])
    _ask(web, place, "focus-1")
    row = page.locator("a[href='/approvals/focus-1']")
    row.focus()
    _ask(web, place, "focus-2")
    page.locator("a[href='/approvals/focus-2']").wait_for()
    assert row.evaluate("(one) => one === document.activeElement")
    page.goto(f"{place.url}/approvals/focus-1")
    page.locator("#content").focus()
    page.keyboard.press("a")
    page.locator("button:focus", has_text="Approve once").wait_for()
    page.evaluate("document.querySelector('#approval form').dataset.old = 'yes'")
    _ask(web, place, "focus-3")
    page.locator("#approval form[data-old]").wait_for(state="detached")
    page.locator("button:focus", has_text="Approve once").wait_for(timeout=5000)
    page.keyboard.press("Enter")
    page.locator("#toasts").get_by_text("is approved").wait_for()
    page.context.close()


def test_stopping_everything_and_signing_out(web: Web, place: Served, chromium: Browser) -> None:
    page = opened(chromium, place, web.api.secrets["admin"])
    page.get_by_role("link", name="Kill switch: stop everything").click()
    page.get_by_label("Type stop").fill("stop")
    page.get_by_label("Reason").fill("a test")
    page.get_by_role("button", name="Stop everything").click()
    page.locator("#toasts").get_by_text("The kill switch is on").wait_for()
    page.go_back()
    page.go_forward()
    page.get_by_label("Reason").fill("over")
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


def test_who_is_signed_out_is_told_and_loses_no_words(
    web: Web, place: Served, chromium: Browser
) -> None:
    """A page that lives on a session that is over would say for ever that it comes back."""
    token, secret = place.do(tokens.create(web.app, "leaver", Role.APPROVER, audience=Audience.WEB))
    reads = opened(chromium, place, secret, "/audit?q=ticket")
    types = reads.context.new_page()
    types.goto(f"{place.url}/tickets/1")
    types.get_by_label("Comment").fill("what I wanted to say")
    place.do(tokens.revoke(web.app, token.id))
    web.clock.advance(ASK_AGAIN_S + 1)
    reads.wait_for_url("**/sign-in?*", timeout=60_000)
    reads.get_by_text("Your session has ended").wait_for()
    assert "next=%2Faudit%3Fq%3Dticket" in reads.url
    again = types.get_by_role("alert").get_by_text("sign in again")
    again.wait_for(timeout=60_000)
    assert types.get_by_label("Comment").input_value() == "what I wanted to say"
    again.click()
    types.get_by_label("Token").fill(web.api.secrets["admin"])
    types.get_by_role("button", name="Sign in").click()
    types.wait_for_url(f"{place.url}/tickets/1")
    place.cookies.clear()
    types.context.close()


def test_on_a_phone_what_is_wanted_comes_first(web: Web, place: Served, chromium: Browser) -> None:
    page = opened(chromium, place, web.api.secrets["admin"], viewport=PHONE)
    _ask(web, place, "phone")
    wanted = page.locator("section[aria-label='Pending approvals']")
    wanted.locator(".wanted").first.wait_for()

    def top(name: str) -> float:
        box = page.locator(f"section[aria-label='{name}']").bounding_box()
        assert box is not None
        return box["y"]

    assert top("Pending approvals") < top("Health") < top("Agents")
    page.goto(f"{place.url}/terminal")
    assert top("Command") < top("Verdict") < top("Recent commands")
    page.goto(f"{place.url}/settings")
    here = page.locator(".places [aria-current]").bounding_box()
    assert here is not None
    assert 0 <= here["x"] < here["x"] + here["width"] <= PHONE["width"]
    page.goto(f"{place.url}/approvals/phone")
    three = page.locator(".answers summary")
    before = [three.nth(one).bounding_box() for one in range(3)]
    assert len({box["y"] for box in before if box is not None}) == 1, "one row of answers"
    three.first.click()
    assert three.first.bounding_box() == before[0], "the button stays below the finger"
    toasts = page.locator("#toasts")
    assert toasts.evaluate("(one) => getComputedStyle(one).pointerEvents") == "none"
    page.context.close()


def test_the_browser_says_what_is_wanted_and_is_quiet_when_told_so(
    web: Web, place: Served, chromium: Browser
) -> None:
    page = opened(chromium, place, web.api.secrets["admin"], "/settings")
    page.context.add_init_script(MESSAGES)
    page.reload()
    page.locator("#me summary").click()
    page.get_by_role("button", name="Notify me in this browser", exact=True).click()
    page.get_by_role("button", name="Stop notifying me in this browser").wait_for()
    waiting = page.locator("#standing a[href='/approvals']")

    def asked(name: str) -> list[list[str]]:
        before = waiting.get_attribute("data-pending")
        _ask(web, place, name)
        page.locator(f"#standing a[data-pending]:not([data-pending='{before}'])").wait_for()
        told: list[list[str]] = page.evaluate("window.told.map((one) => [one.title, one.body])")
        return told

    (first,) = asked("told")
    assert first[0] == "Approval required"
    assert page.title().startswith(f"({waiting.get_attribute('data-pending')}) ")
    page.evaluate("localStorage.setItem('quiet-from', '00:00')")
    page.evaluate("localStorage.setItem('quiet-until', '23:59')")
    assert len(asked("quiet")) == 1, "nobody is woken"
    page.evaluate("window.told[0].onclick()")
    page.wait_for_url(f"{place.url}/approvals/told")
    page.context.close()


def test_pictures_tell_the_time_of_whoever_looks(
    web: Web, place: Served, chromium: Browser
) -> None:
    for number in range(4):
        at = web.clock.now() - timedelta(minutes=9 - number)
        seen = Seen("node-1", {"lag": float(number % 3)})
        place.do(web.app.store.observations.add(Observation("shop", at, (seen,))))
    secret = web.api.secrets["admin"]
    page = opened(chromium, place, secret, "/subjects/shop", timezone_id="Asia/Kolkata")
    last = page.locator("[data-utc] text.tick.end").first
    last.wait_for()
    there = web.clock.now().astimezone(ZoneInfo("Asia/Kolkata"))
    here, _, told = (last.text_content() or "").replace("\u202f", " ").partition("M")
    assert f"{here}M" == f"{there:%-I:%M:00 %p}"
    assert told == f"{web.clock.now():%H:%M} UTC", "which is seen by pointing at it"
    page.context.close()


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
            words = ("tokens", "create", "ada", "--for", "web", "--json")
            fields = {"token": desk.run(*words).json["secret"]}
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
