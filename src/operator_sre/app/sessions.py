"""Sessions of agents: the risk that their actions add up to, and how it is reset."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from operator_protocols.domain.action import digest_of
from operator_protocols.domain.command import CommandFilter
from operator_protocols.domain.confirmation import Boundary
from operator_protocols.domain.session import SessionAction, SessionRecord, session_of
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import NotFoundError
from operator_sre.app.confirmations import Asked
from operator_sre.app.persons import administrator
from operator_sre.app.wiring import App
from operator_sre.codec import to_json
from operator_sre.gate.restraint import WINDOW_S, classify, weigh

__all__ = [
    "SessionView",
    "list_sessions",
    "reset_session",
    "session_asked",
    "session_digest",
    "show_session",
]

COMMANDS_MAX = 5000


@dataclass(frozen=True, slots=True)
class SessionView:
    """An agent's session: what it adds up to, and whether the agent is held in observe."""

    agent: str
    score: int
    level: Risk
    held: bool
    reasons: tuple[str, ...]
    deeds: tuple[SessionAction, ...]
    record: SessionRecord | None


def list_sessions(app: App) -> list[SessionView]:
    """How much risk everybody piled up who acted within the window, or was ever held."""
    since = app.clock.now() - timedelta(seconds=WINDOW_S)
    recent = app.store.commands.newest(CommandFilter(since=since), limit=COMMANDS_MAX)
    names = {session_of(session.agent) for session in recent}
    names |= {session.agent for session in app.store.sessions.find()}
    return [_session_view(app, name) for name in sorted(names - {""})]


def show_session(app: App, agent: str) -> SessionView:
    """One session. NotFoundError when nothing is known of that agent."""
    names = [session.agent for session in list_sessions(app)]
    if agent not in names:
        raise NotFoundError(
            f"There is no session of {agent!r}.", next_step=f"Agents: {', '.join(names) or 'none'}."
        )
    return _session_view(app, agent)


async def reset_session(app: App, agent: str, *, reason: str) -> SessionView:
    """Release an agent and reset its session."""
    show_session(app, agent)
    person = administrator(app, "reset a session")
    await app.store.sessions.reset(agent, by=person, reason=reason)
    return _session_view(app, agent)


def _session_view(app: App, agent: str) -> SessionView:
    since = app.clock.now() - timedelta(seconds=WINDOW_S)
    deeds = tuple(app.store.sessions.actions(agent, since=since))
    session = weigh(deeds, classify)
    record = next(iter(app.store.sessions.find(agent)), None)
    held = record is not None and record.held
    return SessionView(agent, session.score, session.level, held, session.reasons, deeds, record)


def session_asked(app: App, agent: str, *, reason: str) -> Asked | None:
    """The confirmation that a reset requires; None where there is nothing to reset."""
    view = show_session(app, agent)
    if not view.held and not view.score:
        return None
    now = "is held in observe" if view.held else f"has a risk score of {view.score}"
    return Asked(
        Boundary.RULE_LOOSENED,
        {"what": "session", "agent": agent, "reason": reason},
        Risk.MEDIUM,
        f"The agent {agent!r} {now}; the reset clears it.",
        {"session": session_digest(app, agent)},
    )


def session_digest(app: App, agent: str) -> str:
    """What an approved reset is bound to."""
    record = next(iter(app.store.sessions.find(agent)), None)
    return digest_of(None if record is None else to_json(record))
