"""Receives alerts of other systems, and files what they open."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from operator_protocols.domain.alert import Alert, AlertChange
from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.errors import ConfigError, NotFoundError, OperatorError, UsageError
from operator_protocols.ports import Plugin, SubjectSettings
from operator_sre.app.listeners import is_loopback
from operator_sre.app.secret_store import read_secret
from operator_sre.triggers.subject import AlertedSubject
from operator_sre.triggers.trigger import SKEW_S_MAX, Trigger, UnreadableError, read_body, refusal

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = [
    "BODY_BYTES_MAX",
    "Answer",
    "Receiver",
    "alerted_plugin",
    "list_alerts",
    "refused_answer",
]

BODY_BYTES_MAX = 1 << 20
LIST_MAX = 1000
# The first refusal of a trigger is recorded at once; later ones are summed up at this interval.
REFUSED_EVERY_S = 60.0
SIGNATURES_MAX = 10_000
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a sender: an HTTP status and a document."""

    status: int
    document: Mapping[str, object]


def list_alerts(app: App, *, firing: bool, subject: str) -> Sequence[Alert]:
    """Alerts, newest first: firing ones, or all."""
    return app.store.alerts.find(firing=firing or None, subject=subject, limit=LIST_MAX)


def alerted_plugin(app: App, name: str) -> Plugin:
    """The plug-in for a trigger without a subject: it observes the alerts, and has no tools."""

    def subject(settings: SubjectSettings) -> AlertedSubject:
        return AlertedSubject(settings.name, app.store.alerts, clock=settings.clock)

    return Plugin(
        name=name,
        sentence="alerts from other systems, for which no subject is configured",
        subject=subject,
        notes="Only the alert is known. Report what it contains, and escalate.",
    )


def refused_answer(status: int, category: str, message: str, action: str) -> Answer:
    """An error in the common JSON form."""
    fields = {"category": category, "message": message, "next_action": action}
    return Answer(status, {"error": fields})


