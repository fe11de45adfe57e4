"""Looking at members that misbehave, over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Finding, Observation
from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import ObservationError
from operator_protocols.ports import SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.monitor import findings_of
from operator_sre.subjects.etcd.client import Answer, Etcd, to_base64
from operator_sre.subjects.etcd.cluster import Cluster
from operator_sre.subjects.etcd.invariants import invariants_of, options_from
from operator_sre.subjects.etcd.members import KIND
from operator_sre.subjects.etcd.probes import CanaryWrites, Probed, find_wrong_addresses
from operator_sre.subjects.etcd.subject import EtcdCluster
from tests.contract.servers import (
    Behave,
    closes,
    floods,
    hangs,
    http,
    resets,
    says,
    serving,
    unused_port,
)

pytestmark = pytest.mark.asyncio

TIMEOUT_S = 2.0
STATUS = {
    "header": {"member_id": "5", "revision": "9", "raft_term": "2"},
    "version": "3.5.1",
    "dbSize": "1000",
    "dbSizeInUse": "900",
    "leader": "5",
    "raftIndex": "40",
    "raftTerm": "2",
    "raftAppliedIndex": "40",
}
LISTED = {"members": [{"ID": "5", "name": "a", "peerURLs": ["http://127.0.0.1:1"]}]}
ANSWERS: dict[str, Any] = {
    "/v3/maintenance/status": STATUS,
    "/v3/cluster/member/list": LISTED,
    "/v3/kv/range": {"header": {}},
    "/v3/kv/txn": {"header": {}},
    "/v3/lease/grant": {"ID": "77", "TTL": "60", "header": {"raft_term": "2"}},
    "/v3/lease/timetolive": {"TTL": "59", "header": {"raft_term": "2"}},
}


def _settings(*targets: Target, **options: Any) -> SubjectSettings:
    return SubjectSettings(
        "shop", lambda: targets, SystemClock(), TIMEOUT_S, options, secret=_secret
    )


def _secret(path: str) -> str:
    known = {"password": "hunter2", "token": "a-token"}
    if path not in known:
        raise ObservationError(f"The secret in {path!r} cannot be read here.")
    return known[path]


async def _look(*targets: Target, **options: Any) -> Observation:
    return await EtcdCluster(_settings(*targets, **options)).observe()


def _findings(look: Observation, **options: Any) -> list[Finding]:
    rows = invariants_of(options_from(options))
    return [found for invariant in rows for found in invariant.check(look)]


def etcd(
    answers: Mapping[str, Any] = ANSWERS,
    *,
    token: str = "",
    asked: list[tuple[str, dict[str, Any]]] | None = None,
) -> Behave:
    """A member that says this; with a `token` it answers nobody without it."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := (await reader.readuntil(b"\r\n\r\n")).decode().lower():
            path = head.split(" ")[1]
            length = next((x for x in head.split("\r\n") if x.startswith("content-length")), ":0")
            body = await reader.readexactly(int(length.split(":")[1]))
            said = json.loads(body or b"{}")
            if asked is not None:
                asked.append((path, said))
            status, answer = 200, answers.get(path)
            if path == "/v3/auth/authenticate":
                right = said == {"name": "root", "password": "hunter2"}
                status, answer = (200, {"token": token}) if right else (400, {"message": "no"})
            elif token and path.startswith("/v3/") and f"authorization: {token}\r" not in head:
                status, answer = 401, {"message": "invalid auth token", "code": 16}
            elif answer is None:
                status, answer = 404, {"message": "Not Found", "code": 5}
            content = json.dumps(answer).encode()
            writer.write(
                f"HTTP/1.1 {status} X\r\ncontent-length: {len(content)}\r\n\r\n".encode() + content
            )
            await writer.drain()

    async def quietly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await behave(reader, writer)
        except asyncio.IncompleteReadError:
            return

    return quietly


