"""Containers that do not start, do not stay up, or fail their probes, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator

from operator_sre.subjects.kubernetes.snapshot import Container, Pod, Probe, Reference, Snapshot
from operator_sre.subjects.kubernetes.suspicion import (
    CERTAIN,
    LIKELY,
    POSSIBLE,
    Suspicion,
    first_match,
    fresh_events,
)

__all__ = ["NOT_YET", "find_crashes", "find_failed_probes", "find_failed_starts"]

_PULLING = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
# What the container runtime says when it cannot pull an image; the first row that matches counts.
_PULLS = (
    ("registry_dns", re.compile(r"no such host|lookup \S+.*(?:server misbehaving|i/o timeout)")),
    # Docker Hub says the same of a missing repository and of a private one.
    ("image_reference", re.compile(r"repository does not exist or may require auth", re.I)),
    (
        "registry_unreachable",
        re.compile(
            r"connection refused|i/o timeout|no route to host|deadline exceeded|TLS handshake"
            r"|network is unreachable|x509|toomanyrequests|too many requests|50[0234] ",
            re.IGNORECASE,
        ),
    ),
    (
        "pull_secret",
        re.compile(
            r"failed to authorize|no basic auth|401|unauthorized|authentication required"
            r"|authorization failed|denied: requested access|invalid username",
            re.IGNORECASE,
        ),
    ),
    (
        "image_reference",
        re.compile(
            r"not found|manifest unknown|invalid reference|couldn't parse image|InvalidImageName"
            r"|name unknown|403 Forbidden|repository does not exist|no match for platform"
            r"|pull access denied|insufficient_scope|invalid tag",
            re.IGNORECASE,
        ),
    ),
)
_CONFIG_ERRORS = (
    ("key_missing", re.compile(r"couldn't find key (\S+) in (?:Secret|ConfigMap) (\S+)", re.I)),
    ("secret_missing", re.compile(r'secrets? "?([\w./-]+)"? not found', re.I)),
    ("configmap_missing", re.compile(r'configmaps? "?([\w./-]+)"? not found', re.I)),
    ("security_context", re.compile(r"runAsNonRoot|cannot verify user|non-numeric user")),
)
_COMMAND_ERRORS = re.compile(
    r"executable file not found|no such file or directory|exec format error|is a directory"
    r"|exec: .*permission denied|StartError|RunContainerError",
    re.IGNORECASE,
)
_MOUNTS = (
    *_CONFIG_ERRORS[:3],
    ("mount_denied", re.compile(r"permission denied|access denied|operation not permitted", re.I)),
    ("volume_attached_elsewhere", re.compile(r"Multi-Attach|already (?:attached|used by)", re.I)),
    ("mount_failed", re.compile(r"MountVolume|AttachVolume|Unable to attach or mount", re.I)),
)
# The kubelet asks for a new object a moment before it has it.
NOT_YET = re.compile(r"failed to sync|not registered")
_NOT_CREATED = frozenset({"CreateContainerError", "RunContainerError"})
_DENIED = re.compile(r"(?:mount|mkdir|volume|hostPath).*permission denied", re.IGNORECASE)
_OOM = re.compile(r"OOMKilled|out of memory|oom-kill", re.IGNORECASE)
# A service that does not speak what the probe speaks.
_WRONG_PROTOCOL = re.compile(
    r"malformed HTTP|transport connection broken|HTTP response to HTTPS|does not look like a TLS"
    r"|grpc\.health|unknown service|preface|frame too large|first record|gRPC|unexpected EOF"
    r"|connection reset by peer|: EOF",
    re.IGNORECASE,
)
_WRONG_PATH = re.compile(r"statuscode: (?:404|403|405|401|400)")
_NOBODY = re.compile(r"connection refused|failed to connect|no route to host", re.IGNORECASE)
_SLOW = re.compile(r"deadline exceeded|Client\.Timeout|timed? ?out|did not complete", re.IGNORECASE)
_PROBE_FAILED = re.compile(r"(Liveness|Readiness|Startup) probe (?:failed|errored)")
# 143 and 137 end a container that the kubelet stopped, as after a failed liveness probe.
# Named only where nothing else is known.
GUESS = 0.52
_STOPPED = frozenset({0, 137, 143})
_COMMAND_CODES = frozenset({126, 127, 128})


def find_failed_starts(snapshot: Snapshot) -> Iterator[Suspicion]:
    """Images that are not pulled, configuration that does not exist, commands that do not run."""
    for pod in snapshot.pods:
        events = fresh_events(snapshot, "pod", pod.name)
        texts = [event.message for event in events]
        for container in pod.spec.containers:
            if container.waiting in _PULLING:
                yield _judge_pull(snapshot, pod, container, texts)
            elif container.waiting == "CreateContainerConfigError":
                report = " ".join((container.message, *texts))
                found = first_match(_CONFIG_ERRORS, report)
                cause = found[0] if found else "config_error"
                evidence = found[1].group() if found else report
                yield Suspicion.of(cause, pod.owner, CERTAIN, evidence, explains=[pod.owner])
            elif container.waiting in _NOT_CREATED and (
                denied := [text for text in (container.message, *texts) if _DENIED.search(text)]
            ):
                yield Suspicion.of(
                    "mount_denied", pod.owner, CERTAIN, *denied[:1], explains=[pod.owner]
                )
            elif not container.ready and (
                _COMMAND_ERRORS.search(f"{container.waiting} {container.exit_reason}")
                or _COMMAND_ERRORS.search(container.message)
                or container.exit_code in _COMMAND_CODES
            ):
                report = container.message or f"exit code {container.exit_code}"
                yield Suspicion.of(
                    "wrong_command", pod.owner, CERTAIN, report, explains=[pod.owner]
                )
        if pod.ready:
            continue
        for event in events:
            found = first_match(_MOUNTS, event.message) if "Mount" in event.reason else None
            if NOT_YET.search(event.message):
                continue
            if found or event.reason in ("FailedMount", "FailedAttachVolume"):
                cause = found[0] if found else "mount_failed"
                yield Suspicion.of(cause, pod.owner, CERTAIN, event.message, explains=[pod.owner])
        yield from _find_missing(snapshot, pod)


def find_crashes(snapshot: Snapshot) -> Iterator[Suspicion]:
    """Containers that end: out of memory, evicted, in their init container, or by themselves."""
    for pod in snapshot.pods:
        if pod.reason == "Evicted" or pod.phase == "Evicted":
            why = pod.message or f"pod {pod.name} was evicted"
            yield Suspicion.of("evicted", pod.owner, CERTAIN, why, explains=[pod.owner])
        probed = _failing(snapshot, pod)
        for container in pod.spec.containers:
            code, reason = container.exit_code, container.exit_reason
            report = f"container {container.name}: {reason or 'ended'}, exit code {code}"
            report += f", {container.restarts} restarts"
            ended = bool(code) and container.exit_now
            failing = container.restarts > 0 or container.waiting == "CrashLoopBackOff" or ended
            if _OOM.search(reason):
                limit = container.limits.get("memory", 0.0) / 1024**2
                bound = f"its memory limit is {limit:.0f} MiB" if limit else ""
                yield Suspicion.of(
                    "oom_killed", pod.owner, CERTAIN, report, bound, explains=[pod.owner]
                )
            elif not failing:
                continue
            elif container.init and not container.ready:
                yield Suspicion.of("init_failed", pod.owner, CERTAIN, report, explains=[pod.owner])
            elif code == 137 and not probed:
                yield Suspicion.of("oom_killed", pod.owner, POSSIBLE, report, explains=[pod.owner])
            elif code is not None and (code not in _STOPPED or not probed):
                weight = POSSIBLE if probed else LIKELY - 0.05
                yield Suspicion.of("crash", pod.owner, weight, report, explains=[pod.owner])
                if pod.spec.claims and not probed:
                    doubt = f"{pod.owner} has a volume, which it may not be able to write"
                    yield Suspicion.of("volume_permission", pod.owner, GUESS, report, doubt)
    for event in snapshot.events:
        if event.warning and event.reason == "SystemOOM" and (event.age_s or 0.0) < 600:
            yield Suspicion.of("node_memory", event.name, LIKELY, event.message)


def find_failed_probes(snapshot: Snapshot) -> Iterator[Suspicion]:
    """Probes that fail at a container that runs: wrong port, protocol or path, or too early."""
    for pod in snapshot.pods:
        for kind, message in _failing(snapshot, pod).items():
            for container in pod.spec.containers:
                probe = next((each for each in container.probes if each.kind == kind), None)
                if probe is None or (kind != "liveness" and container.ready):
                    continue
                if kind == "liveness" and not container.restarts and container.ready:
                    continue
                cause = _judge_probe(container, probe, message)
                if not cause:
                    continue
                where = f"{probe.kind} probe: {probe.how} port {probe.port} {probe.path}"
                ports = ", ".join(str(port.number) for port in container.ports)
                serves = f"container {container.name} declares port {ports}" if ports else ""
                name = f"{kind}_probe_{cause}"
                weight = CERTAIN
                if cause == "timing":
                    weight = LIKELY if kind == "startup" else POSSIBLE
                yield Suspicion.of(
                    name, pod.owner, weight, message, where, serves, explains=[pod.owner]
                )


def _judge_pull(snapshot: Snapshot, pod: Pod, container: Container, texts: list[str]) -> Suspicion:
    """Why an image is not pulled; what the runtime says decides, then the pull secrets."""
    report = [text for text in texts if "pull" in text.lower() and container.image in text]
    report = report or [text for text in texts if "pull" in text.lower()] or [container.message]
    message = next((text for text in report if "ailed to pull" in text), report[0])
    spec = next((w.spec for w in snapshot.workloads if w.name == pod.owner), pod.spec)
    secrets = spec.pull_secrets or pod.spec.pull_secrets
    refused = [text for text in texts if "Unable to retrieve some image pull secrets" in text]
    gone = [name for name in secrets if snapshot.lacks("secret", name)]
    # An address of a name server is no answer of a registry.
    plain = re.sub(r"\d+\.\d+\.\d+\.\d+(?::\d+)?", "", message.replace(container.image, ""))
    found = first_match(_PULLS, plain)
    cause = found[0] if found else "image_reference"
    evidence = [message]
    if cause in ("pull_secret", "image_reference") and (refused or gone):
        cause = "pull_secret"
        evidence += refused or [f"image pull secret {gone[0]} does not exist"]
    weight = CERTAIN if found or container.waiting == "InvalidImageName" else LIKELY
    return Suspicion.of(cause, pod.owner, weight, *evidence, explains=[pod.owner])


def _find_missing(snapshot: Snapshot, pod: Pod) -> Iterator[Suspicion]:
    """ConfigMaps and Secrets that a pod needs and that do not exist."""
    needed: list[Reference] = list(pod.spec.references)
    for container in pod.spec.containers:
        needed += container.references
    for reference in needed:
        if snapshot.lacks(reference.kind, reference.name):
            why = f"pod {pod.name} needs {reference.kind} {reference.name}, which does not exist"
            cause = f"{reference.kind}_missing"
            yield Suspicion.of(cause, pod.owner, CERTAIN, why, explains=[pod.owner])


def _failing(snapshot: Snapshot, pod: Pod) -> dict[str, str]:
    """The newest message of each kind of probe that fails."""
    found: dict[str, str] = {}
    for event in fresh_events(snapshot, "pod", pod.name):
        match = _PROBE_FAILED.search(event.message)
        if event.reason in ("Unhealthy", "ProbeError") and match:
            found.setdefault(match.group(1).lower(), event.message)
    return found


def _judge_probe(container: Container, probe: Probe, message: str) -> str:
    others = [each for each in container.probes if each is not probe and each.port]
    names = {port.name: str(port.number) for port in container.ports if port.name}
    port = names.get(probe.port, probe.port)
    declared = {str(each.number) for each in container.ports}
    if probe.port and not probe.port.isdecimal() and probe.port not in names:
        return "port"
    if (
        port
        and declared
        and port not in declared
        and any(names.get(e.port, e.port) in declared for e in others)
    ):
        return "port"
    if _WRONG_PROTOCOL.search(message):
        return "protocol"
    if port and declared and port not in declared:
        return "port"
    if _WRONG_PATH.search(message):
        return "path"
    differs = [each for each in others if names.get(each.port, each.port) == port]
    if differs and all(each.how != probe.how for each in differs) and not _NOBODY.search(message):
        return "protocol"
    if probe.how == "exec":
        return "command"
    if probe.kind == "startup" and (_SLOW.search(message) or _NOBODY.search(message)):
        return "timing"
    # Nothing listens where the container should: the probe is right.
    return "timing" if _SLOW.search(message) and not _NOBODY.search(message) else ""
