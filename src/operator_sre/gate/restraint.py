"""What restrains an agent even where the policy would let it act."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from operator_protocols.domain.session import session_of
from operator_protocols.domain.verdict import Level, Risk, Verdict
from operator_sre.gate.session import WINDOW_S, Classify, Session, classify, deed_of, weigh

if TYPE_CHECKING:
    from operator_protocols.domain.action import Action
    from operator_protocols.domain.limits import Limits
    from operator_protocols.ports import Changes, Clock, Sessions, Switch

__all__ = ["Held", "Restraint"]

POLL_S = 0.2
# How long somebody else's change is waited for before the agent is told to come back.
TURN_S_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Held:
    """Why something does not run by itself: refused at once, or a person has to be asked.

    `session` is that of an agent which has to be held from here on. `busy` when it is refused for
    nothing but another change that runs.
    """

    refuse: str = ""
    ask: str = ""
    session: Session | None = None
    busy: bool = False


@dataclass(frozen=True, slots=True)
class Restraint:
    """The kill switch, the limits of a subject, and the session of an agent, in this order.

    `inside` tells what cannot reach beyond a disposable rig, and so weighs nothing.
    """

    switch: Switch
    changes: Changes
    sessions: Sessions
    clock: Clock
    limits: Callable[[], Limits]
    inside: Callable[[Action], bool] = lambda action: False
    classify: Classify = classify

    async def __call__(self, verdict: Verdict, subject: str, agent: str) -> Held | None:
        """Why this must not run by itself now; None when nothing holds it back.

        May wait a while for its turn. The limits are looked at once more when it begins.
        """
        if verdict.level is Level.REVIEW and not self.switch.state().on:
            await self._turn(subject, self.limits())
        held = self.foresee(verdict, subject, agent)
        if held is not None and held.session is not None:
            score, reason = held.session.score, "; ".join(held.session.reasons)
            await self.sessions.hold(session_of(agent), score=score, reason=reason)
        return held

    def foresee(self, verdict: Verdict, subject: str, agent: str) -> Held | None:
        """The same as it is at this moment: nothing is written and nothing waited for."""
        if self.switch.state().on:
            return Held(refuse="The kill switch is on (operator kill-switch status).")
        if verdict.level is not Level.REVIEW:
            return None
        limits, now = self.limits(), self.clock.now()
        usage = self.changes.usage(subject, limits, now=now)
        if why := limits.refusal_in_turn(usage, now):
            return Held(refuse=f"Held back: {why}.")
        held = None if self.inside(verdict.action) else self._session(verdict, agent)
        # Whose turn it is comes last of all that refuses, because it is the one that passes.
        if not (held and held.refuse) and (why := limits.busy(usage)):
            return Held(refuse=f"Held back: {why}.", busy=True)
        if held is not None:
            return held
        target = str(verdict.action.arguments.get("target") or verdict.action.target)
        why = limits.question(usage, target)
        return Held(ask=f"Held back: {why}.") if why else None

    async def _turn(self, subject: str, limits: Limits) -> None:
        """Wait until nobody else changes the subject, or until that takes too long."""
        ends = self.clock.monotonic() + TURN_S_MAX
        usage = self.changes.usage(subject, limits, now=self.clock.now())
        while limits.busy(usage) and self.clock.monotonic() < ends:
            await self.clock.sleep(POLL_S)
            usage = self.changes.usage(subject, limits, now=self.clock.now())

    def _session(self, verdict: Verdict, agent: str) -> Held | None:
        name = session_of(agent)
        reset = f"operator session reset {name} --reason WHY"
        if any(record.held for record in self.sessions.find(name)):
            return Held(refuse=f"{name!r} is in observe until a person says otherwise ({reset}).")
        session = self.session(name, verdict)
        told = f"The session of {name!r} is {session.level} ({session.score})"
        if session.level is Risk.CRITICAL:
            why = f"{told}: it is in observe until a person says otherwise ({reset})."
            return Held(refuse=why, session=session)
        return Held(ask=f"{told}.") if session.level is Risk.HIGH else None

    def session(self, agent: str, verdict: Verdict) -> Session:
        """What an agent's deeds add up to, with the one that it wants now."""
        now = self.clock.now()
        deeds = self.sessions.deeds(agent, since=now - timedelta(seconds=WINDOW_S))
        return weigh([*deeds, deed_of(verdict, now)], self.classify)
