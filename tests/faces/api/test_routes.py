"""What routes do: the same as the terminal, in the name of whoever created the token."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from contextlib import closing

import pytest

from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.ticket import MoveKind, TicketState
from operator_protocols.domain.token import Reply
from operator_protocols.domain.verdict import Mode, Risk
from operator_protocols.domain.workflow import Origin
from operator_protocols.errors import AuthorityError
from operator_sre.app.audit import EntryPages, page_of_run, page_of_runs, show_record
from operator_sre.app.confirmations import approve, find, left_of, request
from operator_sre.app.persons import signed_in
from operator_sre.app.store import ON_DISK, plan_purge, purge_asked, tidy_store
from operator_sre.app.tickets import end_of_ticket
from operator_sre.contract.messages import SCHEMA_VERSION
from operator_sre.faces.api.operations import LIMIT_MAX, cursor_at, place_of
from operator_sre.faces.api.response import ErrorDocument, Problem, encode_json
from operator_sre.faces.api.schema import METHODS
from tests.every import every
from tests.faces.api.world import World

KEY = "Idempotency-Key"


def _etag(world: World, name: str) -> dict[str, str]:
    return {"if-match": world.call("GET", f"/v1/approvals/{name}", role="viewer").headers["etag"]}


def test_tickets_are_filtered_and_shown_with_their_story(world: World) -> None:
    every_one = world.call("GET", "/v1/tickets").json()["tickets"]
    some = world.call("GET", "/v1/tickets?state=resolved&state=escalated").json()["tickets"]
    assert {one["state"] for one in some} == {"resolved", "escalated"}
    assert len(some) < len(every_one)
    shown = world.call("GET", "/v1/tickets/1").json()
    assert shown["ticket"]["id"] == 1
    assert shown["entries"][0]["kind"] == "ticket_opened"
    newest = end_of_ticket(world.app, 1, limit=2).entries
    assert [one.seq for one in newest] == [one["seq"] for one in shown["entries"][-2:]]
    assert world.call("GET", "/v1/tickets?stat=open").status_code == 422
    assert world.call("GET", "/v1/tickets?state=nosuch").status_code == 422


def test_a_ticket_is_moved_in_the_name_of_the_person(world: World) -> None:
    number = max(one.id for one in world.app.store.tickets.find())
    asked = {"move": "comment", "reason": "I look at it"}
    done = world.call("POST", f"/v1/tickets/{number}/moves", json=asked, role="approver")
    assert done.status_code == 200, done.text
    told = world.told(Kind.TICKET_COMMENTED)[-1]
    assert (told.ticket, told.actor.id, told.actor.type) == (number, signed_in(), "user")
    closed = world.call(
        "POST", f"/v1/tickets/{number}/moves", json={"move": MoveKind.CLOSE, "reason": "over"}
    )
    assert closed.json()["ticket"]["state"] == TicketState.CLOSED
    assert world.call("POST", "/v1/tickets/999/moves", json=asked).status_code == 404
    resolved = world.call("POST", f"/v1/tickets/{number}/resolve", json={})
    assert resolved.status_code == 409


def test_an_approval_is_answered_by_who_has_seen_it(world: World) -> None:
    world.ask_approval("yes-1")
    path = "/v1/approvals/yes-1/approve"
    assert world.call("POST", path, json={}).status_code == 428
    assert world.call("POST", path, json={}, headers={"if-match": "*"}).status_code == 428
    assert world.call("POST", path, json={}, headers={"if-match": '"old"'}).status_code == 412
    seen = _etag(world, "yes-1")
    done = world.call("POST", path, json={"reason": "fine"}, headers=seen, role="approver")
    assert done.status_code == 200, done.text
    known = world.app.store.approvals.get("yes-1")
    assert known is not None
    assert (known.state, known.decided_by) == (ApprovalState.APPROVED, signed_in())
    assert done.headers["etag"] == _etag(world, "yes-1")["if-match"] != seen["if-match"]
    assert world.call("POST", path, json={}, headers=seen).status_code == 412
    now = _etag(world, "yes-1")
    assert world.call("POST", path, json={}, headers=now).status_code == 409


@every("deed", ["approve", "reject"])
def test_a_token_answers_no_more_than_its_role_may(world: World, deed: str) -> None:
    world.ask_approval(f"critical-{deed}", risk=Risk.CRITICAL)
    path, seen = f"/v1/approvals/critical-{deed}/{deed}", _etag(world, f"critical-{deed}")
    refused = world.call("POST", path, json={}, headers=seen, role="approver")
    assert refused.status_code == 403
    assert "up to high risk" in refused.json()["error"]["message"]
    known = world.app.store.approvals.get(f"critical-{deed}")
    assert known is not None
    assert known.state is ApprovalState.PENDING
    assert world.call("POST", path, json={}, headers=seen).status_code == 200


def test_no_token_of_an_approver_both_asks_and_answers(world: World) -> None:
    world.ask_approval("own", requester=Actor(signed_in(), "user"))
    seen = _etag(world, "own")
    refused = world.call(
        "POST", "/v1/approvals/own/approve", json={}, headers=seen, role="approver"
    )
    assert refused.status_code == 403
    path = "/v1/approvals/own/reject"
    assert world.call("POST", path, json={}, headers=seen, role="approver").status_code == 200

    policy = world.app.config.policy_files[0]
    for text, only_admin in (("allow host * (high)", True), ("allow host x.example.org", False)):
        asked = {"request": text, "schema_version": SCHEMA_VERSION}
        told = world.call("POST", "/v1/methods/recommend-patch", json=asked, role="approver")
        assert told.status_code == 200, told.text
        (one,) = find(world.app, pending_only=True)[-1:]
        place = f"/v1/confirmations/{one.id}"
        yes = {"digest": one.digest}
        own = world.call("POST", f"{place}/approve", json=yes, role="approver")
        assert own.status_code == 403
        assert not policy.exists()
        by_another = Actor("bob", "user")
        if only_admin:
            with pytest.raises(AuthorityError, match="not an admin"):
                asyncio.run(approve(world.app, one.id, by_another, role="approver"))
        assert world.call("POST", f"{place}/decline", json={}).status_code == 200


def test_answers_to_nothing_do_not_flood_the_ledger(world: World) -> None:
    asyncio.run(world.api.state.refusals.flush())
    before = len(world.told(Kind.ACCESS_REFUSED))
    for number in range(30):
        path = f"/v1/confirmations/conf_{number}/approve"
        answer = world.call("POST", path, json={"digest": "x"}, role="approver")
        assert answer.status_code == 404
    told = world.told(Kind.ACCESS_REFUSED)[before:]
    assert [one.payload["confirmation"] for one in told] == ["conf_0"]
    assert told[0].actor == Actor(signed_in(), "user")
    asyncio.run(world.api.state.refusals.flush())
    counted = world.told(Kind.ACCESS_REFUSED)[before:]
    assert sum(one.payload["count"] for one in counted) == 30
    assert counted[-1].payload["reasons"] == {"approve a confirmation": 29}


def test_what_is_nested_without_end_is_no_request(world: World) -> None:
    headers = {KEY: "deep", "content-type": "application/json"}
    for _ in range(2):
        deep = world.call(
            "POST", "/v1/methods/next-action", content=b'{"a":' + b"[" * 200_000, headers=headers
        )
        assert deep.status_code == 400


def test_a_no_is_told_with_its_reason(world: World) -> None:
    world.ask_approval("no-1")
    seen = _etag(world, "no-1")
    done = world.call("POST", "/v1/approvals/no-1/reject", json={"reason": "not now"}, headers=seen)
    assert done.json()["approval"]["state"] == "rejected"
    assert world.told(Kind.APPROVAL_DECIDED)[-1].payload["reason"] == "not now"


def test_what_has_a_key_is_done_once_and_answered_the_same(world: World) -> None:
    number = min(one.id for one in world.app.store.tickets.find())
    path, asked = f"/v1/tickets/{number}/moves", {"move": "comment", "reason": "once"}
    before = len(world.told(Kind.TICKET_COMMENTED))
    first = world.call("POST", path, json=asked, headers={KEY: "k-1"})
    again = world.call("POST", path, json=asked, headers={KEY: "k-1"})
    assert (first.status_code, first.content) == (again.status_code, again.content)
    assert again.headers["idempotent-replay"] == "true"
    assert len(world.told(Kind.TICKET_COMMENTED)) == before + 1
    other = world.call("POST", path, json={**asked, "reason": "twice"}, headers={KEY: "k-1"})
    assert other.status_code == 409
    # The same key of somebody else, or for something else, is another key.
    stranger = world.call(
        "POST", path, json={**asked, "reason": "me too"}, headers={KEY: "k-1"}, role="approver"
    )
    assert stranger.status_code == 200
    assert len(world.told(Kind.TICKET_COMMENTED)) == before + 2
    wrong = {"move": "comment"}
    refused = [world.call("POST", path, json=wrong, headers={KEY: "k-2"}) for _ in range(2)]
    assert [one.status_code for one in refused] == [400, 400]
    assert refused[0].content == refused[1].content
    for none in ("", "a b", " "):
        empty = world.call("POST", path, json=asked, headers={KEY: none})
        assert (empty.status_code, "1 to 200" in empty.text) == (400, True)
    long = world.call("POST", path, json=asked, headers={KEY: "k" * 201})
    assert long.status_code == 400


def test_what_was_broken_off_is_not_done_again(world: World) -> None:
    """A crash between doing and answering leaves a key of which nobody knows what became."""
    path, body = "/v1/tickets/1/moves", b'{"move":"comment","reason":"x"}'
    token = world.known["admin"]
    asking = hashlib.sha256(f"POST\n{path}\ncrash".encode()).hexdigest()
    name = f"{token.id}/{asking}"
    reply = Reply(name, hashlib.sha256(b"\n" + body).hexdigest(), world.clock.now())
    asyncio.run(world.app.store.replies.begin(reply, keep_s=60))
    headers = {KEY: "crash", "content-type": "application/json"}
    answer = world.call("POST", path, content=body, headers=headers)
    assert answer.status_code == 409
    assert "Check the current state" in answer.json()["error"]["message"]


@every("path", ["/v1/audit", "/v1/audit?order=oldest", "/v1/tickets", "/v1/audit/search?q=node"])
def test_pages_together_are_the_whole(world: World, path: str) -> None:
    with_limit = f"{path}{'&' if '?' in path else '?'}limit="
    (name,) = world.call("GET", f"{with_limit}1").json().keys() & {"entries", "tickets"}
    whole = world.call("GET", f"{with_limit}{LIMIT_MAX}").json()
    assert not whole["next_cursor"]
    assert len(whole[name]) > 2
    found, cursor = [], ""
    while True:
        page = world.call("GET", f"{with_limit}2&cursor={cursor}").json()
        found += page[name]
        assert len(page[name]) <= 2
        cursor = page["next_cursor"]
        if not cursor:
            break
    assert found == whole[name]


def test_a_cursor_belongs_to_its_question(world: World) -> None:
    page = world.call("GET", "/v1/audit?limit=1").json()
    other = world.call("GET", f"/v1/audit?limit=1&run=run-b&cursor={page['next_cursor']}")
    assert other.status_code == 400
    assert place_of(cursor_at(7, "a"), "a") == "7"
    for wrong in ("x", "eyJ9", "%00", "Ä", "e30", "=" * 10):
        assert world.call("GET", "/v1/audit", params={"cursor": wrong}).status_code == 400
    for limit in (0, -1, LIMIT_MAX + 1, "x"):
        assert world.call("GET", f"/v1/audit?limit={limit}").status_code == 422


def test_a_purge_says_what_is_left_on_the_disk(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("operator_sre.store.sqlite.BUSY_S", 0.2)
    plan = plan_purge(world.app.config, world.clock.now().isoformat())
    assert plan.entries > 0
    one = asyncio.run(request(world.app, purge_asked(plan)))
    path, yes = f"/v1/confirmations/{one.id}", {"digest": one.digest}
    assert left_of(world.app, one) == ""
    with closing(sqlite3.connect(world.app.config.home / "operator.db")) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM entries").fetchone()
        done = world.call("POST", f"{path}/approve", json=yes)
        assert done.status_code == 200, done.text
        assert (done.json()["confirmation"]["applied"], done.json()["left"]) == (True, ON_DISK)
    shown = world.call("GET", path).json()
    assert shown["left"] == ""
    assert tidy_store(world.app.config)


def test_an_answer_that_is_told_again_is_the_same_in_all_that_counts(world: World) -> None:
    world.ask_approval("again-1")
    seen = _etag(world, "again-1")
    mode = {"mode": "execute", "subjects": ["shop"], "reason": "told twice"}
    stale = {"if-match": '"old"'}
    for number, (path, asked, headers, status, kept) in enumerate(
        [
            ("/v1/approvals/again-1/approve", {}, stale, 412, ()),
            ("/v1/approvals/again-1/approve", {"reason": "fine"}, seen, 200, ("etag",)),
            ("/v1/mode", mode, {}, 202, ("location",)),
            ("/v1/actions", {"command": "uptime", "reasoning": "x"}, {}, 202, ()),
        ]
    ):
        keyed = {**headers, KEY: f"same-{number}"}
        first, again = (world.call("POST", path, json=asked, headers=keyed) for _ in range(2))
        assert (first.status_code, again.status_code) == (status, status), first.text
        assert first.content == again.content
        told = [name for name in ("etag", "location", "retry-after") if name in first.headers]
        assert told == list(kept)
        for name in (*told, "content-type"):
            assert first.headers[name] == again.headers[name], name
        replays = (first.headers.get("idempotent-replay"), again.headers["idempotent-replay"])
        assert replays == (None, "true")


def test_requests_are_read_a_page_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        world.ask_approval(f"page-{number}")
        mode = {"mode": "execute", "subjects": ["shop"], "reason": f"page {number}"}
        assert world.call("POST", "/v1/mode", json=mode).status_code in (200, 202)

    def whole(*given: object, **more: object) -> None:
        raise AssertionError("nobody reads the whole list")

    for noun in ("approvals", "confirmations"):
        monkeypatch.setattr(type(getattr(world.app.store, noun)), "find", whole)
        for every_one in ("false", "true"):
            path = f"/v1/{noun}?every={every_one}"
            complete = world.call("GET", f"{path}&limit=500").json()[noun]
            found, cursor = [], ""
            while True:
                part = world.call("GET", f"{path}&limit=2&cursor={cursor}").json()
                assert len(part[noun]) <= 2
                found += part[noun]
                cursor = part.get("next_cursor", "")
                if not cursor:
                    break
            assert found == complete
            assert len({one["id"] for one in found}) == len(found) >= 2
        gone = cursor_at("nosuch", noun, False)
        assert world.call("GET", f"/v1/{noun}?cursor={gone}").status_code == 400


def test_runs_and_their_transcripts(world: World) -> None:
    (run,) = world.call("GET", "/v1/runs").json()["runs"]
    assert world.call("GET", f"/v1/runs/{run['id']}").json()["run"] == run
    whole = world.call("GET", f"/v1/runs/{run['id']}/transcript?limit=500").json()["entries"]
    part = world.call("GET", f"/v1/runs/{run['id']}/transcript?limit=1").json()
    rest = world.call(
        "GET", f"/v1/runs/{run['id']}/transcript?limit=500&cursor={part['next_cursor']}"
    ).json()
    assert part["entries"] + rest["entries"] == whole
    assert any(one["lines"] for one in whole)
    assert world.call("GET", "/v1/runs/nosuch").status_code == 404
    assert world.call("GET", "/v1/runs/nosuch/transcript").status_code == 404


def test_pages_of_the_ledger_go_both_ways(world: World) -> None:
    pages = EntryPages(world.app)
    head = pages.older(0, limit=1)[0].seq
    assert [one.seq for one in pages.older(5, limit=2)] == [4, 3]
    assert [one.seq for one in pages.older(2, limit=9)] == [1]
    assert [one.seq for one in pages.newer(head - 2, limit=9)] == [head - 1, head]
    story = EntryPages(world.app, run="run-b")
    every_one = story.newer(0, limit=99)
    assert list(story.older(every_one[-1].seq, limit=99)) == list(reversed(every_one[:-1]))
    assert page_of_run(world.app, "run-b", after=0, limit=99) == every_one
    assert page_of_runs(world.app, limit=9, before="run-b") == []
    assert show_record(world.app, "run-b").id == "run-b"


def test_the_mode_is_set_when_it_is_meant(world: World) -> None:
    asked = {"mode": "observe", "subjects": ["shop"], "reason": "a quiet day"}
    assert world.call("POST", "/v1/mode", json=asked).json()["modes"][0]["mode"] == Mode.OBSERVE
    unmeant = world.call("POST", "/v1/mode", json={"mode": "execute", "subjects": ["shop"]})
    assert unmeant.status_code == 202
    assert world.call("GET", "/v1/mode").json()["modes"][0]["mode"] == Mode.OBSERVE
    asked_of = unmeant.json()["confirmation"]
    place = unmeant.headers["location"]
    assert world.call("GET", place, role="viewer").json()["confirmation"] == asked_of
    pending = world.call("GET", "/v1/confirmations", role="viewer").json()["confirmations"]
    assert asked_of in pending
    # An approver's token is not enough for what only an admin may say yes to.
    yes = {"digest": asked_of["digest"], "reason": "meant"}
    assert world.call("POST", f"{place}/approve", json=yes, role="approver").status_code == 403
    assert world.call("POST", f"{place}/approve", json=yes).status_code == 403
    done = world.call("POST", f"{place}/approve", json=yes, role="bob")
    assert done.status_code == 200, done.text
    assert world.call("GET", "/v1/mode").json()["modes"][0]["mode"] == Mode.EXECUTE
    again = world.call("POST", "/v1/mode", json={"mode": "execute", "subjects": ["shop"]})
    third = world.call("POST", "/v1/mode", json={"mode": "execute", "subjects": ["shop"]})
    other = {"digest": "sha256:other"}
    unseen = world.call("POST", f"{third.headers['location']}/approve", json=other, role="bob")
    assert unseen.status_code in (403, 409)
    no = world.call("POST", f"{again.headers['location']}/decline", json={"reason": "no"})
    assert no.json()["confirmation"]["state"] == "declined"
    assert world.call("POST", "/v1/mode", json={**asked, "subjects": ["no"]}).status_code == 404


def test_the_kill_switch_stops_and_lets_go(world: World) -> None:
    engaged = world.call("POST", "/v1/kill-switch/engage", json={"reason": "fire"}, role="approver")
    assert engaged.json()["stopped"]["switch"]["on"] is True
    assert world.call("GET", "/v1/kill-switch").json()["switch"]["by"] == signed_in()
    asked = world.call("POST", "/v1/kill-switch/release", json={})
    assert asked.status_code == 202
    assert world.call("GET", "/v1/kill-switch").json()["switch"]["on"] is True
    yes = {"digest": asked.json()["confirmation"]["digest"]}
    done = world.call("POST", f"{asked.headers['location']}/approve", json=yes, role="bob")
    assert done.status_code == 200, done.text
    assert world.call("GET", "/v1/kill-switch").json()["switch"]["on"] is False
    # Nobody needs to be asked for what is so already.
    assert world.call("POST", "/v1/kill-switch/release", json={}).status_code == 200


def test_an_action_is_asked_for_and_not_done_by_asking(world: World) -> None:
    asked = {"command": "uptime", "reasoning": "to know"}
    made = world.call("POST", "/v1/actions", json=asked, role="approver", headers={KEY: "a-1"})
    assert made.status_code == 202, made.text
    action = made.json()["action"]
    record = world.app.store.workflows.get(action["action"])
    assert record is not None
    assert (record.origin, record.requester.id) == (Origin.HUB, signed_in())
    shown = world.call("GET", f"/v1/actions/{action['action']}")
    assert shown.json()["action"]["state"] == "pending"
    assert not world.told(Kind.TOOL_CALL)[1:]


def test_health_subjects_history_and_whether_the_chain_holds(world: World) -> None:
    assert world.call("GET", "/v1/health").json()["health"]["health"] == "broken"
    assert world.call("GET", "/v1/subjects").json()["subjects"][0]["name"] == "shop"
    assert world.call("GET", "/v1/subjects/shop/health").json()["subject"]["subject"] == "shop"
    assert world.call("GET", "/v1/subjects/nosuch/health").status_code == 404
    commands = world.call("GET", "/v1/history").json()["commands"]
    assert [one["command"] for one in commands] == ["uptime"]
    seq = commands[0]["seq"]
    assert world.call("GET", f"/v1/history/{seq}").json()["command"]["command"] == "uptime"
    assert world.call("GET", "/v1/history/search?q=uptime").json()["commands"] == commands
    assert world.call("GET", "/v1/history/stats").json()["statistics"]["attempts"] == 1
    assert world.call("GET", f"/v1/audit/{seq}").json()["entry"]["seq"] == seq
    assert world.call("GET", "/v1/audit/999999").status_code == 404
    assert world.call("GET", "/v1/audit/verify").json()["intact"] is True


def test_methods_answer_as_the_contract_says(world: World) -> None:
    assert len(METHODS) == 7
    told = {"schema_version": "1.0.0", "run_id": "run-b"}
    summary = world.call("POST", "/v1/methods/summarize-run", json=told, role="viewer")
    assert summary.status_code == 200, summary.text
    assert summary.json()["run_id"] == "run-b"
    assert "exit_code" not in summary.json()
    timeline = world.call("POST", "/v1/methods/run-timeline", json=told, role="viewer").json()
    assert timeline["events"]
    missing = world.call("POST", "/v1/methods/summarize-run", json={**told, "run_id": "nosuch"})
    assert missing.status_code == 404


def test_errors_have_one_shape(world: World) -> None:
    for answer in (
        world.call("GET", "/v1/tickets/999"),
        world.call("GET", "/v1/nosuch"),
        world.call("PUT", "/v1/tickets"),
        world.call("GET", "/v1/tickets?limit=0"),
        world.call("POST", "/v1/mode", content=b"{"),
    ):
        document = answer.json()
        assert set(document) == {"error", "schema_version"}
        assert set(document["error"]) == {"category", "message", "next_action"}
    problem = Problem.__annotations__
    assert set(problem) == {"category", "message", "next_action"}
    assert json.loads(encode_json({"half": "\ud800"})) == {"half": "\ud800"}
    assert "error" in ErrorDocument.__annotations__
