"""A Trigger is one door through which alerts come in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["FIELDS", "Trigger", "TriggerKind"]

# Where a generic body has what we look for, unless the trigger says otherwise.
FIELDS: Mapping[str, str] = {
    "alerts": "",
    "name": "name",
    "target": "target",
    "state": "state",
    "severity": "severity",
    "summary": "summary",
    "fingerprint": "",
}


class TriggerKind(StrEnum):
    """Whose words it understands."""

    ALERTMANAGER = "alertmanager"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Trigger:
    """One door: whose words it understands, how senders prove themselves, what its alerts are of.

    Secrets lie in files. With a `subject` its alerts are checked by our own look; `target` is the
    label that names the part of it, and `invariant` what they break, instead of one of their own.
    `fields` are the paths into a generic body.
    """

    name: str
    kind: TriggerKind
    token_file: str = ""
    hmac_file: str = ""
    hmac_header: str = "x-operator-signature"
    time_header: str = "x-operator-timestamp"
    subject: str = ""
    target: str = ""
    invariant: str = ""
    open: bool = False
    fields: Mapping[str, str] = field(default_factory=lambda: dict(FIELDS))

    @property
    def guarded(self) -> bool:
        """True when whoever sends has to prove who they are."""
        return bool(self.token_file or self.hmac_file)

    @property
    def about(self) -> str:
        """The subject that its tickets are filed under."""
        return self.subject or self.name