async def test_a_member_is_seen_with_its_readings() -> None:
    async with serving(etcd()) as port:
        seen = (await _look(Target("a", KIND, port=port), write_probe=True)).of("a")
    assert seen.problem == ""
    wanted = {
        "reachable": True,
        "member_id": "5",
        "is_leader": True,
        "leader": "a",
        "raft_term": 2,
        "lag": 0,
        "quorum": True,
        "read_error": "",
        "write_error": "",
        "lease_left_s": 60,
        "alarms": "",
        "db_bytes": 1000,
    }
    assert {name: seen.readings.get(name) for name in wanted} == wanted
    # Without metrics nobody knows its quota, nor whom it reaches.
    assert seen.readings.get("quota_ratio") is None
    assert seen.readings["peers_lost"] == ""  # it is alone


async def test_a_member_that_is_listed_where_it_does_not_answer_is_found() -> None:
    def answers(id_: str, addresses: Mapping[str, str]) -> dict[str, Any]:
        listed = [{"ID": one, "name": one, "peerURLs": [at]} for one, at in addresses.items()]
        header = {"member_id": id_, "revision": "9", "raft_term": "2"}
        return {
            **ANSWERS,
            "/v3/maintenance/status": {**STATUS, "header": header},
            "/v3/cluster/member/list": {"members": listed},
        }

    async def look(a: str, b: str) -> Observation:
        addresses = {"5": a, "6": b}
        async with (
            serving(etcd(answers("5", addresses))) as first,
            serving(etcd(answers("6", addresses))) as second,
        ):
            return await _look(Target("a", KIND, port=first), Target("b", KIND, port=second))

    async with serving(etcd()) as peer, serving(hangs) as silent:
        right, slow = f"http://127.0.0.1:{peer}", f"http://127.0.0.1:{silent}"
        with unused_port() as port:
            wrong = f"http://127.0.0.1:{port}"
            found = await look(right, wrong)
            nowhere = await look(wrong, wrong)
        waits = await look(right, slow)
    assert found.of("a").readings["listed_elsewhere"] is False
    assert found.of("b").readings["listed_elsewhere"] is True
    broken = {one.target: one for one in _findings(found) if one.invariant == "peer_address"}
    assert (broken["a"].health, broken["b"].health) == (Health.HEALTHY, Health.BROKEN)
    assert wrong in broken["b"].detail
    assert await find_wrong_addresses(Etcd(_settings()), Cluster(())) == {}
    # No peer address can be reached from here, or this one is only slow: nothing is claimed.
    for unclear in (nowhere, waits):
        assert unclear.of("b").readings["listed_elsewhere"] is None
        assert not [
            one
            for one in _findings(unclear)
            if (one.invariant, one.target) == ("peer_address", "b")
        ]


async def test_a_quota_can_be_given_where_metrics_do_not_tell() -> None:
    async with serving(etcd()) as port:
        seen = (await _look(Target("a", KIND, port=port), quota_bytes=2_000)).of("a")
    assert seen.readings["quota_ratio"] == 0.5


async def test_a_lease_that_is_handed_over_to_the_next_leader_is_no_late_one() -> None:
    forever = {"TTL": "9223372036", "header": {"raft_term": "2"}}
    async with serving(etcd({**ANSWERS, "/v3/lease/timetolive": forever})) as port:
        cluster = EtcdCluster(_settings(Target("a", KIND, port=port), write_probe=True))
        for _ in range(2):
            seen = (await cluster.observe()).of("a")
            assert (seen.readings["lease_left_s"], seen.readings["lease_error_s"]) == (60, 0.0)


@pytest.mark.parametrize("options", [{}, {"write_probe": False}], ids=str)
async def test_nothing_is_written_where_that_was_not_configured(options: dict[str, bool]) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []
    async with serving(etcd(asked=asked)) as port:
        look = await _look(Target("a", KIND, port=port), **options)
    paths = {path for path, _ in asked}
    assert not paths & {"/v3/kv/txn", "/v3/kv/put", "/v3/lease/grant"}
    assert look.of("cluster").readings["client_view"] == "reads checked, writes not checked"
    names = {found.invariant for found in _findings(look, **options)}
    assert not names & {"slow_write", "leases_expire", "writes_kept"}  # a note, not UNKNOWN


