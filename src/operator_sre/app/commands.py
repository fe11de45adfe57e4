"""Commands that people ask for: foreseen, run, followed; and what a killed operator left open."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from operator_protocols.domain.action import Action, Outcome, Result, Urgency
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.permit import Approval, ApprovalState, Permit
from operator_protocols.domain.verdict import Mode, Verdict
from operator_protocols.errors import (
    AuthorityError,
    ConflictError,
    NotFoundError,
    OperatorError,
    UsageError,
)
from operator_protocols.ports import Approvals
from operator_sre.act import ActionRecord, RefusedBy, Request, act
from operator_sre.app.outlook import Outlook, outlook_of
from operator_sre.app.persons import myself, signed_in
from operator_sre.app.policy import record_overrides
from operator_sre.app.redaction import open_redactor, redacted_watch
from operator_sre.app.wiring import App
from operator_sre.codec import from_json
from operator_sre.controls import MACHINE, Controls
from operator_sre.executor import Executor
from operator_sre.executor.categories import named_exit
from operator_sre.executor.execute import Recovery
from operator_sre.gate import Way
from operator_sre.venv import enter_venv

__all__ = [
    "Execution",
    "Job",
    "Jobs",
    "Wanted",
    "begun_at",
    "controls_for",
    "ending_of",
    "execute_command",
    "follow_abandoned",
    "foresee_command",
    "judge_command",
    "settle_abandoned",
]

NEVER, NOT_NOW, BROKEN_OFF = 3, 4, 1
LOOK_AHEAD_MAX = 1_000
RUNNING_MAX = 16
KEPT_MAX = 64
UNITS, UNIT = ("bytes", "kB", "MB", "GB", "TB"), 1000.0
NAMED_MAX = 10
NOBODY_WAITS = (
    "Approval required: nothing ran, and the request was withdrawn. To approve it, run the command"
    " in a terminal or with --wait 300, and use the command that it prints. To let a running agent"
    " execute it after approval, add --at +0s."
)
# How long a short command waits for abandoned commands, and how often an agent checks them.
PASSING_S, INTERVAL_S = 0.5, 10.0
# Called with the stream and its bytes; False when no more of that stream is wanted.
Watch = Callable[[int, bytes], bool | None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A command line, or a call of a tool, with its options."""

    command: str = ""
    cwd: str = "/"
    subject: str = ""
    target: str = ""
    timeout_s: float = 120.0
    reason: str = ""
    venv: str = ""
    passes: tuple[str, ...] = ()
    urgency: Urgency = Urgency.SOON
    call: Action | None = None

    @property
    def action(self) -> Action:
        """What the gate judges."""
        if self.call is not None:
            return self.call
        action = Action.shell(self.command, target=self.target, reasoning=self.reason)
        return replace(
            action,
            cwd=self.cwd,
            timeout_s=self.timeout_s,
            venv=self.venv,
            passes=self.passes,
            urgency=self.urgency,
        )


@dataclass(frozen=True, slots=True)
class Execution:
    """What became of a command, without secrets, and the exit code that says so.

    `explanation` is why it was judged so, or why it did not run and what to do next; `seq` is the
    entry that holds it, `command` that of its beginning, by which the history knows it.
    """

    verdict: Verdict
    result: Result
    explanation: str
    seq: int
    exit_code: int
    command: int = 0

    @property
    def ran(self) -> bool:
        """It was started."""
        return self.result.outcome is not Outcome.REFUSED


@dataclass(slots=True)
class _Announced:
    """Approvals that tell of each request, and remember the last one."""

    approvals: Approvals
    tell: Callable[[Approval], None]
    last: Approval | None = None

    async def request(self, approval: Approval) -> Approval:
        self.last = approval  # first: a cancelled process withdraws it even during the write
        pending = await self.approvals.request(approval)
        self.tell(pending)
        return pending

    async def decide(
        self, approval: str, state: ApprovalState, *, by: Actor, reason: str, version: int
    ) -> Approval:
        return await self.approvals.decide(approval, state, by=by, reason=reason, version=version)

    def get(self, approval: str) -> Approval | None:
        return self.approvals.get(approval)

    def find(self, *, states: Iterable[ApprovalState] = (), run: str = "") -> Sequence[Approval]:
        return self.approvals.find(states=states, run=run)


