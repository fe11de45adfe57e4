"""The public Python API: judge and run commands, search the history, approve requests.

    from operator_sre.api import Client

    with Client() as client:
        execution = client.executor.run("uptime", reason="load check")

A `Client` opens one operator home. `Gate`, `Executor`, `History` and `Hub` are its parts. Every
call follows the rules of the command line: a command runs only after the gate has judged and
permitted it, the ledger records everything, and only a person approves. Calls are synchronous and
raise `OperatorError`, whose `next_step` says what to do about it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, ExitStack, aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from operator_protocols.domain.action import TIMEOUT_S_MAX, Result
from operator_protocols.domain.command import Command
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.permit import Approval
from operator_protocols.domain.verdict import Level, Verdict
from operator_protocols.errors import OperatorError, UsageError
from operator_sre.app import approvals, commands, history, hub
from operator_sre.app.commands import Execution, Wanted
from operator_sre.app.config_trust import must_be_confirmed
from operator_sre.app.history import CommandSelection, Statistics
from operator_sre.app.hub import ActionResult, Message, MessageKind, PendingAction
from operator_sre.app.outlook import Outlook
from operator_sre.app.persons import signed_in
from operator_sre.app.wiring import App, open_app
from operator_sre.config import load_config

__all__ = [
    "ActionResult",
    "Approval",
    "Client",
    "Command",
    "CommandSelection",
    "Execution",
    "Executor",
    "Gate",
    "History",
    "Hub",
    "Level",
    "Message",
    "MessageKind",
    "OperatorError",
    "Outlook",
    "PendingAction",
    "Result",
    "Statistics",
    "Verdict",
]

T = TypeVar("T")
TIMEOUT_S_MIN = 0.1
OUTPUT_BYTES_MAX = 16 * 1024 * 1024
LIMIT = 50


class Client:
    """One operator home, open for the length of a `with`.

    The client finds its settings as the command line does: an `operator.toml` in `directory` (by
    default the current one) or above it, then `OPERATOR_` variables, then the arguments.
    ConfigError when a person has not confirmed a file above `directory`.
    """

    def __init__(
        self,
        home: str | Path | None = None,
        *,
        store: str | None = None,
        mode: str | None = None,
        directory: str | Path | None = None,
    ) -> None:
        self._flags = {"home": str(home) if home is not None else None, "store": store}
        self._flags["mode"] = mode
        self._directory = directory
        self._opened = ExitStack()
        self._app: App | None = None

    def __enter__(self) -> Self:
        folder = Path(self._directory or Path.cwd()).absolute()
        config = load_config(flags=self._flags, environ=os.environ, cwd=folder)
        # Only a file that lies in the current directory counts as seen by the user.
        for seen in (folder, Path.cwd()):
            must_be_confirmed(config, seen)
        home: AbstractContextManager[App] = open_app(config)
        self._app = self._opened.enter_context(home)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._app = None
        self._opened.close()

    @property
    def gate(self) -> Gate:
        """Verdicts, and the requests that await a person's approval."""
        return Gate(self._require_app())

    @property
    def executor(self) -> Executor:
        """Runs commands."""
        return Executor(self._require_app())

    @property
    def history(self) -> History:
        """Commands that ran or were refused."""
        return History(self._require_app())

    def hub(self, agent: str, *, type: str = "agent") -> Hub:
        """The hub as an agent of this name and type sees it."""
        return Hub(self._require_app(), hub.Agent(agent, type))

    def _require_app(self) -> App:
        if self._app is None:
            raise UsageError(
                "The client is not open.", next_step="Open it with: with Client() as client:"
            )
        return self._app


@dataclass(frozen=True, slots=True)
class Gate:
    """What may run, and the requests that await a person's approval."""

    _app: App

    def judge(
        self,
        command: str,
        *,
        cwd: str | Path | None = None,
        subject: str = "",
        target: str = "",
    ) -> Verdict:
        """Judge a command without running it; `subject` is this machine by default."""
        place = str(Path(cwd or Path.cwd()).absolute())
        wanted = Wanted(command, cwd=place, subject=subject, target=target)
        return commands.judge_command(self._app, wanted)

    def foresee(
        self,
        command: str,
        *,
        cwd: str | Path | None = None,
        subject: str = "",
        target: str = "",
    ) -> Outlook:
        """The verdict, and whether the command would run, require approval or be refused."""
        place = str(Path(cwd or Path.cwd()).absolute())
        wanted = Wanted(command, cwd=place, subject=subject, target=target)
        return commands.foresee_command(self._app, wanted)

    def pending(self) -> Sequence[Approval]:
        """Requests that await approval, oldest first."""
        return approvals.list_approvals(self._app, pending_only=True)

    def approve(self, approval: str, *, reason: str = "") -> Approval:
        """Approve a request once, as the signed-in person.

        AuthorityError when that person may not, or when an agent has started this process;
        ConflictError when the request has already been decided.
        """
        answer = approvals.approve(self._app, approval, reason=reason)
        return _run(answer).approval

    def reject(self, approval: str, *, reason: str = "") -> Approval:
        """Reject a request as the signed-in person; the reason is passed on to the requester."""
        return _run(approvals.reject(self._app, approval, reason=reason))


