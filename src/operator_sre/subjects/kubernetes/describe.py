"""What kubectl printed, as objects of the Kubernetes API: `describe` and the tables of `get`. Pure.

Only fields that the snapshot reads are converted. A field that kubectl does not print is absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Block", "event_rows", "parse_age", "parse_description", "table"]

Object = dict[str, Any]

LINES_MAX = 5000
_KEY = re.compile(r"^( *)(\S.*?):(?:\s+(.*))?$")
_NONE = frozenset({"", "<none>", "<unset>", "<nil>"})
_EVENT = re.compile(
    r"^(\S+)(?: \(x(\d+) over \S+\))?\s+(Normal|Warning)\s+(\S+)\s+(\S+/\S+)\s+(.*)$"
)
_TOLD = re.compile(r"^(Normal|Warning)\s+(\S+)\s+(\S+)(?: \(x(\d+) over \S+\))?\s+(\S+)\s+(.*)$")
_AGE = re.compile(r"(\d+)([smhdy])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "y": 31_536_000}
_PROBES = {
    "Liveness": "livenessProbe",
    "Readiness": "readinessProbe",
    "Startup": "startupProbe",
}
_MODES = {"RWO": "ReadWriteOnce", "ROX": "ReadOnlyMany", "RWX": "ReadWriteMany"}
_MODES["RWOP"] = "ReadWriteOncePod"
_REFERENCES = {
    "persistentvolumeclaim": ("ClaimName", "persistentVolumeClaim", "claimName"),
    "configmap": ("Name", "configMap", "name"),
    "secret": ("SecretName", "secret", "secretName"),
}


@dataclass(slots=True)
class Block:
    """A field of `describe` with everything indented below it."""

    value: str = ""
    fields: list[tuple[str, Block]] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)

    def get(self, key: str) -> Block:
        """The first field of that name, or an empty one."""
        return next((block for name, block in self.fields if name == key), Block())

    def text(self, key: str) -> str:
        """The value of a field; empty where kubectl shows that there is none."""
        value = self.get(key).value.strip()
        return "" if value in _NONE else value

    def lines(self, key: str) -> list[str]:
        """The value and the lines that continue it."""
        block = self.get(key)
        return [line for line in (block.value, *block.rows) if line not in _NONE]

    def pairs(self, key: str) -> dict[str, str]:
        """Lines of the form `name=value`, such as labels and selectors."""
        parts = [part for line in self.lines(key) for part in line.split(",")]
        split = (part.strip().partition("=") for part in parts)
        return {name: value for name, equals, value in split if equals}


def parse_description(kind: str, text: str) -> Object:
    """One object of `kubectl describe`; empty where nothing was printed about one."""
    tree = Block()
    stack = [(-1, tree)]
    for line in text.splitlines()[:LINES_MAX]:
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        while stack[-1][0] >= indent:
            stack.pop()
        parent = stack[-1][1]
        parent.rows.append(line.strip())
        match = _KEY.match(line)
        if match:
            block = Block((match.group(3) or "").strip())
            parent.fields.append((match.group(2).strip(), block))
            stack.append((indent, block))
    name = tree.text("Name")
    if not name:
        return {}
    metadata: Object = {"name": name, "labels": tree.pairs("Labels")}
    if tree.text("Namespace"):
        metadata["namespace"] = tree.text("Namespace")
    owner, _, owned_by = tree.text("Controlled By").partition("/")
    if owned_by:
        metadata["ownerReferences"] = [{"kind": owner, "name": owned_by}]
    convert = _KINDS.get(kind)
    found: Object = {"kind": kind, "metadata": metadata, **(convert(tree) if convert else {})}
    found["events"] = list(_events_below(kind, name, tree))
    return found


def table(text: str) -> list[dict[str, str]]:
    """The rows of `kubectl get`, by the head of each column."""
    lines = [line for line in text.splitlines()[:LINES_MAX] if line.strip()]
    if not lines or not lines[0].startswith("NAME"):
        return []
    heads = [(match.start(), match.group()) for match in re.finditer(r"\S+(?: \S+)*", lines[0])]
    ends = [start for start, _ in heads[1:]] + [None]
    return [
        {head: line[start:end].strip() for (start, head), end in zip(heads, ends, strict=True)}
        for line in lines[1:]
    ]


def event_rows(text: str) -> Iterator[Object]:
    """The events of `kubectl get events`, with or without the heads of the columns."""
    for line in text.splitlines()[:LINES_MAX]:
        if match := _EVENT.match(line.strip()):
            age, count, kind, reason, about, message = match.groups()
            owner, _, name = about.partition("/")
            yield _event(owner, name, kind, reason, age, count, message)


def parse_age(text: str) -> float | None:
    """Seconds of an age such as `2m54s`; None where it is unknown."""
    parts = _AGE.findall(text)
    return float(sum(int(number) * _SECONDS[unit] for number, unit in parts)) if parts else None


def _event(
    owner: str, name: str, kind: str, reason: str, age: str, count: str | None, message: str
) -> Object:
    return {
        "kind": owner.lower(),
        "name": name,
        "type": kind,
        "reason": reason,
        "age_s": parse_age(age),
        "count": int(count or 1),
        "message": message,
    }


def _events_below(kind: str, name: str, tree: Block) -> Iterator[Object]:
    for row in tree.get("Events").rows:
        if match := _TOLD.match(row):
            level, reason, age, count, _, message = match.groups()
            yield _event(kind, name, level, reason, age, count, message)


def _conditions(tree: Block) -> list[Object]:
    found = []
    for row in tree.get("Conditions").rows:
        words = re.split(r"\s{2,}", row)
        if len(words) < 2 or words[0] in ("Type", "----"):
            continue
        reason = words[-2] if len(words) > 4 else words[2] if len(words) == 3 else ""
        message = words[-1] if len(words) > 4 else ""
        found.append(
            {"type": words[0], "status": words[1].strip(), "reason": reason, "message": message}
        )
    return found


def _probe(text: str) -> Object:
    words = text.split()
    if not words:
        return {}
    kind = words[0]
    options = dict(re.findall(r"#?(\w+)=(\d+)", text))
    probe: Object = {
        "initialDelaySeconds": int(options.get("delay", 0)),
        "timeoutSeconds": int(options.get("timeout", 1)),
        "periodSeconds": int(options.get("period", 10)),
        "failureThreshold": int(options.get("failure", 3)),
    }
    where = words[1] if len(words) > 1 else ""
    port = re.search(r":([\w-]+)(/\S*)?$", where)
    number = port.group(1) if port else ""
    if kind == "http-get":
        path = (port.group(2) if port else "") or "/"
        probe["httpGet"] = {"port": number, "path": path, "scheme": where.partition(":")[0].upper()}
    elif kind == "tcp-socket":
        probe["tcpSocket"] = {"port": number}
    elif kind == "grpc":
        probe["grpc"] = {"port": number}
    else:
        probe["exec"] = {"command": re.sub(r"\s+delay=.*", "", text[len(kind) :]).strip()}
    return probe


def _ports(block: Block) -> list[Object]:
    text = block.text("Port") or block.text("Ports")
    ports = []
    for part in text.split(","):
        match = re.match(r"\s*(\d+)/(\w+)(?:\s+\((\S+)\))?", part)
        if match and match.group(1) != "0":
            port: Object = {"containerPort": int(match.group(1)), "protocol": match.group(2)}
            ports.append({**port, "name": match.group(3)} if match.group(3) else port)
    return ports


def _environment(block: Block) -> list[Object]:
    found: list[Object] = []
    for name, child in block.get("Environment").fields:
        match = re.match(
            r"<set to the key '(\S+)' (?:in|of) (secret|config map) '(\S+)'>", child.value
        )
        if match:
            key, kind, source = match.groups()
            where = "secretKeyRef" if kind == "secret" else "configMapKeyRef"
            optional = "Optional: true" in child.value
            reference = {"name": source, "key": key, "optional": optional}
            found.append({"name": name, "valueFrom": {where: reference}})
        else:
            found.append({"name": name, "value": child.value})
    return found


def _sources(block: Block) -> list[Object]:
    found: list[Object] = []
    for row in block.get("Environment Variables from").rows:
        name, _, rest = row.partition(" ")
        kind = "secretRef" if rest.strip().startswith("Secret") else "configMapRef"
        found.append({kind: {"name": name, "optional": "Optional: true" in rest}})
    return found


def _container(name: str, block: Block) -> Object:
    found: Object = {
        "name": name,
        "image": block.text("Image"),
        "ports": _ports(block),
        "env": _environment(block),
        "envFrom": _sources(block),
        "resources": {
            "limits": {key: child.value for key, child in block.get("Limits").fields},
            "requests": {key: child.value for key, child in block.get("Requests").fields},
        },
    }
    command = [row for row in block.get("Command").rows if row]
    arguments = [row for row in block.get("Args").rows if row]
    if command:
        found["command"] = command
    if arguments:
        found["args"] = arguments
    for label, key in _PROBES.items():
        if block.text(label):
            found[key] = _probe(block.text(label))
    return found


def _state(block: Block) -> Object:
    found: Object = {"reason": block.text("Reason"), "message": block.text("Message")}
    if block.text("Exit Code"):
        found["exitCode"] = int(block.text("Exit Code"))
    return {block.value.lower(): found} if block.value else {}


def _status(name: str, block: Block) -> Object:
    return {
        "name": name,
        "ready": block.text("Ready") == "True",
        "restartCount": int(block.text("Restart Count") or 0),
        "state": _state(block.get("State")),
        "lastState": _state(block.get("Last State")),
    }


def _volumes(tree: Block) -> list[Object]:
    found: list[Object] = []
    for name, block in tree.get("Volumes").fields:
        kind = block.text("Type").partition(" ")[0].lower()
        volume: Object = {"name": name}
        if kind in _REFERENCES:
            label, key, inner = _REFERENCES[kind]
            optional = block.text("Optional") == "true"
            volume[key] = {inner: block.text(label), "optional": optional}
        found.append(volume)
    return found


def _taints(tree: Block, key: str) -> list[Object]:
    found = []
    for line in tree.lines(key):
        text, _, rest = line.partition(" ")
        pair, _, effect = text.rpartition(":") if ":" in text else (text, "", "")
        name, _, value = pair.partition("=")
        found.append(
            {
                "key": name,
                "value": value,
                "effect": effect,
                "operator": "Exists" if "op=Exists" in rest or not value else "Equal",
            }
        )
    return found


def _spec(tree: Block) -> Object:
    spec: Object = {
        "containers": [_container(name, block) for name, block in tree.get("Containers").fields],
        "initContainers": [
            _container(name, block) for name, block in tree.get("Init Containers").fields
        ],
        "volumes": _volumes(tree),
        "nodeSelector": tree.pairs("Node-Selectors"),
        "tolerations": _taints(tree, "Tolerations"),
    }
    if tree.text("Service Account"):
        spec["serviceAccountName"] = tree.text("Service Account")
    return spec


def _pod(tree: Block) -> Object:
    node = tree.text("Node").partition("/")[0]
    spec = {**_spec(tree), "nodeName": node}
    both = [*tree.get("Containers").fields, *tree.get("Init Containers").fields]
    status = {
        "phase": tree.text("Status").partition(" ")[0],
        "reason": tree.text("Reason"),
        "message": tree.text("Message"),
        "podIP": tree.text("IP"),
        "conditions": _conditions(tree),
        "containerStatuses": [_status(name, block) for name, block in both],
    }
    return {"spec": spec, "status": status}


def _workload(tree: Block) -> Object:
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (\w+)", tree.text("Replicas"))}
    template = tree.get("Pod Template")
    labels = template.pairs("Labels")
    ready = re.search(r"(\d+) Running", tree.text("Pods Status"))
    return {
        "spec": {
            "replicas": counts.get("desired"),
            "selector": {"matchLabels": tree.pairs("Selector")},
            "template": {"metadata": {"labels": labels}, "spec": _spec(template)},
        },
        "status": {
            "replicas": counts.get("total", counts.get("current")),
            "readyReplicas": counts.get("available", int(ready.group(1)) if ready else None),
            "conditions": _conditions(tree),
        },
    }


def _service(tree: Block) -> Object:
    ports: list[Object] = []
    ends: list[str] = []
    for key, block in tree.fields:
        words = block.value.split()
        if key == "Port" and words:
            number, _, protocol = words[-1].partition("/")
            port: Object = {"name": words[0], "port": int(number), "protocol": protocol or "TCP"}
            ports.append(port)
        elif key == "TargetPort" and ports and words:
            ports[-1]["targetPort"] = words[-1].partition("/")[0]
        elif key == "Endpoints":
            ends += [end for end in re.split(r"[,\s]+", block.value) if end not in _NONE]
    spec = {"type": tree.text("Type"), "selector": tree.pairs("Selector"), "ports": ports}
    spec["clusterIP"] = tree.text("IP")
    return {"spec": spec, "status": {"endpoints": ends}}


def _node(tree: Block) -> Object:
    used: dict[str, str] = {}
    for row in tree.get("Allocated resources").rows:
        words = row.split()
        if len(words) > 1 and words[0] in ("cpu", "memory"):
            used[words[0]] = words[1]
    return {
        "spec": {
            "taints": [taint for taint in _taints(tree, "Taints") if taint["effect"]],
            "unschedulable": tree.text("Unschedulable") == "true",
        },
        "status": {
            "conditions": _conditions(tree),
            "allocatable": {key: child.value for key, child in tree.get("Allocatable").fields},
            "requested": used,
            "pods": len([row for row in tree.get("Non-terminated Pods").rows if row]) - 2,
        },
    }


def _modes(tree: Block) -> list[str]:
    modes = re.split(r"[,\s]+", tree.text("Access Modes"))
    return [_MODES.get(mode, mode) for mode in modes if mode]


def _claim(tree: Block) -> Object:
    return {
        "spec": {"volumeName": tree.text("Volume"), "storageClassName": tree.text("StorageClass")},
        "status": {"phase": tree.text("Status"), "usedBy": tree.lines("Used By")},
    }


def _volume(tree: Block) -> Object:
    namespace, _, name = tree.text("Claim").partition("/")
    return {
        "spec": {
            "capacity": {"storage": tree.text("Capacity")},
            "accessModes": _modes(tree),
            "storageClassName": tree.text("StorageClass"),
            "claimRef": {"namespace": namespace, "name": name} if name else {},
        },
        "status": {"phase": tree.text("Status")},
    }


def _quota(tree: Block) -> Object:
    hard, used = {}, {}
    for row in tree.rows:
        words = row.split()
        if len(words) == 3 and re.match(r"\d", words[1]) and re.match(r"\d", words[2]):
            used[words[0]], hard[words[0]] = words[1], words[2]
    return {"spec": {"hard": hard}, "status": {"hard": hard, "used": used}}


_KINDS: Mapping[str, Any] = {
    "pod": _pod,
    "deployment": _workload,
    "statefulset": _workload,
    "daemonset": _workload,
    "replicaset": _workload,
    "service": _service,
    "node": _node,
    "persistentvolumeclaim": _claim,
    "persistentvolume": _volume,
    "resourcequota": _quota,
}
