"""A snapshot from recorded commands: what kubectl, systemctl and nc printed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from operator_protocols.domain.system_record import SystemRecord
from operator_sre.subjects.kubernetes.describe import (
    event_rows,
    parse_age,
    parse_description,
    table,
)
from operator_sre.subjects.kubernetes.objects import build_snapshot
from operator_sre.subjects.kubernetes.snapshot import Snapshot

__all__ = ["read_record"]

Fields = dict[str, Any]

MANIFEST_CHARS_MAX = 200_000
LOG_LINES_MAX = 500
_PLURALS = {"ingresses": "ingress", "networkpolicies": "networkpolicy"}
_PLURALS |= {"storageclasses": "storageclass", "endpoints": "endpoints"}
# The safe loader in C is ten times as fast, where it was built.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FAILED = re.compile(r"fail|refused|timed? ?out|unreachable|no route", re.IGNORECASE)
_NOTHING = re.compile(r"No resources found")
_ACTIVE = re.compile(r"^\s*Active:\s*(.+)$", re.MULTILINE)
_PRINTED_READY = re.compile(r"(\d+)/(\d+)")
_WAITING = frozenset({"ContainerCreating", "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull"})


def read_record(record: SystemRecord) -> Snapshot:
    """The snapshot of everything that was recorded; what is not understood is left out."""
    found: dict[tuple[str, str], Fields] = {}
    tables: dict[tuple[str, str], Fields] = {}
    declared: dict[tuple[str, str], Fields] = {}
    events: list[Fields] = []
    listed: set[str] = set()
    logs: dict[str, list[str]] = {}
    units: dict[tuple[str, str], str] = {}
    reached: dict[tuple[str, int], bool] = {}
    for command, text in record.commands.items():
        words = _words(command)
        match words:
            case ["kubectl", "describe", kind, _, *_] if item := parse_description(
                _single(kind), text
            ):
                found[_single(kind), item["metadata"]["name"]] = item
            case ["kubectl", "get", "events", *_]:
                events += event_rows(text)
            case ["kubectl", "get", *_] if "yaml" in words:
                declared |= {(item["kind"], _name(item)): item for item in _manifests(text)}
            case ["kubectl", "get", kind, *rest]:
                rows = table(text)
                if not rest and (rows or not text.strip() or _NOTHING.match(text)):
                    listed.add(_single(kind))
                for row in rows:
                    tables.setdefault((_single(kind), row["NAME"]), {}).update(row)
            case ["kubectl", "logs", name, *_]:
                lines = text.splitlines()[:LOG_LINES_MAX]
                logs.setdefault(name.rpartition("/")[2], []).extend(lines)
            case ["ssh", node, "systemctl", "status", unit]:
                active = _ACTIVE.search(text)
                units[node, unit] = active.group(1).strip() if active else text[:200]
            case ["nc", "-z", host, port] if port.isdecimal():
                reached[host, int(port)] = not _FAILED.search(text)
    for key, row in tables.items():
        if key not in found and key[0] in listed:
            found[key] = _from_row(*key, row)
        if key in found and "AGE" in row:
            found[key]["age_s"] = parse_age(row["AGE"])
    for key, item in declared.items():
        if key in found:
            _complete(found[key], item)
        elif key[0] not in listed:
            found[key] = item
    return build_snapshot(
        [*found.values(), {"kind": "printed", "events": events}],
        listed=listed,
        logs=logs,
        units=units,
        reached=reached,
        readings=record.readings,
        calls=record.calls,
        declared=declared,
    )


def _words(command: str) -> list[str]:
    """The words of a command without its options, but for the format `yaml`."""
    words = command.partition("|")[0].split()
    plain, skip = [], False
    for at, word in enumerate(words):
        if skip:
            skip = False
        elif word in ("-n", "-o", "-l", "--namespace", "--output", "--selector"):
            skip = True
            plain += ["yaml"] if words[at + 1 : at + 2] == ["yaml"] else []
            if word in ("-l", "--selector"):
                return []  # a part of a list that is recorded as a whole
        elif not word.startswith("-") or word == "-z":
            plain.append(word)
    return plain


def _single(kind: str) -> str:
    return _PLURALS.get(kind, kind.removesuffix("s"))


def _name(item: Mapping[str, Any]) -> str:
    return str((item.get("metadata") or {}).get("name") or "")


def _manifests(text: str) -> Iterator[Fields]:
    """The objects of a manifest; nothing where it is not YAML."""
    try:
        documents = list(yaml.load_all(text[:MANIFEST_CHARS_MAX], Loader=_LOADER))
    except yaml.YAMLError:
        return
    for item in documents:
        if isinstance(item, dict) and isinstance(item.get("metadata"), dict) and _name(item):
            yield {**item, "kind": str(item.get("kind", "")).lower()}


def _from_row(kind: str, name: str, row: Mapping[str, str]) -> Fields:
    """An object of which only the row of a table is known."""
    item: Fields = {"kind": kind, "metadata": {"name": name}}
    status = row.get("STATUS", "")
    if kind == "pod":
        ready = _PRINTED_READY.match(row.get("READY", ""))
        restarts = int((row.get("RESTARTS", "0").split() or ["0"])[0] or 0)
        state: Fields = {"name": "", "restartCount": restarts}
        state["ready"] = bool(ready and ready.group(1) == ready.group(2))
        if status in _WAITING:
            state["state"] = {"waiting": {"reason": status}}
        phase = "Pending" if status in _WAITING else status
        node = row.get("NODE", "").replace("<none>", "")
        item["spec"] = {"nodeName": node, "containers": [{"name": ""}]}
        item["status"] = {"phase": phase, "containerStatuses": [state]}
    elif kind == "node":
        ready_word = "True" if status.startswith("Ready") else "Unknown"
        item["spec"] = {"unschedulable": "SchedulingDisabled" in status}
        item["status"] = {"conditions": [{"type": "Ready", "status": ready_word}]}
    return item


def _complete(live: Fields, declared: Mapping[str, Any]) -> None:
    """Fields that `describe` does not print, from what was applied."""
    spec, demand = live.setdefault("spec", {}), declared.get("spec") or {}
    if live["kind"] == "persistentvolumeclaim":
        live["spec"] = {**demand, **{key: value for key, value in spec.items() if value}}
        return
    template = (spec.get("template") or {}).get("spec")
    wanted = (demand.get("template") or {}).get("spec")
    if not template or not wanted:
        return
    for key in ("affinity", "imagePullSecrets", "topologySpreadConstraints"):
        if wanted.get(key):
            template[key] = wanted[key]
    _name_ports(template.get("containers") or (), wanted.get("containers") or ())


def _name_ports(live: Sequence[Fields], declared: Sequence[Mapping[str, Any]]) -> None:
    names = {
        (item.get("name"), port.get("containerPort")): port["name"]
        for item in declared
        for port in item.get("ports") or ()
        if port.get("name")
    }
    for item in live:
        for port in item.get("ports") or ():
            name = names.get((item.get("name"), port.get("containerPort")))
            if name:
                port.setdefault("name", name)
