"""A real store as its clients use it: its canary, their errors, and whom a replica follows."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import valkey

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Finding, Observation, Seen, Value
from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import MissingExtraError
from operator_protocols.ports import SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.monitor import OBSERVABLE, findings_of
from operator_sre.subjects.ratelimiter.rig import CANARY, server_path
from operator_sre.subjects.ratelimiter.stores import StoreReport
from operator_sre.subjects.ratelimiter.subject import RateLimiter
from operator_sre.subjects.ratelimiter.totals import wrong_upstream
from tests.contract.servers import unused_port
from tests.e2e.waiting import eventually

PASSWORD = "open-sesame"


@dataclass(frozen=True, slots=True)
class Store:
    """A private Valkey with a password."""

    port: int
    client: Any

    def subject(self, *, user: str = "", canary: str = CANARY) -> RateLimiter:
        access = Access(user=user, password_file="secret")
        target = Target("store", "store", port=self.port, access=access)
        settings = SubjectSettings(
            *("shop", lambda: (target,), SystemClock(), 20.0, {"canary": canary}),
            secret=lambda path: PASSWORD,
        )
        return RateLimiter(settings)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    try:
        server = server_path()
    except MissingExtraError as problem:
        pytest.skip(str(problem))
    folder: Path = tmp_path_factory.mktemp("store")
    with unused_port() as port:
        pass
    process = subprocess.Popen(
        [
            *(server, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)),
            *("--save", "", "--requirepass", PASSWORD),
        ],
        stdout=subprocess.DEVNULL,
    )
    client: Any = valkey.Valkey(port=port, password=PASSWORD)

    def answers() -> bool | None:
        try:
            return bool(client.ping())
        except valkey.ConnectionError:
            return None

    eventually(answers, "Valkey answers")
    yield Store(port, client)
    client.connection_pool.disconnect()
    process.kill()
    process.wait(30.0)


async def _look(subject: RateLimiter) -> tuple[Seen, dict[str, Finding]]:
    observation = await subject.observe()
    found = findings_of(subject.invariants, observation)
    return observation.of("store"), {one.invariant: one for one in found if one.target == "store"}


@pytest.mark.asyncio
async def test_a_store_is_written_to_only_where_that_is_configured(store: Store) -> None:
    store.client.delete(CANARY)
    seen, found = await _look(store.subject(canary=""))
    assert seen.readings["client_view"] == "reads checked, writes not checked"
    assert found["store_refuses_writes"].health is Health.HEALTHY  # a note, not UNKNOWN
    assert store.client.dbsize() == 0
    seen, found = await _look(store.subject())
    assert seen.readings["client_view"] == "reads and writes checked"
    assert found["store_refuses_writes"].health is Health.HEALTHY
    assert 0 < store.client.ttl(CANARY) <= 60
    assert store.client.dbsize() == 1


@pytest.mark.asyncio
async def test_a_refused_write_is_found_where_statistics_do_not_show_it(store: Store) -> None:
    store.client.config_set("maxmemory-policy", "volatile-lru")
    store.client.config_set("maxmemory", "1")
    try:
        _, found = await _look(store.subject(canary=""))
        assert found["store_refuses_writes"].health is Health.HEALTHY
        seen, found = await _look(store.subject())
        assert "a write was rejected: OOM" in found["store_refuses_writes"].detail
        assert (found["store_refuses_writes"].health, seen.readings["refuses_kind"]) == (
            Health.BROKEN,
            "other",
        )
    finally:
        store.client.config_set("maxmemory", "0")


@pytest.mark.asyncio
async def test_what_our_role_may_not_do_is_a_gap_and_no_refusal(store: Store) -> None:
    store.client.execute_command(
        *("ACL", "SETUSER", "watcher", "on", f">{PASSWORD}", "~*", "+@all", "-set")
    )
    _, found = await _look(store.subject(user="watcher"))
    assert found["store_refuses_writes"].health is Health.HEALTHY
    assert found[OBSERVABLE].health is Health.BROKEN
    assert "canary: NOPERM" in found[OBSERVABLE].detail
    store.client.execute_command("ACL", "SETUSER", "watcher", "+set", "-info")
    _, found = await _look(store.subject(user="watcher"))
    assert found[OBSERVABLE].health is Health.BROKEN
    assert "info: NOPERM" in found[OBSERVABLE].detail
    assert found["primary_count"].health is Health.UNKNOWN


@pytest.mark.asyncio
async def test_rejected_logins_of_clients_are_found(store: Store) -> None:
    subject = store.subject()
    _, found = await _look(subject)
    assert "client_errors" not in found  # a rate needs two checks
    for _ in range(6):
        with pytest.raises(valkey.AuthenticationError):
            store.client.execute_command("AUTH", "wrong")
    _, found = await _look(subject)
    assert found["client_errors"].health is Health.BROKEN
    assert "logins rejected" in found["client_errors"].detail


def test_a_replica_that_follows_a_replica_or_itself_follows_the_wrong_one() -> None:
    def report(name: str, role: str, primary: str = "") -> StoreReport:
        return StoreReport(Seen(name, {"kind": "store", "role": role, "primary": primary}))

    where = {"a": "h:1", "b": "h:2", "c": "h:3"}
    stores = [report("a", "primary"), report("b", "replica", "h:1"), report("c", "replica", "h:2")]
    assert [wrong_upstream(one, stores, where) for one in stores] == ["", "", "b"]
    itself = report("b", "replica", "h:2")
    assert wrong_upstream(itself, [itself], where) == "b"
    far = report("b", "replica", "10.0.0.9:6379")  # an address that only the stores know
    assert wrong_upstream(far, [far], where) == ""


def test_who_follows_the_wrong_one_breaks_replication() -> None:
    settings = SubjectSettings("shop", tuple, SystemClock(), 1.0, {})
    replication = next(one for one in RateLimiter(settings).invariants if one.name == "replication")
    readings: dict[str, Value] = {
        "kind": "replica",
        "reachable": True,
        "role": "replica",
        "replica_link": "up",
    }
    seen = Seen("c", {**readings, "follows_wrong": "b"})
    (finding,) = replication.check(Observation("shop", SystemClock().now(), (seen,)))
    assert (finding.health, finding.detail) == (
        Health.BROKEN,
        "follows b, which is not a primary",
    )
