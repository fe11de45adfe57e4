"""What the gate thinks of a command, without running it."""

from __future__ import annotations

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Verdict
from operator_sre.config import Config
from operator_sre.gate import Policy, judge

__all__ = ["check_command"]


def check_command(config: Config, command: str) -> Verdict:
    """Judge one command under the standard policy and the configured mode."""
    return judge(Action.shell(command), Policy(mode=config.mode))
