"""The rig of PostgreSQL is data without secrets in the open, and its application is obedient."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from operator_lab.faults import _scene
from operator_protocols.ports import Fault
from operator_protocols.promises import broken_promises
from operator_sre.plugins import find_plugin
from operator_sre.subjects.postgres import faults, plugin
from operator_sre.subjects.postgres.client import STATE_FILE, WORK_FILE, Client, main
from operator_sre.subjects.postgres.faults import FAULTS
from operator_sre.subjects.postgres.rig import (
    BILLING,
    CONFIG_FILE,
    OWNER_FILE,
    PRIMARY,
    RENEW_FILE,
    REPLICA,
    SHOP,
    SUPERUSER,
    PostgresDepot,
    copy_programs,
    rig,
)
from operator_sre.subjects.postgres.scenes import (
    answer,
    append_setting,
    has_setting,
    leave,
    owner_of,
    password_of,
    remove_setting,
    renew,
    work,
)
from operator_sre.subjects.postgres.session import PASSWORDS_FILE
from operator_sre.subjects.postgres.tools import KNOWLEDGE, postgres_tools
from tests.subjects.postgres.watching import Watch

HELD = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'billing'"


def test_programs_in_a_folder_that_only_root_enters_are_copied_for_all(tmp_path: Path) -> None:
    installed, copies = tmp_path / "closed" / "site" / "postgres" / "install", tmp_path / "copies"
    for part in ("bin", "lib", "share"):
        (installed / part).mkdir(parents=True)
    (installed / "bin" / "postgres").write_text("#!/bin/sh\necho 18\n")
    (installed / "bin" / "postgres").chmod(0o755)
    (installed.parent.with_name("postgres.libs")).mkdir()
    (tmp_path / "closed").chmod(0o700)
    copy = copy_programs(installed, copies)
    assert copy == copy_programs(installed, copies)
    assert [path.name for path in copies.iterdir()] == [copy.parents[1].name]
    assert (copy.parents[1] / "postgres.libs").is_dir()
    folders = [copy / "bin", *(copy / "bin").parents]
    assert all(path.stat().st_mode & 0o005 == 0o005 for path in folders[: folders.index(copies)])


def _passwords(spec: object) -> set[str]:
    return set(re.findall(r"\b[0-9a-f]{32}\b", str(spec)))


def test_passwords_lie_in_files_only_and_differ_from_rig_to_rig() -> None:
    spec = rig()
    passwords = _passwords(spec)
    assert len(passwords) == 5
    assert not passwords & _passwords(rig())
    assert spec.load is not None
    for process in spec.processes:
        open_words = (process.argv, process.env, process.prepare, process.ready_argv)
        assert not _passwords(open_words)
    assert not _passwords((spec.load.dsn, spec.load.statement))


def test_servers_are_unprivileged_linked_and_have_volumes() -> None:
    processes = {one.name: one for one in rig().processes}
    assert set(processes) == {PRIMARY, REPLICA, BILLING}
    for name in (PRIMARY, REPLICA):
        one = processes[name]
        assert (one.unprivileged, one.linked, one.volume_mb) == (True, True, 400)
        assert {CONFIG_FILE, OWNER_FILE, PASSWORDS_FILE} <= set(one.files)
        assert SUPERUSER in one.files[OWNER_FILE]
        assert SUPERUSER not in one.files[PASSWORDS_FILE]
    assert SHOP in processes[BILLING].files[PASSWORDS_FILE]
    assert RENEW_FILE in processes[REPLICA].files["start.sh"]


def test_what_is_done_inside_of_a_server_is_a_fault() -> None:
    named = {
        *("bad_configuration", "configuration_drift", "connections_exhausted", "missing_index"),
        *("idle_in_transaction", "lock_contention", "replay_conflict", "replay_pause"),
        *("restart_pending", "slot_left", "vacuum_off", "wrong_credential", "wrong_promotion"),
    }
    # Faults of this subject, unlike those of any process, are defined in its own module.
    own = [fault for fault in FAULTS if fault.inject.__module__ == faults.__name__]
    assert {fault.name for fault in own if fault.kind == "server"} == named
    defined = [one for one in vars(faults).values() if isinstance(one, Fault)]
    assert all(one in FAULTS for one in defined)
    assert len({fault.inject for fault in FAULTS}) == len(FAULTS)


def test_no_cause_has_the_name_of_a_fault() -> None:
    assert not {cause.name for cause in KNOWLEDGE.causes} & {fault.name for fault in FAULTS}
    assert plugin.causes == KNOWLEDGE.causes
    assert plugin.tools is postgres_tools


@pytest.mark.asyncio
async def test_the_plug_in_keeps_what_every_plug_in_promises() -> None:
    assert await broken_promises(find_plugin("postgres")) == []


@pytest.mark.asyncio
async def test_no_process_of_the_rig_shows_a_password(watch: Watch, rig_directory: Path) -> None:
    passwords = _passwords((rig_directory / "rig.json").read_text())
    assert len(passwords) == 5
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().decode(errors="replace")
        except OSError:
            continue
        assert not any(password in words for password in passwords), words


@pytest.mark.asyncio
async def test_the_application_does_its_work_once(watch: Watch) -> None:
    scene = _scene(watch.rig, PRIMARY)
    primary = scene.of(PRIMARY)
    await watch.until(lambda seen, found: True)
    before = await answer(primary, HELD)
    await work(scene, "one", [{"server": PRIMARY, "statements": ["SELECT 1"]}] * 2)
    await work(scene, "two", [{"server": REPLICA, "statements": ["SELECT 1"]}])
    home = Path(scene.of(BILLING).data_dir)
    assert json.loads((home / STATE_FILE).read_text()) == ["one", "two"]
    assert set(json.loads((home / WORK_FILE).read_text())) == {"one", "two"}
    assert await answer(primary, HELD) == before + 2
    async with owner_of(primary) as session:
        await session.ask(
            "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 5000))"
            " FROM pg_stat_activity WHERE application_name = 'billing' AND query = 'SELECT 1'"
        )
    assert await answer(primary, HELD) == before
    await leave(scene, "one")
    assert await answer(scene.of(REPLICA), HELD) == 1
    await leave(scene, "two")
    await watch.healthy()
    assert await answer(primary, HELD) == before


@pytest.mark.asyncio
async def test_what_an_application_was_told_before_its_start_is_past(tmp_path: Path) -> None:
    (tmp_path / "servers.json").write_text('{"primary": "1"}')
    (tmp_path / WORK_FILE).write_text('{"old": [{"server": "primary"}]}')
    client = Client(tmp_path)
    assert client._jobs == {"old": []}
    with pytest.raises(SystemExit):
        main()


@pytest.mark.asyncio
async def test_lines_of_settings_come_and_go(watch: Watch) -> None:
    target = watch.target(REPLICA)
    append_setting(target, "work_mem = '7MB'")
    assert has_setting(target, "work_mem = '7MB'")
    remove_setting(target, "work_mem = '7MB'")
    assert not has_setting(target, "work_mem = '7MB'")
    assert password_of(target, SUPERUSER)
    assert callable(renew)


@pytest.mark.asyncio
async def test_only_what_the_primary_has_not_is_gone(watch: Watch) -> None:
    depot = PostgresDepot(watch.settings)
    marks = [f"mark-{number}" for number in range(4)]
    assert [await depot.put(mark) for mark in marks] == [True] * 4
    assert not await depot.put("mark-0")  # it is there already, so nothing was done
    assert await depot.find_lost(marks) == frozenset()
    async with watch.owner(PRIMARY) as session:
        await session.do("DELETE FROM receipts WHERE mark = 'mark-1'")
    assert await depot.find_lost([*marks, "never"]) == frozenset({"mark-1", "never"})
    async with watch.hurt("primary_kill", PRIMARY):
        assert not await depot.put("alone")
        assert await depot.find_lost(marks) is None  # a replica may be behind: unknown is not lost
    await watch.healthy()
    assert await depot.find_lost(marks) == frozenset({"mark-1"})
    async with watch.owner(PRIMARY) as session:
        await session.do("ALTER TABLE receipts RENAME TO gone")
    try:
        assert await depot.find_lost(marks) == frozenset(marks)
    finally:
        async with watch.owner(PRIMARY) as session:
            await session.do("ALTER TABLE gone RENAME TO receipts")