def judge_command(app: App, wanted: Wanted) -> Verdict:
    """The gate's verdict under the policy of the subject. Runs nothing and writes nothing."""
    _, controls = controls_for(app, wanted)
    return controls.gate.judge(enter_venv(wanted.action), myself())


def foresee_command(app: App, wanted: Wanted) -> Outlook:
    """What would happen. Runs nothing and writes nothing."""
    subject, controls = controls_for(app, wanted)
    verdict = controls.gate.judge(enter_venv(wanted.action), myself())
    surroundings = app.surroundings
    return outlook_of(controls, verdict, myself(), subject=subject, surroundings=surroundings)


async def execute_command(
    app: App,
    wanted: Wanted,
    *,
    on_request: Callable[[Approval], None],
    watch: Watch | None = None,
    began: Callable[[str], None] = lambda permit: None,
    wait_s: float | None = None,
) -> Execution:
    """Judge a command, get a permit, run it. `on_request` is called with a request for approval.

    `watch` gets the output live, without secrets; `began` the fingerprint of the permit.
    Cancellation withdraws the request, as does `wait_s` without an answer; None waits until the
    request expires.
    """
    subject, controls = controls_for(app, wanted)
    await record_overrides(app)
    await settle_abandoned(app)
    patience = asyncio.timeout(None)

    def note_request(approval: Approval) -> None:
        on_request(approval)
        if wait_s is not None:
            patience.reschedule(asyncio.get_running_loop().time() + wait_s)

    def note_begin(permit: Permit) -> None:
        if not patience.expired():
            patience.reschedule(None)
        began(permit.fingerprint)

    me, announced = myself(), _Announced(app.store.approvals, note_request)
    controls = replace(controls, gate=replace(controls.gate, approvals=announced))
    newest = app.store.entries.newest(limit=1)
    try:
        with redacted_watch(app.config, watch) as feed:
            request = Request(
                wanted.action,
                subject=subject,
                requester=me,
                complete=wanted.call is not None,
                began=note_begin,
                watch=feed,
            )
            async with patience:
                record = await act(controls, request)
    except BaseException as error:
        if announced.last is not None:
            await _withdraw(app, announced.last)
            if isinstance(error, TimeoutError) and patience.expired():
                verdict = controls.gate.judge(wanted.action, me)
                seq = next((entry.seq for entry in app.store.entries.newest(limit=1)), 0)
                return Execution(verdict, verdict.refusal(NOBODY_WAITS), NOBODY_WAITS, seq, NOT_NOW)
        raise
    result, verdict = record.result, record.verdict
    if record.refused_by:
        return _explain_refusal(app, controls, subject, record)
    code = BROKEN_OFF if result.exit_code is None else result.exit_code
    code = NOT_NOW if result.outcome is Outcome.REFUSED else code
    redactor = open_redactor(app.config)
    stdout, stderr = redactor.text(result.stdout), redactor.text(result.stderr)
    assert record.permit is not None
    seq = begun_at(app, record.permit.fingerprint, after=newest[0].seq if newest else 0)
    shown = replace(result, stdout=stdout, stderr=stderr)
    return Execution(verdict, shown, verdict.explanation, record.seq, code, seq)


async def _withdraw(app: App, approval: Approval) -> None:
    """Withdraw a request whose requester is gone: an approval would run nothing any more."""
    known = app.store.approvals.get(approval.id) or approval
    reason = "the requester no longer waits"
    # It may have been answered a moment before, or never been written.
    with contextlib.suppress(ConflictError, NotFoundError):
        await app.store.approvals.decide(
            known.id, ApprovalState.WITHDRAWN, by=myself(), reason=reason, version=known.version
        )


