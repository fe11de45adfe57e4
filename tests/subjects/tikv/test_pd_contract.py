"""What PD promises to whoever asks it: kept by the stand-in, and by PD itself where it is built.

The same questions go to both.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from operator_lab.rig import Rig
from operator_sre.subjects.tikv.rig import rig
from operator_sre.subjects.tikv.state import members_from, operators_from, region_from, stores_from
from tests.engines.tikv.real import real_programs
from tests.engines.tikv.standin import install
from tests.engines.tikv.wire import Reply, ask

pytestmark = [pytest.mark.asyncio, pytest.mark.slow, pytest.mark.timeout(400)]

ANSWER_S_MAX = 10.0
SOON_S, LATE_S = 30.0, 90.0
POLL_S = 0.1
EVICT = "evict-leader-scheduler"
BALANCE = "balance-leader-scheduler"
LOCALLY = {"PD-Allow-follower-handle": "true"}


@dataclass(frozen=True, slots=True)
class Pds:
    """Three members of PD with three stores, by whichever program."""

    rig: Rig

    @property
    def names(self) -> list[str]:
        """The members."""
        return [one.name for one in self.rig.targets() if one.kind == "pd"]

    async def reply(
        self,
        path: str,
        body: object = None,
        *,
        at: str = "",
        method: str = "",
        locally: bool = False,
    ) -> Reply:
        """What one member says, the first where none is named."""
        name = at or self.names[0]
        port = next(one.port for one in self.rig.targets() if one.name == name)
        url = f"http://127.0.0.1:{port}/pd/api/v1/{path}"
        headers = LOCALLY if locally else {}
        return await ask(url, body, method=method, headers=headers, timeout_s=ANSWER_S_MAX)

    async def get(self, path: str, *, at: str = "") -> Any:
        """Its answer, which must be a good one."""
        reply = await self.reply(path, at=at)
        assert reply.status == 200, (path, reply.status, reply.body)
        return reply.json()

    async def leader(self, *, at: str = "") -> str:
        """Who leads, or "" where nobody can tell."""
        try:
            reply = await self.reply("members", at=at)
        except (OSError, TimeoutError):
            return ""
        found = members_from(reply.json()) if reply.status == 200 else None
        return "" if found is None else found.leader

    async def states(self, *, at: str = "") -> dict[str, str]:
        """What PD thinks of every store, by the name of its target."""
        names = {f"127.0.0.1:{one.port}": one.name for one in self.rig.targets()}
        found = stores_from((await self.reply("stores", at=at)).json()) or ()
        return {names[one.address]: one.state for one in found}

    async def led(self) -> dict[int, int]:
        """How many regions every store leads."""
        stores = stores_from(await self.get("stores")) or ()
        return {one.id: one.leader_count for one in stores}


async def until(holds: Callable[[], Awaitable[bool]], within_s: float, what: str) -> None:
    """Wait until it holds."""
    ends = time.monotonic() + within_s
    while not await holds():
        assert time.monotonic() < ends, f"not in {within_s:g} s: {what}"
        await asyncio.sleep(POLL_S)


@pytest.fixture(scope="module", params=["stand-in", pytest.param("real", marks=pytest.mark.system)])
def pds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pds]:
    """A cluster in which all is well, and after which nothing is left."""
    folder = tmp_path_factory.mktemp("tikv")
    programs = real_programs() if request.param == "real" else install(folder / "programs")
    if not isinstance(programs, Path):
        pytest.skip(programs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(programs), prepend=os.pathsep)
        spec = rig()
    up = asyncio.run(Rig.up(spec, folder / "rig", owned=True))
    try:
        asyncio.run(_well(Pds(up)))
        yield Pds(up)
    finally:
        asyncio.run(up.down())


async def _well(pds: Pds) -> None:
    async def spread() -> bool:
        if not await pds.leader():
            return False
        found = stores_from((await pds.reply("stores")).json()) or ()
        if len(found) < 3 or any(not one.leader_count or one.state != "Up" for one in found):
            return False
        missed = (await pds.reply("regions/check/miss-peer")).json()
        return isinstance(missed, dict) and missed.get("count") == 0

    await until(spread, LATE_S, "three stores are up and lead regions")


async def test_every_member_tells_of_the_same_leader_and_passes_questions_on(pds: Pds) -> None:
    leaders = {await pds.leader(at=name) for name in pds.names}
    assert len(leaders) == 1
    assert leaders < set(pds.names)
    members = members_from(await pds.get("members"))
    assert members is not None
    assert sorted(one.name for one in members.members) == pds.names
    assert {one["health"] for one in await pds.get("health")} == {True}
    stores = [await pds.get("stores", at=name) for name in pds.names]
    assert [one["count"] for one in stores] == [3, 3, 3]
    assert (await pds.reply("ping")).status == 200
    for name in pds.names:
        assert (await pds.reply("status", at=name, locally=True)).status == 200


async def test_stores_and_regions_are_counted_alike_on_every_page(pds: Pds) -> None:
    found = await pds.get("stores")
    stores = stores_from(found)
    assert stores is not None
    assert {one.state for one in stores} == {"Up"}
    for one in stores:
        assert one.capacity_bytes >= one.available_bytes > 0
        assert one.heartbeat is not None
        assert one.started is not None
        assert (await pds.get(f"store/{one.id}"))["store"]["address"] == one.address
    stats = await pds.get("stats/region")
    assert stats["count"] == (await pds.get("regions/count"))["count"] > 0
    assert sum(stats["store_leader_count"].values()) == stats["count"]
    for check in ("miss-peer", "down-peer", "pending-peer", "extra-peer", "offline-peer"):
        assert (await pds.get(f"regions/check/{check}"))["count"] == 0, check
    (largest,) = (await pds.get("regions/size?limit=1"))["regions"]
    region = await pds.get(f"region/id/{largest['id']}")
    assert len(region["peers"]) == 3
    assert region["leader"]["store_id"] in {one.id for one in stores}
    assert (await pds.get("config/replicate"))["max-replicas"] == 3
    assert (await pds.get("config/schedule"))["max-store-down-time"].startswith("30s")


async def test_what_is_not_there_or_makes_no_sense_is_refused(pds: Pds) -> None:
    refused = {
        "store/999999": 404,
        "store/many": 400,
        "no-such-page": 404,
    }
    for path, status in refused.items():
        assert (await pds.reply(path)).status == status, path
    assert region_from(await pds.get("region/id/999999")) is None  # null, or one without a number
    assert (await pds.reply("operators/999999")).status == 500
    assert (await pds.reply("operators", {"name": "sing"})).status == 400
    assert (await pds.reply("operators", {"name": "transfer-leader"})).status == 400
    gone = {"name": "transfer-leader", "region_id": 999999, "to_store_id": 4}
    assert (await pds.reply("operators", gone)).status == 500
    assert (await pds.reply("schedulers", {"name": "sing"})).status == 400
    assert (await pds.reply("schedulers", {"name": EVICT})).status == 400
    assert (await pds.reply("schedulers/sing-scheduler", method="DELETE")).status == 404
    # Three copies need three stores, so none of three may leave.
    store = next(iter(await pds.led()))
    assert (await pds.reply(f"store/{store}", method="DELETE")).status == 400


async def test_leaders_leave_a_store_that_must_not_lead_and_may_return(pds: Pds) -> None:
    store = next(iter(await pds.led()))
    wish = {"name": EVICT, "store_id": store}
    assert (await pds.reply("schedulers", wish)).status == 200
    assert EVICT in await pds.get("schedulers")
    listed = await pds.get(f"scheduler-config/{EVICT}/list")
    assert list(listed["store-id-ranges"]) == [str(store)]

    async def left() -> bool:
        return (await pds.led())[store] == 0

    await until(left, LATE_S, "all leaders leave")
    assert (await pds.reply(f"schedulers/{EVICT}-{store}", method="DELETE")).status == 200
    assert EVICT not in await pds.get("schedulers")
    assert (await pds.reply(f"schedulers/{EVICT}-{store}", method="DELETE")).status != 200

    async def back() -> bool:
        return (await pds.led())[store] > 0

    await until(back, LATE_S, "leaders are balanced again")


async def test_a_paused_scheduler_is_told_apart_until_it_goes_on(pds: Pds) -> None:
    assert (await pds.reply(f"schedulers/{BALANCE}", {"delay": 600})).status == 200
    assert await pds.get("schedulers?status=paused") == [BALANCE]
    assert BALANCE in await pds.get("schedulers")
    assert (await pds.reply(f"schedulers/{BALANCE}", {"delay": 0})).status == 200
    assert not await pds.get("schedulers?status=paused")


async def test_an_operator_is_listed_while_it_runs_and_can_be_called_off(pds: Pds) -> None:
    (largest,) = (await pds.get("regions/size?limit=1"))["regions"]
    region = largest["id"]
    wish = {"name": "split-region", "region_id": region, "policy": "usekey", "keys": []}
    assert (await pds.reply("operators", wish)).status == 200
    found = [
        one for one in operators_from(await pds.get("operators")) or () if one.region == region
    ]
    assert [one.desc for one in found] == ["admin-split-region"]
    assert "admin" in found[0].kind
    assert found[0].created is not None
    assert abs(found[0].created.timestamp() - time.time()) < 60
    assert (await pds.reply(f"operators/{region}", method="DELETE")).status == 200
    assert (await pds.reply(f"operators/{region}", method="DELETE")).status == 500


async def test_a_leader_goes_where_an_operator_sends_it(pds: Pds) -> None:
    region = (await pds.get("regions/size?limit=1"))["regions"][0]
    other = next(
        one["store_id"]
        for one in region["peers"]
        if one["store_id"] != region["leader"]["store_id"]
    )
    wish = {"name": "transfer-leader", "region_id": region["id"], "to_store_id": other}
    assert (await pds.reply("operators", wish)).status == 200

    async def moved() -> bool:
        return bool((await pds.get(f"region/id/{region['id']}"))["leader"]["store_id"] == other)

    await until(moved, SOON_S, "the leader moves")


async def test_the_leader_of_pd_hands_over_when_it_is_told_to(pds: Pds) -> None:
    old = await pds.leader()
    heir = next(name for name in pds.names if name != old)
    assert (await pds.reply(f"leader/transfer/{heir}", b"", method="POST")).status == 200

    async def leads() -> bool:
        return await pds.leader(at=old) == heir

    await until(leads, SOON_S, f"{heir} leads")


async def test_a_dead_store_is_disconnected_then_down_and_others_lead_its_regions(pds: Pds) -> None:
    await _well(pds)
    await pds.rig.kill("store-2")
    names = {f"127.0.0.1:{one.port}": one.name for one in pds.rig.targets()}
    stores = stores_from(await pds.get("stores")) or ()
    number = next(one.id for one in stores if names[one.address] == "store-2")
    seen: list[str] = []

    async def down() -> bool:
        now = (await pds.states())["store-2"]
        if now not in seen:
            seen.append(now)
        return now == "Down"

    await until(down, LATE_S, "it is Down")
    assert seen[-2:] == ["Disconnected", "Down"]
    assert (await pds.led())[number] == 0
    regions = (await pds.get("stats/region"))["count"]

    async def missed() -> bool:
        return bool((await pds.get("regions/check/down-peer"))["count"] == regions)

    await until(missed, LATE_S, "every region has a peer that is down")
    await pds.rig.restart("store-2")

    async def well() -> bool:
        counts = await pds.get("regions/check/down-peer")
        return (await pds.states())["store-2"] == "Up" and counts["count"] == 0

    await until(well, LATE_S, "it is Up, and nothing is down")


async def test_a_dead_leader_of_pd_is_replaced_and_knows_what_the_old_one_knew(pds: Pds) -> None:
    await _well(pds)
    old = await pds.leader()
    before = await pds.states()
    rest = next(name for name in pds.names if name != old)
    await pds.rig.kill(old)

    async def replaced() -> bool:
        return await pds.leader(at=rest) not in ("", old)

    await until(replaced, LATE_S, "another member leads")

    async def known() -> bool:
        return await pds.states(at=rest) == before

    await until(known, LATE_S, "it knows the stores")
    health = {one["name"]: one["health"] for one in await pds.get("health", at=rest)}
    assert health == {name: name != old for name in pds.names}
    await pds.rig.restart(old)
    await until(replaced, LATE_S, "one member leads")


async def test_without_a_majority_nobody_leads_and_who_is_left_says_so(pds: Pds) -> None:
    await _well(pds)
    left, *gone = pds.names
    for name in gone:
        await pds.rig.kill(name)

    async def silent() -> bool:
        return (await pds.reply("stores", at=left)).status in (500, 503)

    await until(silent, LATE_S, "nobody leads")

    async def nobody() -> bool:
        try:
            reply = await pds.reply("members", at=left, locally=True)
        except TimeoutError:
            return True  # the real one has to ask a majority who its members are
        found = members_from(reply.json())
        return reply.status != 200 or (found is not None and not found.leader)

    await until(nobody, LATE_S, "it names no leader any more")
    for name in gone:
        await pds.rig.restart(name)

    async def led() -> bool:
        return bool(await pds.leader(at=left))

    await until(led, LATE_S, "somebody leads again")
