"""What the gate thinks of commands, without running them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO

import msgspec

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Verdict
from operator_sre.app.acting import by_an_agent
from operator_sre.app.policy import policy_in_force
from operator_sre.config import Config
from operator_sre.gate import judge, safer, warm

__all__ = ["answer_of", "check_command", "check_lines"]

LINE_BYTES_MAX = 1_000_000


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    command: str
    cwd: str = "/"


def check_command(
    config: Config, command: str, *, cwd: str = "/", person: bool | None = None
) -> Verdict:
    """Judge one command under the policy in force, with what would make it safe.

    For a `person` or for an agent; unless told, for whoever is asking.
    """
    person = not by_an_agent() if person is None else person
    policy = policy_in_force(config)
    action = replace(Action.shell(command), cwd=cwd)
    verdict = judge(action, policy, person=person)
    return replace(verdict, safer=safer(action, policy, person=person))


def check_lines(
    config: Config, stream: BinaryIO, *, person: bool | None = None
) -> Iterator[Mapping[str, Any]]:
    """Judge JSON lines, each a command or an object with one; a broken line is answered as such."""
    person = not by_an_agent() if person is None else person
    policy = policy_in_force(config)
    warm(policy)
    for number, line in enumerate(_lines(stream), start=1):
        if not line.strip():
            continue
        try:
            asked = _asked(line)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
            yield {"error": f"Line {number} is not a command: {error}.", "line": number}
            continue
        action = replace(Action.shell(asked.command), cwd=asked.cwd)
        yield answer_of(judge(action, policy, person=person))


def answer_of(verdict: Verdict) -> dict[str, Any]:
    """A verdict as programs read it."""
    return {
        "command": verdict.action.command,
        "level": verdict.level,
        "risk_score": verdict.score,
        "risk_level": verdict.risk,
        "rules": verdict.rules,
        "explanation": verdict.explanation,
        "reads": verdict.reads,
        "writes": verdict.writes,
        "network": verdict.network,
        "sensitive": verdict.sensitive,
        "reversible": verdict.reversible,
        "policy_digest": verdict.policy_digest,
    }


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Lines, of which an endless one costs no more memory than a long one."""
    while line := stream.readline(LINE_BYTES_MAX + 1):
        yield line
        while len(line) > LINE_BYTES_MAX and not line.endswith(b"\n"):
            line = stream.readline(LINE_BYTES_MAX + 1)


def _asked(line: bytes) -> _Asked:
    if len(line) > LINE_BYTES_MAX:
        raise ValueError(f"it is longer than {LINE_BYTES_MAX} bytes")
    found = msgspec.json.decode(line, type=str | _Asked)
    return _Asked(found) if isinstance(found, str) else found
