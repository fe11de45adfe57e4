"""One command of a person, on the way that every command of a mind goes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.permit import Approval, ApprovalState, Permit
from operator_protocols.domain.verdict import Mode, Verdict
from operator_protocols.errors import ConflictError, NotFoundError, UsageError
from operator_protocols.ports import Approvals
from operator_sre.app.hands import MACHINE, Hands
from operator_sre.app.outlook import Outlook, outlook_of
from operator_sre.app.persons import myself
from operator_sre.app.policy import record_overrides
from operator_sre.app.recovering import settle_abandoned
from operator_sre.app.redaction import LiveOutput, open_redactor
from operator_sre.app.wiring import App
from operator_sre.codec import to_json
from operator_sre.gate import Way
from operator_sre.pipeline import refused_payload

__all__ = [
    "Executed",
    "Wanted",
    "begun_at",
    "execute_command",
    "foresee_command",
    "hands_for",
]

NEVER, NOT_NOW, BROKEN_OFF = 3, 4, 1
LOOK_AHEAD_MAX = 1_000
# It is told which stream says what, and may answer False when it wants no more of it.
Watch = Callable[[int, bytes], bool | None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A command line, or a call of a tool, and what a person said of it."""

    command: str = ""
    cwd: str = "/"
    subject: str = ""
    target: str = ""
    timeout_s: float = 120.0
    reason: str = ""
    venv: str = ""
    passes: tuple[str, ...] = ()
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
        )


@dataclass(frozen=True, slots=True)
class Executed:
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
        self.last = approval  # first: whoever is stopped while it is written takes it back, too
        asked = await self.approvals.request(approval)
        self.tell(asked)
        return asked

    async def decide(
        self, approval: str, state: ApprovalState, *, by: Actor, reason: str, version: int
    ) -> Approval:
        return await self.approvals.decide(approval, state, by=by, reason=reason, version=version)

    def get(self, approval: str) -> Approval | None:
        return self.approvals.get(approval)

    def find(self, *, states: Iterable[ApprovalState] = (), run: str = "") -> Sequence[Approval]:
        return self.approvals.find(states=states, run=run)


def foresee_command(app: App, wanted: Wanted) -> Outlook:
    """What would happen. Runs nothing and writes nothing."""
    subject, hands = hands_for(app, wanted)
    verdict = hands.gate.judge(wanted.action, myself())
    surroundings = app.surroundings
    return outlook_of(hands, verdict, myself(), subject=subject, surroundings=surroundings)


async def execute_command(
    app: App,
    wanted: Wanted,
    *,
    asked: Callable[[Approval], None],
    watch: Watch | None = None,
    began: Callable[[str], None] = lambda permit: None,
) -> Executed:
    """Judge it, have it permitted, run it. `asked` is told of a request that people wait for.

    `watch` hears what it says as it comes, without secrets; `began` is told the fingerprint of its
    permit.
    Whoever stops waiting takes the request back, because nobody would come for the answer.
    """
    subject, hands = hands_for(app, wanted)
    await record_overrides(app)
    await settle_abandoned(app)
    me, announced = myself(), _Announced(app.store.approvals, asked)
    gate = replace(hands.gate, approvals=announced)
    action = wanted.action
    proposed = hands.known(action) if wanted.call else await hands.propose(action)
    if isinstance(proposed, Result):
        return await _refused(app, gate.judge(action, me), proposed, me)
    verdict = gate.judge(proposed, me)
    try:
        permit = await gate.permit(verdict, None, me, subject=subject)
    except asyncio.CancelledError:
        await _withdraw(app, announced.last, me)
        raise
    if not isinstance(permit, Permit):
        way = gate.foresee(verdict, me, subject=subject).way
        step = _next_step(app, subject) if way is Way.PROPOSES else ""
        code = NEVER if way is Way.NEVER else NOT_NOW
        return await _refused(app, verdict, permit, me, step=step, code=code)
    began(permit.fingerprint)
    newest = app.store.entries.newest(limit=1)
    result, entry = await _watched(app, hands, permit, watch)
    if entry is None:
        return await _refused(app, verdict, result, me, permit=permit.fingerprint)
    code = BROKEN_OFF if result.exit_code is None else result.exit_code
    if result.outcome is Outcome.REFUSED:
        code = NOT_NOW
    begun = begun_at(app, permit.fingerprint, after=newest[0].seq if newest else 0)
    return Executed(verdict, _shown(app, result), verdict.explanation, entry.seq, code, begun)


async def _watched(
    app: App, hands: Hands, permit: Permit, watch: Watch | None
) -> tuple[Result, Entry | None]:
    if watch is None:
        return await hands.executor.execute(permit)
    live = LiveOutput(open_redactor(app.config), watch)
    try:
        return await hands.executor.execute(permit, watch=live.feed)
    finally:
        live.end()


def begun_at(app: App, permit: str, *, after: int) -> int:
    """The entry that a deed began with, by its permit, soon after an entry; 0 where none did."""
    for entry in app.store.entries.after(after, limit=LOOK_AHEAD_MAX):
        is_call = entry.kind is Kind.TOOL_CALL
        if is_call and entry.payload.get("permit") == permit:
            return entry.seq
    return 0


async def _refused(
    app: App,
    verdict: Verdict,
    result: Result,
    me: Actor,
    *,
    step: str = "",
    code: int = NOT_NOW,
    permit: str = "",
) -> Executed:
    payload = to_json(refused_payload(verdict, result, permit=permit))
    entry = await app.store.journal.append(Draft(Kind.REFUSED, payload, actor=me))
    explanation = f"{result.stderr} {step}".strip()
    return Executed(verdict, replace(result, stderr=""), explanation, entry.seq, code)


def _next_step(app: App, subject: str) -> str:
    """What lets a proposal run, as far as whoever made it can say so."""
    if app.store.switch.state().on:
        return "The kill switch is on: operator kill-switch status"
    if app.config.mode is Mode.OBSERVE and not app.store.modes.find(subject):
        return "To be asked about it, run it with: --mode approve"
    return "See who set it with: operator mode show"


async def _withdraw(app: App, asked: Approval | None, me: Actor) -> None:
    if asked is None:
        return
    known, reason = app.store.approvals.get(asked.id) or asked, "whoever asked waits no more"
    # It may have been answered a moment before, or never been written.
    with contextlib.suppress(ConflictError, NotFoundError):
        await app.store.approvals.decide(
            known.id, ApprovalState.WITHDRAWN, by=me, reason=reason, version=known.version
        )


def _shown(app: App, result: Result) -> Result:
    redactor = open_redactor(app.config)
    said, warned = redactor.text(result.stdout), redactor.text(result.stderr)
    return replace(result, stdout=said, stderr=warned)


def hands_for(app: App, wanted: Wanted) -> tuple[str, Hands]:
    """What acts for the subject that was named, or that the target belongs to."""
    if not wanted.action.command.strip():
        raise UsageError("There is no command to run.", next_step="Try: operator exec 'uptime'")
    subject = MACHINE
    if wanted.subject or wanted.target:
        (subject,) = app.choose([wanted.subject] if wanted.subject else [])
    hands = app.hands(subject)
    names = [target.name for target in hands.targets()]
    if wanted.target and wanted.target not in names:
        raise NotFoundError(
            f"{subject!r} has no target {wanted.target!r}.",
            next_step=f"Its targets: {', '.join(names) or 'none'}.",
        )
    return subject, hands
