"""What the readings of a target show, by cause: one table of messages and of values. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from html import unescape

from operator_protocols.domain.observation import Value
from operator_sre.subjects.declarative.patterns import pattern_of

__all__ = [
    "REASONS",
    "REASON_CHARACTERS_MAX",
    "SYMPTOMS",
    "find_symptoms",
    "is_answering",
    "is_connected",
    "is_failing",
    "quote_reason",
]

UPSTREAM_STATUSES = (502, 503, 504)
GATEWAY_STATUSES = (502, 504)
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
    "host_unreachable": r"(ssh|docker|kubectl)://\S{1,200} cannot be reached"
    r"|its machine cannot be reached",
}
REASON_CHARACTERS_MAX = 120
# Why an application fails, as it words it in error pages and logs: what it has used up itself, then
# what another system does to it. The first that matches counts. A quote may be shown to everyone,
# so that a pattern covers names of hosts, roles and tables, and never the text around them, where a
# password may be.
_REASONS: Mapping[str, tuple[str, ...]] = {
    # Whatever it tries then fails, so that the rest of the message is about something else.
    "files_used_up": (r"too many open files|\bemfile\b|\benfile\b",),
    "memory_used_up": (
        r"\bmemoryerror\b|outofmemoryerror|heap out of memory|cannot allocate memory|\benomem\b"
        r"|std::bad_alloc|allowed memory size of [0-9]{1,15} bytes exhausted",
    ),
    "name_not_resolved": (
        r"(?:on|host|name|lookup|resolve|resolving):? ['\"]?[a-z0-9._-]{1,60}['\"]?.{0,30}"
        r"(?:name or service not known|name resolution|no such host)",
        r"name or service not known|name resolution|no such host|nodename nor servname|\bnxdomain\b"
        r"|could not translate host name \"[^\"]{1,60}\"|could not resolve host:? [a-z0-9._-]{1,60}"
        r"|getaddrinfo (?:failed|(?:enotfound|eai_again) [a-z0-9._-]{1,60})"
        r"|unknownhostexception:? ?[a-z0-9._-]{0,60}|host not found in upstream"
        r"|no address associated with host ?name|unknown (?:mysql server )?host '[^']{1,60}'",
    ),
    "certificate_rejected": (
        r"certificate.?verify.?failed|certificate has expired|\bx509: |self.signed certificate"
        r"|unable to verify the first certificate|tlsv1 alert|\bunknown ca\b"
        r"|\berr_cert_[a-z_]{1,30}|certificate signed by unknown authority|certificateexception",
    ),
    "credential_refused": (
        r"(?:access|command) denied (?:for|to) user '[^']{0,60}'(?:@'[^']{0,60}')?"
        r"|(?:password|sasl|ldap) authentication failed(?: for user \"[^\"]{1,60}\")?"
        r"|no pg_hba.conf entry for host|login failed for user|\b(?:wrongpass|noauth|noperm)\b"
        r"|permission denied for (?:table|schema|relation|sequence|database|view) \S{1,60}",
        r"access_refused|authentication ?(?:failed|failure|exception)|(?:bad|invalid) credentials"
        r"|role \"[^\"]{1,60}\" (?:does not exist|is not permitted to log in)|expiredtoken"
        r"|invalidaccesskeyid|signaturedoesnotmatch|invalid api key",
    ),
    "dependency_rejects": (
        r"too many (?:clients|connections)|max number of clients|remaining connection slots"
        r"|connection limit exceeded|(?:pool|connections?) (?:is )?exhausted|queuepool limit",
        r"cannot execute [a-z ]{1,30} in a read-only transaction|read.?only replica"
        r"|resource_exhausted|running with the --(?:super-)?read-only option|\bmisconf redis\b"
        r"|oom command not allowed|could not extend file"
        r"|the database system is (?:starting up|shutting down|in recovery mode)"
        r"|cluster_block_exception|\b(?:masterdown|clusterdown|tryagain)\b"
        r"|not enough (?:in-sync )?replicas",
    ),
    "schema_missing": (
        r"(?:relation|column|table|database) \"[^\"]{1,60}\" does not exist|invalid object name"
        r"|table '[^']{1,60}' doesn't exist|unknown (?:column|database) '[^']{1,60}'"
        r"|no such (?:table|column):? ?[a-z0-9_.]{0,60}|index_not_found_exception|nosuchbucket"
        r"|unknown_topic_or_part",
    ),
    "dependency_down": (
        r"(?:can't|cannot|could not|failed to|unable to) connect to [a-z ]{0,30}server"
        r"(?: on '[^']{1,60}'| at \"[^\"]{1,60}\")?|server has gone away|no route to host"
        r"|connection to server at \"[^\"]{1,60}\".{0,40}failed|\behostunreach\b"
        r"|lost connection to [a-z]{1,20} server|\beconnrefused(?: [0-9a-f.:]{1,45})?"
        r"|connection ?refused"
        r"|\becon[a-z]{0,3}reset\b|server closed the connection unexpectedly"
        r"|connection reset by peer|network is unreachable",
    ),
    "dependency_slow": (
        r"statement timeout|(?:query|read|connect|connection|socket|operation|request) ?"
        r"(?:timed out|timeout)|\betimedout\b|deadline exceeded|lock wait timeout exceeded"
        r"|timeout(?:error)?: timed out|sockettimeoutexception",
    ),
}
REASONS = tuple(_REASONS)
# A broken invariant about these values is the symptom itself.
_VALUES: Mapping[str, str] = {"latency_ms": "slow_answers", "certificate_days": "certificate_days"}
# Errors that name another of these causes are no proof of the vague ones.
_VAGUE = ("content_differs", "server_errors")
# Other evidence shows these as well, so that an answer that does not name them excludes none.
_KNOWN_OTHERWISE = ("certificate_rejected", "credential_refused", "files_used_up", "memory_used_up")
_NAMED_ONLY = tuple(
    cause for cause in _REASONS if cause not in _MESSAGES and cause not in _KNOWN_OTHERWISE
)
SYMPTOMS = (*_MESSAGES, *_NAMED_ONLY, "certificate_expiring", "server_errors", "upstream_fails")
_BLANKS = re.compile(r"\s+")


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


def quote_reason(text: str) -> str:
    """The words of an error page or a log that say why an application fails, or "".

    Only what a pattern matches is quoted: the text around it may hold a secret.
    """
    found = _match_reason(text)
    return found[1][:REASON_CHARACTERS_MAX] if found is not None else ""


def _match_reason(text: str) -> tuple[str, str] | None:
    text = unescape(_BLANKS.sub(" ", text)).replace('\\"', '"').replace("\\'", "'")
    for name, patterns in _REASONS.items():
        for pattern in patterns:
            if (match := pattern_of(f"(?i){pattern}").search(text)) is not None:
                return name, str(match[0])
    return None


def is_failing(readings: Mapping[str, Value]) -> bool:
    """Whether a request was answered with an error of the server itself, and not of a gateway."""
    return any(
        isinstance(status := probe.values.get("status"), int)
        and 500 <= status < 600
        and status not in GATEWAY_STATUSES
        for probe in _probes_in(readings)
    )


def find_symptoms(
    readings: Mapping[str, Value],
    problem: str,
    broken: Collection[str],
    named: Collection[str] = (),
    log: str = "",
) -> Mapping[str, bool]:
    """Whether the readings of a target show each cause.

    `broken` are the readings that its broken invariants name, `named` the causes that they name.
    `log` is what it has logged since it was healthy, read where a request failed.
    """
    shown = {cause: cause in named for cause in SYMPTOMS}
    texts = [problem]
    for probe in _probes_in(readings):
        values = probe.values
        error, reason = (str(values.get(name) or "") for name in ("error", "reason"))
        # What an application says of another system is no symptom of ours.
        texts.append(error.removesuffix(f": {reason}") if reason else error)
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
    if is_failing(readings):
        reasons = [str(probe.values.get("reason") or "") for probe in _probes_in(readings)]
        found = next(filter(None, map(_match_reason, filter(None, (*reasons, log)))), None)
        if found is not None:
            # Its clients may wait until it gives up.
            shown |= {found[0]: True, "upstream_fails": False, "slow_answers": False}
    if any(is_shown for cause, is_shown in shown.items() if cause not in _VAGUE):
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