@dataclass(frozen=True, slots=True)
class Executor:
    """Runs commands the one way there is: judge, permit, execute, record."""

    _app: App

    def run(
        self,
        command: str,
        *,
        cwd: str | Path | None = None,
        subject: str = "",
        target: str = "",
        timeout_s: float | None = None,
        reason: str = "",
        on_approval: Callable[[Approval], None] = lambda approval: None,
        on_output: Callable[[int, bytes], bool | None] | None = None,
    ) -> Execution:
        """Run a command and return what became of it; a failed or refused command is no error.

        Where approval is required, `on_approval` gets the request, and the call waits for the
        decision of a person, until the request expires. `on_output` gets the output while the
        command runs, without secrets: 1 for stdout or 2 for stderr, and the bytes; an error that it
        raises is raised after the command has ended. Ctrl-C withdraws the request or stops the
        command.
        """
        if timeout_s is None:
            timeout_s = self._app.config.number("command_s")
        if not TIMEOUT_S_MIN <= timeout_s <= TIMEOUT_S_MAX:
            raise UsageError(
                f"timeout_s is {timeout_s:g}, but must be between {TIMEOUT_S_MIN:g} and"
                f" {TIMEOUT_S_MAX:g}."
            )
        problems: list[Exception] = []

        def watch(stream: int, data: bytes) -> bool | None:
            try:
                return on_output(stream, data) if on_output is not None else False
            except Exception as error:  # noqa: BLE001  the command goes on all the same
                problems.append(error)
                return False

        wanted = Wanted(
            command,
            cwd=str(Path(cwd or Path.cwd()).absolute()),
            subject=subject,
            target=target,
            timeout_s=timeout_s,
            reason=reason,
        )
        heard = watch if on_output is not None else None
        execution = _run(
            commands.execute_command(self._app, wanted, on_request=on_approval, watch=heard)
        )
        if problems:
            raise problems[0]
        return execution


@dataclass(frozen=True, slots=True)
class History:
    """Commands that ran or were refused, newest first."""

    _app: App

    def list(
        self, *, limit: int = LIMIT, before: int | None = None, **where: Unpack[CommandSelection]
    ) -> Sequence[Command]:
        """The newest commands. `before` is the `seq` of the last one of the page before."""
        selection = history.parse_filter(self._app, **where)
        return history.list_commands(self._app, selection, limit=limit, before=before).commands

    def search(
        self,
        text: str,
        *,
        limit: int = LIMIT,
        before: int | None = None,
        **where: Unpack[CommandSelection],
    ) -> Sequence[Command]:
        """Commands whose line, context or output contains every word of the text."""
        selection = history.parse_filter(self._app, **where)
        found = history.search_commands(self._app, text, selection, limit=limit, before=before)
        return _run(found).commands

    def show(self, seq: int) -> Command:
        """One command by its number. NotFoundError when there is none."""
        return history.show_command(self._app, seq).command

    def output(self, seq: int, *, bytes_max: int = OUTPUT_BYTES_MAX) -> tuple[bytes, bytes]:
        """The full stdout and stderr of a command, without secrets, up to `bytes_max` of each.

        NotFoundError when the output is not on this machine or has been deleted after its day.
        """
        streams = {1: bytearray(), 2: bytearray()}

        def keep(stream: int, data: bytes) -> bool:
            streams[stream] += data
            return len(streams[stream]) < bytes_max

        history.show_output(self._app, seq, keep)
        return bytes(streams[1][:bytes_max]), bytes(streams[2][:bytes_max])

    def statistics(self, **where: Unpack[CommandSelection]) -> Statistics:
        """How often each command ran, and how often it succeeded."""
        return history.statistics(self._app, history.parse_filter(self._app, **where))


@dataclass(frozen=True, slots=True)
class Hub:
    """Requests of one agent: it asks for actions, any agent of the home that runs executes them."""

    _app: App
    _agent: hub.Agent

    def request(
        self,
        command: str,
        *,
        cwd: str | Path | None = None,
        subject: str = "",
        target: str = "",
        reason: str = "",
    ) -> str:
        """Ask for an action and return its id; nothing has run yet."""
        place = str(Path(cwd or Path.cwd()).absolute())
        action = Wanted(command, cwd=place, target=target, reason=reason).action
        work = hub.Hub(self._app).request_system_action(self._agent, action, subject=subject)
        return _run(work)

    def result(self, action: str) -> ActionResult:
        """The state of an action of this agent, and its result once there is one."""
        return hub.Hub(self._app).get_action_result(action, self._agent.name)

    def wait(self, action: str, *, timeout_s: float = 30.0) -> ActionResult:
        """The same, after waiting up to 30 s until the action has ended or requires approval."""
        requester = Actor(signed_in(), self._agent.type, self._agent.name)
        waiting = hub.proposed_action(self._app, requester, action, wait_s=timeout_s)
        return _run(waiting).action

    def pending(self) -> Sequence[PendingAction]:
        """Actions of this agent that have not ended, each with the approval that it awaits."""
        return hub.Hub(self._app).get_pending_actions(self._agent.name)

    def messages(self, *, after: int = 0, timeout_s: float = 1.0) -> Sequence[Message]:
        """Messages to this agent after an entry, up to the next result or until the timeout.

        To read on, pass the `seq` of the last message as `after`.
        """

        async def collect() -> Sequence[Message]:
            found: list[Message] = []
            messages = hub.Hub(self._app).subscribe(self._agent.name, after=after)
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s), aclosing(messages):
                    async for message in messages:
                        found.append(message)
                        if message.kind is MessageKind.RESULT:
                            break
            return found

        return _run(collect())

    def serve(self, *, timeout_s: float | None = None) -> None:
        """Execute what agents of this home ask for, until interrupted or until the timeout."""

        async def serve() -> None:
            try:
                async with asyncio.timeout(timeout_s) as limit:
                    await hub.Hub(self._app).serve()
            except TimeoutError:
                if not limit.expired():
                    raise

        _run(serve())


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    work.close()
    raise UsageError(
        "The API is synchronous and cannot be called where an event loop runs.",
        next_step="Call it in a thread: await asyncio.to_thread(client.executor.run, 'uptime')",
    )
