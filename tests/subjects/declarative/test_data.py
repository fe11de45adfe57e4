"""A lever that starts what holds data runs by itself only when that harms no data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from operator_protocols.domain.observation import Observation, Seen
from operator_protocols.domain.precondition import find_unmet
from operator_protocols.domain.target import Target
from operator_sre.subjects.declarative.data import (
    DATA_INTACT,
    FREE_BYTES,
    guard_levers,
    see_data,
)
from operator_sre.subjects.declarative.description import describe
from operator_sre.subjects.declarative.probes.amqp import AmqpProbe
from operator_sre.subjects.declarative.probes.kafka import KafkaProbe
from operator_sre.subjects.declarative.probes.kinds import OF_STORES
from operator_sre.subjects.declarative.probes.mysql import MySqlProbe
from operator_sre.subjects.declarative.probes.place import Probe
from operator_sre.subjects.declarative.probes.redis import RedisProbe
from operator_sre.subjects.declarative.probes.s3 import S3Probe
from operator_sre.subjects.declarative.probes.sql import SqlProbe
from operator_sre.subjects.declarative.probes.tcp import TcpProbe
from tests.contract.clock import NOON
from tests.subjects.declarative.trying import described

BASE = """\
name: shop
targets:
  db-1: {kind: db, port: 1, data_dir: /srv/db-1}
  web-1: {kind: web, port: 2}
%s
probes:
  page: {tcp: {}}
invariants:
  answers: {holds: page.up}
levers:
  %s
"""
RESTART = "restart: {command: [systemctl, restart, x], risk: low, repairs: [process_dead]}"
START = "again: {command: [systemctl, start, x], repairs: [answers]}"
SECOND = "  db-2: {kind: db, port: 3, data_dir: /srv/db-2}"
OWN = "{mine: {reading: page.up, is: true}}"


def _requires(levers: str = RESTART, more: str = "", storing: tuple[str, ...] = ()) -> list[str]:
    found = describe(BASE % (more, levers), "shop.yaml")
    (lever,) = guard_levers(found.levers, found.targets, storing)
    names = [f"{each.name}:{','.join(each.kinds)}" for each in lever.requires]
    return sorted(names)


@pytest.mark.parametrize(
    ("levers", "more", "storing", "expected"),
    [
        (RESTART, "", (), ["data_intact:db", "room_on_disk:db"]),
        (RESTART, SECOND, (), ["data_intact:db", "role_known:db", "room_on_disk:db"]),
        (RESTART, "", ("web-1",), ["data_intact:db,web", "room_on_disk:db,web"]),
        (RESTART.replace("{command", "{on: web, command"), "", (), []),
        (RESTART.replace("{command", f"{{requires: {OWN}, command"), "", (), ["mine:"]),
        ("clean: {command: [rm, x], repairs: [answers]}", "", (), []),
        (
            "again: {command: [systemctl, start, x], repairs: [answers]}",
            "",
            (),
            ["data_intact:db", "room_on_disk:db"],
        ),
    ],
)
def test_what_starts_data_needs_an_answer(
    levers: str, more: str, storing: tuple[str, ...], expected: list[str]
) -> None:
    assert _requires(levers, more, storing) == expected


@pytest.mark.parametrize(
    ("section", "kind", "expected"),
    [
        ("{redis: {}}", RedisProbe, ["data_intact", "room_on_disk"]),
        ("{sql: {query: SELECT 1 AS one}}", SqlProbe, ["data_intact", "room_on_disk"]),
        ("{mysql: {query: SELECT 1 AS one}}", MySqlProbe, ["data_intact", "room_on_disk"]),
        ("{amqp: {}}", AmqpProbe, ["data_intact", "room_on_disk"]),
        ("{kafka: {}}", KafkaProbe, ["data_intact", "room_on_disk"]),
        ("{s3: {bucket: b}}", S3Probe, ["data_intact", "room_on_disk"]),
        ("{tcp: {}}", TcpProbe, []),
    ],
)
def test_what_is_asked_like_a_database_holds_data(
    section: str, kind: type[Probe], expected: list[str], tmp_path: Path
) -> None:
    text = (BASE % ("", RESTART)).replace(", data_dir: /srv/db-1", "").replace("{tcp: {}}", section)
    assert [type(each.probe) for each in describe(text, "shop.yaml").probes] == [kind]
    assert (kind in OF_STORES) == bool(expected)
    (tool,) = described(tmp_path, text).tools
    assert [each.name for each in tool.spec.requires] == expected


def test_an_emptied_directory_stays_stopped(tmp_path: Path) -> None:
    home = tmp_path / "data"
    home.mkdir()
    (home / "rows").write_text("much")
    text = (BASE % ("", RESTART)).replace("/srv/db-1", str(home))
    found = describe(text, "shop.yaml")
    (lever,) = guard_levers(found.levers, found.targets, ())
    target = next(each for each in found.targets if each.name == "db-1")

    def unmet(*, up: bool) -> bool:
        seen = see_data(target, Seen("db-1", {"page.up": up}))
        look = Observation("shop", NOON, (seen,))
        assert DATA_INTACT in seen.readings
        return bool(find_unmet(lever.requires, "db-1", found.targets, look))

    assert not unmet(up=True)
    assert not unmet(up=True)
    assert not unmet(up=False)
    (home / "rows").unlink()
    assert unmet(up=False)


def test_what_a_start_would_find_includes_the_room_on_its_disk(tmp_path: Path) -> None:
    seen = see_data(Target("db-1", "db", data_dir=str(tmp_path)), Seen("db-1", {}))
    free = os.statvfs(tmp_path)
    assert seen.readings[FREE_BYTES] == pytest.approx(free.f_bavail * free.f_frsize, rel=0.2)
    gone = see_data(Target("db-1", "db", data_dir=str(tmp_path / "gone")), Seen("db-1", {}))
    assert FREE_BYTES not in gone.readings
