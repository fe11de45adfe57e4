"""What a server answered becomes flat readings, without values of anybody's rows."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from operator_protocols.domain.observation import Seen, Value
from operator_protocols.domain.target import Access, Process, Target
from operator_protocols.errors import ConfigError
from operator_protocols.kit.machine import data_dir_of, is_running
from operator_protocols.ports import SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.subjects.postgres.readings import (
    Scans,
    compare,
    configured_of,
    differs,
    rates,
    readings_of,
    scans_of,
    words_of,
)
from operator_sre.subjects.postgres.sections import VERSION_MIN, question, sections
from operator_sre.subjects.postgres.session import (
    ACTING,
    PASSWORDS_FILE,
    WATCHING,
    Login,
    home_of,
    login_of,
    password_in,
)
from operator_sre.subjects.postgres.subject import local_readings
from tests.processes.waiting import processes_in


def test_a_statement_is_shown_up_to_its_first_value() -> None:
    assert words_of("UPDATE users SET password='hunter2' WHERE id=5") == "UPDATE users SET password"
    assert words_of("  SELECT\n  *  FROM t ") == "SELECT * FROM t"
    assert words_of("SELECT $1") == "SELECT"
    assert words_of(None) == ""
    assert len(words_of("x" * 500)) == 40


@pytest.mark.parametrize(
    ("written", "running", "shown", "unit", "kind", "expected"),
    [
        ("64MB", "8192", "64MB", "8kB", "integer", False),
        ("65536kB", "8192", "64MB", "8kB", "integer", False),
        ("64MB", "4096", "32MB", "8kB", "integer", True),
        ("1min", "60", "1min", "s", "integer", False),
        ("60s", "60", "1min", "s", "integer", False),
        ("60000ms", "60", "1min", "s", "integer", False),
        ("2min", "60", "1min", "s", "integer", True),
        ("0.5", "0.5", "0.5", None, "real", False),
        ("-1", "-1", "-1", "ms", "integer", False),
        ("yes", "on", "on", None, "bool", False),
        ("off", "on", "on", None, "bool", True),
        ("iso, mdy", "ISO, MDY", "ISO, MDY", None, "string", False),
        ("Replica", "replica", "replica", None, "enum", False),
        ("a", "b", "b", None, "string", True),
        (None, "b", "b", None, "string", True),
    ],
)
def test_a_setting_is_the_same_however_it_is_spelled(
    written: str | None, running: str, shown: str, unit: str | None, kind: str, expected: bool
) -> None:
    assert differs(written, running, shown, unit, kind) is expected


def test_rates_name_the_table_that_is_read_most() -> None:
    before: Scans = {"a": (10, 1_000, 500), "b": (1, 10, 900)}
    now: Scans = {"a": (12, 2_000, 500), "b": (5, 8_010, 900), "new": (99, 99_999, 5)}
    assert rates(before, now, 2.0) == {
        "scanned_rows_per_s": 4_000.0,
        "scans_per_s": 2.0,
        "scanned_table": "b",
        "scanned_table_rows": 900,
    }
    after_a_crash: Scans = {"a": (0, 0, 500)}
    assert rates(before, after_a_crash, 2.0)["scanned_rows_per_s"] == 0.0


def test_sections_that_were_not_answered_give_no_readings() -> None:
    assert readings_of({}) == {}
    assert readings_of({"state": None, "files": "nonsense"}) == {}
    assert scans_of({}) == {}
    assert scans_of({"tables": {"scanned": [["t", 3, None, 7]]}}) == {"t": (3, 0, 7)}


def test_every_version_is_asked_what_it_knows() -> None:
    old, new = sections(VERSION_MIN, large_rows=5), sections(180000, large_rows=5)
    assert "pg_stat_bgwriter" in old["checkpoints"]
    assert "pg_stat_checkpointer" in new["checkpoints"]
    assert "live >= 5" in new["tables"]
    assert question(new).count("'version', current_setting") == 1


def _settings(options: dict[str, object], secrets: dict[str, str]) -> SubjectSettings:
    return SubjectSettings(
        "pg", lambda: (), SystemClock(), 1.0, options, secret=secrets.__getitem__
    )


def test_who_signs_in() -> None:
    target = Target("a", "server", access=Access(user="eve", password_file="/p"))
    settings = _settings(
        {"acting_user": "hands", "acting_password_file": "/h"}, {"/p": "x", "/h": "y"}
    )
    assert login_of(settings, target) == Login("eve", "x", "postgres", target.access or Access())
    acting = login_of(settings, target, acting=True)
    assert (acting.user, acting.password) == ("hands", "y")
    plain = login_of(_settings({"database": "shop"}, {}), Target("b", "server"))
    assert (plain.user, plain.password, plain.database) == (WATCHING, "", "shop")
    with pytest.raises(ConfigError):
        login_of(_settings({"user": 3}, {}), Target("b", "server"))
    assert "x" not in repr(login_of(settings, target)).replace("example", "")


def test_a_rig_leaves_its_passwords_beside_the_data(tmp_path: Path) -> None:
    file = tmp_path / PASSWORDS_FILE
    lines = f"*:*:*:{WATCHING}:one:two\n*:*:*:{ACTING}:three\nnonsense\n"
    file.write_text(lines)
    target = Target("a", "server", data_dir=str(tmp_path / "data"))
    assert home_of(target) == tmp_path
    settings = _settings({}, {str(file): lines})
    assert login_of(settings, target).password == "one:two"
    assert login_of(settings, target, acting=True) == Login(ACTING, "three")
    assert home_of(Target("b", "server")) is None
    assert password_in(lines, "nobody") == ""


def test_room_and_log_are_seen_from_outside(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("12345")
    target = Target("a", "server", data_dir=str(tmp_path), log=str(tmp_path / "a.log"))
    seen = local_readings(target)
    assert seen["log_bytes"] == 5
    assert seen["disk_watched"] is True
    assert 0 < int(seen["disk_free_bytes"] or 0) <= int(seen["disk_total_bytes"] or 0)
    assert local_readings(Target("a", "server")) == {}
    assert local_readings(Target("a", "server", data_dir="/", runs_at="ssh://else")) == {}
    missing = local_readings(Target("a", "server", data_dir=str(tmp_path / "none")))
    assert missing == {"disk_watched": True}


def test_a_process_is_told_from_a_later_one(tmp_path: Path) -> None:
    from operator_sre.processes.identity import process_of

    me = process_of(os.getpid())
    assert me is not None
    assert is_running(me)
    assert not is_running(Process(me.pid, me.started - 100.0))
    assert not is_running(Process(2**22 + 5, time.time()))
    inside = data_dir_of(Target("a", "server", data_dir=str(tmp_path), process=me))
    assert inside == Path(f"/proc/{me.pid}/root{tmp_path}")
    assert data_dir_of(Target("a", "server", data_dir=str(tmp_path))) == tmp_path
    assert processes_in(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "reading"),
    [("work_mem", "work_mem"), ("pg.x", "pg.x"), ("access rule", None), ("", None), (None, None)],
)
def test_only_a_setting_is_named_as_one(name: str | None, reading: str | None) -> None:
    error = {"file": "/x/postgresql.conf", "line": 3, "name": name, "error": "no"}
    found = readings_of({"files": {"errors": 1, "error": error}})
    assert found.get("configuration_error_name") == reading
    assert found["configuration_errors"] == 1


DOWN: dict[str, Value] = {"kind": "server", "up": False, "reachable": False}
PRIMARY: dict[str, Value] = {"kind": "server", "up": True, "role": "primary"}
REPLICA: dict[str, Value] = {"kind": "server", "up": True, "role": "replica"}
FED: dict[str, Value] = {**REPLICA, "attached": True, "receiver_silent_s": 0.5}


@pytest.mark.parametrize(
    ("others", "heard"),
    [
        ([FED], True),
        ([{**REPLICA, "attached": False}], False),
        ([{**FED, "receiver_silent_s": 9.0}], None),  # it may have nothing to say
        ([], None),
        ([{**PRIMARY, "replicas_attached": 1}], True),
        ([{**PRIMARY, "replicas_attached": 0}], False),
        ([{**PRIMARY, "replicas_attached": 1}, FED], False),  # that one is the other
        ([{**PRIMARY, "replicas_attached": 2}, FED], True),
    ],
)
def test_who_does_not_answer_us_may_be_heard_by_another(
    others: list[dict[str, Value]], heard: bool | None
) -> None:
    seen = [Seen("gone", DOWN), *(Seen(str(at), one) for at, one in enumerate(others))]
    first, *rest = compare(seen)
    assert first.readings.get("heard") is heard
    assert all("heard" not in one.readings for one in rest)


def test_whoever_is_not_the_only_primary_knows() -> None:
    two = compare([Seen("a", PRIMARY), Seen("b", PRIMARY), Seen("c", REPLICA)])
    assert [one.readings["another_writes"] for one in two] == [True, True, False]
    assert compare([Seen("a", PRIMARY)])[0].readings["another_writes"] is False


def test_what_is_configured_is_told_by_name_without_secrets() -> None:
    parts = {
        "setting": {"work_mem": "4096", "primary_conninfo": "password=hunter2"},
        "account": {"app": "may log in"},
        "schema": None,
    }
    found = configured_of({"configured": parts})
    assert found is not None
    assert (found["setting work_mem"], found["account app"]) == ("4096", "may log in")
    assert "hunter2" not in str(found)
    assert configured_of({}) is None
