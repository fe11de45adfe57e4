"""What a runner writes down: a job begins once, and what is old is forgotten."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from operator_protocols.domain.target import Process
from operator_sre.processes.runner import records as module
from operator_sre.processes.runner.records import (
    KEPT_S,
    Claim,
    Records,
    boot_id,
    live_claims,
    mark_of,
    name_of,
    output_folder,
    own_children,
    pipes_of,
)
from operator_sre.processes.runner.wire import Done


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "runner"


@pytest.fixture
def records(folder: Path) -> Iterator[Records]:
    made = Records(folder)
    yield made
    made.close()


def _claim(job: str) -> Claim:
    return Claim(job, boot_id(), 17.0, 0.5)


def _again(folder: Path) -> Records:
    """What the next runner knows."""
    made = Records(folder)
    made.close()
    return made


def test_a_job_can_be_claimed_once(records: Records, folder: Path) -> None:
    assert records.claim(_claim("job-1"))
    assert not records.claim(_claim("job-1"))
    assert not _again(folder).claim(_claim("job-1"))
    records.finish(Done("job-1", 0))
    assert not records.claim(_claim("job-1"))
    assert not _again(folder).claim(_claim("job-1"))


def test_what_is_noted_is_read_again(records: Records, folder: Path) -> None:
    claim = Claim("job-1", boot_id(), 17.0, 0.5, Process(7, 3.25))
    assert records.claim(_claim("job-1"))
    assert live_claims(folder) == (_claim("job-1"),)
    records.note(claim)
    assert live_claims(folder) == records.live() == _again(folder).live() == (claim,)
    records.finish(Done("job-1", 3, stdout=b"\xff\x00", process=Process(7, 3.25)))
    assert live_claims(folder) == records.live() == _again(folder).live() == ()
    for one in (records, _again(folder)):
        done = one.outcome_of("job-1")
        assert done is not None
        assert (done.exit_code, done.stdout, done.process) == (3, b"\xff\x00", Process(7, 3.25))


def test_an_end_of_many_words_is_read_again(records: Records, folder: Path) -> None:
    said = os.urandom(60_000)
    assert records.claim(_claim("job-1"))
    records.finish(Done("job-1", 0, stdout=said))
    assert (folder / "done").stat().st_size < 1000
    for one in (records, _again(folder)):
        done = one.outcome_of("job-1")
        assert done is not None
        assert done.stdout == said


def test_a_job_that_never_began_never_can(records: Records, folder: Path) -> None:
    assert records.forbid("job-1")
    assert records.forbid("job-1")
    assert not records.claim(_claim("job-1"))
    assert not _again(folder).claim(_claim("job-1"))
    assert _again(folder).outcome_of("job-1") is None


def test_a_job_that_began_cannot_be_forbidden(records: Records) -> None:
    assert records.claim(_claim("job-1"))
    assert not records.forbid("job-1")
    records.finish(Done("job-1", 0))
    assert not records.forbid("job-1")


def test_an_end_that_was_cut_off_is_none(records: Records, folder: Path) -> None:
    assert records.claim(_claim("job-1"))
    with (folder / "done").open("ab") as file:
        file.write(b'job-1 {"type":"done","id"')
    assert [one.id for one in _again(folder).live()] == ["job-1"]


def test_who_ended_but_was_not_taken_off_is_not_alive(records: Records, folder: Path) -> None:
    assert records.claim(_claim("job-1"))
    records.finish(Done("job-1", 0))
    with (folder / "live").open("ab") as file:
        file.write(b"=" + msgspec.json.encode(_claim("job-1")) + b"\n")
    assert _again(folder).live() == ()


def test_the_file_of_those_alive_is_emptied_when_none_is(
    records: Records, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LIVE_BYTES_MAX", 100)
    assert records.claim(_claim("stays"))
    for number in range(20):
        assert records.claim(_claim(f"job-{number}"))
        records.finish(Done(f"job-{number}", 0))
    assert [one.id for one in live_claims(folder)] == ["stays"]
    records.finish(Done("stays", 0))
    assert (folder / "live").stat().st_size == 0
    assert not records.claim(_claim("stays"))


def test_what_is_old_is_forgotten_and_memory_says_how_far_it_reaches(folder: Path) -> None:
    first = Records(folder)
    assert time.time() - 60 < first.since() <= time.time()
    assert first.claim(_claim("job-1"))
    first.finish(Done("job-1", 0))
    first.close()
    for days, known in ((1, True), (2, False)):
        text = (folder / "done").read_bytes()
        past = time.time() - KEPT_S - 60 * days
        (folder / "done").write_bytes(b"%.3f\n" % past + text.partition(b"\n")[2])
        later = Records(folder)
        later.close()
        assert (later.outcome_of("job-1") is not None) is known
        assert later.since() == pytest.approx(past, abs=1)


def test_old_outputs_are_removed(folder: Path) -> None:
    Records(folder).close()
    for job, age_s in (("old", KEPT_S + 60), ("new", 60)):
        output_folder(folder, job).mkdir()
        os.utime(output_folder(folder, job), (time.time() - age_s,) * 2)
    Records(folder).close()
    assert [path.name for path in (folder / "output").iterdir()] == ["new"]


@pytest.mark.parametrize("job", ["", ".", "..", "a/b", "../x", "x" * 129, "a b", "a\0", "a\n+b"])
def test_a_name_that_is_a_path_names_no_job(records: Records, folder: Path, job: str) -> None:
    for verb in (records.has_begun, records.forbid, lambda name: output_folder(folder, name)):
        with pytest.raises(ValueError, match="is not a valid job id"):
            verb(job)


def test_everything_is_for_its_owner_only(records: Records, folder: Path) -> None:
    for path in (folder, folder / "output", folder / "live", folder / "done"):
        assert path.stat().st_mode & 0o077 == 0


def test_a_mark_is_no_beginning_of_another() -> None:
    assert not mark_of("job-10").startswith(mark_of("job-1"))


def test_children_and_names_are_seen() -> None:
    pid = os.posix_spawn("/bin/sleep", ["sleep", "60"], {})
    try:
        assert pid in own_children()
        assert name_of(pid) in ("sleep", name_of(os.getpid()))
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    assert name_of(pid) == ""


def test_a_claim_that_does_not_fit_begins_nothing(
    records: Records, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a line is no line: whoever reads it would take the job for one that never began."""
    write = os.write
    assert records.claim(_claim("before"))
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
    with pytest.raises(OSError, match="No space left"):
        records.claim(_claim("job-1"))
    monkeypatch.undo()
    assert [one.id for one in _again(folder).live()] == ["before"]
    assert records.claim(_claim("job-1"))
    assert [one.id for one in live_claims(folder)] == ["before", "job-1"]


