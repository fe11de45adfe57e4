"""How much risk each agent has piled up lately."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from operator_protocols.domain.command import CommandFilter
from operator_protocols.domain.session import Deed, SessionRecord, session_of
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import NotFoundError
from operator_sre.app.persons import administrator
from operator_sre.app.wiring import App
from operator_sre.gate.session import WINDOW_S, classify, weigh

__all__ = ["SessionView", "list_sessions", "reset_session", "show_session"]

COMMANDS_MAX = 5000


@dataclass(frozen=True, slots=True)
class SessionView:
    """An agent's session: what it adds up to, and whether the agent is held in observe."""

    agent: str
    score: int
    level: Risk
    held: bool
    reasons: tuple[str, ...]
    deeds: tuple[Deed, ...]
    record: SessionRecord | None


def list_sessions(app: App) -> list[SessionView]:
    """Everybody who acted within the window, or was ever held."""
    since = app.clock.now() - timedelta(seconds=WINDOW_S)
    recent = app.store.commands.newest(CommandFilter(since=since), limit=COMMANDS_MAX)
    names = {session_of(one.agent) for one in recent}
    names |= {one.agent for one in app.store.sessions.find()}
    return [_view(app, name) for name in sorted(names - {""})]


def show_session(app: App, agent: str) -> SessionView:
    """One session. NotFoundError when nothing is known of that agent."""
    names = [one.agent for one in list_sessions(app)]
    if agent not in names:
        raise NotFoundError(
            f"There is no session of {agent!r}.",
            next_step=f"Agents: {', '.join(names) or 'none'}.",
        )
    return _view(app, agent)


async def reset_session(app: App, agent: str, *, reason: str) -> SessionView:
    """Let an agent go, and begin its session anew."""
    show_session(app, agent)
    person = administrator(app, "reset a session")
    await app.store.sessions.reset(agent, by=person, reason=reason)
    return _view(app, agent)


def _view(app: App, agent: str) -> SessionView:
    since = app.clock.now() - timedelta(seconds=WINDOW_S)
    deeds = tuple(app.store.sessions.deeds(agent, since=since))
    session = weigh(deeds, classify)
    record = next(iter(app.store.sessions.find(agent)), None)
    return SessionView(
        agent=agent,
        score=session.score,
        level=session.level,
        held=record is not None and record.held,
        reasons=session.reasons,
        deeds=deeds,
        record=record,
    )
