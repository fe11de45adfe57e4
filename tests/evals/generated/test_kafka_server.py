"""Real brokers, asked and changed as the generator and the judge do."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from operator_evals.generated.case import Kind, Primitive
from operator_evals.generated.inflictor import Inflictor
from operator_evals.generated.servers import Holder
from operator_evals.generated.surface import SettingType
from operator_lab.rig import Rig
from operator_protocols.errors import MissingExtraError, MissingProgramError, RigError
from operator_protocols.ports import SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.subjects.kafka.rig import KafkaDepot, rig

pytestmark = [pytest.mark.asyncio, pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(600)]

SOON_S = 90.0


async def test_primitives_of_kafka_are_done_seen_by_its_clients_and_undone(tmp_path: Path) -> None:
    try:
        spec = rig()
    except (MissingExtraError, MissingProgramError) as problem:
        pytest.skip(str(problem))
    if not all(Path(each.file).exists() for each in spec.artifacts):
        pytest.skip("The files of Kafka are not cached: `python -m tests.tools.kafka`.")
    up = await Rig.up(spec, tmp_path / "rig", owned=True)
    try:
        inflictor = Inflictor(up, scratch=tmp_path)
        surface = await inflictor.surface()
        broker = next(part for part in surface.parts if part.name == "broker-2")
        listed = {each.name: each for each in broker.settings}
        assert listed["message.max.bytes"].type is SettingType.INTEGER
        assert listed["message.max.bytes"].live
        assert not listed["node.id"].live
        assert not listed["orders/retention.ms"].filed
        # One controller, and one leader for each of the eight partitions.
        roles = {name: await server.takes_writes() for name, server in inflictor.servers.items()}
        assert Counter(roles.values()) == {True: 1, False: 2}
        held = [
            await server.holds()
            for server in inflictor.servers.values()
            if isinstance(server, Holder)
        ]
        counts = Counter(role for roles in held for role in roles or ())
        assert len(counts) == 8
        assert set(counts.values()) == {1}
        settings = SubjectSettings("kafka", lambda: up.targets(), SystemClock(), 6.0, {})
        depot = KafkaDepot(settings)
        assert await depot.put("before")
        commands = {(each.name, each.about) for each in broker.commands}
        for command, about in (
            # One replica is enough for a minimum of two where there are no others.
            ("replicas_only_here", "receipts"),
            ("quota_produce", "client-id"),
            ("topic_single", ""),
            ("elect_preferred", ""),
        ):
            assert (command, about) in commands
            arguments = {"command": command, "about": about}
            _, undo = await inflictor.inflict(Primitive(Kind.ADMIN, "broker-2", arguments))
            await undo()
            await _wait_for(depot)
        arguments = {"name": "receipts/max.message.bytes", "value": "1", "when": "now"}
        setting = Primitive(Kind.SETTING, "broker-2", arguments)
        assert setting.components == ("receipts",)
        _, undo = await inflictor.inflict(setting)
        await _wait_for(depot, acknowledged=False)
        await undo()
        await _wait_for(depot)
        assert await depot.put("after")
        assert await depot.find_lost(["before", "after"]) == frozenset()
        with pytest.raises(RigError, match="refused"):
            await inflictor.servers["broker-2"].change("node.id", "7")
    finally:
        await up.down()


async def _wait_for(depot: KafkaDepot, *, acknowledged: bool = True) -> None:
    ends = time.monotonic() + SOON_S
    while await depot.put("in between") is not acknowledged:
        assert time.monotonic() < ends
