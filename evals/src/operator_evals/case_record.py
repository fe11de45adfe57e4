"""A case of Cloud-OpsBench as a record of commands, for a reader of the system. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from operator_evals.cases import Case
from operator_protocols.domain.system_record import Reading, SystemRecord

__all__ = ["record_of"]

# What an alert measures, by its words, and the numbers before and now.
_METRICS = (
    ("throttled", re.compile(r"throttl", re.IGNORECASE)),
    ("cpu", re.compile(r"\bcpu\b", re.IGNORECASE)),
    ("memory", re.compile(r"memory", re.IGNORECASE)),
    ("retransmissions", re.compile(r"retrans", re.IGNORECASE)),
    ("latency", re.compile(r"latency|slow response", re.IGNORECASE)),
    ("success", re.compile(r"success rate", re.IGNORECASE)),
    ("requests", re.compile(r"\brps\b|throughput", re.IGNORECASE)),
    ("packets", re.compile(r"traffic|network", re.IGNORECASE)),
    ("disk", re.compile(r"disk|filesystem", re.IGNORECASE)),
)
_CHANGE = re.compile(r"Normal=([\d.]+)\S*.*?Cur(?:rent)?=([\d.]+)")
_VALUE = re.compile(r"Val(?:ue)?: ?([\d.]+)")
_GONE = re.compile(r"vanished|dropped to zero", re.IGNORECASE)
_BRANCH = re.compile(r"^([\s│]*)[├└]── (\S+)")


def record_of(case: Case) -> SystemRecord:
    """The answers of its tools as the commands that give them; a command that was run stays."""
    commands: dict[str, str] = {}
    readings: list[Reading] = []
    calls: dict[str, tuple[str, ...]] = {}
    for tool, arguments, text in case.answers:
        named = {name: str(value) for name, value in arguments.items() if value not in ("", None)}
        namespace = named.get("namespace", case.namespace)
        match tool:
            case "GetResources" if "label_selector" not in named and "show_labels" not in named:
                name = f" {named['name']}" if "name" in named else ""
                wide = " -o wide" if "output_wide" in named else ""
                command = f"kubectl get {named.get('resource_type')}{name} -n {namespace}{wide}"
                commands[command] = text
            case "DescribeResource":
                command = f"{named.get('resource_type')} {named.get('name')}"
                commands[f"kubectl describe {command} -n {namespace}"] = text
            case "GetAppYAML":
                command = f"deployments {named.get('app_name')}"
                commands[f"kubectl get {command} -n {namespace} -o yaml"] = text
            case "GetErrorLogs" | "GetRecentLogs":
                command = f"kubectl logs deployment/{named.get('service_name')} -n {namespace}"
                commands[command] = (
                    f"{commands.get(command, '')}{chr(10).join(_read_samples(text))}\n"
                )
            case "CheckNodeServiceStatus":
                command = f"{named.get('node_name')} systemctl status {named.get('service_name')}"
                commands[f"ssh {command}"] = text
            case "CheckServiceConnectivity":
                commands[f"nc -z {named.get('service_name')} {named.get('port')}"] = text
            case "GetServiceDependencies":
                calls[named.get("service_name", "")] = tuple(_parse_calls(text))
            case "GetAlerts":
                readings += _read_alerts(text)
    return SystemRecord({**commands, **case.printed}, tuple(readings), calls)


def _read_samples(text: str) -> Iterator[str]:
    """The lines of a summary of logs, the most frequent first; plain logs as they are."""
    summary = _load(text)
    if not isinstance(summary, dict):
        yield from text.splitlines()
        return
    patterns = [each for each in summary.get("patterns") or () if isinstance(each, dict)]
    for pattern in sorted(patterns, key=lambda each: -int(each.get("count") or 0)):
        yield str(pattern.get("sample") or pattern.get("pattern") or "").replace("\n", " ")


def _parse_calls(text: str) -> Iterator[str]:
    """What a service calls itself, from a tree of everything below it."""
    for line in text.splitlines():
        match = _BRANCH.match(line)
        if match and not match.group(1):
            yield match.group(2)


def _read_alerts(text: str) -> Iterator[Reading]:
    summary = _load(text)
    alerts = summary.get("alerts") or () if isinstance(summary, dict) else ()
    for alert in alerts:
        for sentence in alert.get("evidence") or ():
            yield from _read_evidence(str(alert.get("name", "")), str(sentence))


def _read_evidence(target: str, sentence: str) -> Iterator[Reading]:
    _, _, rest = sentence.partition("|")
    metric = next((name for name, words in _METRICS if words.search(sentence)), "")
    if not metric:
        return
    found = False
    for part in rest.split("|"):
        quantile = re.search(r"p\d\d", part) if metric == "latency" else None
        name = f"latency_{quantile.group()}" if quantile else metric
        if match := _CHANGE.search(part):
            found = True
            yield Reading(target, name, float(match.group(2)), float(match.group(1)))
        elif match := _VALUE.search(part):
            found = True
            yield Reading(target, name, float(match.group(1)))
    if not found and _GONE.search(sentence):
        yield Reading(target, f"{metric}_missing", 0.0)


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
