"""Over ssh: who is trusted, and what becomes of a command when the connection is lost."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.category import FailureCategory
from operator_protocols.ports import Shell
from operator_sre.executor.jobs import Spool
from operator_sre.executor.transports.places import Host
from operator_sre.executor.transports.remote import RemoteShell
from operator_sre.executor.transports.ssh import SshSettings, SshWire
from operator_sre.processes.identity import rows
from tests.contract.servers import Behave, closes, floods, hangs, serving, unused_port
from tests.executor.jobs import new_job
from tests.executor.transports.sshd import Sshd, serving_ssh
from tests.executor.transports.witness import witness_in
from tests.processes.waiting import eventually

pytestmark = pytest.mark.asyncio


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with serving_ssh(tmp_path_factory.mktemp("sshd")) as one:
        yield one


def _shell(sshd: Sshd, folder: Path, settings: SshSettings | None = None) -> RemoteShell:
    given = settings or SshSettings(known_hosts=sshd.known_hosts, keys=(sshd.key,))
    host = Host(sshd.user, "127.0.0.1", sshd.port)
    return RemoteShell(SshWire(host, given), str(host), Spool(folder / "spool"), remembers=True)


async def _refusal(shell: RemoteShell, folder: Path) -> Result:
    file = folder / "ran"
    result = await shell.run(Action.shell(f"touch {file}"), new_job(5.0))
    await shell.aclose()
    assert not file.exists()
    assert result.outcome is Outcome.REFUSED
    assert "\n" not in result.stderr
    return result


async def test_a_host_that_is_not_known_is_refused(sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    for text in (None, "", "other ssh-ed25519 AAAA\n"):
        if text is not None:
            known.write_text(text)
        settings = SshSettings(known_hosts=known, keys=(sshd.key,))
        result = await _refusal(_shell(sshd, tmp_path, settings), tmp_path)
        assert "is unknown" in result.stderr
        assert f"ssh -p {sshd.port}" in result.stderr
        assert result.category is FailureCategory.PERMISSION
    assert known.read_text() == "other ssh-ed25519 AAAA\n"


async def test_a_host_whose_key_changed_is_refused(sshd: Sshd, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    other = " ".join((sshd.folder / "user_key.pub").read_text().split()[:2])
    known.write_text(f"[127.0.0.1]:{sshd.port} {other}\n")
    settings = SshSettings(known_hosts=known, keys=(sshd.key,))
    result = await _refusal(_shell(sshd, tmp_path, settings), tmp_path)
    assert "is not the one in" in result.stderr
    assert "ssh-keygen" in result.stderr
    assert result.category is FailureCategory.PERMISSION


async def test_a_key_that_opens_nothing_is_refused(sshd: Sshd, tmp_path: Path) -> None:
    for key in (sshd.folder / "host_key", sshd.folder / "config"):
        settings = SshSettings(known_hosts=sshd.known_hosts, keys=(key,))
        result = await _refusal(_shell(sshd, tmp_path, settings), tmp_path)
        assert "rejected all keys" in result.stderr
        assert result.category is FailureCategory.PERMISSION


async def test_a_key_file_that_is_missing_is_named(sshd: Sshd, tmp_path: Path) -> None:
    settings = SshSettings(known_hosts=sshd.known_hosts, keys=(tmp_path / "none",))
    result = await _refusal(_shell(sshd, tmp_path, settings), tmp_path)
    assert str(tmp_path / "none") in result.stderr
    assert result.category is FailureCategory.PERMISSION


async def test_who_stops_waiting_for_a_connection_does_not_wait(sshd: Sshd, tmp_path: Path) -> None:
    async with serving(hangs) as port:
        shell = _shell(replace(sshd, port=port), tmp_path)
        running = asyncio.ensure_future(shell.run(Action.shell("true"), new_job()))
        done, _ = await asyncio.wait({running}, timeout=0.3)
        assert not done
        running.cancel()
        await asyncio.wait({running}, timeout=60.0)
        assert running.cancelled()
        await shell.aclose()


async def test_a_host_that_cannot_be_reached_is_told(sshd: Sshd, tmp_path: Path) -> None:
    with unused_port() as port:
        result = await _refusal(_shell(replace(sshd, port=port), tmp_path), tmp_path)
    assert "cannot be reached" in result.stderr
    assert result.category is FailureCategory.NETWORK


@pytest.mark.parametrize("behave", [closes, hangs, floods(b"SSH")])
async def test_what_is_no_ssh_server_is_told(sshd: Sshd, tmp_path: Path, behave: Behave) -> None:
    settings = SshSettings(known_hosts=sshd.known_hosts, keys=(sshd.key,), connect_s_max=1.0)
    async with serving(behave) as port:
        result = await _refusal(_shell(replace(sshd, port=port), tmp_path, settings), tmp_path)
    assert result.category is FailureCategory.NETWORK


async def test_a_host_is_identified_by_its_key(sshd: Sshd, tmp_path: Path) -> None:
    shell = _shell(sshd, tmp_path)
    identity = await shell.identify()
    assert identity.startswith(f"{sshd.address} SHA256:")
    other = tmp_path / "known_hosts"
    other.write_text("")
    assert await _shell(sshd, tmp_path, SshSettings(known_hosts=other)).identify() != identity


def _sessions(sshd: Sshd) -> list[int]:
    """The processes of the server that carry connections."""
    table = {pid: row.parent for pid, row in rows().items() if "sshd" in _name_of(pid)}
    found = {sshd.pid}
    for _ in range(3):
        found |= {pid for pid, parent in table.items() if parent in found}
    return sorted(found - {sshd.pid})


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


async def test_a_lost_connection_is_unknown_until_it_is_recovered(
    sshd: Sshd, tmp_path: Path
) -> None:
    begun, asked, count = tmp_path / "begun", tmp_path / "go on", tmp_path / "count"
    wait = f"while [ ! -e '{asked}' ]; do sleep 0.1; done"
    action = Action.shell(f"echo x >> {count}; echo one; touch {begun}; {wait}; echo two; exit 9")
    job = new_job(60.0)
    shell = _shell(sshd, tmp_path)
    running = asyncio.ensure_future(shell.run(action, job))
    await eventually(begun.exists)
    for pid in _sessions(sshd):
        os.kill(pid, signal.SIGKILL)
    lost = await running
    assert lost.outcome is Outcome.UNKNOWN
    assert lost.exit_code is None
    assert "lost" in lost.stderr
    recovering = asyncio.ensure_future(shell.recover(action, job))
    asked.touch()
    result = await recovering
    assert (result.outcome, result.exit_code, result.stdout) == (Outcome.RAN, 9, "one\ntwo\n")
    assert count.read_text() == "x\n"
    await shell.aclose()


async def test_a_limit_holds_while_nobody_is_connected(sshd: Sshd, tmp_path: Path) -> None:
    shell, job = _shell(sshd, tmp_path), new_job(2.0)
    with witness_in(tmp_path) as witness:
        action = Action.shell(f"{witness.line}trap '' TERM; while :; do sleep 1; done")
        running = asyncio.ensure_future(shell.run(action, job))
        await eventually(witness.has_heard)
        for pid in _sessions(sshd):
            os.kill(pid, signal.SIGKILL)
        assert (await running).outcome is Outcome.UNKNOWN
        await eventually(lambda: not witness.is_held())
    result = await shell.recover(action, job)
    assert (result.outcome, result.exit_code) == (Outcome.TIMED_OUT, 124)
    await shell.aclose()


async def test_what_was_recovered_before_it_started_never_starts(
    sshd: Sshd, tmp_path: Path
) -> None:
    shell, file = _shell(sshd, tmp_path), tmp_path / "ran"
    action, job = Action.shell(f"touch {file}"), new_job()
    assert (await shell.recover(action, job)).outcome is Outcome.UNKNOWN
    late = await shell.run(action, job)
    assert late.outcome is not Outcome.RAN
    assert not file.exists()
    # One that was begun since the machine is up would have left a trace.
    recent = replace(new_job(), started_at=datetime.now(UTC))
    assert (await shell.recover(action, recent)).outcome is Outcome.CANCELLED
    old = replace(new_job(), started_at=datetime.now(UTC) - timedelta(days=10_000))
    assert (await shell.recover(action, old)).outcome is Outcome.UNKNOWN
    await shell.aclose()


async def test_when_its_keeper_is_killed_nobody_claims_to_know(sshd: Sshd, tmp_path: Path) -> None:
    shell, job = _shell(sshd, tmp_path), new_job(10.0)
    with witness_in(tmp_path) as witness:
        action = Action.shell(f"{witness.line}echo said; sleep 5")
        running = asyncio.ensure_future(shell.run(action, job))
        await eventually(witness.has_heard)
        keeper = int((_folder_of(job.id) / "pid").read_text().split()[0])
        os.kill(keeper, signal.SIGKILL)
        result = await running
    assert (result.outcome, result.stdout) == (Outcome.UNKNOWN, "said\n")
    assert "its outcome is unknown" in result.stderr
    assert "sleep" in str(result.data["left"])
    await shell.aclose()


def _folder_of(job: str) -> Path:
    return Path(f"/tmp/operator-sre-{os.getuid()}") / job


async def test_the_folder_of_a_job_is_its_owners_alone(sshd: Sshd, tmp_path: Path) -> None:
    shell, job = _shell(sshd, tmp_path), new_job()
    await shell.run(Action.shell("echo private"), job)
    folder = _folder_of(job.id)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
    await shell.aclose()


async def test_old_jobs_are_forgotten_and_young_ones_are_not(sshd: Sshd, tmp_path: Path) -> None:
    shell = _shell(sshd, tmp_path)
    old, young = new_job(), new_job()
    for job in (old, young):
        await shell.run(Action.shell("true"), job)
    long_ago = datetime.now(UTC).timestamp() - 3 * 24 * 3600
    os.utime(_folder_of(old.id), (long_ago, long_ago))
    await shell.run(Action.shell("true"), new_job())
    await eventually(lambda: not _folder_of(old.id).exists())
    assert _folder_of(young.id).exists()
    await shell.aclose()


async def test_nothing_follows_a_job_that_is_over(sshd: Sshd, tmp_path: Path) -> None:
    shell, job = _shell(sshd, tmp_path), new_job(60.0)
    with witness_in(tmp_path) as witness:
        action = Action.shell(f"{witness.line}sleep 3")
        running = asyncio.ensure_future(shell.run(action, job))
        await eventually(witness.has_heard)
        folder = str(_folder_of(job.id))
        await eventually(lambda: len(_followers(folder)) == 2)
        # The shell that follows, which is the parent of what passes the output on.
        os.kill(rows()[_followers(folder)[0]].parent, signal.SIGKILL)
        assert (await running).outcome is Outcome.UNKNOWN
    await eventually(lambda: not _followers(folder))
    assert (await shell.recover(action, job)).ok
    await shell.aclose()


def _followers(folder: str) -> list[int]:
    return [pid for pid in rows() if _name_of(pid) == "tail\n" and _cwd_of(pid) == folder]


def _cwd_of(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return ""


async def test_large_output_does_not_stay_there(sshd: Sshd, tmp_path: Path) -> None:
    shell, job = _shell(sshd, tmp_path), new_job()
    heard = [0]

    def watch(_: int, data: bytes) -> None:
        heard[0] += len(data)

    lines = "yes 'a line of words' | head -c 120000000"
    command = f"echo first; {lines}; echo the last line"
    result = await shell.run(Action.shell(command), replace(job, watch=watch))
    assert result.ok
    assert result.truncated
    assert 119_000_000 < result.stdout_bytes <= 120_000_021
    assert result.stdout.startswith("first\na line of words\n")
    assert result.stdout.endswith("a line of words\nthe last line\n")
    assert 100_000_000 < heard[0] < 110_000_000
    assert (_folder_of(job.id) / "out").stat().st_size == 0
    again = await shell.recover(Action.shell(command), job)
    assert (again.outcome, again.exit_code) == (Outcome.RAN, 0)
    kept = Spool(tmp_path / "spool").path_of(result.stdout_sha256)
    assert kept is not None
    assert kept.stat().st_size == 100 * 1024 * 1024
    await shell.aclose()


def _logins(sshd: Sshd) -> int:
    return (sshd.folder / "log").read_text().count("Accepted publickey")


async def test_one_connection_serves_and_another_where_a_host_allows_few_shells(
    tmp_path: Path,
) -> None:
    with serving_ssh(tmp_path / "sshd", "MaxSessions 1") as sshd:
        shell = _shell(sshd, tmp_path)
        results = await asyncio.gather(
            *(shell.run(Action.shell(f"echo {n}; sleep 0.2"), new_job(30.0)) for n in range(3))
        )
        assert [one.stdout for one in results] == ["0\n", "1\n", "2\n"]
        assert _logins(sshd) <= 3
        # The host may count a shell for a moment that has just ended, and then another is needed.
        reused = 0
        for _ in range(20):
            before = _logins(sshd)
            assert (await shell.run(Action.shell("true"), new_job(30.0))).ok
            reused += _logins(sshd) == before
            if reused == 3:
                break
        assert reused == 3
        await shell.aclose()


async def test_what_a_login_shell_says_is_nobodys_output(tmp_path: Path) -> None:
    with serving_ssh(tmp_path / "sshd") as sshd:
        (sshd.folder / ".bashrc").write_text("echo welcome; echo careful >&2; export NOISE=yes\n")
        shell = _shell(sshd, tmp_path)
        result = await shell.run(Action.shell('echo out; echo "[$NOISE]" >&2'), new_job(30.0))
        assert (result.stdout, result.stderr) == ("out\n", "[]\n")
        await shell.aclose()


async def test_a_host_that_gives_no_real_shell_is_unknown_and_harmless(tmp_path: Path) -> None:
    with serving_ssh(tmp_path / "sshd", "ForceCommand yes | head -c 5000000") as sshd:
        shell: Shell = _shell(sshd, tmp_path)
        result = await shell.run(Action.shell("true"), new_job(5.0))
        assert result.outcome is Outcome.UNKNOWN
        assert "not a valid report" in result.stderr
        assert len(result.stdout) < 100_000
        await shell.aclose()  # type: ignore[attr-defined]


async def test_what_cannot_be_sent_is_told_as_a_result(sshd: Sshd, tmp_path: Path) -> None:
    shell = _shell(sshd, tmp_path)
    for action in (
        replace(Action.shell("true"), venv="/venv"),
        replace(Action.shell("true"), cwd="here"),
        Action.shell("a\0b"),
        Action.program(["printf", "\ud800"]),
    ):
        result = await shell.run(action, new_job(5.0))
        assert (result.outcome, result.exit_code) == (Outcome.RAN, 126)
    await shell.aclose()
