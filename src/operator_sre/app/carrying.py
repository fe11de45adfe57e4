"""How each step of a workflow goes: through gate, permit, executor and ledger, as everything."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.permit import ApprovalState, Permit
from operator_protocols.domain.verdict import Level, Verdict
from operator_protocols.domain.workflow import WorkflowRecord, WorkflowState, workflow_of
from operator_protocols.errors import ConflictError, OperatorError, RigError, UsageError
from operator_sre.app.hands import MACHINE, Hands
from operator_sre.app.policy import record_overrides
from operator_sre.app.redaction import LiveOutput, open_redactor
from operator_sre.app.wiring import App
from operator_sre.codec import from_json, to_json
from operator_sre.executor.workflows import Acted, Carrier, Deed
from operator_sre.executor.workflows.carrying import LEASE_S
from operator_sre.executor.workflows.progress import Progress
from operator_sre.gate import came_late
from operator_sre.pipeline import refused_payload

__all__ = ["Watch", "carry", "subject_of", "withdraw_requests"]

ENTRIES_MAX = 10_000
# How long a change waits for another of the same subject, and how often it looks.
BUSY_S_MAX, BUSY_POLL_S = 600.0, 0.2
# How often a change comes again that came while another ran.
TRIES_MAX = 5
# Hears what a deed says as it comes, without secrets: its run, the stream, the bytes.
Watch = Callable[[str, int, bytes], None]


async def carry(
    app: App,
    record: WorkflowRecord,
    *,
    watch: Watch | None = None,
    chance: Callable[[], float] = random.random,
    lease_s: float = LEASE_S,
) -> WorkflowRecord:
    """Carry a claimed workflow to its end. Whoever cancels this parks it for the next one.

    One whose definition only another home can read is failed, and nothing of it is run.
    """
    await record_overrides(app)
    entries = app.store.entries.after(0, limit=ENTRIES_MAX, run=record.id)
    progress = Progress.of(app.store.sealed.unsealed(entries))
    claims = app.store.workflow_claims
    if not progress.intact:
        why = "it holds secrets that only the home that was asked for it can read"
        return await claims.end(record, WorkflowState.FAILED, reason=why)
    try:
        subject = subject_of(app, record)
        crew = _Crew(app, record, subject, app.hands(subject), watch, _turn(subject))
    except (RigError, UsageError) as error:  # what it is about is not there
        return await claims.end(record, WorkflowState.FAILED, reason=str(error))
    carrier = Carrier(
        record=record,
        progress=progress,
        claims=claims,
        clock=app.clock,
        act=crew.act,
        known=crew.known,
        harmless=crew.harmless,
        wanted=lambda: app.store.workflows.get(record.id) or record,
        chance=chance,
        lease_s=lease_s,
    )
    try:
        ended = await carrier.carry()
    except ConflictError:
        return app.store.workflows.get(record.id) or record  # somebody else has it by now
    except OperatorError:
        raise  # the store may be back later, and it goes on then
    except Exception as error:  # a defect of ours must not be met again and again
        why = f"something unexpected happened: {type(error).__name__}"
        await claims.end(record, WorkflowState.FAILED, reason=why)
        raise
    finally:
        await claims.renew(record, lease_s=0.0)
    await withdraw_requests(app, record.id)
    return ended


def subject_of(app: App, record: WorkflowRecord) -> str:
    """What a workflow is about: the subject that it names, or that its targets belong to."""
    workflow = record.workflow
    targets = [step.action.target for step in workflow.steps if step.action.target]
    if not workflow.subject and not targets:
        return MACHINE
    (subject,) = app.choose([workflow.subject] if workflow.subject else [])
    return subject


async def withdraw_requests(app: App, workflow: str) -> None:
    """Nobody waits any more for what a workflow that is over had asked."""
    for asked in app.store.approvals.find(states=[ApprovalState.PENDING]):
        if workflow_of(asked.run) == workflow:
            with contextlib.suppress(ConflictError):  # it was answered a moment before
                await app.store.approvals.decide(
                    asked.id,
                    ApprovalState.WITHDRAWN,
                    by=Actor(),
                    reason="the workflow is over",
                    version=asked.version,
                )


_turns: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()


def _turn(subject: str) -> asyncio.Lock:
    """Whose turn it is to change something about a subject, among all workflows of this loop."""
    key = (id(asyncio.get_running_loop()), subject)
    turn = _turns.get(key) or asyncio.Lock()
    _turns[key] = turn
    return turn


@dataclass(frozen=True, slots=True)
class _Crew:
    """What a carrier asks of the rest of us, for one workflow."""

    app: App
    record: WorkflowRecord
    subject: str
    hands: Hands
    watch: Watch | None
    turn: asyncio.Lock

    def harmless(self, action: Action) -> bool:
        """It only reads, or says of itself that doing it again is doing it once."""
        tool = self.hands.registry.get(action.tool)
        if tool is not None:
            return tool.spec.idempotent or not tool.spec.changes
        return self.hands.gate.judge(action, self.record.requester).level is Level.SAFE

    async def act(self, deed: Deed) -> Acted:
        """Judge it as it is now, have it permitted, run it."""
        gate = self.hands.gate
        proposed = await self.hands.propose(deed.action)
        if isinstance(proposed, Result):
            verdict = gate.judge(deed.action, self.record.requester)
            return await self._refused(deed, verdict, verdict.refusal(proposed.stderr))
        for left in reversed(range(TRIES_MAX)):
            verdict = gate.judge(proposed, self.record.requester)
            acted = await self._permitted(deed, verdict, last=not left)
            if acted is not None:
                return acted
        raise AssertionError("the last try ends it")

    async def _permitted(self, deed: Deed, verdict: Verdict, *, last: bool) -> Acted | None:
        """Have it permitted and run it; None when another change was quicker, and nothing ran."""
        gate, record = self.hands.gate, self.record
        changes = verdict.level is not Level.SAFE
        if changes:
            await self._until_free()
        permit = await gate.permit(
            verdict,
            None,
            record.requester,
            subject=self.subject,
            run=deed.run,
            epoch=record.epoch,
        )
        if not isinstance(permit, Permit):
            if came_late(permit) and not last:
                return None
            return await self._refused(deed, verdict, permit)
        if changes:
            async with self.turn:  # one change at a time
                await self._until_free()
                result, entry = await self._execute(deed, permit)
        else:
            result, entry = await self._execute(deed, permit)
        if entry is not None:
            return Acted(result, entry.seq)
        if came_late(result) and not last:
            return None
        return await self._refused(deed, verdict, result, permit=permit.fingerprint)

    async def _until_free(self) -> None:
        """Wait while somebody else changes something about the same subject, but not for ever."""
        clock, limits = self.app.clock, self.hands.executor.limits()
        deadline = clock.monotonic() + BUSY_S_MAX
        while clock.monotonic() < deadline:
            usage = self.app.store.changes.usage(self.subject, limits, now=clock.now())
            if not limits.busy(usage):
                return
            await clock.sleep(BUSY_POLL_S)

    async def known(self, run: str) -> Acted | None:
        """What the ledger holds of a deed; None when it never began."""
        found = self.app.store.entries.after(0, limit=ENTRIES_MAX, run=run)
        for entry in reversed(found):
            if entry.kind in (Kind.TOOL_RESULT, Kind.REFUSED):
                result = from_json(Result, entry.payload["result"])
                return Acted(self._whole(result), entry.seq)
        for entry in found:
            if entry.kind is Kind.TOOL_CALL:
                _, ended = await self.hands.executor.recover(entry)
                # Somebody else may have found out first, and what is recorded counts.
                result = from_json(Result, ended.payload["result"])
                return Acted(self._whole(result), ended.seq)
        return None

    def _whole(self, result: Result) -> Result:
        """The output as it was said, from the spool where the ledger holds it redacted."""
        stdout = self._said(result.stdout, result.stdout_sha256)
        stderr = self._said(result.stderr, result.stderr_sha256)
        if stdout is None or stderr is None:
            return replace(result, truncated=True)  # it is not all there, so it is not passed on
        return replace(result, stdout=stdout, stderr=stderr)

    def _said(self, text: str, sha256: str) -> str | None:
        if not sha256 or hashlib.sha256(text.encode()).hexdigest() == sha256:
            return text
        path = self.app.spool.path_of(sha256)
        size_max = self.app.surroundings.output_bytes_max
        if path is None or path.stat().st_size > size_max:
            return None
        return path.read_bytes().decode("utf-8", "replace")

    async def _execute(self, deed: Deed, permit: Permit) -> tuple[Result, Entry | None]:
        watch = self.watch
        if watch is None:
            return await self.hands.executor.execute(permit)
        redactor = open_redactor(self.app.config)
        live = LiveOutput(redactor, lambda stream, data: watch(deed.run, stream, data))
        try:
            return await self.hands.executor.execute(permit, watch=live.feed)
        finally:
            live.end()

    async def _refused(
        self, deed: Deed, verdict: Verdict, result: Result, *, permit: str = ""
    ) -> Acted:
        payload = to_json(refused_payload(verdict, result, permit=permit))
        draft = Draft(Kind.REFUSED, payload, run=deed.run, actor=self.record.requester)
        return Acted(result, (await self.app.store.journal.append(draft)).seq)
