"""Slow workloads: saturated, or behind a slow network, of a pod or of a whole node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from operator_sre.subjects.kubernetes.dependencies import calls_between
from operator_sre.subjects.kubernetes.snapshot import Snapshot
from operator_sre.subjects.kubernetes.suspicion import CERTAIN, LIKELY, POSSIBLE, Suspicion

__all__ = ["find_slowness"]

# How much more than before is no noise, and from which value on.
GROWTH_MIN = 2.0
LATENCY_MS_MIN = 20.0
CPU_PERCENT_MIN = 85.0
# Segments sent again each second. A delay causes some at its beginning, until TCP has learned the
# round trip; loss causes them for as long as it lasts.
LOSS_RETRANSMISSIONS_MIN = 3.0
RETRANSMISSIONS_MIN = 0.3
# A caller that asks a slow workload several times is slow by a multiple.
CALLS_MAX = 3.0
# Slow workloads on one node from which on the node is suspected.
SLOW_SHARE = 0.5


def find_slowness(snapshot: Snapshot) -> Iterator[Suspicion]:
    """Which workload or node makes others slow, by what monitoring reports."""
    nodes = {node.name for node in snapshot.nodes}
    slow = _slow(snapshot)
    saturated = _find_saturated(snapshot, nodes)
    for name, report in saturated.items():
        weight = CERTAIN if name in slow else LIKELY
        yield Suspicion.of("cpu_overload", name, weight, report, explains=[name])
    for name, report in _find_growing(snapshot, nodes).items():
        restarted = any(pod.restarts for pod in snapshot.pods_of(name))
        weight = LIKELY if restarted else POSSIBLE
        yield Suspicion.of("oom_killed", name, weight, report, explains=[name])
    again = {
        reading.target: reading.now
        for reading in snapshot.readings
        if reading.metric == "retransmissions"
        and reading.now >= max(RETRANSMISSIONS_MIN, GROWTH_MIN * (reading.before or 0.0))
    }
    on_nodes = {name: rate for name, rate in again.items() if name in nodes}
    if on_nodes:
        name = max(on_nodes, key=lambda each: on_nodes[each])
        hosted = [pod.owner for pod in snapshot.pods if pod.node == name]
        report = f"node {name}: {on_nodes[name]:g} segments/s are sent again"
        lossy = on_nodes[name] >= LOSS_RETRANSMISSIONS_MIN
        cause = "node_network_loss" if lossy else "node_network_delay"
        yield Suspicion.of(cause, name, CERTAIN, report, explains={*hosted, *slow})
    roots = _find_roots(snapshot, slow)
    for name in roots:
        if name in saturated:
            continue
        report = f"{name} answers after {slow[name]:.0f} ms, and nothing that it calls is as slow"
        cause = "pod_network_loss" if name in again and name not in nodes else "pod_network_delay"
        weight = LIKELY if name == roots[0] else POSSIBLE
        yield Suspicion.of(cause, name, weight, report, explains=[name])
    yield from _slow_node(snapshot, roots)


def _slow(snapshot: Snapshot) -> dict[str, float]:
    """The highest latency of every workload that has become much slower, in milliseconds."""
    slow: dict[str, float] = {}
    for reading in snapshot.readings:
        if not reading.metric.startswith("latency") or reading.metric.endswith("missing"):
            continue
        grown = reading.before is None or reading.now >= GROWTH_MIN * reading.before
        if grown and reading.now >= LATENCY_MS_MIN:
            slow[reading.target] = max(slow.get(reading.target, 0.0), reading.now)
    return slow


def _find_saturated(snapshot: Snapshot, nodes: set[str]) -> dict[str, str]:
    """Workloads that are throttled or use several times the processor time."""
    found: dict[str, str] = {}
    for reading in snapshot.readings:
        grown = reading.before is not None and reading.now >= GROWTH_MIN * max(reading.before, 0.01)
        if reading.target in nodes:
            if reading.metric == "cpu" and reading.now >= CPU_PERCENT_MIN:
                found[reading.target] = f"node {reading.target}: CPU at {reading.now:.0f} %"
        elif reading.metric == "throttled" and reading.now > 0:
            found[reading.target] = f"{reading.target} is throttled at its CPU limit"
        elif reading.metric == "cpu" and grown:
            report = f"{reading.target} uses {reading.now:g} cores, before {reading.before:g}"
            found.setdefault(reading.target, report)
    return found


def _find_growing(snapshot: Snapshot, nodes: set[str]) -> dict[str, str]:
    """Workloads that use several times the memory."""
    return {
        reading.target: f"{reading.target} uses {reading.now / reading.before:.1f} times the memory"
        for reading in snapshot.readings
        if reading.metric == "memory"
        and reading.target not in nodes
        and reading.before
        and reading.now >= GROWTH_MIN * reading.before
    }


def _find_roots(snapshot: Snapshot, slow: Mapping[str, float]) -> list[str]:
    """The slow workloads whose latency does not come from what they call, the slowest first."""
    calls = calls_between(snapshot)
    own: dict[str, float] = {}
    for name, latency in slow.items():
        below = max((slow[called] for called in calls.get(name, ()) if called in slow), default=0.0)
        if latency > CALLS_MAX * below:
            own[name] = latency - below
    return sorted(own, key=lambda name: -own[name])


def _slow_node(snapshot: Snapshot, roots: list[str]) -> Iterator[Suspicion]:
    """A node on which several workloads are slow, each by itself."""
    on_node: dict[str, list[str]] = {}
    for pod in snapshot.pods:
        if pod.owner in roots:
            on_node.setdefault(pod.node, []).append(pod.owner)
    for node, names in on_node.items():
        if len(names) > 1 and len(names) > SLOW_SHARE * len(roots):
            report = f"{', '.join(names)} on node {node} are slow, each by itself"
            yield Suspicion.of("node_network_delay", node, LIKELY, report, explains=names)
