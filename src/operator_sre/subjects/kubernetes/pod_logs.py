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
_TELLING = frozenset({"containers_run", "pods_ready", "jobs_succeed"})


class PodLogs:
    """Lines by workload and container. A container is read again when it was restarted."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], dict[tuple[str, str], tuple[str, ...]]] = {}
        self._read: dict[tuple[str, str, str, int], None] = {}

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
        for key in [key for key in self._known if key not in wanted]:
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


async def _read(api: Api, namespace: str, pod: str, container: str, *, restarts: int) -> str | None:
    """The end of the log of the run that failed, or of this one; None to be asked again."""
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
    query: Mapping[str, str] = {
        "container": container,
        "tailLines": str(LINES_MAX),
        "limitBytes": str(BYTES_MAX),
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
