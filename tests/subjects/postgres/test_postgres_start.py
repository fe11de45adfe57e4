"""What a server would be after a start, read from its directory and from the other servers."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from operator_protocols.domain.observation import Seen, Value
from operator_protocols.domain.target import Target
from operator_sre.subjects.postgres.start import compare_starts, start_readings

PAGE, SEGMENT = 8192, 1 << 20


def _server(folder: Path, *, pages: int = 3, standby: bool = False, runs_at: str = "") -> Target:
    """A directory with a control file, and WAL of which so many pages of segment 2 are written."""
    home = folder / "main"
    (home / "global").mkdir(parents=True)
    (home / "pg_wal").mkdir()
    control = struct.pack("=Q24xQQI", 77, 5, 5, 3) + bytes(100)
    (home / "global" / "pg_control").write_bytes(control)
    if standby:
        (home / "standby.signal").touch()
    for number, written in ((1, SEGMENT // PAGE), (2, pages), (3, 0)):
        # What is not written yet has the addresses of the segment that it was before.
        start = number * SEGMENT
        addresses = [start + n * PAGE if n < written else 7 for n in range(SEGMENT // PAGE)]
        text = b"".join(struct.pack("=HHIQ", 1, 0, 3, at).ljust(PAGE, b"x") for at in addresses)
        (home / "pg_wal" / f"00000003{0:08X}{number:08X}").write_bytes(text)
    return Target("primary", "server", data_dir=str(folder), runs_at=runs_at)


@pytest.mark.parametrize("pages", [1, 3, 127, 128])
def test_the_end_of_the_wal_is_behind_its_last_written_page(tmp_path: Path, pages: int) -> None:
    readings = start_readings(_server(tmp_path, pages=pages))
    assert readings == {
        "data_present": True,
        "starts_as": "primary",
        "start_system": "77",
        "start_timeline": 3,
        "start_wal_bytes": 2 * SEGMENT + pages * PAGE,
    }


def test_the_mark_of_a_standby_tells_its_role(tmp_path: Path) -> None:
    assert start_readings(_server(tmp_path, standby=True))["starts_as"] == "replica"


def test_an_empty_directory_holds_no_data(tmp_path: Path) -> None:
    (tmp_path / "main").mkdir()
    target = Target("primary", "server", data_dir=str(tmp_path))
    assert start_readings(target) == {"data_present": False}


def test_of_what_is_elsewhere_or_damaged_nothing_is_known(tmp_path: Path) -> None:
    assert start_readings(_server(tmp_path, runs_at="ssh://db")) == {}
    assert start_readings(Target("primary", "server")) == {}
    assert start_readings(Target("primary", "server", data_dir=str(tmp_path / "none"))) == {}
    (tmp_path / "main" / "global" / "pg_control").write_bytes(b"short")
    assert start_readings(Target("primary", "server", data_dir=str(tmp_path))) == {}


DOWN: dict[str, Value] = {"kind": "server", "up": False, "starts_as": "primary"}
REPLICA: dict[str, Value] = {"kind": "server", "role": "replica", "received_bytes": 100}


@pytest.mark.parametrize(
    ("own", "other", "second_writer", "older"),
    [
        ({**DOWN, "start_wal_bytes": 200}, REPLICA, False, False),
        ({**DOWN, "start_wal_bytes": 50}, REPLICA, False, True),
        (DOWN, REPLICA, False, None),
        ({**DOWN, "start_wal_bytes": 200}, {"kind": "server", "role": "replica"}, False, None),
        # The other was promoted, or this replica has lost its mark.
        (
            {**DOWN, "start_wal_bytes": 200},
            {"kind": "server", "role": "primary", "wal_position_bytes": 300},
            True,
            True,
        ),
        ({**DOWN, "starts_as": "replica"}, {"kind": "server", "role": "primary"}, False, False),
        # Both are down: each may be the primary.
        (
            {**DOWN, "start_wal_bytes": 200},
            {**DOWN, "start_wal_bytes": 100},
            None,
            False,
        ),
        (
            {**DOWN, "start_wal_bytes": 200},
            {**DOWN, "starts_as": "replica", "start_wal_bytes": 100},
            False,
            False,
        ),
        # Nothing is known of the other.
        ({**DOWN, "start_wal_bytes": 200}, {"kind": "server"}, None, None),
        # A client has no role.
        ({**DOWN, "start_wal_bytes": 200}, {"kind": "client"}, False, False),
        # Its data is that of another cluster, or of the time before the other was promoted.
        (
            {**DOWN, "start_wal_bytes": 200, "start_system": "1"},
            {**REPLICA, "start_system": "2"},
            False,
            True,
        ),
        (
            {**DOWN, "start_wal_bytes": 200, "start_timeline": 1},
            {**REPLICA, "start_timeline": 2},
            False,
            True,
        ),
        # It serves already, in the role that it would have again.
        ({**DOWN, "up": True, "role": "primary"}, REPLICA, False, False),
        ({**DOWN, "data_present": False, "starts_as": None}, REPLICA, None, None),
    ],
)
def test_a_start_that_harms_another_is_foreseen(
    own: dict[str, Value],
    other: dict[str, Value],
    second_writer: bool | None,
    older: bool | None,
) -> None:
    first, _ = compare_starts([Seen("primary", own), Seen("other", other)])
    found = first.readings
    assert found.get("start_second_writer") is second_writer
    assert found.get("start_data_older") is older


@pytest.mark.parametrize(("reached", "older"), [(200, False), (201, True), (None, False)])
def test_a_primary_with_less_than_it_had_is_foreseen(reached: int | None, older: bool) -> None:
    own = Seen("primary", {**DOWN, "start_wal_bytes": 200})
    before = {} if reached is None else {"primary": reached}
    (alone,) = compare_starts([own], before)
    assert alone.readings["start_data_older"] is older