class Receiver:
    """Receives the notifications of all triggers, files what they open, and keeps watching it."""

    def __init__(self, app: App) -> None:
        self._app = app
        engine = app.engine()
        # What follows the dash tells the monitors of one process apart.
        self._engine = replace(engine, worker=f"{engine.worker}-alerts")
        self._triggers = {trigger.name: trigger for trigger in app.config.triggers}
        self._refused: dict[str, _Refused] = {}
        self._signed: OrderedDict[str, float] = OrderedDict()
        self._due: dict[str, asyncio.Event] = {}

    @property
    def paths(self) -> Sequence[str]:
        """The path of each trigger."""
        return [f"/alerts/{name}" for name in self._triggers]

    def check(self, host: str) -> None:
        """UsageError with the first reason not to listen there."""
        if not self._triggers:
            raise UsageError(
                "No triggers are configured.", next_step="Add [triggers.NAME] to operator.toml."
            )
        known = {known.name for known in self._app.config.subjects}
        for trigger in self._triggers.values():
            name = trigger.name
            if not trigger.guarded and not trigger.open:
                raise ConfigError(
                    f"Trigger {name!r} has no authentication.",
                    next_step="Add token_file or hmac_file; or open = 1, for loopback only.",
                )
            if not trigger.guarded and not is_loopback(host):
                raise ConfigError(
                    f"Trigger {name!r} has open = 1, and {host!r} is not a loopback address.",
                    next_step="Add token_file or hmac_file, or listen on 127.0.0.1.",
                )
            if not trigger.subject and name in known:
                raise ConfigError(
                    f"Trigger {name!r} has the same name as a subject.",
                    next_step=f'Rename it, or add: subject = "{name}"',
                )
            for file in filter(None, (trigger.token_file, trigger.hmac_file)):
                if not read_secret(file):
                    raise ConfigError(f"The secret in {file!r} of trigger {name!r} is empty.")
            if trigger.subject:
                self._app.choose([trigger.subject])
            subject = self._engine.pipeline.controls(trigger.about).subject
            names = [invariant.name for invariant in subject.invariants]
            if trigger.invariant and trigger.invariant not in names:
                raise NotFoundError(
                    f"{trigger.subject!r} has no invariant {trigger.invariant!r}.",
                    next_step=f"Invariants: {', '.join(names)}.",
                )

    async def receive(
        self, name: str, headers: Mapping[str, str], body: bytes, *, sender: str
    ) -> Answer:
        """The answer to one notification. Its content never raises an error."""
        trigger = self._triggers.get(name)
        if trigger is None:
            return refused_answer(
                404,
                ErrorCategory.POLICY_VALIDATION_FAILED,
                "unknown trigger",
                NextAction.FIX_CODE,
            )
        now = self._app.clock.now()
        try:
            why = refusal(trigger, headers, body, now_s=now.timestamp(), secret=read_secret)
            if why:
                return await self._refuse(trigger, why, sender)
            notified = read_body(trigger, body, at=now)
            signature = headers.get(trigger.hmac_header.lower(), "") if trigger.hmac_file else ""
            # Signatures are remembered as long as a replay could pass for a new notification.
            signed, now_s = self._signed, now.timestamp()
            while signed and (
                len(signed) > SIGNATURES_MAX or next(iter(signed.values())) < now_s - 2 * SKEW_S_MAX
            ):
                signed.popitem(last=False)
            if signature in signed:
                # The sender may have missed the first answer. A replay changes nothing.
                return _answer([], [])
            alerts = [
                Alert(
                    trigger=trigger.name,
                    fingerprint=alert.fingerprint,
                    name=alert.name,
                    subject=trigger.about,
                    target=self._target_of(trigger, alert.place),
                    invariant=trigger.invariant or f"alert:{alert.name}",
                    severity=alert.severity,
                    summary=alert.summary,
                    since=alert.since,
                    firing=alert.firing,
                    labels=alert.labels,
                )
                for alert in notified
            ]
            changes = await self._app.store.alerts.take(alerts)
            if signature:
                signed[signature] = now_s
            if any(change is not AlertChange.KNOWN for change in changes):
                log.info(
                    "alerts of %s: %d", trigger.name, len(alerts), extra={"target": trigger.about}
                )
                if due := self._due.get(trigger.about):
                    due.set()
            return _answer(alerts, changes)
        except UnreadableError as error:
            category = ErrorCategory.POLICY_VALIDATION_FAILED
            return refused_answer(400, category, str(error), NextAction.FIX_CODE)
        except OperatorError as error:
            # The sender tries again: Alertmanager does so for every answer of 500 and above.
            log.error("cannot store an alert: %s", error, extra={"subject": trigger.about})
            message = "The alert could not be stored. Send it again."
            return refused_answer(503, error.category, message, NextAction.RERUN)

    async def run(self) -> None:
        """Check subjects after alerts, and watch triggers without a subject, until cancelled."""
        about = dict.fromkeys(trigger.about for trigger in self._triggers.values())
        alone = dict.fromkeys(
            trigger.about for trigger in self._triggers.values() if not trigger.subject
        )
        async with asyncio.TaskGroup() as group:
            for subject in about:
                self._due[subject] = asyncio.Event()
                group.create_task(self._file(subject))
            group.create_task(self._engine.watch(list(alone)))

    def _target_of(self, trigger: Trigger, place: str) -> str:
        """The target that an alert names; empty for the whole subject where none has that name."""
        if not trigger.subject:
            shown = "".join(target if target.isprintable() else "?" for target in place)[:120]
            return shown or trigger.name
        try:
            targets = self._app.targets_of(trigger.subject)
        except OperatorError:  # a rig that is not up
            return trigger.subject
        for target in targets:
            if place in (target.name, f"{target.host}:{target.port}", *target.endpoints):
                return target.name
        return trigger.subject

    async def _file(self, subject: str) -> None:
        """Check at once after an alert; alerts that arrive meanwhile share the next check."""
        due = self._due[subject]
        while True:
            await due.wait()
            due.clear()
            try:
                await self._engine.pipeline.watch(subject)
            except OperatorError as error:  # the monitor records it at its next check
                log.error("cannot check %s: %s", subject, error)

    async def _refuse(self, trigger: Trigger, why: str, sender: str) -> Answer:
        known = self._refused.setdefault(trigger.name, _Refused())
        if count := known.due(self._app.clock.monotonic()):
            log.warning(
                "alert to trigger %s from %s refused: %s (%d times)",
                trigger.name,
                sender,
                why,
                count,
            )
            payload = {"trigger": trigger.name, "sender": sender, "reason": why, "count": count}
            by = Actor(id=f"trigger:{trigger.name}", type="trigger")
            await self._app.store.journal.append(Draft(Kind.TRIGGER_REFUSED, payload, actor=by))
        return refused_answer(
            401,
            ErrorCategory.TRIGGER_AUTH_FAILED,
            f"The alert was refused: {why}.",
            NextAction.SET_SECRET,
        )


@dataclass(slots=True)
class _Refused:
    """How often a trigger was refused since the last record."""

    count: int = 0
    told_at: float = field(default=float("-inf"))

    def due(self, now_s: float) -> int:
        """How many to tell of now; 0 while the last word is too young."""
        self.count += 1
        if now_s - self.told_at < REFUSED_EVERY_S:
            return 0
        count, self.count, self.told_at = self.count, 0, now_s
        return count


def _answer(alerts: Sequence[Alert], changes: Sequence[AlertChange]) -> Answer:
    counts = {change.value: list(changes).count(change) for change in AlertChange}
    listed = [
        {
            "name": alert.name,
            "target": alert.target,
            "fingerprint": alert.fingerprint,
            "change": change,
        }
        for alert, change in zip(alerts, changes, strict=True)
    ]
    new = counts[AlertChange.FIRED] + counts[AlertChange.CLEARED]
    return Answer(202 if new else 200, {**counts, "alerts": listed})
