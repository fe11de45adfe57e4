"""What a runner writes down: a job begins once, and what is old is forgotten."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from operator_protocols.domain.target import Process
from operator_sre.processes.runner.records import (
    KEPT_S,
    Claim,
    Records,
    boot_id,
    mark_of,
    name_of,
    own_children,
)
from operator_sre.processes.runner.wire import Done


@pytest.fixture
def records(tmp_path: Path) -> Records:
    made = Records(tmp_path / "runner")
    made.prepare()
    return made


def test_a_job_can_be_claimed_once(records: Records) -> None:
    assert records.claim("job-1")
    assert not records.claim("job-1")
    records.finish(Done("job-1", 0))
    assert not records.claim("job-1")


def test_what_is_noted_is_read_again(records: Records) -> None:
    claim = Claim("job-1", boot_id(), 17.0, 0.5, Process(7, 3.25))
    assert records.claim("job-1")
    records.note(claim)
    assert list(records.live()) == [claim]
    records.finish(Done("job-1", 3, stdout=b"\xff\x00", process=Process(7, 3.25)))
    assert list(records.live()) == []
    done = records.done("job-1")
    assert done is not None
    assert (done.exit_code, done.stdout, done.process) == (3, b"\xff\x00", Process(7, 3.25))


def test_a_job_that_never_began_never_can(records: Records) -> None:
    assert records.forbid("job-1")
    assert records.forbid("job-1")
    assert not records.claim("job-1")
    assert records.done("job-1") is None


def test_a_job_that_began_cannot_be_forbidden(records: Records) -> None:
    assert records.claim("job-1")
    assert not records.forbid("job-1")
    records.finish(Done("job-1", 0))
    assert not records.forbid("job-1")


def test_a_claim_that_was_cut_off_has_no_process(records: Records) -> None:
    (records.folder / "live" / "job-1").mkdir()
    assert list(records.live()) == [Claim("job-1", boot_id(), 0.0, 0.0)]


def test_the_output_of_a_finished_job_is_found(records: Records) -> None:
    assert records.claim("job-1")
    (records.place("job-1") / "1").write_bytes(b"said")
    records.finish(Done("job-1", 0))
    path = records.output("job-1", 1)
    assert path is not None
    assert path.read_bytes() == b"said"
    assert records.output("job-1", 2) is None


def test_what_is_old_is_forgotten_and_memory_says_how_far_it_reaches(records: Records) -> None:
    assert records.claim("job-1")
    records.finish(Done("job-1", 0))
    past = time.time() - KEPT_S - 60
    os.utime(records.folder / "done" / "job-1", (past, past))
    records.prepare()
    assert records.done("job-1") is None
    assert records.since() >= time.time() - 60, "it was made only now"
    os.utime(records.folder / "since", (past, past))
    assert time.time() - KEPT_S < records.since() < time.time() - KEPT_S + 3600


@pytest.mark.parametrize("job", ["", ".", "..", "a/b", "../x", "x" * 129, "a b", "a\0"])
def test_a_name_that_is_a_path_names_no_job(records: Records, job: str) -> None:
    for verb in (records.place, records.forbid, records.done):
        with pytest.raises(ValueError, match="cannot name a job"):
            verb(job)


def test_folders_are_for_their_owner_only(records: Records) -> None:
    assert records.claim("job-1")
    for path in (records.folder, records.folder / "live", records.place("job-1")):
        assert path.stat().st_mode & 0o077 == 0


def test_a_mark_is_no_beginning_of_another() -> None:
    assert not mark_of("job-10").startswith(mark_of("job-1"))


def test_children_and_names_are_seen(tmp_path: Path) -> None:
    pid = os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
    try:
        assert pid in own_children()
        assert name_of(pid) in ("sleep", name_of(os.getpid()))
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    assert name_of(pid) == ""
