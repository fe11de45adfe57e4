"""Who is let in: every route for every role, and nobody else; what is refused is recorded."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.token import Role
from operator_protocols.errors import AuthorityError, UsageError
from operator_sre.app import tokens
from operator_sre.app.persons import (
    NoMore,
    acting_as,
    acting_person,
    acting_refusals,
    acting_role,
    no_more_than_acting,
    signed_in,
)
from operator_sre.app.telemetry import METRICS_TYPE, Meter, Scraped
from operator_sre.app.tokens import DAYS, DAYS_MAX, PREFIX, Refusals
from operator_sre.faces.api.admission import OPEN_PATH, Counts
from operator_sre.faces.api.application import application
from operator_sre.faces.servers.admission import Rates, role_of
from operator_sre.gate.authority import LocalPermissions
from operator_sre.gate.authority import Role as Standing
from tests.contract.samples import approval
from tests.every import every, expect_each
from tests.faces.api.world import World, operations

STRANGERS = ("", "expired", "revoked", "unknown")


def _path(path: str) -> str:
    return re.sub(r"\{\w+\}", "nosuch", re.sub(r"\{(seq|number)\}", "1", path))


def test_every_route_lets_in_its_roles_and_nobody_else(world: World) -> None:
    world.secrets["unknown"] = PREFIX + "x" * 43
    found = operations(world.api)
    assert len(found) > 40
    cases = [
        (method, route.path, role, role_of(route))
        for method, route in found
        if route.path != OPEN_PATH
        for role in (*STRANGERS, *Role)
    ]
    head = world.app.store.entries.newest(limit=1)[0].seq

    def check(method: str, path: str, role: str, needed: Role) -> None:
        # What cannot be read changes nothing, and tells whether the door was open.
        options = {"content": b"{"} if method != "GET" else {}
        headers = {"content-type": "application/json"}
        answer = world.call(method, _path(path), role=role, headers=headers, **options)
        if role in STRANGERS:
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
        elif Role(role).may(needed):
            assert answer.status_code in ((200, 404, 422) if method == "GET" else (400,)), (
                answer.text
            )
        else:
            assert answer.status_code == 403
            assert needed.value in answer.json()["error"]["message"]

    expect_each(cases, check)
    kinds = {one.kind for one in world.app.store.entries.after(head, limit=10_000)}
    assert kinds <= {Kind.ACCESS_REFUSED}


def test_nothing_but_looking_is_for_viewers(world: World) -> None:
    """A route that changes something and lets viewers in would pass the test above."""
    asked = {"summarize-run", "explain-failure", "explain-denial", "run-timeline", "next-action"}
    for method, route in operations(world.api):
        if method != "GET" and route.path.rpartition("/")[2] not in asked:
            assert role_of(route) is not Role.VIEWER, route.path
    admins = {one.path for _, one in operations(world.api) if role_of(one) is Role.ADMIN}
    assert {"/v1/mode", "/v1/kill-switch/release", "/v1/methods/validate-project"} <= admins


def test_healthz_needs_no_token_and_tells_nothing(world: World) -> None:
    answer = world.call("GET", OPEN_PATH, role="")
    assert answer.json() == {"status": "ok", "schema_version": "1.0.0"}


def test_a_token_is_refused_from_the_moment_it_is_revoked(world: World) -> None:
    token = world.make("lost", Role.VIEWER)
    assert world.call("GET", "/v1/mode", role="lost").status_code == 200
    asyncio.run(tokens.revoke(world.app, token.id, reason="it was lost"))
    answer = world.call("GET", "/v1/mode", role="lost")
    assert answer.status_code == 401
    assert "revoked" in answer.json()["error"]["message"]
    assert [one.id for one in tokens.find(world.app, every=False)].count(token.id) == 0
    assert any(one.id == token.id for one in tokens.find(world.app))


def test_a_token_is_refused_from_the_moment_it_expires(world: World) -> None:
    world.make("short", Role.VIEWER, days=1)
    assert world.call("GET", "/v1/mode", role="short").status_code == 200
    world.clock.advance(86_400.0)
    answer = world.call("GET", "/v1/mode", role="short")
    assert (answer.status_code, "expired" in answer.text) == (401, True)


def test_of_a_secret_nothing_is_kept(world: World) -> None:
    token = world.make("kept", Role.ADMIN)
    secret = world.secrets["kept"]
    assert len(secret) - len(PREFIX) >= 43
    home = world.app.config.home
    stored = b"".join(one.read_bytes() for one in home.rglob("*") if one.is_file())
    assert secret.encode() not in stored
    assert secret.removeprefix(PREFIX).encode() not in stored
    assert tokens.check(world.app, secret) == token
    assert (token.expires_at - token.created_at).days == DAYS
    for wrong in (secret[:-1], secret + "x", secret.lower(), "", PREFIX, secret * 100):
        assert tokens.check(world.app, wrong) is None


def test_only_a_person_creates_or_revokes_tokens(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with acting_as("ada"):
        assert acting_person() == signed_in() == "ada"
        with pytest.raises(AuthorityError):
            asyncio.run(tokens.create(world.app, "mine", Role.ADMIN))
    assert acting_person() == acting_role() == ""
    monkeypatch.setenv(world.app.surroundings.mark, "a command of an agent")
    with pytest.raises(AuthorityError):
        asyncio.run(tokens.create(world.app, "mine", Role.VIEWER))
    with pytest.raises(AuthorityError):
        asyncio.run(tokens.revoke(world.app, world.known["admin"].id))
    assert not [one for one in tokens.find(world.app) if one.name == "mine"]


@every(
    ("name", "days"),
    [("", 1), ("a" * 65, 1), ("a\nb", 1), ("<b>", 1), ("ok", 0), ("ok", DAYS_MAX + 1)],
)
def test_a_token_has_a_plain_name_and_an_end(world: World, name: str, days: int) -> None:
    with pytest.raises(UsageError):
        asyncio.run(tokens.create(world.app, name, Role.VIEWER, days))


def test_whoever_acts_by_a_token_may_no_more_than_its_role(world: World) -> None:
    asked = approval("one", at=world.clock.now())
    ours = world.app.permissions
    assert no_more_than_acting(ours) is ours
    assert acting_refusals() is None
    counting = Refusals(world.app)
    with acting_as("ada", role="viewer", refusals=counting):
        assert acting_refusals() is counting
        assert "viewer" in world.app.permissions.may_approve("ada", asked)
        assert world.app.permissions.may_approve("bob", asked) == ""
        assert "not an admin" in world.app.permissions.may_administer("ada", "do it")
    # Whoever may not themselves may not by a token either, whatever its role.
    roles = LocalPermissions({"ada": Standing.VIEWER})
    assert "viewer" in NoMore(roles, "ada", "admin").may_approve("ada", asked)


def test_a_token_can_do_no_more_than_who_created_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from operator_sre.gate import LocalPermissions
    from operator_sre.gate.authority import Role as PersonRole

    for person, able in (
        (PersonRole.VIEWER, Role.VIEWER),
        (PersonRole.APPROVER, Role.APPROVER),
        (PersonRole.ADMIN, Role.ADMIN),
    ):
        held = LocalPermissions({signed_in(): person})
        monkeypatch.setattr(type(world.app), "permissions", held)
        assert tokens.role_in_force(world.app, world.known["admin"]) is able
        engaged = world.call("POST", "/v1/kill-switch/release", json={}, role="admin")
        assert (engaged.status_code == 200) is (able is Role.ADMIN)
        if able is not Role.ADMIN:
            with pytest.raises(AuthorityError):
                asyncio.run(tokens.create(world.app, "more", Role.ADMIN))


@every(
    "host",
    ["evil.example", "localhost.evil.example", "", "127.0.0.1.evil.example:80", "[::1", "a b"],
)
def test_a_page_that_was_led_here_by_a_name_of_its_own_is_told_nothing(
    world: World, host: str
) -> None:
    for path in (OPEN_PATH, "/v1/tickets"):
        assert world.call("GET", path, headers={"host": host}).status_code == 421


@every("host", ["localhost", "LOCALHOST:8440", "127.0.0.1:8440", "[::1]:8440", "10.0.0.7"])
def test_addresses_and_our_own_names_are_known(world: World, host: str) -> None:
    assert world.call("GET", OPEN_PATH, headers={"host": host}).status_code == 200


def test_a_secret_in_an_address_is_refused_even_when_it_is_good(world: World) -> None:
    secret = world.secrets["admin"]
    for query in (f"access_token={secret}", f"x={secret}", "TOKEN=a", "api_key="):
        answer = world.call("GET", f"/v1/tickets?{query}")
        assert answer.status_code == 400
        assert secret not in answer.text


def test_a_secret_that_is_pasted_as_an_id_is_not_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    secret = world.secrets["admin"]
    with caplog.at_level("INFO"):
        answer = world.call("GET", f"/v1/approvals/{secret}")
    assert answer.status_code == 400
    assert secret not in answer.text
    ours = [one.getMessage() for one in caplog.records if one.name == "operator_sre.api"]
    assert secret not in "".join(ours)
    assert "/v1/approvals/operator_..." in "".join(ours)


def test_no_token_takes_all_places_of_those_who_listen(world: World) -> None:
    feed, token = world.api.state.feed, world.known["viewer"]
    for _ in range(8):
        feed.begin(token)
    try:
        assert world.call("GET", "/v1/events", role="viewer").status_code == 429
        assert world.call("GET", "/v1/events", role="approver").status_code == 200
    finally:
        for _ in range(8):
            feed.end(token)
    assert (feed.counts.viewers, dict(feed.listening)) == (0, {})


def test_no_other_site_may_read_answers(world: World) -> None:
    answer = world.call("GET", "/v1/tickets", headers={"origin": "https://evil.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]
    preflight = world.call(
        "OPTIONS",
        "/v1/tickets",
        headers={"origin": "https://evil.example", "access-control-request-method": "GET"},
    )
    assert preflight.status_code == 405
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_whoever_asks_too_often_is_told_when_to_come_back(world: World) -> None:
    api, world.api = world.api, application(world.app, rate=2.0)
    try:
        codes = [world.call("GET", "/v1/mode").status_code for _ in range(6)]
        assert codes == [200] * 4 + [429] * 2
        answer = world.call("GET", "/v1/mode")
        assert answer.headers["retry-after"] == "1"
        assert world.call("GET", "/v1/mode", role="viewer").status_code == 200
        world.clock.advance(1.0)
        assert world.call("GET", "/v1/mode").status_code == 200
        strangers = [world.call("GET", "/v1/mode", role="").status_code for _ in range(30)]
        assert strangers == [401] * 20 + [429] * 10
        # Whoever has a token is not kept out by a stranger at the same address.
        assert world.call("GET", "/v1/mode", role="approver").status_code == 200
    finally:
        world.api = api


def test_refusals_do_not_flood_the_ledger(world: World) -> None:
    refusals = Refusals(world.app)

    async def knock() -> None:
        for number in range(500):
            await refusals.record_refusal(f"10.0.0.{number % 50}", "no token")

    before = len(world.told(Kind.ACCESS_REFUSED))
    asyncio.run(knock())
    assert len(world.told(Kind.ACCESS_REFUSED)) - before == 21
    asyncio.run(refusals.flush())
    told = world.told(Kind.ACCESS_REFUSED)[before:]
    assert sum(one.payload["count"] for one in told) == 500
    assert {one.payload["source"] for one in told} > {"others", "10.0.0.1"}
    world.clock.advance(61.0)
    asyncio.run(refusals.record_refusal("10.0.0.1", "no token"))
    assert len(world.told(Kind.ACCESS_REFUSED)) == before + len(told) + 1


def test_a_bucket_fills_steadily_and_is_forgotten_at_last() -> None:
    now = [0.0]
    rates = Rates(2.0, 3.0, lambda: now[0])
    assert [rates.wait_s("a") for _ in range(4)] == [0, 0, 0, 1]
    assert rates.wait_s("b") == 0
    now[0] = 0.5
    assert [rates.wait_s("a") for _ in range(2)] == [0, 1]


def test_a_listener_is_written_down(world: World) -> None:
    asyncio.run(tokens.record_listener(world.app, address="[::]:8440", tls=True, public=True))
    told = world.told(Kind.LISTENER_OPENED)[-1]
    assert told.payload == {"address": "[::]:8440", "tls": True, "public": True}
    assert told.actor.id == signed_in()


def test_figures_are_scraped_by_one_at_a_time(world: World) -> None:
    scraped = Scraped(Meter(world.app, lambda: ()))
    with ThreadPoolExecutor(4) as several:
        texts = list(several.map(lambda _: scraped.text(), range(8)))
    assert all(b"operator_build_info" in text for text in texts)
    assert "text/plain" in METRICS_TYPE
    assert world.call("GET", "/metrics").headers["content-type"] == METRICS_TYPE


def test_requests_are_counted_for_whoever_scrapes(world: World) -> None:
    counts = Counts()
    counts.take(200, 0.02)
    counts.take(404, 3.0)
    text = counts.lines()
    assert 'operator_api_requests_total{status="404"} 1' in text
    assert 'operator_api_request_seconds_bucket{le="0.025"} 1' in text
    assert 'operator_api_request_seconds_bucket{le="+Inf"} 2' in text
    assert "operator_api_requests_total" in world.call("GET", "/metrics").text
