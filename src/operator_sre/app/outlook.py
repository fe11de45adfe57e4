"""What would happen if an action ran: where, as whom, in which environment, and to what."""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.action import digest_of
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.permit import Approval, ApprovalState
from operator_protocols.domain.session import session_of
from operator_protocols.domain.verdict import Level, Mode, Verdict
from operator_protocols.errors import OperatorError
from operator_sre.app.policy import answer_of
from operator_sre.controls import MACHINE, Controls, Surroundings
from operator_sre.gate import Way

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = [
    "Foreseen",
    "Outlook",
    "document_of",
    "facts_of",
    "foresee_request",
    "outlook_of",
    "outlook_of_request",
]

MARKED = "(new each time)"

_WAYS = {
    Way.RUNS: "it runs without approval",
    Way.ASKS: "it requires approval",
    Way.PROPOSES: "it is only proposed",
    Way.HELD: "it does not run now",
    Way.NEVER: "it never runs",
}

_UNDO = {True: "possible", False: "not possible", None: "unknown"}

# How a secret that was taken out of a command is written.
REDACTED = "[REDACTED:"


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
            return "nothing: read-only"
        if self.verdict.writes:
            return ", ".join(self.verdict.writes)
        return f"unknown: anything that {self.user or 'the user of its agent'} may change"


def outlook_of(
    controls: Controls,
    verdict: Verdict,
    requester: Actor,
    *,
    subject: str,
    surroundings: Surroundings,
) -> Outlook:
    """The outlook of a command on this machine. Runs and writes nothing."""
    course = controls.foresee(verdict, requester, subject=subject)
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # as in some containers
        user = str(os.geteuid())
    rule = f"The standing rule {course.rule.id} allows it." if course.rule else ""
    return Outlook(
        verdict=verdict,
        subject=subject,
        identity=controls.gate.identify(verdict.action.target),
        host=socket.gethostname(),
        user=user,
        uid=os.geteuid(),
        requester=requester,
        environment={**surroundings.environment, surroundings.mark: MARKED},
        output_bytes_max=surroundings.output_bytes_max,
        mode=controls.gate.policy().mode,
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
    verdict, action, requester = outlook.verdict, outlook.verdict.action, outlook.requester
    who = f"{requester.id} ({requester.type}), through agent {requester.agent or '-'}"
    kept = outlook.output_bytes_max // 1024
    # What runs without approval is not weighed by anyone.
    urgency = "" if verdict.level is Level.SAFE else action.urgency.replace("_", " ")
    # What the kernel holds a command to, or why it does not.
    enforced = f"no, judged only: {verdict.unenforced}" if verdict.unenforced else ""
    enforced = enforced if verdict.confinement is None else str(verdict.confinement)
    then = ""
    if outlook.way is not None:
        mode = f"in mode {outlook.mode} " if outlook.mode else ""
        then = f"{mode}{_WAYS[outlook.way]}{f': {outlook.why}' if outlook.why else ''}"
    # The variables that people ask about; --json has all of them.
    variables = outlook.environment
    shown = [f"{name}={variables[name]}" for name in ("HOME", "PATH") if name in variables]
    if shown:
        shown.append(f"and {len(variables) - len(shown)} more variables (--json)")
    return (
        ("command", action.command),
        ("directory", f"{action.cwd} on {outlook.host or '-'}"),
        ("venv", action.venv),
        ("target", f"{action.target or '-'} of {outlook.subject or '-'}"),
        ("", outlook.identity),
        ("as", "" if outlook.uid is None else f"{outlook.user} (uid {outlook.uid})"),
        ("requester", f"{who}, {origin}" if origin else who),
        ("reason", action.reasoning),
        ("expects", action.expected),
        ("urgency", urgency),
        ("limits", f"{action.timeout_s:g} s, {kept} KiB kept of each stream, no input"),
        ("verdict", f"{verdict.level}, risk {verdict.risk}: {verdict.explanation}"),
        ("outcome", then),
        ("reads", ", ".join(verdict.reads)),
        ("writes", ", ".join(verdict.writes)),
        ("network", ", ".join(verdict.network)),
        ("sensitive", ", ".join(verdict.sensitive)),
        ("enforced", enforced),
        ("undo", _UNDO[verdict.reversible]),
        ("changes", outlook.may_change),
        ("variables", ", ".join(shown)),
    )


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


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The present verdict on a request. `problem` says why it is unknown here.

    `differs` when it would be judged otherwise than when people were asked, `partly` when secrets
    were taken out of what we know of it, `elsewhere` when it would run on another machine.
    """

    verdict: Verdict | None = None
    differs: bool = False
    partly: bool = False
    elsewhere: str = ""
    problem: str = ""


def foresee_request(app: App, approval: Approval) -> Foreseen:
    """Judge what a request is about by the rules of this moment. Runs and writes nothing."""
    host = session_of(approval.requester.agent).rpartition("@")[2]
    elsewhere = host if host and host != socket.gethostname() else ""
    try:
        controls = app.controls(approval.subject or MACHINE)
        verdict = controls.gate.judge(approval.action, approval.requester)
    except OperatorError as error:
        return Foreseen(elsewhere=elsewhere, problem=error.message)
    partly = REDACTED in str(approval.action.arguments)
    differs = (verdict.level, verdict.risk) != (approval.level, approval.risk)
    return Foreseen(verdict, differs and not partly, partly, elsewhere)