def _explain_refusal(app: App, controls: Controls, subject: str, record: ActionRecord) -> Execution:
    """Why a command did not run, and the next step of its requester."""
    code, step = NOT_NOW, ""
    if record.refused_by is RefusedBy.GATE:
        way = controls.gate.foresee(record.verdict, myself(), subject=subject).way
        code = NEVER if way is Way.NEVER else NOT_NOW
        if way is Way.PROPOSES and app.store.switch.state().on:
            step = "The kill switch is on: operator kill-switch status"
        elif way is Way.PROPOSES:
            is_default = app.config.mode is Mode.OBSERVE and not app.store.modes.find(subject)
            step = "See who set it with: operator mode show"
            step = "To request approval, run it with: --mode approve" if is_default else step
    explanation = f"{record.result.stderr} {step}".strip()
    shown = replace(record.result, stderr="")
    return Execution(record.verdict, shown, explanation, record.seq, code)


def begun_at(app: App, permit: str, *, after: int) -> int:
    """The entry that an action began with, by its permit, soon after an entry; 0 where none did."""
    for entry in app.store.entries.after(after, limit=LOOK_AHEAD_MAX):
        is_call = entry.kind is Kind.TOOL_CALL
        if is_call and entry.payload.get("permit") == permit:
            return entry.seq
    return 0


def controls_for(app: App, wanted: Wanted) -> tuple[str, Controls]:
    """The controls of the subject that was named, or that the target belongs to."""
    if not wanted.action.command.strip():
        raise UsageError("The command is empty.", next_step="Try: operator exec 'uptime'")
    subject = MACHINE
    if wanted.subject or wanted.target:
        (subject,) = app.choose([wanted.subject] if wanted.subject else [])
    controls = app.controls(subject)
    # A tool may act on a part that is no process, such as the cluster that its members form.
    parts = controls.subject.targets() if wanted.call is not None else controls.targets()
    names = [target.name for target in parts]
    if wanted.target and wanted.target not in names:
        raise NotFoundError(
            f"{subject!r} has no target {wanted.target!r}.",
            next_step=f"Its targets: {', '.join(names) or 'none'}.",
        )
    return subject, controls


@dataclass(slots=True)
class Job:
    """One command: who began it, who is asked about it, and what became of it."""

    id: str
    wanted: Wanted
    by: str
    at: datetime
    head: int
    approval: str = ""
    permit: str = ""
    executed: Execution | None = None
    problem: str = ""
    seq: int = 0
    task: asyncio.Task[None] | None = None

    @property
    def over(self) -> bool:
        """Nothing more becomes of it."""
        return self.executed is not None or bool(self.problem)

    @property
    def state(self) -> str:
        """Where it is, in a word or two."""
        if self.problem:
            return self.problem
        if self.executed is not None:
            return self.executed.explanation if not self.executed.ran else "finished"
        if self.permit:
            return "running"
        return "pending approval" if self.approval else "is judged"


@dataclass(slots=True)
class Jobs:
    """The commands of one process; they end with it, as a command in a terminal does."""

    app: App
    _known: OrderedDict[str, Job] = field(default_factory=OrderedDict, init=False)

    def begin(self, wanted: Wanted) -> Job:
        """Start a command for the signed-in person. Raises what is wrong with the request."""
        controls_for(self.app, wanted)
        if sum(not running.over for running in self._known.values()) >= RUNNING_MAX:
            raise ConflictError(
                f"{RUNNING_MAX} commands are running already.",
                next_step="Wait for one to finish, or cancel one.",
            )
        newest = self.app.store.entries.newest(limit=1)
        head = newest[0].seq if newest else 0
        job = Job(self.app.new_id()[:12], wanted, signed_in(), self.app.clock.now(), head)
        self._known[job.id] = job
        while len(self._known) > KEPT_MAX:
            oldest = next((old.id for old in self._known.values() if old.over), "")
            if not oldest:
                break
            del self._known[oldest]
        job.task = asyncio.get_running_loop().create_task(self._run(job))
        return job

    def newest(self, *, limit: int) -> Sequence[Job]:
        """The newest commands first, each with its entry if it has one."""
        found = list(reversed(self._known.values()))[:limit]
        for job in found:
            if job.permit and not job.seq:
                job.seq = begun_at(self.app, job.permit, after=job.head)
        return found

    def cancel(self, job: str, *, admin: bool) -> Job:
        """Stop a command or withdraw its request: for its owner and for admins."""
        known = self._known.get(job)
        if known is None:
            raise NotFoundError(f"There is no command {job!r} here.", next_step="See the history.")
        if known.by != signed_in() and not admin:
            raise AuthorityError(
                f"The command was started by {known.by!r}.", next_step="Ask an admin to cancel it."
            )
        if known.over or known.task is None:
            raise ConflictError(
                "The command has already finished.", next_step="See its result in the history."
            )
        known.task.cancel()
        return known

    async def end(self) -> None:
        """End all that run."""
        tasks = [job.task for job in self._known.values() if job.task and not job.over]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, job: Job) -> None:
        def note_request(approval: Approval) -> None:
            job.approval = approval.id

        def began(permit: str) -> None:
            job.permit = permit

        try:
            executed = await execute_command(
                self.app, job.wanted, on_request=note_request, began=began
            )
            job.seq = executed.command or executed.seq
            job.executed = executed
        except asyncio.CancelledError:
            job.problem = "cancelled"
            raise
        except OperatorError as error:
            job.problem = f"{error.message} {error.next_step}".strip()


