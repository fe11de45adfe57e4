"""The ends of the logs of pods that fail, as evidence: few pods, few lines, each read once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from operator_sre.subjects.kubernetes.connection import Api, StatusError
from operator_sre.subjects.kubernetes.store import ObjectStore, decode
from operator_sre.subjects.kubernetes.symptoms import Symptom, home_of

__all__ = ["PodLogs"]

LINES_MAX = 60
BYTES_MAX = 16_384
PODS_READ_MAX = 4
KEPT_MAX = 200
# Of how many containers of a workload the lines are kept.
LOGS_KEPT_MAX = 4
READ_S_MAX = 2.0
# The callers of a service that may lead nowhere: how often their logs are read, and how far back.
CALLERS_EVERY_S, CALLERS_SINCE_S = 4.0, 5
_TELLING = frozenset({"containers_run", "pods_ready", "jobs_succeed"})


class PodLogs:
    """Lines by workload and container. A container is read again when it was restarted."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], dict[tuple[str, str], tuple[str, ...]]] = {}
        self._read: dict[tuple[str, str, str, int], None] = {}
        self._called_at: dict[tuple[str, str], float] = {}

    def lines(self) -> dict[str, dict[str, Sequence[str]]]:
        """The lines by namespace and workload."""
        found: dict[str, dict[str, Sequence[str]]] = {}
        for (namespace, name), logs in self._known.items():
            found.setdefault(namespace, {})[name] = [line for log in logs.values() for line in log]
        return found

    async def read(self, api: Api, store: ObjectStore, symptoms: Sequence[Symptom]) -> bool:
        """Read what is new about these symptoms; whether anything was."""
        wanted = {
            (symptom.namespace, symptom.name)
            for symptom in symptoms
            if symptom.invariant in _TELLING
        }
        for key in [key for key in self._known if key not in wanted | self._called_at.keys()]:
            del self._known[key]
        due = [each for each in _containers(store, wanted) if each[2] not in self._read]
        due = due[:PODS_READ_MAX]
        if not due:
            return False
        texts = await asyncio.gather(*(_read(api, *run[:3], restarts=run[3]) for _, _, run in due))
        for (namespace, name, run), text in zip(due, texts, strict=True):
            if text is None:
                continue
            self._read[run] = None
            logs = self._known.setdefault((namespace, name), {})
            # The newest last, also where an older run is replaced.
            logs.pop(run[1:3], None)
            logs[run[1:3]] = tuple(text.splitlines()[-LINES_MAX:])
            while len(logs) > LOGS_KEPT_MAX:
                del logs[next(iter(logs))]
        while len(self._read) > KEPT_MAX:
            self._read.pop(next(iter(self._read)))
        return any(text is not None for text in texts)

    async def read_callers(
        self, api: Api, store: ObjectStore, callers: set[tuple[str, str]], now: float
    ) -> bool:
        """Read the newest lines of workloads that run well; whether any was read."""
        for key in [key for key in self._called_at if key not in callers]:
            del self._called_at[key]
        due = [
            key
            for key in sorted(callers)
            if now - self._called_at.get(key, -CALLERS_EVERY_S) >= CALLERS_EVERY_S
        ]
        due.sort(key=lambda key: self._called_at.get(key, 0.0))
        pods = {key: pod for key in due if (pod := _find_pod(store, *key))}
        due = [key for key in due if key in pods][:PODS_READ_MAX]
        texts = await asyncio.gather(
            *(_read(api, key[0], *pods[key], restarts=0, since_s=CALLERS_SINCE_S) for key in due)
        )
        for key, text in zip(due, texts, strict=True):
            self._called_at[key] = now
            self._known[key] = {pods[key]: tuple((text or "").splitlines()[-LINES_MAX:])}
        return bool(due)


def _find_pod(store: ObjectStore, namespace: str, workload: str) -> tuple[str, str] | None:
    """A running pod of a workload, and its first container."""
    for (place, name), stored in store.of("pod").items():
        owner = stored.facts.owner
        found = store.find("replicaset", namespace, owner)
        if place != namespace or workload not in (owner, found.facts.owner if found else ""):
            continue
        pod = decode(stored)
        if (pod.get("status") or {}).get("phase") == "Running":
            return name, str(((pod.get("spec") or {}).get("containers") or [{}])[0].get("name"))
    return None


def _containers(
    store: ObjectStore, wanted: set[tuple[str, str]]
) -> Iterator[tuple[str, str, tuple[str, str, str, int]]]:
    """Namespace and workload of each container that ran, with what tells one run from another."""
    sets = {key: stored.facts.owner for key, stored in store.of("replicaset").items()}
    for (namespace, pod_name), stored in store.loud("pod").items():
        pod = decode(stored)
        _, owner = home_of(pod, sets)
        if (namespace, owner) not in wanted:
            continue
        for state in (pod.get("status") or {}).get("containerStatuses") or ():
            restarts = int(state.get("restartCount") or 0)
            started = "waiting" not in (state.get("state") or {}) or restarts
            if started and not state.get("ready"):
                yield namespace, owner, (namespace, pod_name, str(state.get("name")), restarts)


async def _read(
    api: Api, namespace: str, pod: str, container: str, *, restarts: int, since_s: int = 0
) -> str | None:
    """The end of the log of the run that failed, or of this one; None to be asked again."""
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
    query: Mapping[str, str] = {
        "container": container,
        "tailLines": str(LINES_MAX),
        "limitBytes": str(BYTES_MAX),
        **({"sinceSeconds": str(since_s)} if since_s else {}),
    }
    answered = False
    for previous in ("true", "false") if restarts else ("false",):
        try:
            async with asyncio.timeout(READ_S_MAX):
                text = await api.get(path, {**query, "previous": previous})
        except StatusError:
            answered = True
            continue
        except (OSError, ValueError, TimeoutError):
            continue
        answered = True
        if text:
            return text.decode(errors="replace")
    return "" if answered else None