async def test_an_acknowledged_write_that_is_gone_is_told_once() -> None:
    answers = {**ANSWERS, "/v3/kv/put": {"header": {"revision": "7"}}}
    pair = {"key": "", "mod_revision": "7"}
    async with serving(etcd(answers)) as port:
        cluster = EtcdCluster(_settings(Target("a", KIND, port=port), canary="shop/canary"))
        told = []
        later, earlier = {**pair, "mod_revision": "9"}, {**pair, "mod_revision": "6"}
        for kvs in ([], [pair], [later], [earlier], []):
            answers["/v3/kv/range"] = {"kvs": kvs}
            told.append((await cluster.observe()).of("a").readings["write_lost"])
    assert told[:3] == [None, "", ""]  # nothing was acknowledged before the first check
    assert told[3] == "the canary has revision 6, acknowledged was 7"
    assert told[4] == "the canary is gone, acknowledged was 7"


def _shows(revision: int, value: str, **others: tuple[int, str]) -> dict[str, Answer]:
    """What members answer to a read of the canary."""
    shown = {"a": (revision, value), **others}
    return {
        name: Answer({"kvs": [{"mod_revision": str(at), "value": to_base64(text)}]})
        for name, (at, text) in shown.items()
    }


async def test_checks_at_the_same_time_find_no_loss_in_what_the_other_one_wrote() -> None:
    writes = CanaryWrites()
    first = writes.begin()
    writes.compare(first, Probed(write=Answer({"header": {"revision": "5"}})))
    slow, quick = writes.begin(), writes.begin()
    # The slow one reads before the quick one writes, and compares afterwards.
    write = Answer({"header": {"revision": "8"}})
    assert writes.compare(quick, Probed(_shows(5, first.value), write)) == {"a": ""}
    write = Answer({"header": {"revision": "7"}})
    assert writes.compare(slow, Probed(_shows(5, first.value), write)) == {"a": ""}
    # What was written before the other one was answered still counts.
    last = writes.begin()
    assert last.acknowledged == 8
    lost = writes.compare(last, Probed(_shows(7, slow.value)))
    assert lost == {"a": "the canary has revision 7, acknowledged was 8"}


async def test_a_member_that_counts_fewer_revisions_has_the_write_and_lost_others() -> None:
    writes = CanaryWrites()
    first = writes.begin()
    writes.compare(first, Probed(write=Answer({"header": {"revision": "42"}})))
    found = writes.compare(
        writes.begin(), Probed(_shows(42, first.value, b=(41, first.value), c=(41, "other/1")))
    )
    assert found["a"] == ""
    assert found["b"] == (
        "the last acknowledged write has revision 41 here and was acknowledged as 42, so earlier"
        " writes are missing here"
    )
    assert found["c"] == "the canary has revision 41, acknowledged was 42"


async def test_what_a_member_refuses_to_report_is_a_gap_and_opens_a_ticket() -> None:
    async with serving(etcd()) as port:  # its metrics are on another port
        look = await _look(Target("a", KIND, port=port))
    (gap,) = [each for each in findings_of((), look) if each.health is Health.BROKEN]
    assert (gap.invariant, gap.target) == ("observable", "a")
    assert "metrics: it answered 404" in gap.detail


async def test_the_write_that_is_tried_changes_nothing() -> None:
    asked: list[tuple[str, dict[str, Any]]] = []
    async with serving(etcd(asked=asked)) as port:
        await _look(Target("a", KIND, port=port), write_probe=True)
    (tried,) = [body for path, body in asked if path == "/v3/kv/txn"]
    assert "/v3/kv/put" not in {path for path, _ in asked}
    # No key has a version below 0.
    assert [(one["target"], one["result"], one["version"]) for one in tried["compare"]] == [
        ("VERSION", "LESS", "0")
    ]


DOWN: list[tuple[str, Behave, str]] = [
    ("hangs", hangs, "in time"),
    ("closes", closes, ""),
    ("resets", resets, ""),
    ("says garbage", says(b"+PONG\r\n"), ""),
    ("is no etcd", http(200, "hello"), "not from etcd"),
    ("is no etcd either", says(b"HTTP/1.1 501 No\r\ncontent-length: 2\r\n\r\nhi"), "not from etcd"),
]


