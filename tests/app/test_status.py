"""The status tells what runs and names every problem."""

from __future__ import annotations

import asyncio
from pathlib import Path

from operator_sre.app.parts import FILE
from operator_sre.app.restraints import switch_on
from operator_sre.app.status import StatusView, show_status
from tests.app.home import SUBJECTS, opened

RECORD = """{"pid": 1, "version": "1", "started_at": "then", "parts": [
{"name": "web", "since": "then", "state": "failed", "address": "", "restarts": 2,
 "problem": "the port is taken"}]}"""


def test_a_new_home_says_that_nothing_runs(tmp_path: Path) -> None:
    with opened(tmp_path) as app:
        status = show_status(app)
    assert isinstance(status, StatusView)
    assert not status.fine
    assert status.service == "not running"
    assert status.problems[:2] == ("no monitor is running", "no agent is running")
    assert status.home.free_bytes > 0


def test_a_service_that_has_ended_has_no_parts_and_the_kill_switch_is_a_problem(
    tmp_path: Path,
) -> None:
    with opened(tmp_path, SUBJECTS) as app:
        (app.config.home / FILE).write_text(RECORD)
        asyncio.run(switch_on(app, reason="drill"))
        status = show_status(app)
    assert (status.service, status.parts) == ("stopped", ())
    assert "the kill switch is on: drill" in status.problems
    assert sum(status.subjects.values()) == 1
