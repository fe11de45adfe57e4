"""What would happen if an action ran: where, as whom, in which environment, and to what."""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from operator_protocols.domain.action import digest_of
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.permit import Approval, ApprovalState
from operator_protocols.domain.session import session_of
from operator_protocols.domain.verdict import Level, Mode, Verdict
from operator_sre.app.gate import answer_of
from operator_sre.app.hands import Hands, Surroundings
from operator_sre.gate import Way

__all__ = ["Outlook", "document_of", "facts_of", "outlook_of", "outlook_of_request"]

MARKED = "(new each time)"
_WAYS = {
    Way.RUNS: "it runs by itself",
    Way.ASKS: "it waits until a person says yes",
    Way.PROPOSES: "it is only proposed",
    Way.HELD: "it does not run now",
    Way.NEVER: "it never runs",
}
_UNDO = {True: "possible", False: "not possible", None: "unknown"}


@dataclass(frozen=True, slots=True)
class Outlook:
    """What would happen. What is not known from here is empty or None.

    `identity` tells the target from a later one of the same name, `environment` is all that the
    command would find set, `way` and `why` are what the gate would do with it in this `mode`.
    """

    verdict: Verdict
    subject: str
    identity: str
    host: str
    user: str
    uid: int | None
    requester: Actor
    environment: Mapping[str, str]
    output_bytes_max: int
    mode: Mode | None
    way: Way | None
    why: str

    @property
    def may_change(self) -> str:
        """What could be different afterwards, in a sentence."""
        if self.verdict.level is Level.SAFE:
            return "nothing: it only reads"
        if self.verdict.writes:
            return ", ".join(self.verdict.writes)
        return f"not known: whatever {self.user or 'the user of its agent'} may change"


def outlook_of(
    hands: Hands, verdict: Verdict, requester: Actor, *, subject: str, surroundings: Surroundings
) -> Outlook:
    """Of a command that somebody asks for on this machine. Runs and writes nothing."""
    held = hands.restraint.foresee(verdict, subject, requester.agent)
    course = hands.gate.foresee(verdict, requester, held, subject=subject)
    rule = f"The standing rule {course.rule.id} allows it." if course.rule else ""
    return Outlook(
        verdict=verdict,
        subject=subject,
        identity=hands.gate.identify(verdict.action.target),
        host=socket.gethostname(),
        user=_user(os.geteuid()),
        uid=os.geteuid(),
        requester=requester,
        environment={**surroundings.environment, surroundings.mark: MARKED},
        output_bytes_max=surroundings.output_bytes_max,
        mode=hands.gate.policy().mode,
        way=course.way,
        why=course.why or rule,
    )


def outlook_of_request(approval: Approval, surroundings: Surroundings) -> Outlook:
    """Of what a person is asked about, as it was asked; its agent may be on another machine."""
    known = digest_of(dict(surroundings.environment)) == approval.binding.environment
    verdict = Verdict(
        action=approval.action,
        level=approval.level,
        risk=approval.risk,
        rules=(),
        explanation=approval.explanation,
        policy_digest=approval.binding.policy,
        reads=approval.reads,
        writes=approval.writes,
        network=approval.network,
        sensitive=approval.sensitive,
        reversible=approval.reversible,
    )
    return Outlook(
        verdict=verdict,
        subject=approval.subject,
        identity=approval.binding.identity,
        # An agent is named by its machine, and a person's own by both.
        host=session_of(approval.requester.agent).rpartition("@")[2],
        user="",
        uid=None,
        requester=approval.requester,
        environment={**surroundings.environment, surroundings.mark: MARKED} if known else {},
        output_bytes_max=surroundings.output_bytes_max,
        mode=None,
        way=Way.ASKS if approval.state is ApprovalState.PENDING else None,
        why="",
    )


def facts_of(outlook: Outlook, origin: str = "") -> Sequence[tuple[str, str]]:
    """What would happen as people read it: a name and a text each; an empty text says nothing."""
    verdict, action, one = outlook.verdict, outlook.verdict.action, outlook.requester
    who = f"{one.id} ({one.type}), through agent {one.agent or '-'}"
    return (
        ("command", action.command),
        ("in", f"{action.cwd} on {outlook.host or '-'}"),
        ("inside", action.venv),
        ("target", f"{action.target or '-'} of {outlook.subject or '-'}"),
        ("", outlook.identity),
        ("as", "" if outlook.uid is None else f"{outlook.user} (uid {outlook.uid})"),
        ("who", f"{who}, {origin}" if origin else who),
        ("why", action.reasoning),
        ("expects", action.expected),
        ("limits", _limits(outlook)),
        ("verdict", f"{verdict.level}, risk {verdict.risk}: {verdict.explanation}"),
        ("reads", ", ".join(verdict.reads)),
        ("writes", ", ".join(verdict.writes)),
        ("network", ", ".join(verdict.network)),
        ("sensitive", ", ".join(verdict.sensitive)),
        ("undo", _UNDO[verdict.reversible]),
        ("changes", outlook.may_change),
        ("then", _then(outlook)),
        ("with", _environment(outlook.environment)),
    )


def _environment(variables: Mapping[str, str]) -> str:
    """What people ask about; the rest only disarms settings of programs, and programs are told."""
    shown = [f"{name}={variables[name]}" for name in ("HOME", "PATH") if name in variables]
    more = len(variables) - len(shown)
    return ", ".join([*shown, f"and {more} more variables (--json)"]) if shown else ""


def document_of(outlook: Outlook) -> dict[str, Any]:
    """What would happen as programs read it."""
    action = outlook.verdict.action
    return {
        **answer_of(outlook.verdict),
        "host": outlook.host,
        "cwd": action.cwd,
        "subject": outlook.subject,
        "target": action.target,
        "identity": outlook.identity,
        "user": outlook.user,
        "uid": outlook.uid,
        "requester": outlook.requester,
        "environment": outlook.environment,
        "timeout_s": action.timeout_s,
        "output_bytes_max": outlook.output_bytes_max,
        "mode": outlook.mode,
        "way": outlook.way,
        "why": outlook.why,
        "may_change": outlook.may_change,
    }


def _limits(outlook: Outlook) -> str:
    kept = outlook.output_bytes_max // 1024
    return f"{outlook.verdict.action.timeout_s:g} s, {kept} KiB kept of each stream, no input"


def _then(outlook: Outlook) -> str:
    if outlook.way is None:
        return ""
    mode = f"in mode {outlook.mode} " if outlook.mode else ""
    return f"{mode}{_WAYS[outlook.way]}{f': {outlook.why}' if outlook.why else ''}"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # as in some containers
        return str(uid)
