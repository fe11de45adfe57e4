"""What lies beside a target on this machine, and what a subject does alike with all of them."""

from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.observation import Seen
from operator_protocols.domain.target import Target
from operator_protocols.errors import MissingExtraError, ObservationError
from operator_protocols.kit.machine import (
    disk_room,
    find_program,
    has_exited,
    is_paused,
    is_running,
    log_bytes,
    replace_text,
)
from operator_protocols.kit.subject import BaseSubject, see_stranger
from operator_protocols.ports import SubjectSettings
from operator_sre.processes.identity import process_of
from tests.contract.clock import NOON, HeldClock
from tests.processes.waiting import eventually


def test_a_disk_says_how_much_is_free_and_of_how_much(tmp_path: Path) -> None:
    room = disk_room(tmp_path)
    assert room is not None
    assert 0 <= room[0] <= room[1]
    assert disk_room(tmp_path / "none") is None


def test_a_log_on_another_machine_has_no_size_here(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("12345")
    assert log_bytes(Target("a", "node", log=str(log))) == 5
    assert log_bytes(Target("a", "node", log=str(log), runs_at="ssh://else")) is None
    assert log_bytes(Target("a", "node", log=str(tmp_path / "none"))) is None
    assert log_bytes(Target("a", "node")) is None


def test_a_file_is_replaced_with_its_mode_and_leaves_no_draft(tmp_path: Path) -> None:
    file = tmp_path / "a.conf"
    replace_text(file, "one")
    file.chmod(0o640)
    replace_text(file, "two")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("two", 0o640)
    assert list(tmp_path.iterdir()) == [file]


def test_a_program_that_did_not_come_along_names_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "some_programs"
    (package / "bin").mkdir(parents=True)
    (package / "__init__.py").touch()
    program = package / "bin" / "run"
    program.touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(MissingExtraError, match="Run for this machine"):
        find_program("some_programs", "bin", "run", subject="x", program="Run for this machine")
    program.chmod(0o755)
    found = find_program("some_programs", "bin", "run", subject="x", program="Run")
    assert found == program
    with pytest.raises(MissingExtraError, match="The rig of 'x'"):
        find_program("no_such_programs", "run", subject="x", program="Run")


def test_a_subject_has_targets_and_refuses_to_look_at_nothing() -> None:
    targets = [Target("a", "odd")]
    subject = BaseSubject(SubjectSettings("shop", lambda: targets, HeldClock(), 1.0, {}), ())
    assert (subject.name, subject.targets(), subject.invariants) == ("shop", targets, ())
    assert subject.present_targets() == targets
    seen = see_stranger(targets[0])
    assert seen == Seen("a", problem="its kind 'odd' is not supported")
    observation = subject.observation([seen])
    assert (observation.subject, observation.at, observation.seen) == ("shop", NOON, (seen,))
    targets.clear()
    with pytest.raises(ObservationError, match="'shop' has no targets"):
        subject.present_targets()


@pytest.mark.asyncio
async def test_a_process_that_a_signal_stopped_is_paused_until_it_goes_on() -> None:
    child = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        process = process_of(child.pid)
        assert process is not None
        assert (is_running(process), is_paused(process)) == (True, False)
        here = Target("a", "node", process=process)
        assert not has_exited(here)
        child.send_signal(signal.SIGSTOP)
        await eventually(lambda: is_paused(process))
        assert is_running(process)
        assert not is_paused(replace(process, started=process.started - 60.0))
        child.send_signal(signal.SIGCONT)
        await eventually(lambda: not is_paused(process))
    finally:
        child.kill()
        await child.wait()
    assert (is_running(process), is_paused(process)) == (False, False)
    assert has_exited(here)
    assert not has_exited(replace(here, runs_at="ssh://elsewhere"))
    assert not has_exited(Target("a", "node"))