@pytest.mark.parametrize("damage", [b"", b"x\n", b"\xff\xfe\n", b"\xff job\n"])
def test_a_damaged_beginning_forgets_nothing(folder: Path, damage: bytes) -> None:
    first = Records(folder)
    assert first.claim(_claim("job-0"))
    first.finish(Done("job-0", 0))
    assert first.claim(_claim("job-1"))
    first.finish(Done("job-1", 0))
    first.close()
    text = (folder / "done").read_bytes().partition(b"\n")[2]
    (folder / "done").write_bytes(damage + text)
    later = _again(folder)
    assert later.has_begun("job-1")
    assert later.outcome_of("job-1") == Done("job-1", 0)


def test_what_is_old_is_put_aside_while_it_runs(folder: Path) -> None:
    records = Records(folder)
    assert records.claim(_claim("job-1"))
    records.finish(Done("job-1", 0))
    text = (folder / "done").read_bytes().partition(b"\n")[2]
    (folder / "done").write_bytes(b"1000.0\n" + text)
    records.tidy()
    assert records.has_begun("job-1")
    assert records.claim(_claim("job-2"))
    records.finish(Done("job-2", 0))
    assert b"job-1" not in (folder / "done").read_bytes()
    assert _again(folder).outcome_of("job-2") == records.outcome_of("job-2") == Done("job-2", 0)
    records.close()


def test_pipes_tell_whose_a_process_is() -> None:
    read, write = os.pipe()
    with subprocess.Popen(["sleep", "60"], stdout=write, stderr=subprocess.DEVNULL) as popen:
        assert os.fstat(read).st_ino in pipes_of(popen.pid)
        popen.kill()
    assert pipes_of(popen.pid) == frozenset()
    os.close(read)
    os.close(write)


def test_an_end_that_cannot_be_read_any_more_did_begin(records: Records, folder: Path) -> None:
    assert records.claim(_claim("job-1"))
    records.finish(Done("job-1", 0, stdout=os.urandom(60_000)))
    (output_folder(folder, "job-1") / "end").unlink()
    for one in (records, _again(folder)):
        assert one.outcome_of("job-1") is None
        assert not one.forbid("job-1"), "it ran, whatever became of it"