@pytest.mark.parametrize(("how", "behave", "why"), DOWN, ids=[one[0] for one in DOWN])
async def test_one_that_does_not_answer_as_etcd_is_down(how: str, behave: Behave, why: str) -> None:
    async with serving(behave) as port, serving(etcd()) as other:
        look = await _look(Target("a", KIND, port=other), Target("b", KIND, port=port))
    assert look.of("b").readings["reachable"] is False
    assert why in str(look.of("b").readings["error"])
    # And it hides nobody.
    assert look.of("a").readings["reachable"] is True
    assert look.of("a").readings["read_error"] == ""


PROBLEMS: list[tuple[str, Behave, str]] = [
    ("refuses", http(403, {"message": "permission denied"}), "permission denied"),
    ("says nothing", http(200, {}), "does not name the member"),
    ("floods", floods(b"HTTP/1.1 200 OK\r\n\r\n"), "too long"),
    ("says other things", http(200, {"header": 5, "leader": []}), "does not name the member"),
]


@pytest.mark.parametrize(("how", "behave", "why"), PROBLEMS, ids=[one[0] for one in PROBLEMS])
async def test_one_that_cannot_be_understood_is_unknown(how: str, behave: Behave, why: str) -> None:
    async with serving(behave) as port:
        seen = (await _look(Target("a", KIND, port=port))).of("a")
    assert why in seen.problem
    assert "reachable" not in seen.readings


async def test_another_endpoint_is_tried_where_the_first_is_dead() -> None:
    with unused_port() as dead:
        async with serving(etcd()) as port:
            target = Target("a", KIND, port=dead, endpoints=(f"127.0.0.1:{port}",))
            seen = (await _look(target)).of("a")
    assert seen.readings["reachable"] is True


async def test_a_target_without_a_port_or_of_another_kind_is_seen() -> None:
    look = await _look(Target("a", KIND), Target("b", "store", port=1))
    assert "no port" in str(look.of("a").readings["error"])
    assert "'store' is not supported" in look.of("b").problem
    with pytest.raises(ObservationError):
        await _look()


async def test_a_password_becomes_a_token_that_is_used_again() -> None:
    asked: list[tuple[str, dict[str, Any]]] = []
    access = Access(user="root", password_file="password")
    async with serving(etcd(token="t0k3n", asked=asked)) as port:
        target = Target("a", KIND, port=port, access=access)
        subject = EtcdCluster(_settings(target))
        seen = (await subject.observe()).of("a")
        assert (seen.problem, seen.readings["read_error"]) == ("", "")
        first = len([path for path, _ in asked if path == "/v3/auth/authenticate"])
        await subject.observe()
        again = len([path for path, _ in asked if path == "/v3/auth/authenticate"])
    assert first >= 1
    assert again == first
    assert "hunter2" not in repr(seen)


async def test_a_token_that_is_not_taken_any_more_is_asked_for_anew() -> None:
    access = Access(user="root", password_file="password")
    async with serving(etcd(token="new")) as port:
        settings = _settings(target := Target("a", KIND, port=port, access=access))
        tokens = {"a": "old"}
        client = Etcd(settings, tokens)
        assert (await client.ask(target, "maintenance/status")).ok
    assert tokens == {"a": "new"}


async def test_a_token_in_a_file_is_sent_as_it_is() -> None:
    access = Access(token_file="token")
    async with serving(etcd(token="a-token")) as port:
        seen = (await _look(Target("a", KIND, port=port, access=access))).of("a")
    assert seen.readings["reachable"] is True


async def test_files_that_are_missing_are_a_problem_and_no_error(tmp_path: Path) -> None:
    tls = Access(tls=True, ca_file=str(tmp_path / "none.pem"))
    user = Access(user="root", password_file="nowhere")
    async with serving(etcd(token="x")) as port:
        look = await _look(
            Target("a", KIND, port=port, access=tls), Target("b", KIND, port=port, access=user)
        )
    assert "no connection possible" in look.of("a").problem
    assert look.of("b").problem


async def test_who_does_not_speak_tls_where_it_should_is_down() -> None:
    async with serving(etcd()) as port:
        target = Target("a", KIND, port=port, access=Access(tls=True))
        seen = (await _look(target)).of("a")
    assert seen.readings["reachable"] is False
