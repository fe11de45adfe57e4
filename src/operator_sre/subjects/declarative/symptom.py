"""What the readings of a target show, by cause: one table of messages and of values. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from operator_protocols.domain.observation import Value
from operator_sre.subjects.declarative.patterns import pattern_of

__all__ = ["SYMPTOMS", "find_symptoms", "is_answering", "is_connected"]

UPSTREAM_STATUSES = (502, 503, 504)
LOGIN_STATUSES = (401, 403, 407)
# What clients and servers say of each cause, as they really word it.
_MESSAGES: Mapping[str, str] = {
    "certificate_expired": r"certificate has expired|certificate.{0,40}\bexpired",
    "certificate_name_differs": r"hostname mismatch|ip address mismatch|is not valid for '"
    r"|certificate is for another name",
    "certificate_untrusted": r"self.signed certificate|unable to get (local )?issuer"
    r"|certificate signed by unknown authority",
    "name_not_resolved": r"host name.{0,80} cannot be resolved|name or service not known"
    r"|name resolution|nodename nor servname|no such host|nxdomain",
    "connections_used_up": r"too many (clients|connections)|max number of clients"
    r"|maximum connections|remaining connection slots|connection limit exceeded",
    "login_rejected": r"login rejected|access denied for user|password authentication failed"
    r"|invalid credentials|wrongpass|noauth|access_refused",
    "slow_answers": r"it took [0-9.]+ m?s, more than",
    "content_differs": r"does not match|is .{1,80}, not '",
    "queue_full": r"queue (is )?full",
}
# A broken invariant about these values is the symptom itself.
_VALUES: Mapping[str, str] = {"latency_ms": "slow_answers", "certificate_days": "certificate_days"}
# Errors that name another of these causes are no proof of the vague ones.
_VAGUE = ("content_differs", "server_errors")
SYMPTOMS = (*_MESSAGES, "certificate_expiring", "server_errors", "upstream_fails")


@dataclass(frozen=True, slots=True)
class _Probe:
    """The values of one probe at one target."""

    name: str
    values: Mapping[str, Value]


def _probes_in(readings: Mapping[str, Value]) -> list[_Probe]:
    found: dict[str, dict[str, Value]] = {}
    for reading, value in readings.items():
        probe, dot, field = reading.partition(".")
        if dot:
            found.setdefault(probe, {})[field] = value
    return [_Probe(name, values) for name, values in found.items()]


def find_symptoms(
    readings: Mapping[str, Value],
    problem: str,
    broken: Collection[str],
    named: Collection[str] = (),
) -> Mapping[str, bool]:
    """Whether the readings of a target show each cause.

    `broken` are the readings that its broken invariants name, `named` the causes that they name.
    """
    shown = {cause: cause in named for cause in SYMPTOMS}
    texts = [problem]
    for probe in _probes_in(readings):
        values = probe.values
        texts.append(str(values.get("error") or ""))
        status = values.get("status")
        if isinstance(status, int) and not isinstance(status, bool) and not values.get("ok"):
            shown["upstream_fails"] |= status in UPSTREAM_STATUSES
            shown["login_rejected"] |= status in LOGIN_STATUSES
            shown["server_errors"] |= 500 <= status < 600 and status not in UPSTREAM_STATUSES
        for field, cause in _VALUES.items():
            value = values.get(field)
            if f"{probe.name}.{field}" not in broken or not isinstance(value, int | float):
                continue
            if cause == "certificate_days":
                cause = "certificate_expired" if value <= 0 else "certificate_expiring"
            shown[cause] = True
    text = "\n".join(texts).lower()
    for cause, pattern in _MESSAGES.items():
        shown[cause] |= pattern_of(pattern).search(text) is not None
    if any(shown[cause] for cause in SYMPTOMS if cause not in _VAGUE):
        shown |= dict.fromkeys(_VAGUE, False)
    return shown


def is_answering(readings: Mapping[str, Value]) -> bool:
    """Whether a probe that connects to it has just got an answer."""
    return any(
        probe.values.get("up") is True and "endpoint" in probe.values
        for probe in _probes_in(readings)
    )


def is_connected(readings: Mapping[str, Value]) -> bool:
    """Whether it has just accepted a connection, answered or not."""
    return is_answering(readings) or any(
        probe.values.get("connected") is True for probe in _probes_in(readings)
    )