def ending_of(executed: Execution, *, here: str = "") -> tuple[str, ...]:
    """Messages after a command; none if it succeeded and left nothing behind.

    `here` are the options that make a command line use the same home.
    """
    result, lines = executed.result, []
    match result.outcome:
        case Outcome.TIMED_OUT:
            limit_s = executed.verdict.action.timeout_s
            lines.append(f"The command was killed: it exceeded its timeout of {limit_s:g} s.")
        case Outcome.CANCELLED:
            lines.append(
                f"The command was stopped from outside. See: operator kill-switch status{here}"
            )
        case Outcome.UNKNOWN:
            lines.append(
                "The result is unknown. Check the system before you run the command again."
            )
        case _ if not result.ok:
            category = f" [{result.category}]" if result.category else ""
            lines.append(f"The command failed: {named_exit(result.exit_code)}{category}.")
    if result.truncated:
        streams = {"stdout": result.stdout_bytes, "stderr": result.stderr_bytes}
        sizes = [f"{_size(size)} of {name}" for name, size in streams.items() if size]
        lines.append(
            f"The ledger keeps the beginning and the end of {' and '.join(sizes) or 'the output'}."
            f" Full output, for a day: operator history show {executed.command} --output{here}"
        )
    for ended in (False, True):
        if left := [process for process in result.left if process.ended is ended]:
            names = ", ".join(
                f"{process.name} (pid {process.process.pid})" for process in left[:NAMED_MAX]
            )
            more = f" and {len(left) - NAMED_MAX} more" if len(left) > NAMED_MAX else ""
            lines.append(
                f"{'Killed' if ended else 'Still running'} after the command: {names}{more}."
            )
    return tuple(lines)


def _size(size: float) -> str:
    for unit in UNITS:
        if size < UNIT or unit == UNITS[-1]:
            break
        size /= UNIT
    return f"{size:.3g} {unit}"


async def settle_abandoned(app: App, *, wait_s: float = PASSING_S) -> dict[int, Result | None]:
    """Record what became of what a killed operator left open; None for what still runs.

    Nothing is run again.
    """

    def executor(intent: Entry) -> Executor:
        # The targets of the subject say where it ran.
        ticket = app.store.tickets.get(intent.ticket) if intent.ticket is not None else None
        target = from_json(Action, intent.payload["action"]).target
        owners = (
            owner.name
            for owner in app.config.subjects
            if target and target in [part.name for part in owner.targets]
        )
        subject = next(owners, MACHINE) if ticket is None else ticket.subject
        try:
            return app.controls(subject).executor
        except OperatorError:  # a rig that is gone: its commands ran on this machine
            return app.controls(MACHINE).executor

    return await Recovery(app.store.intents, app.initiator, executor).settle(wait_s=wait_s)


async def follow_abandoned(app: App) -> None:
    """Settle abandoned commands until cancelled."""
    while True:
        await settle_abandoned(app, wait_s=INTERVAL_S)
        await asyncio.sleep(INTERVAL_S)
