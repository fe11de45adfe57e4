"""A request to people, judged once more at this moment: nothing is started, nothing written."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from operator_protocols.domain.session import session_of
from operator_protocols.errors import OperatorError
from operator_sre.app.hands import MACHINE

if TYPE_CHECKING:
    from operator_protocols.domain.permit import Approval
    from operator_protocols.domain.verdict import Verdict
    from operator_sre.app.wiring import App

__all__ = ["Foreseen", "foresee_request"]

# How a secret that was taken out of a command is written.
REDACTED = "[REDACTED:"


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What the gate thinks of a request now. `problem` says why nobody can tell from here.

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
        hands = app.hands(approval.subject or MACHINE)
        verdict = hands.gate.judge(approval.action, approval.requester)
    except OperatorError as error:
        return Foreseen(elsewhere=elsewhere, problem=error.message)
    partly = REDACTED in str(approval.action.arguments)
    differs = (verdict.level, verdict.risk) != (approval.level, approval.risk)
    return Foreseen(verdict, differs and not partly, partly, elsewhere)
