"""The base of the console: the overview, the stream, shared renderings, assets, and words."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from operator_evals.viewer.application import download
from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.observation import Observation, Seen
from operator_protocols.errors import MissingExtraError, OperatorError, UsageError
from operator_sre.app.health import RecentEvent, live_tickets, recent_events, sparks_of
from operator_sre.app.listeners import Listener
from operator_sre.faces.cli.listeners import Serve, listens
from operator_sre.faces.web import assets, overview, renderer, restraints, stream
from operator_sre.faces.web.forms import Form
from operator_sre.faces.web.listener import serve
from operator_sre.faces.web.pictures import spark
from operator_sre.faces.web.renderer import guard, render, templates, when
from operator_sre.faces.web.responses import Renderings, standing_of
from operator_sre.faces.web.sessions import Sessions, Toast
from operator_sre.faces.web.stream import BEAT, TOPICS, Events, Say, note_of, topics_of
from tests.evals.samples import fill, trials
from tests.faces.web.browsing import opened, served
from tests.faces.web.world import ORIGIN, Web

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HOSTILE = '<script>alert(1)</script>\x1b[31m{{7*7}}\u202egnp.exe" onload="x'


def _look(web: Web, lags: list[float | None]) -> None:
    """What was seen of a node: a lag that moves, a counter that only grows, a word."""
    for number, lag in enumerate(lags):
        known = {"lag": lag, "reads": 10 * number, "role": "leader", "up": True}
        seen = Seen("node-1", known) if lag is not None else Seen("node-1", problem="refused")
        at = web.clock.now() + timedelta(seconds=number)
        asyncio.run(web.app.store.observations.add(Observation("shop", at, (seen,))))


def test_the_overview_shows_everything_at_a_glance(web: Web) -> None:
    _look(web, [1.0, 9.0, None, 4.0])
    assert [(one.reading, one.values) for one in sparks_of(web.app, "shop", looks=4)] == [
        ("lag", (1.0, 9.0, None, 4.0))
    ]
    overview.warm(web.app)
    page = web.person("viewer").get("/").text
    (first, *_) = live_tickets(web.app, limit=5)
    assert f'href="/tickets/{first.id}"' in page
    assert 'href="/subjects/shop"' in page
    assert 'href="/approvals/pending"' in page
    assert "no monitor is running" in page
    assert "approve</span>" in page
    assert recent_events(web.app, limit=3)[0].text in page
    assert "<polyline" in page
    for name in ("health", "tickets", "approvals", "agents", "changes"):
        part = web.person("viewer").part(f"/parts/overview/{name}").text
        assert part.strip() in page, name
    assert standing_of(web.app)["pending_count"] == 1


def test_a_problem_is_a_page_with_a_way_back(web: Web) -> None:
    person = web.person("viewer")
    for path, status in (("/nothing", 404), ("/evals/campaign?name=no", 400)):
        answer = person.get(path)
        assert (answer.status_code, 'href="/"' in answer.text) == (status, True), path
        assert "Traceback" not in answer.text
    assert person.part("/nothing").headers["hx-trigger"]
    page = f"{ORIGIN}/audit?q=a%22b"
    for told, back in (
        (page, "/audit?q=a%22b"),
        (page.replace("http:", "https:"), "/audit?q=a%22b"),
        ("http://evil.example/audit", ""),
        (f"{ORIGIN}.evil.example/", ""),
        (f"{ORIGIN}//evil.example", "/"),
        ("javascript://localhost/", ""),
    ):
        answer = person.post("/audit/verify", headers={"referer": told})
        assert (answer.status_code, "evil" in answer.text) == (403, False), told
        link = f'href="{back}">Back<'
        assert (link in answer.text) if back else (">Back<" not in answer.text), told
    assert web.stranger().get("/healthz").json()["status"] == "ok"
    assert web.stranger().get("/v1/tickets").status_code == 401


def test_every_place_is_there_and_every_link_of_the_overview_leads_somewhere(web: Web) -> None:
    person = web.person()
    routes = [str(getattr(one, "path", "")) for one in web.console.pages.routes]
    patterns = [re.compile(re.sub(r"{[^}]*}", "[^/]+", one) + "$") for one in routes]
    links = set(re.findall(r'href="(/[^"?#]*)', person.get("/").text))
    links -= {one for one in links if one.startswith(assets.ASSETS)}
    assert {place.path for place in renderer.PLACES} <= links
    lost = [one for one in sorted(links) if not any(it.match(one) for it in patterns)]
    assert lost == []
    keys = [place.key for place in renderer.PLACES]
    assert len(set(keys)) == len(keys)


def test_the_kill_switch_wants_a_word_and_a_reason(web: Web) -> None:
    person = web.person("approver")
    for fields in ({"word": "yes", "reason": "x"}, {"word": restraints.WORD, "reason": " "}):
        answer = person.send("/kill-switch", "/kill-switch/engage", **fields)
        assert (answer.status_code, web.app.store.switch.state().on) == (400, False)


def test_evals_are_pages_of_the_console(web: Web) -> None:
    person = web.person("viewer")
    assert "operator eval run" in person.get("/evals").text
    fill(web.app.config.home / "eval.db")
    assert 'href="/evals/campaign?name=reference"' in person.get("/evals").text
    first = next(trials())
    campaign = person.get("/evals/campaign", params={"name": "reference"})
    assert (campaign.status_code, "/evals/trial?" in campaign.text) == (200, True)
    assert ' style="' not in campaign.text
    asked = {"campaign": "reference", "key": first.key}
    assert person.get("/evals/trial", params=asked).status_code == 200
    kept = person.get("/evals/ledger", params=asked)
    assert (kept.content[:2], callable(download)) == (b"PK", True)


def test_many_viewers_cost_one_rendering() -> None:
    renderings, calls, go = Renderings(), list[int](), threading.Event()

    def slow() -> str:
        calls.append(1)
        assert go.wait(30)
        return "here"

    def broken() -> str:
        raise UsageError("no")

    async def ask() -> None:
        asking = [asyncio.ensure_future(renderings.get("a", 5, slow)) for _ in range(100)]
        await asyncio.sleep(0)
        go.set()
        texts = await asyncio.gather(*asking)
        assert (set(texts), len(calls)) == ({"here"}, 1)
        await renderings.get("a", 6, slow)
        await renderings.get("b", 6, slow)
        assert (len(calls), renderings.made) == (3, 3)
        for _ in range(2):
            with pytest.raises(UsageError):
                await renderings.get("c", 6, broken)
        assert await renderings.get("c", 6, slow) == "here"

    asyncio.run(ask())


def test_whoever_listens_misses_nothing_and_keeps_nobody_waiting(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "QUEUE_MAX", 2)
    known = Sessions(web.app, web.clock.monotonic)
    session, _ = known.begin(web.api.known["viewer"], "here")
    hub = stream.Hub(web.app, known)

    async def listen() -> None:
        await hub.look()
        begun = hub.head
        quick, slow = hub.join(session, None), hub.join(session, begun)
        assert quick is not None
        assert slow is not None
        heard = b""
        for _ in range(4):
            draft = Draft(Kind.REASONING, {"reasoning": "hm", "calls": []}, actor=Actor("ada"))
            await web.app.store.journal.append(draft)
            await hub.look()
            heard += quick.queue.get_nowait()
        assert [int(one) for one in re.findall(rb"id: (\d+)", heard)] == [
            *range(begun + 1, begun + 5)
        ]
        assert (slow.dropped, quick.dropped, len(hub)) == (True, False, 1)
        back = hub.join(session, begun + 1)
        assert back is not None
        assert re.findall(rb"id: (\d+)", back.queue.get_nowait()) == [
            str(begun + one).encode() for one in (2, 3, 4)
        ]
        # Who was away for longer than anybody remembers asks for everything anew.
        late = hub.join(session, 0)
        assert late is not None
        told = json.loads(late.queue.get_nowait().partition(b"data: ")[2])
        assert (told["kind"], told["topics"], told["seq"]) == ("anew", ["*"], hub.head)
        monkeypatch.setattr(stream, "VIEWERS_MAX", len(hub))
        assert hub.join(session, None) is None
        hub.leave(late)
        assert hub.join(session, None) is not None

    asyncio.run(listen())


class _Told(Events):
    """Says what it was given, then fails as it was told to."""

    def __init__(self, fails: Exception | None) -> None:
        super().__init__()
        self.fails, self.left = fails, 0

    async def tell(self, say: Say, gone: asyncio.Future[None]) -> None:
        await say(BEAT)
        if self.fails is not None:
            raise self.fails

    def leave(self) -> None:
        self.left += 1


@pytest.mark.parametrize("fails", [None, OperatorError("The store is away."), TimeoutError()])
def test_a_stream_cleans_up_however_it_ends(
    fails: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        await asyncio.Event().wait()

    told = _Told(fails)
    asyncio.run(told({"type": "http"}, receive, send))
    assert told.left == 1
    assert b"content-length" not in dict(sent[0]["headers"])
    assert sent[1] == {"type": "http.response.body", "body": BEAT, "more_body": True}
    assert (len(sent) == 3) is (fails is None), "what was cut off does not look whole"
    assert ("ended early" in caplog.text) is (fails is not None)


def test_a_name_that_no_browser_sends_is_no_name_of_ours() -> None:
    def load() -> Serve:
        return serve

    verb = listens(load, "Tell.", purpose="a test", at=8442)
    assert verb.__doc__ == "Tell."
    for wrong in ("http://ops", "ops:8443", "ops/", "*", "a b", "-ops", "x" * 300):
        with pytest.raises(UsageError, match=r"--host must be a host name, not "):
            verb(None, host=["fine.example.com.", wrong])


def _entry(kind: Kind, payload: dict[str, Any], ticket: int | None = None) -> Entry:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    return Entry(7, now, kind, payload, ticket, "r1" if ticket else "", Actor(), "", "")


def test_an_event_says_whom_it_concerns_and_not_what_it_holds() -> None:
    told = stream.event_of(_entry(Kind.TICKET_OPENED, {"summary": HOSTILE, "secret": "s3"}, 4))
    assert told.count(b"\n") == 3
    assert b"s3" not in told
    event = json.loads(told.partition(b"data: ")[2])
    assert {"tickets", "health", "ticket:4", "run:r1", "ledger"} <= set(event["topics"])
    assert event["note"]["place"] == "/tickets/4"
    assert "\x1b" not in event["note"]["text"]
    for kind in Kind:
        assert topics_of(_entry(kind, {}))[-1] == "ledger"
    assert note_of(_entry(Kind.OBSERVED, {})) == {}
    action = {"tool": "shell", "arguments": {"command": "reboot"}}
    asked = _entry(Kind.APPROVAL_REQUESTED, {"approval": {"id": "a/1", "action": action}}, 4)
    note = note_of(asked)["note"]
    assert (note["text"], note["place"]) == ("reboot", "/approvals/a%2F1")
    change = {"id": "conf_1", "rationale": f"{HOSTILE} may run"}
    note = note_of(_entry(Kind.CONFIRMATION_REQUESTED, {"confirmation": change}))["note"]
    assert (note["place"], "\x1b" in note["text"]) == ("/confirmations/conf_1", False)
    kinds = [kind.value for kind in Kind]
    assert all(any(it.startswith(starts) for it in kinds) for starts in TOPICS.values())


def test_words_of_others_stay_words(web: Web) -> None:
    change = RecentEvent(1, datetime(2026, 1, 2, tzinfo=UTC), HOSTILE, "bad", HOSTILE, 3)
    text = render("parts/overview_changes.html", {"changes": [change]})
    assert "<script>" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[31m{{7*7}}\\u202egnp.exe&#34;" in text
    assert "<script>" not in spark(HOSTILE, [1.0, None, 2.0])
    with pytest.raises(Exception, match="undefined"):
        render("parts/standing.html", {})
    assert templates().autoescape is True
    session, _ = Sessions(web.app, web.clock.monotonic).begin(web.api.known["viewer"], "here")
    assert guard("half \ud800 of a letter", session) == b"half \\ud800 of a letter"
    for number in range(9):
        session.say(str(number), bad=number == 8)
    assert (session.take_toasts()[-1], session.take_toasts()) == (Toast("8", bad=True), [])
    assert 'datetime="2026-01-02T00:00:00.000Z"' in when(change.at)


def test_a_sparkline_is_a_line_and_a_shade_where_nothing_was_seen() -> None:
    text = spark("lag", [1.0, 3.0, None, None, 2.0])
    assert (text.count("<polyline"), text.count('<rect class="unknown"')) == (2, 1)
    assert "lag: 2, between 1 and 3" in text
    assert "not observed" in spark("", [])


def test_a_form_is_asked_by_what_each_field_may_be() -> None:
    form = Form({"n": "12", "word": "a", "box": "on", "long": "x" * 5000})
    assert (form.number("n"), form.flag("box"), form.flag("no")) == (12, True, False)
    assert (form.choice("word", ["a", "b"]), form.choice("no", ["a"], default="a")) == ("a", "a")
    wrong: list[Callable[[], object]] = [
        lambda: form.number("word"),
        lambda: form.number("n", most=3),
        lambda: form.choice("word", ["b"]),
        lambda: form.text("long"),
        lambda: form.text("missing", needed=True),
    ]
    for ask in wrong:
        with pytest.raises(UsageError):
            ask()


def test_assets_are_kept_for_good_and_come_with_their_licences(web: Web) -> None:
    stranger = web.stranger()
    for name, one in assets.assets().items():
        assert one.url == assets.url_of(name)
    answer = stranger.get(assets.url_of("console.css"), headers={"accept-encoding": "gzip"})
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.content == assets.assets()["console.css"].body
    assert stranger.get(f"{assets.ASSETS}/0000/console.css").status_code == 404
    assert stranger.get(f"{assets.ASSETS}/0000/../../world.py").status_code in (303, 404)
    vendors = [one for one in (assets.FOLDER / "vendor").iterdir() if one.is_dir()]
    assert {one.name for one in vendors} == {"htmx", "xterm"}
    assert all((one / "LICENSE").read_text() for one in vendors)
    listed = (assets.FOLDER / "vendor" / "README.md").read_text()
    assert all(file.name in listed for one in vendors for file in one.glob("*.[jc]s*"))


def test_without_the_extra_a_sentence_says_what_to_install(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "operator_sre.faces.web.application", None)
    with pytest.raises(MissingExtraError, match="The web console needs the extra 'web'"):
        asyncio.run(serve(web.app, Listener("127.0.0.1", 0), ready=lambda _: None))


@pytest.mark.system(smoke=True)
def test_in_a_browser_a_page_lives_without_being_loaded_again(web: Web, chromium: Browser) -> None:
    with served(web.app) as place:
        page = opened(chromium, place, web.api.secrets["admin"])
        assert page.title() == "(1) Overview · Operator"
        assert page.locator("time[data-style=ago]").first.inner_text().endswith("ago")
        place.do(web.app.store.switch.turn_on(by="bob", reason=HOSTILE))
        page.get_by_text("kill switch is on").wait_for()
        page.get_by_text("bob turned on the kill switch").wait_for()
        assert page.evaluate("document.scripts.length") == 4
        place.do(web.app.store.switch.turn_off(by="bob", reason=""))
        page.get_by_text("kill switch is on").wait_for(state="detached")
        page.keyboard.press("?")
        assert page.get_by_role("dialog").is_visible()
        page.close()
        assert place.complaints == []
