"""The public Python API: what a script may do, and that it may do no more than the command line."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import operator_sre.api
from operator_protocols.domain.action import MARK
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.errors import AuthorityError, ConfigError, NotFoundError, UsageError
from operator_sre.api import (
    ActionResult,
    Approval,
    Client,
    Command,
    CommandSelection,
    Execution,
    Executor,
    Gate,
    History,
    Hub,
    Level,
    Message,
    MessageKind,
    OperatorError,
    Outlook,
    PendingAction,
    Result,
    Statistics,
    Verdict,
)

PAGE = Path(__file__).parents[1] / "docs" / "python.md"
EXAMPLES = re.findall(r"(?ms)^```python\n(.*?)^```", PAGE.read_text())
WAIT_S = 30.0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory without settings above it, and a home below it."""
    for name in [name for name in os.environ if name.startswith("OPERATOR_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv(MARK, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _open(folder: Path, mode: str = "approve") -> Client:
    return Client(folder / "home", mode=mode)


def _run_aside(folder: Path, command: str) -> tuple[threading.Thread, list[Execution]]:
    """A command in another thread that waits for its approval, and where its end will be."""
    asked, ended = threading.Event(), list[Execution]()

    def work() -> None:
        with _open(folder) as client:
            ended.append(
                client.executor.run(command, cwd=folder, on_approval=lambda approval: asked.set())
            )

    thread = threading.Thread(target=work)
    thread.start()
    assert asked.wait(WAIT_S)
    return thread, ended


def test_every_exported_name_is_documented_and_there() -> None:
    exported = operator_sre.api.__all__
    assert exported == sorted(exported)
    for name in exported:
        assert getattr(operator_sre.api, name).__doc__, name
    page = PAGE.read_text()
    assert [name for name in exported if f"`{name}" not in page and f" {name}" not in page] == []
    assert Level.SAFE.value == "safe"


def test_a_script_judges_runs_and_finds_a_command(folder: Path) -> None:
    with _open(folder) as client:
        assert isinstance(client.gate, Gate)
        assert isinstance(client.executor, Executor)
        assert isinstance(client.history, History)
        verdict = client.gate.judge("echo needle")
        assert isinstance(verdict, Verdict)
        assert verdict.level is Level.SAFE
        outlook = client.gate.foresee("mkdir made")
        assert isinstance(outlook, Outlook)
        assert outlook.verdict.action.cwd == str(folder)
        heard: list[bytes] = []
        execution = client.executor.run(
            "echo needle; exit 3", reason="why not", on_output=lambda _, data: heard.append(data)
        )
        assert isinstance(execution.result, Result)
        assert (execution.ran, execution.exit_code) == (True, 3)
        assert b"".join(heard) == b"needle\n"
        (found,) = client.history.search("needle")
        assert isinstance(found, Command)
        assert (found.seq, found.exit_code) == (execution.command, 3)
        assert client.history.show(found.seq) == found
        assert client.history.output(found.seq) == (b"needle\n", b"")
        assert client.history.output(found.seq, bytes_max=3) == (b"nee", b"")
        wanted: CommandSelection = {"since": "1h", "level": "safe"}
        assert client.history.list(limit=5, **wanted) == (found,)
        assert client.history.list(level="blocked") == ()
        figures = client.history.statistics(since="1h")
        assert isinstance(figures, Statistics)
        assert figures.attempts == 1
        with pytest.raises(NotFoundError):
            client.history.show(987_654_321)


def test_what_is_not_permitted_does_not_run(folder: Path) -> None:
    with _open(folder, mode="observe") as client:
        refused = client.executor.run("mkdir made")
        never = client.executor.run("rm -rf /")
        assert (refused.ran, refused.exit_code) == (False, 4)
        assert (never.ran, never.exit_code) == (False, 3)
        assert refused.explanation
        assert {one.outcome for one in client.history.list()} == {"refused"}
    assert not (folder / "made").exists()


@pytest.mark.parametrize("approved", [True, False])
def test_a_person_decides_what_waits_for_them(folder: Path, *, approved: bool) -> None:
    thread, ended = _run_aside(folder, "mkdir made")
    with _open(folder) as client:
        (approval,) = client.gate.pending()
        assert isinstance(approval, Approval)
        decide = client.gate.approve if approved else client.gate.reject
        decided = decide(approval.id, reason="seen")
        assert decided.state is (ApprovalState.APPROVED if approved else ApprovalState.REJECTED)
        assert client.gate.pending() == []
    thread.join(WAIT_S)
    assert ((folder / "made").exists(), ended[0].ran) == (approved, approved)


def test_a_command_of_an_agent_approves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread, ended = _run_aside(folder, "mkdir made")
    with _open(folder) as client:
        (approval,) = client.gate.pending()
        with monkeypatch.context() as patched:
            patched.setenv(MARK, "1")
            for decide in (client.gate.approve, client.gate.reject):
                with pytest.raises(AuthorityError):
                    decide(approval.id)
        client.gate.reject(approval.id)
    thread.join(WAIT_S)
    assert not ended[0].ran


def test_an_agent_asks_through_the_hub(folder: Path) -> None:
    with _open(folder) as client:
        hub = client.hub("planner", type="planner")
        assert isinstance(hub, Hub)
        action = hub.request("echo hi", reason="to see it")
        (pending,) = hub.pending()
        assert isinstance(pending, PendingAction)
        assert (pending.action, client.hub("coder").pending()) == (action, [])
        hub.serve(timeout_s=3.0)
        result = hub.wait(action, timeout_s=10.0)
        assert isinstance(result, ActionResult)
        assert (result.state, hub.result(action)) == ("completed", result)
        messages = hub.messages()
        assert all(isinstance(message, Message) for message in messages)
        kinds = [message.kind for message in messages]
        assert (kinds[0], kinds[-1]) == (MessageKind.REQUEST, MessageKind.RESULT)
        assert hub.messages(after=messages[-1].seq, timeout_s=0.2) == []
        with pytest.raises(NotFoundError):
            client.hub("coder").result(action)
        with pytest.raises(OperatorError, match="user"):
            client.hub("planner", type="user").request("echo hi")


@pytest.mark.parametrize("timeout_s", [float("inf"), float("nan"), 0.0, -1.0, 1e9])
def test_a_timeout_without_a_limit_is_refused(folder: Path, timeout_s: float) -> None:
    with _open(folder) as client, pytest.raises(UsageError, match="must be between"):
        client.executor.run("uptime", timeout_s=timeout_s)


def test_an_error_of_a_watcher_comes_after_the_command_has_ended(folder: Path) -> None:
    def fail(stream: int, data: bytes) -> bool:
        raise ValueError("not text")

    with _open(folder) as client:
        with pytest.raises(ValueError, match="not text"):
            client.executor.run("echo done", on_output=fail)
        newest = client.history.list(limit=1)[0]
        assert (newest.command, newest.exit_code) == ("echo done", 0)


def test_a_request_whose_announcement_fails_is_withdrawn(folder: Path) -> None:
    def fail(approval: Approval) -> None:
        raise ValueError(f"{approval.id} is not announced")

    with _open(folder) as client:
        with pytest.raises(ValueError, match="not announced"):
            client.executor.run("touch made", on_approval=fail)
        assert list(client.gate.pending()) == []
    assert not (folder / "made").exists()


def test_a_client_is_used_while_it_is_open(folder: Path) -> None:
    client = _open(folder)
    with pytest.raises(UsageError, match="not open"):
        _ = client.gate
    with client:
        assert client.gate.pending() == []
    with pytest.raises(UsageError, match="not open"):
        _ = client.history


def test_a_running_loop_is_refused_by_name(folder: Path) -> None:
    async def ask() -> None:
        client.executor.run("uptime")

    with _open(folder) as client, pytest.raises(UsageError, match="event loop"):
        asyncio.run(ask())


def test_settings_above_the_directory_are_confirmed_first(folder: Path) -> None:
    (folder / "operator.toml").write_text('mode = "execute"\n')
    below = folder / "below"
    below.mkdir()
    with pytest.raises(ConfigError, match="not confirmed"), Client(folder / "h", directory=below):
        pass


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_every_example_of_the_page_runs(folder: Path, number: int) -> None:
    waits = "gate.pending" in EXAMPLES[number]
    aside = _run_aside(folder, "mkdir made") if waits else None
    environ = {**os.environ, "OPERATOR_HOME": str(folder / "home"), "OPERATOR_MODE": "approve"}
    done = subprocess.run(
        [sys.executable, "-c", EXAMPLES[number]],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    if aside is not None:
        thread, ended = aside
        thread.join(WAIT_S)
        assert ended[0].ran
        assert (folder / "made").is_dir()
