"""Primitives done to a small real rig, seen by clients, and undone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from operator_evals.generated.case import Kind, Primitive, Value
from operator_evals.generated.clients import Canary, ClientView, endpoint_of
from operator_evals.generated.config_file import replace_port, write_setting
from operator_evals.generated.hostility import Hostility
from operator_evals.generated.inflictor import Inflictor, seats_of
from operator_evals.generated.servers import Seat, nothing_to_undo, servers_of
from operator_evals.generated.servers.etcd import flags_in
from operator_evals.generated.surface import SettingType
from operator_lab.rig import Rig
from operator_protocols.domain.rig import LoadSpec, ProcessSpec, RigSpec
from operator_protocols.errors import RigError
from operator_protocols.ports import Ability
from tests.lab.conftest import NODE, STORE
from tests.processes.waiting import eventually

CONF = 'port {port}\nbind 127.0.0.1\ndir {dir}\nsave ""\nhash-max-listpack-entries 128\n'
SPEC = RigSpec(
    "tiny",
    (
        ProcessSpec(
            "store",
            "store",
            (STORE.argv[0], "{dir}/store.conf"),
            files={"store.conf": CONF},
            linked=True,
        ),
        NODE,
    ),
    LoadSpec(NODE.kind, path="/pay", body={"who": "{n}"}),
)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """One rig for all tests of this file; each leaves it as it was."""
    made = await Rig.up(SPEC, tmp_path_factory.mktemp("rig") / "rig", owned=True)
    yield made
    await made.down()


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_primitive_of_every_kind_is_done_and_undone(rig: Rig, tmp_path: Path) -> None:
    inflictor = Inflictor(rig, scratch=tmp_path)
    server = inflictor.servers["store"]
    name = "hash-max-listpack-entries"

    async def value() -> str:
        return next(each.value for each in await server.settings() if each.name == name)

    setting: dict[str, Value] = {"name": name, "value": "7", "when": "now"}
    _, undo = await inflictor.inflict(Primitive(Kind.SETTING, "store", setting))
    assert await value() == "7"
    await undo()
    assert await value() == "128"
    note, undo = await inflictor.inflict(
        Primitive(Kind.SETTING, "store", {**setting, "when": "restart"})
    )
    assert (await value(), "store.conf" in note) == ("7", True)
    await undo()
    assert await value() == "128"
    command = Primitive(Kind.ADMIN, "store", {"command": "account_read_only", "about": ""})
    _, undo = await inflictor.inflict(command)
    await undo()
    file: dict[str, Value] = {"path": "store.conf", "action": "empty", "restart": False}
    _, undo = await inflictor.inflict(Primitive(Kind.FILE, "store", file))
    place = seats_of(rig)["store"].home / "store.conf"
    assert place.read_text() == ""
    await undo()
    assert "listpack" in place.read_text()
    limits: dict[str, Value] = {"resource": "file_size", "value": 1 << 30}
    slow: dict[str, Value] = {"action": "slow", "other": "node-1", "amount": 0.1}
    for primitive, ability in (
        (Primitive(Kind.LIMIT, "store", limits), Ability.LIMIT),
        (Primitive(Kind.LINK, "store", slow), Ability.SLOW),
        (Primitive(Kind.LINK, "store", {**slow, "action": "lossy"}), Ability.SLOW),
        (Primitive(Kind.LINK, "store", {**slow, "action": "cut", "other": ""}), Ability.CUT),
        (Primitive(Kind.PORT, "node-1", {"action": "taken"}), Ability.OCCUPY),
        (Primitive(Kind.SIGNAL, "node-1", {"signal": "STOP", "child": -1}), Ability.PAUSE),
        (Primitive(Kind.SIGNAL, "node-1", {"signal": "KILL", "child": -1}), Ability.KILL),
    ):
        _, undo = await inflictor.inflict(primitive)
        target = primitive.target
        await eventually(partial(_is_hurt, rig, target, ability))
        await undo()
        await eventually(partial(_is_well, rig, target))
    await inflictor.stop()


def _is_hurt(rig: Rig, target: str, ability: Ability) -> bool:
    return ability in rig.damage(target)


def _is_well(rig: Rig, target: str) -> bool:
    return not rig.damage(target)


async def test_what_cannot_be_done_is_refused(rig: Rig, tmp_path: Path) -> None:
    inflictor = Inflictor(rig, scratch=tmp_path)
    for primitive in (
        Primitive(Kind.DISK, "store", {"left_bytes": 0}),
        Primitive(Kind.LINK, "node-1", {"action": "cut", "other": "", "amount": 1.0}),
        Primitive(Kind.SETTING, "store", {"name": "nonsense", "value": "1", "when": "now"}),
        Primitive(Kind.PORT, "node-1", {"action": "changed"}),
        Primitive(Kind.FILE, "store", {"path": "gone", "action": "empty", "restart": False}),
    ):
        with pytest.raises((RigError, StopIteration, RuntimeError)):
            await inflictor.inflict(primitive)
    assert not any(rig.damage(name) for name in ("store", "node-1"))


async def test_clients_see_what_fails_and_who_takes_writes(rig: Rig, tmp_path: Path) -> None:
    inflictor = Inflictor(rig, scratch=tmp_path)
    surface = await inflictor.surface()
    parts = {part.name: part for part in surface.parts}
    types = {setting.name: setting.type for setting in parts["store"].settings}
    assert types["appendonly"] is SettingType.BOOL
    assert types["maxmemory"] is SettingType.INTEGER
    assert "promote" in {command.name for command in parts["store"].commands}
    assert (parts["node-1"].served, parts["store"].served) == (True, False)

    async def reads() -> bool | None:
        return None

    view = ClientView(
        rig,
        inflictor.servers,
        Canary(acknowledged_at=lambda: None, reads=reads),
        since=asyncio.get_running_loop().time,
        scratch=tmp_path,
    )
    view.start()
    await eventually(lambda: bool(view.looks))
    assert view.looks[0].served == ("node-1",)
    assert view.looks[0].writers == ("store",)
    assert view.looks[0].writes is None
    assert all(view.looks[0].running.values())
    await rig.pause("node-1")
    await eventually(lambda: view.looks[-1].served == ())
    await eventually(lambda: view.looks[-1].running["node-1"] == "")
    await rig.resume("node-1")
    await eventually(lambda: view.looks[-1].served == ("node-1",))
    await view.stop()
    # Equal looks in a row are one.
    pairs = zip(view.looks, view.looks[1:], strict=False)
    assert all(first.until_s <= second.at_s for first, second in pairs)
    assert len(view.looks) < 8
    assert 0.0 <= view.lag_s < 60.0


async def test_hostile_clients_come_and_go(rig: Rig, tmp_path: Path) -> None:
    hostility = Hostility(rig, tmp_path)
    server = Inflictor(rig, scratch=tmp_path).servers["store"]
    undos = [hostility.begin("store", action, 5) for action in ("idle", "half", "garbage")]
    undos.append(hostility.begin("node-1", "requests", 5))
    assert await server.takes_writes() is True
    endpoint = endpoint_of(rig, "node-1", tmp_path)
    assert endpoint is not None
    assert await endpoint.ask(0)
    await endpoint.close()
    await undos[0]()
    await hostility.stop()
    await nothing_to_undo()
    assert endpoint_of(rig, "store", tmp_path) is None


async def test_a_server_is_known_by_its_program(tmp_path: Path) -> None:
    def seat(name: str) -> Seat:
        return Seat(name, "k", 1, 2, tmp_path)

    processes = [
        ProcessSpec("a", "k", ("/usr/bin/etcd", "--name", "a")),
        ProcessSpec("b", "k", ("/usr/bin/postgres", "--config-file=x")),
        ProcessSpec("c", "k", ("/bin/sh", "{dir}/s.sh"), files={"s.sh": 'exec "$1/postgres"\n'}),
        ProcessSpec("d", "k", ("/opt/redis-server", "x.conf", "--sentinel")),
        ProcessSpec("e", "k", ("/opt/etcdctl", "/etcd.yml")),
        ProcessSpec("f", "k", ("/bin/sh", "{dir}/s.sh"), files={"s.sh": "java kafka.Kafka f\n"}),
    ]
    settings = "node.id=1\nlisteners=PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2\n"
    (tmp_path / "server.properties").write_text(settings)
    found = servers_of(processes, {each.name: seat(each.name) for each in processes})
    names = {name: type(server).__name__ for name, server in found.items()}
    assert names == {
        "a": "EtcdServer",
        "b": "PostgresServer",
        "c": "PostgresServer",
        "d": "ValkeyServer",
        "f": "KafkaServer",
    }
    # Nobody answers at those ports, and that is no role.
    assert [await server.takes_writes() for server in found.values()] == [None] * 5
    with pytest.raises(RigError, match="before a start"):
        await found["a"].change("quota", "1")


async def test_flags_of_a_help_text_have_the_type_of_their_default() -> None:
    text = "Member:\n  --name 'default'\n    Text.\n  --max-wals '5'\n\t--not-a-flag\n"
    text += "  --debug 'false'\n  --interval '2h'\n  --config-file ''\n"
    types = {setting.name: setting.type for setting in flags_in(text)}
    assert types == {
        "name": SettingType.TEXT,
        "max-wals": SettingType.INTEGER,
        "debug": SettingType.BOOL,
        "interval": SettingType.DURATION,
    }


async def test_a_value_is_written_in_the_format_of_its_file(tmp_path: Path) -> None:
    formats = {
        "a.json": ('{"limit": 1}', '{\n "limit": 5,\n "new": "x y"\n}\n'),
        "a.conf": ("limit 1\nother 2\n", 'limit 5\nother 2\nnew "x y"\n'),
        "b.conf": ("limit = 1\nother = 2\n", "limit = 5\nother = 2\nnew = 'x y'\n"),
        "a.toml": ("limit = 1\n[part]\na = 1\n", 'new = "x y"\nlimit = 5\n[part]\na = 1\n'),
        "a.properties": ("limit=1\nother=2\n", "limit=5\nother=2\nnew=x y\n"),
        "a.yaml": ("limit: 1\nother: 2\n", 'limit: 5\nother: 2\nnew: "x y"\n'),
    }
    for name, (before, after) in formats.items():
        file = tmp_path / name
        file.write_text(before)
        write_setting(file, "limit", "5")
        write_setting(file, "new", "x y")
        assert file.read_text() == after
    assert json.loads((tmp_path / "a.json").read_text()) == {"limit": 5, "new": "x y"}
    file.write_text("port: 1234\nnear: 12345\n")
    assert replace_port(file, 1234, 999)
    assert file.read_text() == "port: 999\nnear: 12345\n"
    assert not replace_port(file, 1234, 999)
