"""Tickets and approvals in a real browser: alive, by keyboard, under load, and on a real rig."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.permit import ApprovalState, Binding, Permit
from operator_protocols.domain.ticket import Move, MoveKind
from operator_sre.gate import Gate, Policy
from operator_sre.processes.runner.records import output_folder
from tests.contract.samples import approval, violation
from tests.e2e.waiting import eventually
from tests.faces.web.browsing import Served, opened, served
from tests.faces.web.world import Web

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.timeout(900)]
LINES_PER_S, LOAD_S = 5000, 4
# Half of the answers take at most so many times as long as on a page where nothing happens.
SLOWER_TIMES_MAX = 15.0
PIECE_LINES = 250
# What a program could say to get out of its box.
ESCAPES = (
    b"\x1b]0;pwned\x07\x1b]2;pwned\x1b\\\x1b]52;c;cHduZWQ=\x07"
    b"\x1b]8;;http://127.0.0.1/pwned\x1b\\a link\x1b]8;;\x1b\\\r\n"
    b"\x1b[38;2;250;20;20;4mred\x1b[0m <img src=x onerror=document.title='pwned'>\n"
)
# How long the page takes to draw and to answer, as somebody who clicks would see it.
ANSWERS = """() => new Promise((done) => {
  const began = performance.now();
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
})"""
WITHIN_MS = 120_000


@pytest.fixture(scope="module")
def place(web: Web) -> Iterator[Served]:
    """The console of a home in which everything has happened."""
    with served(web.app) as place:
        yield place


def _ask(web: Web, place: Served, name: str, **changes: Any) -> None:
    action = replace(Action.shell("mkdir -p /srv/shop", target="node-1"), cwd="/srv")
    told = {"action": action, "binding": Binding(action.digest), **changes}
    wanted = replace(approval(name, at=web.clock.now(), within_s=3600), **told)
    place.do(web.app.store.approvals.request(wanted))


def _state(web: Web, name: str) -> str:
    found = web.app.store.approvals.get(name)
    return found.state.value if found else ""


def _page(web: Web, place: Served, chromium: Browser, path: str, who: str = "admin") -> Page:
    place.complaints.clear()
    page = opened(chromium, place, web.api.secrets[who], path)
    page.set_default_timeout(WITHIN_MS)
    page.evaluate("window.same = true")
    return page


def test_a_ticket_appears_and_its_story_goes_on_without_a_reload(
    web: Web, place: Served, chromium: Browser
) -> None:
    page = _page(web, place, chromium, "/tickets")
    opened_now = place.do(web.app.store.tickets.open([violation("node-new", detail="it is gone")]))
    page.get_by_text("node-new").first.wait_for()
    assert page.evaluate("window.same")
    page.get_by_role("link", name=str(opened_now.id), exact=True).first.click()
    page.get_by_role("heading", name=f"Ticket {opened_now.id}").wait_for()
    page.evaluate("window.same = true")
    ranked = [{"cause": "process_dead", "target": "node-new", "probability": 0.61}]
    thought = {"reasoning": "I ask.", "calls": [], "hypotheses": ranked}
    place.do(web.app.store.journal.append(Draft(Kind.REASONING, thought, ticket=opened_now.id)))
    page.locator("#evidence").get_by_text("61 %").first.wait_for()
    _ask(web, place, "inline", ticket=opened_now.id)
    page.get_by_role("heading", name="Approve this action?").wait_for()
    assert page.evaluate("window.same")
    page.locator("#comment").fill("I take a look. <b>")
    page.get_by_role("button", name="Comment", exact=True).click()
    page.locator("#timeline").get_by_text("I take a look. <b>").first.wait_for()
    page.locator("#comment").fill("not sent yet")
    page.locator("#content").focus()
    move = Move(MoveKind.CLOSE, Actor("bob", "user"), "a drill")
    place.do(web.app.store.ticket_moves.make(opened_now.id, move))
    page.locator("#moves", has_text="Reopen").wait_for()
    assert page.locator("#comment").input_value() == "not sent yet"
    assert place.complaints == []
    page.close()


def test_by_keyboard_an_answer_takes_two_keys_and_none_while_typing(
    web: Web, place: Served, chromium: Browser
) -> None:
    _ask(web, place, "by-keys")
    page = _page(web, place, chromium, "/approvals/by-keys")
    page.keyboard.press("r")
    page.get_by_label("Reason (sent to the agent)").wait_for()
    page.keyboard.type("a real r and l")
    assert page.get_by_label("Reason (sent to the agent)").input_value() == "a real r and l"
    # News of another request come in: what was typed stays.
    _ask(web, place, "another")
    page.locator("#standing").get_by_text("pending").wait_for()
    page.evaluate("document.querySelector('#approval').firstElementChild.dataset.old = 'yes'")
    page.locator("#content").focus()
    page.locator("#approval [data-old]").wait_for(state="detached")
    assert page.get_by_label("Reason (sent to the agent)").input_value() == "a real r and l"
    page.keyboard.press("Control+a")
    assert page.locator("details#yes-by-keys[open]").count() == 0
    page.locator("#content").focus()
    page.keyboard.press("a")
    page.locator("button:focus", has_text="Approve once").wait_for()
    page.keyboard.press("Enter")
    page.locator("#approval").get_by_text("Approved").first.wait_for()
    assert _state(web, "by-keys") == "approved"
    assert place.complaints == []
    page.close()


def test_who_comes_second_and_what_is_superseded_is_told_at_once(
    web: Web, place: Served, chromium: Browser
) -> None:
    _ask(web, place, "shared")
    _ask(web, place, "moved")
    first = _page(web, place, chromium, "/approvals/shared")
    second = _page(web, place, chromium, "/approvals/shared", "approver")
    stale = _page(web, place, chromium, "/approvals/shared", "approver")
    stale.route("**/parts/**", lambda route: route.abort())  # it hears of nothing
    first.locator("#approval summary", has_text="Reject").click()
    first.get_by_label("Reason (sent to the agent)").fill("not today")
    first.get_by_role("button", name="Reject", exact=True).click()
    second.locator("#approval").get_by_text("Rejected").first.wait_for()
    second.locator("#approval").get_by_text("not today").first.wait_for()
    assert second.evaluate("window.same")
    assert second.get_by_role("button", name="Approve once").count() == 0
    stale.locator("#approval summary", has_text="Approve").first.click()
    stale.get_by_role("button", name="Approve once").click()
    stale.get_by_text("is already rejected").first.wait_for()
    stale.get_by_text("answered at").first.wait_for()
    assert _state(web, "shared") == "rejected"
    second.goto(f"{place.url}/approvals/moved")
    second.evaluate("window.same = true")
    why = "the target has changed since the request"
    decide = web.app.store.approvals.decide
    place.do(decide("moved", ApprovalState.SUPERSEDED, by=Actor(), reason=why, version=1))
    second.locator("#approval").get_by_text("Superseded.").first.wait_for()
    assert second.evaluate("window.same")
    assert second.locator("#approval form").count() == 0
    for page in (first, second, stale):
        page.close()


def _running(web: Web, place: Served) -> tuple[Entry, Path]:
    """A command that runs, as far as anybody can see; returns it and where its output grows."""

    async def begin() -> tuple[Entry, Permit, int]:
        store = web.app.store
        number = (await store.tickets.open([violation("node-loud")])).id
        claimed = None
        while claimed is None or claimed.id != number:
            claimed = await store.leases.claim(
                "w", run=f"run-{number}", lease_s=600, attempts_max=9
            )
            assert claimed is not None
        gate = Gate(Policy, store.journal, store.approvals, web.clock, lambda: f"permit-{number}")
        permit = await gate.permit(gate.judge(Action.shell("uptime")), claimed)
        assert isinstance(permit, Permit)
        return await store.intents.begin(permit), permit, number

    intent, permit, number = place.do(begin())
    folder = output_folder(web.app.running.folder, permit.fingerprint)
    folder.mkdir(parents=True)
    (folder / "ticket").write_text(str(number))
    return intent, folder


def test_five_thousand_lines_a_second_keep_the_page_quick_and_stay_in_their_box(
    web: Web, place: Served, chromium: Browser
) -> None:
    intent, folder = _running(web, place)
    page = _page(web, place, chromium, f"/tickets/{(folder / 'ticket').read_text()}")
    page.locator("#screen .xterm").wait_for()
    pause, total = threading.Event(), LINES_PER_S * LOAD_S

    def speak() -> None:
        with (folder / "1").open("ab", buffering=0) as file:
            file.write(ESCAPES)
            for at in range(0, total, PIECE_LINES):
                lines = (f"line {at + one:07d} {'x' * 60}\n" for one in range(PIECE_LINES))
                file.write("".join(lines).encode())
                pause.wait(PIECE_LINES / LINES_PER_S)

    quiet = sorted(float(page.evaluate(ANSWERS)) for _ in range(20))
    speaker = threading.Thread(target=speak)
    speaker.start()
    took = []
    while speaker.is_alive():
        took.append(float(page.evaluate(ANSWERS)))
    speaker.join()
    place.do(web.app.store.intents.end(intent, Result(Outcome.RAN, 0)))
    page.locator("#screen-state", has_text="exit 0").wait_for()
    eventually(lambda: page.evaluate("window.operatorOutput().quiet()"), "all is on the screen")
    said = page.evaluate("window.operatorOutput().text()")
    took.sort()
    assert took[len(took) // 2] < SLOWER_TIMES_MAX * quiet[len(quiet) // 2], (quiet, took)
    assert said.endswith(f"line {total - 1:07d} {'x' * 60}")
    assert page.title().endswith("Operator")
    assert "pwned" not in page.title()
    assert page.locator("#screen a, #screen img").count() == 0
    assert place.complaints == []
    page.close()


def test_the_whole_story_on_a_real_rig(tmp_path: Path, chromium: Browser) -> None:
    from tests.e2e.home import Home
    from tests.e2e.warm import Warm

    warm = Warm()
    home = Home(tmp_path, warm)
    try:
        home.ask("lab", "up", "ratelimiter")
        home.up("approve")
        secret = home.ask("tokens", "create", "ada", "--for", "web", "--role", "approver")["secret"]
        console = home.start("web", "--port", "0", "--json")
        eventually(lambda: "listening" in console.said, "the console listens", within_s=120)
        told = next(line for line in console.said.splitlines() if '"listening"' in line)
        place = Served(json.loads(told)["listening"][0], None)  # type: ignore[arg-type]
        page = opened(chromium, place, secret, "/tickets")
        page.set_default_timeout(WITHIN_MS)
        page.get_by_text("No open tickets").first.wait_for()
        page.evaluate("window.same = true")
        victim = home.rig()["node-1"]
        os.kill(victim["pid"], signal.SIGKILL)
        row = page.locator("#rows").get_by_text("node-1").first
        row.wait_for()
        assert page.evaluate("window.same"), "it appeared by itself"
        page.locator("#rows [data-row]").first.click()
        page.get_by_role("heading", name="Approve this action?").wait_for()
        page.locator("#evidence").get_by_text("process_dead").first.wait_for()
        page.locator("#content").focus()
        page.keyboard.press("a")
        page.locator("button:focus", has_text="Approve once").wait_for()
        page.keyboard.press("Enter")
        page.locator("#diagnosis .badge.resolved").wait_for()
        page.locator("#evidence").get_by_text("Verified").first.wait_for()
        page.locator("#commands").get_by_text("restart_node").first.wait_for()
        page.reload()
        assert page.locator("#readings figure line.action").count() > 0
        assert page.locator("#readings figure line.proven").count() > 0
        with page.expect_download() as found:
            page.get_by_role("link", name="Markdown").click()
        report = Path(found.value.path()).read_text()
        assert "restart_node" in report
        assert "approved by" in report
        assert home.rig()["node-1"]["pid"] != victim["pid"]
        assert place.complaints == []
        page.close()
    finally:
        home.close()
        warm.close()
