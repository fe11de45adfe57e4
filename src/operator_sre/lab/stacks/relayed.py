"""The rules of the relay of a stack, told to it over its own door."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from operator_protocols.errors import RigError
from operator_sre.lab.manifest import HOST
from operator_sre.lab.stacks.record import SECRETS_FOLDER, Record
from operator_sre.lab.stacks.relay import RelayRule, parse_rules

__all__ = ["RELAY_PORT", "RELAY_SECRET", "change_rules", "rules_of"]

RELAY_PORT = "RELAY_PORT"
RELAY_SECRET = "relay"
ANSWER_S_MAX = 5.0
ANSWER_BYTES_MAX = 1 << 16


def rules_of(record: Record, directory: Path) -> tuple[RelayRule, ...]:
    """What the relay does now; RigError when it does not answer."""
    return parse_rules(_ask(record, directory, "GET", b""))


def change_rules(
    record: Record,
    directory: Path,
    change: Callable[[tuple[RelayRule, ...]], tuple[RelayRule, ...]],
) -> None:
    """Change what it does; it holds when this returns."""
    rules = change(rules_of(record, directory))
    _ask(record, directory, "PUT", json.dumps([asdict(each) for each in rules]).encode())


def _ask(record: Record, directory: Path, verb: str, body: bytes) -> bytes:
    asking = http.client.HTTPConnection(HOST, int(record.values[RELAY_PORT]), timeout=ANSWER_S_MAX)
    try:
        token = (directory / SECRETS_FOLDER / RELAY_SECRET).read_text(encoding="utf-8")
        asking.request(verb, "/rules", body, {"Authorization": f"Bearer {token}"})
        answer = asking.getresponse()
        told = answer.read(ANSWER_BYTES_MAX)
    except (OSError, http.client.HTTPException) as problem:
        raise RigError(f"The relay of the stack does not answer: {problem}.") from problem
    finally:
        asking.close()
    if answer.status != http.client.OK:
        raise RigError(f"The relay of the stack refused: status {answer.status}.")
    return told
