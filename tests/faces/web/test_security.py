"""What stands between a stranger and a deed: each refusal is told, and written down."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.token import Role
from operator_sre.app import tokens
from operator_sre.faces.servers.admission import role_of
from operator_sre.faces.web import sessions
from operator_sre.faces.web.admission import CSP, cookie_name, path_within
from operator_sre.faces.web.application import application
from operator_sre.faces.web.forms import BODY_BYTES_MAX
from operator_sre.faces.web.sessions import ATTEMPTS_BURST
from tests.faces.web.world import ORIGIN, Person, Web, fields_of

ENGAGE = "/kill-switch/engage"
SERIOUS = {"word": "stop", "reason": "a test"}


def _refusals(web: Web) -> dict[str, int]:
    """How often each reason was written down so far, what is counted included."""
    asyncio.run(web.state.refusals.flush())
    found: dict[str, int] = {}
    for entry in web.api.told(Kind.ACCESS_REFUSED):
        for reason, count in entry.payload["reasons"].items():
            found[reason] = found.get(reason, 0) + count
    return found


def _is_on(web: Web) -> bool:
    return web.app.store.switch.state().on


def test_nobody_sees_anything_without_signing_in(web: Web) -> None:
    stranger = web.stranger()
    for route in web.console.pages.routes:
        path = re.sub(r"{[^}]*}", "1", getattr(route, "path", "/"))
        if path.startswith(("/assets/", "/sign-in")):
            continue
        method = "POST" if "POST" in getattr(route, "methods", ()) else "GET"
        answer = stranger.ask(method, path)
        assert (answer.status_code, "shop" in answer.text) in ((303, False), (401, False)), path
        if answer.status_code == 303:
            assert answer.headers["location"].startswith("/sign-in?next=")
    part = stranger.part("/parts/standing")
    assert (part.status_code, "location" in part.headers) == (401, False)


def test_the_cookie_is_kept_from_scripts_and_from_other_sites(web: Web) -> None:
    for tls in (False, True):
        person = Person(application(web.app, tls=tls))
        scheme = "https" if tls else "http"
        answer = person.post(
            "/sign-in",
            {"token": web.api.secrets["viewer"]},
            headers={"origin": f"{scheme}://localhost"},
        )
        told = answer.headers["set-cookie"]
        assert told.startswith(f"{cookie_name(tls=tls)}=")
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(told.split("; "))
        assert ("Secure" in told, "Domain" in told) == (tls, False)
        assert ("strict-transport-security" in answer.headers) is tls
    assert cookie_name(tls=True).startswith("__Host-")


def test_two_consoles_by_one_name_do_not_sign_each_other_out(web: Web) -> None:
    """A browser keeps ports not apart, and so it sends the cookies of both to either."""
    person = web.stranger()
    for port in (8442, 8443):
        there = {"host": f"localhost:{port}", "origin": f"{ORIGIN}:{port}"}
        person.post("/sign-in", {"token": web.api.secrets["viewer"]}, headers=there)
        assert cookie_name(f"localhost:{port}", tls=False) in person.cookies
    for port in (8442, 8443):
        assert person.get("/", headers={"host": f"localhost:{port}"}).status_code == 200
    assert person.get("/").status_code == 303
    assert cookie_name("[::1]:8442", tls=True) == "__Host-operator-8442"
    assert cookie_name("[::1]", tls=True) == cookie_name(tls=True)


def test_every_answer_says_what_a_browser_may_do_with_it(web: Web) -> None:
    answers = [
        web.person().get("/"),
        web.person().get("/nothing"),
        web.stranger().get("/sign-in"),
        web.person().part("/parts/standing"),
    ]
    for answer in answers:
        assert answer.headers["content-security-policy"] == CSP
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
    assert "unsafe" not in CSP
    assert "frame-ancestors 'none'" in CSP


def test_a_session_that_was_there_before_is_not_used_on(web: Web) -> None:
    planted = Person(web.console, {cookie_name(tls=False): "planted-by-somebody"})
    planted.post("/sign-in", {"token": web.api.secrets["viewer"]})
    assert planted.cookies[cookie_name(tls=False)] != "planted-by-somebody"
    before = dict(planted.cookies)
    planted.post("/sign-in", {"token": web.api.secrets["admin"]})
    assert planted.cookies != before
    assert Person(web.console, before).get("/").status_code == 303
    assert planted.get("/").status_code == 200


def test_signing_in_and_out_is_in_the_ledger_and_the_secret_is_nowhere(web: Web) -> None:
    person = web.sign_in("approver")
    entry = web.api.told(Kind.SIGNED_IN)[-1]
    token = web.api.known["approver"]
    assert (entry.payload["admission"], entry.actor.id) == (token.id, token.created_by)
    secret = web.api.secrets["approver"]
    assert all(secret not in str(one.payload) for one in web.api.told(Kind.SIGNED_IN))
    assert person.post("/sign-out", {}).headers["location"] == "/"
    assert person.get("/").status_code == 200
    answer = person.send("/", "/sign-out")
    assert answer.headers["location"] == "/sign-in"
    assert person.get("/").status_code == 303
    assert web.api.told(Kind.SIGNED_OUT)[-1].payload["admission"] == token.id
    for record, kind in (
        (tokens.record_sign_in, Kind.SIGNED_IN),
        (tokens.record_sign_out, Kind.SIGNED_OUT),
    ):
        asyncio.run(record(web.app, token, source="10.0.0.9"))
        told = web.api.told(kind)[-1].payload
        assert (told["source"], told["name"]) == ("10.0.0.9", "approver")


@pytest.mark.parametrize("name", ["expired", "revoked", "unknown"])
def test_a_token_that_does_not_count_lets_nobody_in(web: Web, name: str) -> None:
    secret = web.api.secrets.get(name, f"{tokens.PREFIX}{'x' * 43}")
    before = _refusals(web)
    answer = web.stranger().post("/sign-in", {"token": secret})
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)
    assert secret not in answer.text
    assert sum(_refusals(web).values()) == sum(before.values()) + 1


def test_whoever_tries_too_often_waits(web: Web) -> None:
    console = application(web.app)
    stranger = Person(console)
    answers = [
        stranger.post("/sign-in", {"token": "x"}).status_code
        for _ in range(int(ATTEMPTS_BURST) + 2)
    ]
    assert answers == [401] * int(ATTEMPTS_BURST) + [429] * 2
    right = stranger.post("/sign-in", {"token": web.api.secrets["admin"]})
    assert (right.status_code, "set-cookie" in right.headers) == (429, False)
    asyncio.run(console.pages.state.refusals.flush())
    assert "too many sign-ins" in _refusals(web)


def test_every_request_of_a_session_is_logged_with_its_token(
    web: Web, caplog: pytest.LogCaptureFixture
) -> None:
    person, token = Person(application(web.app, rate=1.0)), web.api.known["admin"]
    person.post("/sign-in", {"token": web.api.secrets["admin"]})
    with caplog.at_level("INFO"):
        codes = [person.get("/parts/standing").status_code for _ in range(3)]
    assert codes == [200, 200, 429]
    lines = [one.getMessage() for one in caplog.records if one.name == "operator_sre.web"]
    assert [f"by {token.id} ({token.created_by})" in line for line in lines] == [True] * 3


Breaking = Callable[[dict[str, str], Web], tuple[dict[str, str], dict[str, str]]]
_WRONG: dict[str, tuple[Breaking, str]] = {
    "no token of the session": (lambda f, _: ({**f, "csrf": ""}, {}), "csrf"),
    "the token of another session": (
        lambda f, web: ({**f, "csrf": web.sign_in("approver").guard()["csrf"]}, {}),
        "csrf",
    ),
    "no seal": (lambda f, _: ({**f, "seal": ""}, {}), "seal"),
    "the seal of another session": (
        lambda f, web: ({**f, "seal": web.sign_in("approver").guard()["seal"]}, {}),
        "seal",
    ),
    "another site": (lambda f, _: (f, {"origin": "http://evil.example"}), "cross-site"),
    "the same name at another port": (
        lambda f, _: (f, {"origin": "http://localhost:9"}),
        "cross-site",
    ),
    "nowhere": (lambda f, _: (f, {"origin": "null"}), "cross-site"),
    "a frame of another site": (
        lambda f, _: (f, {"origin": ORIGIN, "sec-fetch-site": "cross-site"}),
        "cross-site",
    ),
    "no word of where": (lambda f, _: (f, {"origin": ""}), "cross-site"),
}


@pytest.mark.parametrize("case", _WRONG)
def test_a_form_that_was_not_made_for_this_session_does_nothing(web: Web, case: str) -> None:
    breaking, reason = _WRONG[case]
    person = web.person("approver")
    good = fields_of(person.get("/kill-switch").text, ENGAGE)
    fields, headers = breaking(good, web)
    before = _refusals(web).get(reason, 0)
    answer = person.post(ENGAGE, {**fields, **SERIOUS}, headers=headers)
    assert (answer.status_code, _is_on(web)) == (403, False)
    assert _refusals(web)[reason] == before + 1


def test_a_form_is_taken_once(web: Web) -> None:
    person = web.sign_in("approver")
    fields = {**fields_of(person.get("/kill-switch").text, ENGAGE), **SERIOUS}
    assert person.post(ENGAGE, fields).status_code == 303
    assert _is_on(web)
    assert (
        web.person().send("/kill-switch", "/kill-switch/release", reason="over").status_code == 303
    )
    assert not _is_on(web)
    again = person.post(ENGAGE, fields)
    assert (again.status_code, _is_on(web)) == (403, False)
    assert "already sent" in again.text
    assert "replayed form" in _refusals(web)
    # Our script keeps its form on the screen, and is given a new seal with the answer.
    mine = person.guard()
    kept = person.post(
        "/kill-switch/release", {**mine, "reason": "x"}, headers={"hx-request": "true"}
    )
    assert (kept.status_code, "toast" in kept.headers["hx-trigger"]) == (403, True)
    assert kept.headers["x-seal"] not in ("", mine["seal"])


def test_no_role_does_more_than_it_may(web: Web) -> None:
    """Every deed of every page, by every role that is too small for it."""
    deeds = [one for one in web.console.pages.routes if isinstance(one, APIRoute)]
    tried = 0
    for route in deeds:
        needed = role_of(route)
        if "x-required-role" not in (route.openapi_extra or {}) or needed is Role.VIEWER:
            continue
        path = re.sub(r"{[^}]*}", "1", route.path)
        for role in Role:
            if role.may(needed):
                continue
            person = web.person(role.value)
            method = "POST" if "POST" in (route.methods or ()) else "GET"
            before = _refusals(web).get("role", 0)
            answer = (
                person.post(path, {**person.guard(), **SERIOUS})
                if method == "POST"
                else person.get(path)
            )
            assert (answer.status_code, needed.value in answer.text) == (403, True), path
            assert _refusals(web)["role"] == before + 1
            tried += 1
    assert tried >= 3
    assert not _is_on(web)


def test_a_page_that_was_led_here_by_another_name_is_told_nothing(web: Web) -> None:
    answer = web.person().get("/", headers={"host": "evil.example"})
    assert (answer.status_code, "shop" in answer.text) == (421, False)
    assert "host" in _refusals(web)
    assert web.stranger().get("/sign-in", headers={"host": "127.0.0.1:8442"}).status_code == 200


def test_a_secret_in_an_address_is_refused(web: Web) -> None:
    answer = web.stranger().get(f"/sign-in?token={web.api.secrets['admin']}")
    assert (answer.status_code, web.api.secrets["admin"] in answer.text) == (400, False)


@pytest.mark.parametrize(
    ("wanted", "place"),
    [
        ("/tickets/1?a=b", "/tickets/1?a=b"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\r\nset-cookie: b", "/"),
        ("", "/"),
    ],
)
def test_nobody_is_led_elsewhere_after_signing_in(web: Web, wanted: str, place: str) -> None:
    assert path_within(wanted) == place
    fields = {"token": web.api.secrets["viewer"], "next": wanted}
    assert web.stranger().post("/sign-in", fields).headers["location"] == place


def test_whoever_comes_by_a_link_of_others_is_known_at_the_second_look(web: Web) -> None:
    led = {"sec-fetch-site": "cross-site"}
    answer = web.stranger().get('/tickets/1?q="><b>', headers=led)
    assert answer.status_code == 200
    assert 'content="0;url=/tickets/1?q=%22%3E%3Cb%3E"' in answer.text
    assert web.stranger().get("/tickets/1").status_code == 303


def test_a_session_ends_when_nobody_uses_it_and_after_a_day_of_work(web: Web) -> None:
    person = web.sign_in("viewer")
    web.clock.advance(sessions.IDLE_S_MAX - 1)
    assert person.part("/parts/standing").status_code == 200  # nobody sits in front of that
    web.clock.advance(2)
    assert person.get("/").status_code == 303
    assert "session has ended" not in person.get("/sign-in").text
    assert "session has ended" in person.get("/sign-in?over=yes&next=/tickets").text
    person = web.sign_in("viewer")
    for _ in range(int(sessions.ABSOLUTE_S_MAX / sessions.IDLE_S_MAX)):
        assert person.get("/parts/standing").status_code == 200
        assert person.get("/kill-switch").status_code == 200
        web.clock.advance(sessions.IDLE_S_MAX - 1)
    web.clock.advance(60)
    assert person.get("/").status_code == 303


def test_a_revoked_token_ends_its_sessions(web: Web) -> None:
    token = web.api.make("leaver", Role.APPROVER)
    person = web.sign_in("leaver")
    assert person.get("/").status_code == 200
    hidden = person.guard()
    asyncio.run(tokens.revoke(web.app, token.id))
    answer = person.post(ENGAGE, {**hidden, **SERIOUS})
    assert (answer.status_code, _is_on(web)) == (403, False)
    web.clock.advance(sessions.ASK_AGAIN_S + 1)
    assert person.get("/").status_code == 303


def test_sessions_are_bounded(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "OF_TOKEN_MAX", 2)
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 3)
    known = sessions.Sessions(web.app, web.clock.monotonic)
    viewer, admin = web.api.known["viewer"], web.api.known["admin"]
    first, *rest = (known.begin(viewer, "here")[1] for _ in range(3))
    assert (known.of(first), len(known)) == (None, 2)
    assert all(known.of(one) for one in rest)
    for _ in range(2):
        known.begin(admin, "here")
    assert len(known) == 3
    monkeypatch.setattr(sessions, "DEEDS_MAX", 1)
    session, _ = known.begin(admin, "here")
    assert (session.use(session.seal()), session.use(session.seal())) == ("", "too many forms")
    assert known.lives(session)
    known.end(session)
    assert not known.lives(session)


def test_a_form_is_bounded(web: Web) -> None:
    person = web.person("approver")
    large = person.post(ENGAGE, {**person.guard(), "reason": "x" * BODY_BYTES_MAX})
    assert (large.status_code, "larger than" in large.text) == (400, True)
    many = person.post(ENGAGE, {f"f{one}": "" for one in range(300)})
    assert many.status_code == 400
    other = person.ask("POST", ENGAGE, content=b"{}", headers={"content-type": "text/plain"})
    assert (other.status_code, _is_on(web)) == (400, False)


def test_no_template_holds_a_script_a_style_or_a_handler() -> None:
    """The policy would stop them; a page that needs them would be broken."""
    folder = Path(sessions.__file__).parent / "templates"
    bad = re.compile(
        r"<style|<script(?! src=)|\son\w+=|\sstyle=|javascript:|\|\s*safe", re.IGNORECASE
    )
    found: dict[str, Any] = {
        file.name: hit.group()
        for file in folder.rglob("*.html")
        if (hit := bad.search(file.read_text("utf-8")))
    }
    assert found == {}
    assert list(folder.rglob("*.html"))
