"""Looks at a cluster that answers as a real one does, whatever is wrong with it."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Finding
from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import ObservationError
from operator_protocols.ports import SubjectSettings
from operator_protocols.promises import broken_promises
from operator_sre.clock import SystemClock
from operator_sre.subjects.tikv import plugin
from operator_sre.subjects.tikv.client import Answer, Pd
from operator_sre.subjects.tikv.subject import TikvCluster
from tests.contract.servers import unused_port
from tests.subjects.tikv.recorded import Recorded, recorded
from tests.subjects.tikv.wrongs import PROVOKED, STORE

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(60)]

# So many looks, and everything that is asked by turns has been asked.
ALL = 6
LOOKS_MAX = 12


def _unwell(found: dict[tuple[str, str], Finding]) -> dict[tuple[str, str], str]:
    return {key: one.detail for key, one in found.items() if one.health is not Health.HEALTHY}


async def _broken_by(
    cluster: Recorded, subject: TikvCluster, expected: set[tuple[str, str]]
) -> dict[tuple[str, str], str]:
    """What is broken as soon as that is what is expected, else after all looks it takes."""
    for _ in range(LOOKS_MAX):
        _, found = await cluster.look(subject)
        broken = {key: one.detail for key, one in found.items() if one.health is Health.BROKEN}
        if set(broken) == expected and (expected or not _unwell(found)):
            break
    return broken if expected else _unwell(found)


@pytest.mark.parametrize("prometheus", [False, True])
async def test_each_invariant_breaks_where_something_is_wrong_and_holds_again(
    prometheus: bool,
) -> None:
    async with recorded() as cluster:
        subject = cluster.subject(prometheus=prometheus)
        await cluster.look(subject, ALL)
        for what, wrong in PROVOKED.items():
            if wrong.prometheus is not prometheus:
                continue
            assert await _broken_by(cluster, subject, set()) == {}, f"before {what}"
            wrong.does(cluster)
            broken = await _broken_by(cluster, subject, set(wrong.breaks))
            assert set(broken) == set(wrong.breaks), what
            for key, words in wrong.breaks.items():
                assert words in broken[key], what
            wrong.heals(cluster)
        assert await _broken_by(cluster, subject, set()) == {}


async def test_every_invariant_is_provoked_here() -> None:
    told = {name for wrong in PROVOKED.values() for name, _ in wrong.breaks}
    elsewhere = {"pd_no_leader", "prometheus_down", "log_oversized", "not_listed", "ghost_member"}
    async with recorded() as cluster:
        assert {one.name for one in cluster.subject().invariants} == told | elsewhere


async def test_a_part_that_was_removed_and_a_member_that_never_started_are_found() -> None:
    async with recorded() as cluster:
        subject = cluster.subject(stores=True)
        _, found = await cluster.look(subject, ALL)
        names = ("tikv-4", "tikv-5", "pd-1", "pd-2", "pd-3")
        assert {found["not_listed", name].health for name in names} == {Health.HEALTHY}
        assert found["ghost_member", "cluster"].health is Health.HEALTHY
        cluster.unlisted, cluster.ghosts = {"pd-3", "4"}, [77]
        _, found = await cluster.look(subject, ALL)
        broken = {key for key, each in found.items() if each.health is Health.BROKEN}
        assert {("not_listed", "tikv-4"), ("not_listed", "pd-3")} <= broken
        assert found["not_listed", "tikv-5"].health is Health.HEALTHY
        assert "77" in found["ghost_member", "cluster"].detail


@pytest.mark.parametrize("state", ["Offline", "Tombstone"])
async def test_a_store_that_leaves_as_planned_is_no_incident(state: str) -> None:
    async with recorded() as cluster:
        subject = cluster.subject(stores=True)
        await cluster.look(subject, 2)
        gone = cluster.stores[0]
        gone.state, gone.silent_s, gone.up = state, 5_000.0, False
        gone.leaders = gone.regions = 0
        cluster.stores[1].leaders = cluster.stores[2].leaders = 60
        seen, found = await cluster.look(subject, 3)
        assert {key for key, one in found.items() if one.health is Health.BROKEN} == set()
        assert seen.of("tikv-4").readings["planned"] is True
        assert found["store_down", "tikv-4"].health is Health.HEALTHY


async def test_a_look_takes_five_requests_and_one_for_each_store() -> None:
    async with recorded() as cluster:
        subject = cluster.subject()
        for _ in range(ALL):
            seen, _ = await cluster.look(subject)
            told = seen.of("cluster").readings["requests"]
            assert told == len(cluster.asked) <= 5 + len(cluster.stores)
            assert not any(path.endswith("/v1/regions") for path in cluster.asked)
        # What is wrong makes it ask other questions, and not more of them.
        cluster.checks = {"miss-peer": 500_000, "down-peer": 9}
        cluster.pds[0].up = False
        for _ in range(ALL):
            await cluster.look(subject)
            assert len(cluster.asked) <= 5 + len(cluster.stores)


async def test_the_beginning_of_a_long_list_is_enough() -> None:
    async with recorded() as cluster:
        cluster.checks = {"miss-peer": 500_000}
        seen, _ = await cluster.look(cluster.subject(), ALL)
        readings = seen.of("cluster").readings
        assert (readings["miss_peer"], readings["miss_peer_regions"]) == (
            500_000,
            "100, 101, 102, 103, 104",
        )


async def test_a_new_leader_of_pd_changes_nothing_but_whom_we_ask() -> None:
    async with recorded() as cluster:
        subject = cluster.subject(settle_s=3.0)
        await cluster.look(subject, ALL)
        cluster.checks = {"miss-peer": 7}
        cluster.pds[0].up, cluster.leader = False, "pd-2"
        seen, found = await cluster.look(subject)
        assert seen.of("cluster").readings["pd_leader"] == "pd-2"
        assert seen.of("pd-2").readings["leads"] is True
        broken = {key for key, one in found.items() if one.health is Health.BROKEN}
        assert broken == {("pd_member_down", "pd-1"), ("under_replicated", "cluster")}
        assert found["store_down", STORE].health is Health.HEALTHY
        assert subject.targets()[-1].depends_on == ("pd-1",)
        # Who has just begun to lead counts nothing before it has heard of every region.
        cluster.pds[0].up, cluster.checks = True, {}
        _, found = await cluster.look(subject)
        assert found["under_replicated", "cluster"].health is Health.UNKNOWN
        _, found = await cluster.look(subject, 4)
        assert _unwell(found) == {}


async def test_what_a_new_leader_of_pd_has_not_heard_itself_is_not_believed() -> None:
    """Not even by somebody who looks for the first time, and knows of no leader before."""
    async with recorded() as cluster:
        for store in cluster.stores:
            store.state, store.silent_s, store.capacity = "Down", 400.0, "0B"
            store.leaders = 0
        subject = cluster.subject(settle_s=10.0)
        seen, found = await cluster.look(subject, 3)
        assert not [key for key, one in found.items() if one.health is Health.BROKEN]
        assert "no heartbeat of it yet" in found["store_down", STORE].detail
        assert "heard" not in seen.of(STORE).readings
        told = seen.of("cluster").readings
        assert (told["settled"], told["stores_silent"]) == (False, "")
        assert subject.targets()[-1].depends_on == ()
        # Whom neither PD nor we hear of is away, whatever the leader before wrote down.
        for store in cluster.stores[1:]:
            store.state, store.silent_s, store.capacity = "Up", 1.0, "100GiB"
            store.leaders = 60
        cluster.stores[0].up = False
        for hearsay in ("Up", "Disconnected", "Down"):
            cluster.stores[0].state = hearsay
            seen, found = await cluster.look(subject)
            assert found["store_down", STORE].health is Health.UNKNOWN
            assert found["store_unreachable", STORE].health is Health.UNKNOWN
            told = seen.of("cluster").readings
            assert (told["settled"], told["stores_silent"]) == (True, STORE)
            assert subject.targets()[-1].depends_on == (STORE,)
        # In the long run its word counts: it will not hear of that one any more.
        _, found = await cluster.look(subject, 6)
        assert found["store_down", STORE].health is Health.BROKEN
        cluster.stores[0].up, cluster.stores[0].capacity = True, "100GiB"
        cluster.stores[0].state, cluster.stores[0].silent_s = "Up", 1.0
        for store in cluster.stores:
            store.leaders = 40
        _, found = await cluster.look(subject, ALL)
        assert _unwell(found) == {}


async def test_who_does_not_answer_is_needed_while_pd_has_no_leader() -> None:
    async with recorded() as cluster:
        subject = cluster.subject()
        await cluster.look(subject, 2)
        cluster.leader, cluster.stores[0].up = None, False
        seen, _ = await cluster.look(subject, 2)
        assert subject.targets()[-1].depends_on == (STORE,)
        assert seen.of("cluster").readings["settled"] is False


async def test_pds_that_follow_nobody_have_no_leader() -> None:
    async with recorded() as cluster:
        subject = cluster.subject()
        await cluster.look(subject, 2)
        cluster.leader = None
        cluster.pds[0].up = cluster.pds[2].up = False
        seen, found = await cluster.look(subject, 2)
        assert found["pd_no_leader", "cluster"].health is Health.BROKEN
        assert "1 of 3 PD members answer" in found["pd_no_leader", "cluster"].detail
        assert seen.of("cluster").readings["quorum"] is False
        # What PD cannot be asked about is not known, and the stores are looked at all the same.
        assert found["store_down", STORE].health is Health.UNKNOWN
        assert found["under_replicated", "cluster"].health is Health.UNKNOWN
        assert found["high_latency", STORE].health is Health.HEALTHY
        for pd in cluster.pds:
            pd.up = False
        _, found = await cluster.look(subject)
        assert found["pd_no_leader", "cluster"].health is Health.UNKNOWN
        assert found["pd_member_down", "pd-2"].health is Health.BROKEN


async def test_where_the_leader_does_not_answer_us_those_who_follow_ask_it_for_us() -> None:
    async with recorded() as cluster:
        subject = cluster.subject(timeout_s=0.3)
        await cluster.look(subject, ALL)
        cluster.pds[0].hangs = True
        seen, found = await cluster.look(subject, 2)
        assert found["pd_member_down", "pd-1"].health is Health.BROKEN
        assert found["pd_no_leader", "cluster"].health is Health.HEALTHY
        assert found["store_down", STORE].health is Health.HEALTHY
        assert seen.of("cluster").readings["stores_up"] == 3
        assert len(cluster.asked) <= 5 + len(cluster.stores)
        cluster.pds[0].hangs = False
        _, found = await cluster.look(subject, ALL)
        assert _unwell(found) == {}


async def test_without_metrics_of_pd_everything_is_asked_by_turns() -> None:
    async with recorded() as cluster:
        cluster.metrics = False
        subject = cluster.subject()
        _, found = await cluster.look(subject, 14)
        assert _unwell(found) == {}
        cluster.checks, cluster.evicting = {"down-peer": 3}, [4]
        cluster.schedulers |= {"evict-leader-scheduler": True, "balance-leader-scheduler": False}
        broken = await cluster.broken(subject, 14)
        assert set(broken) == {
            ("under_replicated", "cluster"),
            ("scheduler_left", STORE),
            ("schedulers_idle", "cluster"),
        }


async def test_parts_that_nobody_listed_are_found_and_known_by_the_names_that_were_given() -> None:
    async with recorded() as cluster:
        alone = cluster.settings()
        first = alone.targets()[:1]
        found = TikvCluster(SubjectSettings("tikv", lambda: first, cluster.clock, 2.0, {}))
        await cluster.look(found, ALL)
        names = [one.name for one in found.targets()]
        assert names == ["pd-1", "pd-2", "pd-3", "store-4", "store-5", "store-6", "cluster"]
        options = {"discover": False}
        blind = TikvCluster(SubjectSettings("tikv", lambda: first, cluster.clock, 2.0, options))
        await cluster.look(blind, 2)
        assert [one.name for one in blind.targets()] == ["pd-1", "cluster"]
        # Behind a container's name, which is also the target's, and at an address for us alone.
        listed = cluster.subject(stores=True)
        seen, _ = await cluster.look(listed, 2)
        assert seen.of("tikv-4").readings["id"] == 4
        assert seen.of("tikv-4").readings["reachable"] is True


async def test_a_store_that_pd_does_not_know_is_neither_well_nor_down() -> None:
    async with recorded() as cluster:
        given = [*cluster.settings().targets(), Target("lost", "store", port=9)]
        subject = TikvCluster(SubjectSettings("tikv", lambda: given, cluster.clock, 2.0, {}))
        _, found = await cluster.look(subject, 2)
        assert found["store_down", "lost"].health is Health.UNKNOWN
        assert "lists no store" in found["store_down", "lost"].detail


async def test_prometheus_tells_what_the_stores_show_by_their_status_address() -> None:
    async with recorded() as cluster:
        subject = cluster.subject(prometheus=True, metrics_from="prometheus")
        seen, found = await cluster.look(subject, ALL)
        assert _unwell(found) == {}
        assert not any(str(one.port) in path for one in cluster.stores for path in cluster.asked)
        assert seen.of(STORE).readings["qps"] == 50.0
        cluster.stores[0].latency_s = 2.0
        cluster.stores[1].up = False
        broken = await cluster.broken(subject, 1)
        assert broken["high_latency", STORE] == "p99 latency of requests is 2000 ms"
        assert "gets no answer" in broken["prometheus_target_missing", "store-5"]
        gone = Target("prometheus", "prometheus", port=cluster.stores[1].port)
        given = [*cluster.settings().targets(), gone]
        blind = TikvCluster(
            SubjectSettings(
                "tikv", lambda: given, cluster.clock, 2.0, {"metrics_from": "prometheus"}
            )
        )
        _, found = await cluster.look(blind, 2)
        assert found["prometheus_down", "prometheus"].health is Health.BROKEN
        assert found["high_latency", STORE].health is Health.UNKNOWN


async def test_logs_on_this_machine_are_read_from_where_the_last_look_ended(
    tmp_path: Path,
) -> None:
    log = tmp_path / "pd.log"
    log.write_text("[2026/03/04 12:00:00.000 +00:00] [ERROR] [a.go:1] [old]\n")
    async with recorded() as cluster:
        pds = cluster.settings().targets()
        given = [Target("pd-1", "pd", port=pds[0].port, log=str(log), data_dir=str(tmp_path))]
        given += pds[1:]
        options = {"log_bytes_max": 500}
        subject = TikvCluster(SubjectSettings("tikv", lambda: given, cluster.clock, 2.0, options))
        seen, found = await cluster.look(subject, ALL)
        assert seen.of("pd-1").readings["log_errors"] == 0
        assert found["log_oversized", "pd-1"].health is Health.HEALTHY
        with log.open("a") as more:
            more.write('[2026/03/04 12:00:01.000 +02:00] [INFO] [b.go:2] ["PD leader is ready"]\n')
            more.write('[2026/03/04 12:00:02.000 +02:00] [FATAL] [c.go:3] ["no [way]"] [a="b c"]\n')
            more.write('[2026/03/04 12:00:03.000 +00:00] [WARN] [d.rs:4] ["slow-query"] [x=1')
        seen, _ = await cluster.look(subject)
        told = seen.of("pd-1").readings
        assert (told["log_errors"], told["log_elections"], told["log_slow"]) == (1, 1, 0)
        assert told["log_last_error"] == "no [way]"
        with log.open("a") as more:
            more.write("]\n" + "x" * 400 + "\n")
        seen, found = await cluster.look(subject)
        assert seen.of("pd-1").readings["log_slow"] == 1
        assert found["log_oversized", "pd-1"].health is Health.BROKEN


async def test_everybody_is_reached_by_tls_and_whoever_is_not_trusted_is_unknown(
    tmp_path: Path,
) -> None:
    from tests.subjects.certificates import certificate

    mine, other = (certificate(tmp_path, name="127.0.0.1", days=days) for days in (9, 10))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(mine)
    async with recorded(context) as cluster:
        cluster.access = Access(tls=True, ca_file=str(mine))
        _, found = await cluster.look(cluster.subject(), 3)
        assert found["store_down", STORE].health is Health.HEALTHY
        assert found["high_latency", STORE].health is Health.HEALTHY
        cluster.access = Access(tls=True, ca_file=str(other))
        _, found = await cluster.look(cluster.subject())
        assert "certificate" in found["pd_member_down", "pd-1"].detail
        cluster.access = Access(tls=True, ca_file=str(tmp_path / "nothing.pem"))
        _, found = await cluster.look(cluster.subject())
        assert found["pd_member_down", "pd-1"].health is Health.UNKNOWN
        assert {one.health for one in found.values()} == {Health.UNKNOWN}


async def test_what_changes_something_is_never_sent_to_a_second_one() -> None:
    async with recorded() as cluster:
        pd = Pd(cluster.settings(timeout_s=0.2))
        cluster.pds[0].hangs = True
        answer = await pd.ask("operators", method="POST", body={"name": "x"})
        assert not answer.reached
        assert len(cluster.asked) == 1
        assert (await pd.ask("operators")).body == []
        assert pd.requests == 3
        # A question may be asked of the next one, and then that one is asked first.
        cluster.asked.clear()
        assert (await pd.ask("operators")).ok
        assert len(cluster.asked) == 1
        assert Answer().ok
        # Who knows of no leader does nothing: the next one is asked, and all of them again.
        cluster.pds[0].hangs, cluster.leader = False, None
        pd = Pd(cluster.settings(timeout_s=0.2))
        answer = await pd.ask("operators", method="POST", body={"name": "x"})
        assert (answer.untaken, pd.requests) == (True, 3)
        taken = Answer(error="it answered 503: busy", status=503), Answer(error="x", reached=False)
        assert not any(one.untaken for one in taken)
        assert Answer(error="127.0.0.1:1: connection refused", reached=False).untaken


async def test_another_name_that_nobody_knows_here_takes_no_time_from_who_answers_slowly() -> None:
    left = asyncio.Event()

    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        said = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n[]"
        # Longer than its share would be, were the time shared out.
        asyncio.get_running_loop().call_later(0.3, writer.write, said)
        await reader.read()
        writer.close()
        await writer.wait_closed()
        left.set()

    async with await asyncio.start_server(slowly, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        given = [Target("pd-1", "pd", port=port, endpoints=("relay.invalid:23791", "a.invalid:1"))]
        pd = Pd(SubjectSettings("tikv", lambda: given, SystemClock(), 0.8, {}))
        answer = await pd.ask("operators")
        assert (answer.ok, answer.body, pd.requests) == (True, [], 1)
        await left.wait()


async def test_secrets_are_sent_in_a_header_and_shown_nowhere() -> None:
    async with recorded() as cluster:
        access = Access(token_file="t")
        given = [Target("pd-1", "pd", port=cluster.pds[0].port, access=access)]
        settings = SubjectSettings(
            "tikv", lambda: given, SystemClock(), 2.0, {}, secret={"t": "s3cret"}.__getitem__
        )
        pd = Pd(settings)
        answer = await pd.ask("nothing")
        assert "authorization: bearer s3cret" in cluster.headers[-1].lower()
        assert "s3cret" not in repr(answer)


async def test_nothing_to_look_at_and_nobody_who_answers() -> None:
    subject = plugin.subject(SubjectSettings("mine", tuple, SystemClock(), 0.2, {}))
    with pytest.raises(ObservationError):
        await subject.observe()
    with unused_port() as port:
        given = [Target("pd-1", "pd", port=port), Target("s", "store"), Target("x", "odd")]
        subject = plugin.subject(SubjectSettings("mine", lambda: given, SystemClock(), 0.2, {}))
        seen = await subject.observe()
    found = [one for each in subject.invariants for one in each.check(seen)]
    assert Health.HEALTHY not in {one.health for one in found}
    assert "'odd'" in seen.of("x").problem


async def test_the_plug_in_keeps_every_promise_of_plug_ins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pd-server", "tikv-server"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await broken_promises(plugin) == []
