"""Services that do not lead to their pods, and addresses that lead to no service."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from operator_sre.subjects.kubernetes.dependencies import (
    Address,
    addresses_of,
    calls_between,
    error_lines,
    service_at,
)
from operator_sre.subjects.kubernetes.snapshot import Port, Service, Snapshot, Workload
from operator_sre.subjects.kubernetes.suspicion import (
    CERTAIN,
    LIKELY,
    POSSIBLE,
    WEAK,
    Suspicion,
    first_match,
)

__all__ = ["find_addresses", "find_log_causes", "find_routing", "find_unreachable"]

_NO_NAME = re.compile(
    r"no such host|name or service not known|name resolution|ENOTFOUND|NXDOMAIN|UnknownHost"
    r"|could not resolve|nodename nor servname|name does not resolve|DNS resolution failed",
    re.IGNORECASE,
)
# What servers and clients write when a dependency rejects them, and when they cannot run.
_LOG_CAUSES = (
    (
        "credentials_rejected",
        re.compile(
            r"access denied for user|password authentication failed|WRONGPASS|NOAUTH"
            r"|authentication failed|invalid (?:username|password|credentials)|SASL.*fail"
            r"|login failed|Unauthenticated",
            re.IGNORECASE,
        ),
    ),
    (
        "connections_exhausted",
        re.compile(
            r"too many (?:connections|clients)|remaining connection slots|max_connections", re.I
        ),
    ),
    ("read_only", re.compile(r"read[- ]only (?:mode|transaction|replica)|READONLY", re.I)),
    ("disk_full", re.compile(r"no space left on device|disk (?:is )?full|ENOSPC", re.I)),
    (
        "volume_permission",
        re.compile(
            r"permission denied|EACCES|read-only file system|operation not permitted|MISCONF", re.I
        ),
    ),
    ("port_taken", re.compile(r"address already in use|EADDRINUSE", re.I)),
    ("oom_killed", re.compile(r"java\.lang\.OutOfMemoryError|cannot allocate memory", re.I)),
    ("certificate_expired", re.compile(r"certificate has expired|certificate is not valid", re.I)),
    ("database_missing", re.compile(r"unknown database|database \S+ does not exist", re.I)),
)

_ADDRESS_WORDS = frozenset(
    ("service", "svc", "addr", "address", "host", "url", "uri", "port", "endpoint", "server")
)
_OF_VOLUMES = frozenset({"volume_permission", "disk_full"})


def find_routing(snapshot: Snapshot) -> Iterator[Suspicion]:
    """Services whose selector, ports or protocol do not fit the pods behind them."""
    for service in snapshot.services:
        if not service.selector:
            continue
        selected = snapshot.select_workloads(service)
        namesake = _namesake(snapshot, service)
        if not selected or (namesake and namesake not in selected and _own(snapshot, namesake)):
            pairs = ", ".join(f"{key}={value}" for key, value in service.selector.items())
            why = f"service {service.name} selects {pairs}, which no pod of its workload has"
            has = ""
            if namesake:
                labels = namesake.spec.labels.items()
                shown = ", ".join(f"{key}={value}" for key, value in labels)
                has = f"{namesake.name} has {shown}"
            ends = "it has no endpoints" if service.endpoints == () else ""
            weight = CERTAIN if ends else LIKELY
            target = namesake.name if namesake else service.name
            yield Suspicion.of(
                "service_selector", target, weight, why, has, ends, explains=[target]
            )
            continue
        for workload in selected:
            for port in service.ports:
                yield from _judge_port(snapshot, service, port, workload)


def find_addresses(snapshot: Snapshot) -> Iterator[Suspicion]:
    """Addresses in environments that no service has, or at a port that it does not offer."""
    wrong: dict[str, list[tuple[Workload, Address]]] = {}
    right: dict[str, int] = {}
    for workload in snapshot.workloads:
        for address in addresses_of(workload):
            service = service_at(snapshot, address.host)
            if service is None:
                if address.internal and "service" in snapshot.listed:
                    yield from _judge_host(snapshot, workload, address)
            elif (meant := _find_meant(snapshot, address)) and meant is not service:
                yield _blame_variable(snapshot, workload, address, meant)
            elif address.port and service.ports:
                if address.port in {port.number for port in service.ports}:
                    right[service.name] = right.get(service.name, 0) + 1
                else:
                    wrong.setdefault(service.name, []).append((workload, address))
    for name, clients in wrong.items():
        service = next(each for each in snapshot.services if each.name == name)
        offered = ", ".join(str(port.number) for port in service.ports)
        demand = {address.port for _, address in clients}
        behind = snapshot.select_workloads(service)
        served = {p.number for w in behind for c in w.spec.containers for p in c.ports}
        agreed = len(clients) > 1 or (
            demand <= served and not served & {port.number for port in service.ports}
        )
        if not right.get(name) and agreed and len(demand) == 1:
            # All clients agree, so the service has changed.
            target = behind[0].name if behind else name
            why = f"{len(clients)} clients use port {demand.pop()} of {name}, it offers {offered}"
            yield Suspicion.of("service_port", target, CERTAIN, why, explains=[target])
            continue
        for workload, address in clients:
            why = f"{address.variable} of {workload.name} is {address.host}:{address.port},"
            report = f"{why} and service {name} offers port {offered}"
            yield Suspicion.of(
                "wrong_address", workload.name, CERTAIN, report, explains=[workload.name]
            )


def find_log_causes(snapshot: Snapshot) -> Iterator[Suspicion]:
    """What the lines of a log say about their own workload, and names that do not resolve."""
    unresolved: dict[str, str] = {}
    calls = calls_between(snapshot)
    for workload in snapshot.workloads:
        lines = error_lines(snapshot, workload.name)
        for line in lines:
            found = first_match(_LOG_CAUSES, line)
            owner = _holder(snapshot, calls, workload) if found else workload
            if found and found[0] in _OF_VOLUMES and not owner.spec.claims:
                continue
            if found:
                target = owner.name if found[0] in _OF_VOLUMES else workload.name
                yield Suspicion.of(found[0], target, LIKELY, line, explains=[workload.name])
                break
        for line in lines:
            known = [s.name for s in snapshot.services if re.search(rf"\b{s.name}\b", line)]
            if _NO_NAME.search(line) and known:
                unresolved.setdefault(workload.name, line)
    if len(unresolved) > 1:
        line = next(iter(unresolved.values()))
        names = ", ".join(sorted(unresolved))
        report = f"names of existing services do not resolve for {names}"
        yield Suspicion.of("dns_down", "kube-dns", LIKELY, report, line, explains=unresolved)


def find_unreachable(snapshot: Snapshot) -> Iterator[Suspicion]:
    """Services that should answer and do not: scaled to zero, or blocked by a policy."""
    calls = calls_between(snapshot)
    for service in snapshot.services:
        lost = [
            port for (name, port), ok in snapshot.reached.items() if name == service.name and not ok
        ]
        for workload in snapshot.select_workloads(service):
            callers = [name for name, called in calls.items() if workload.name in called]
            failing = [
                name
                for name in callers
                if any(service.name in line for line in error_lines(snapshot, name))
            ]
            missed = [f"{', '.join(failing)} cannot reach it"] if failing else []
            missed += [f"no connection to {service.name}:{port}" for port in lost]
            if workload.desired == 0:
                why = f"service {service.name} leads to {workload.name}, which is scaled to zero"
                weight = LIKELY if missed else WEAK
                yield Suspicion.of("scaled_to_zero", workload.name, weight, why, *missed)
            elif lost and service.endpoints and snapshot.names.get("networkpolicy"):
                names = ", ".join(sorted(snapshot.names["networkpolicy"]))
                report = f"the pods are ready, and there are network policies: {names}"
                yield Suspicion.of("network_policy", workload.name, POSSIBLE, *missed, report)


def _holder(snapshot: Snapshot, calls: Mapping[str, set[str]], workload: Workload) -> Workload:
    """A workload, or the only one with a volume that it calls: clients log errors of servers."""
    if workload.spec.claims:
        return workload
    called = calls.get(workload.name, set())
    holders = [each for each in snapshot.workloads if each.name in called and each.spec.claims]
    return holders[0] if len(holders) == 1 else workload


def _own(snapshot: Snapshot, workload: Workload) -> bool:
    """Whether no other service leads to a workload."""
    labels = workload.spec.labels.items()
    return not any(each.selector and each.selector.items() <= labels for each in snapshot.services)


def _namesake(snapshot: Snapshot, service: Service) -> Workload | None:
    """The workload that a service was made for: of its name, or with most of its labels."""
    near = [each for each in snapshot.workloads if each.namespace == service.namespace]
    for workload in near:
        if workload.name == service.name:
            return workload
    shared = [
        (len(set(service.selector.items()) & set(workload.spec.labels.items())), workload)
        for workload in near
    ]
    best = max(shared, key=lambda pair: pair[0], default=(0, None))
    if best[0]:
        return best[1]
    targets = {port.target for port in service.ports}
    fitting = [
        workload
        for workload in near
        if _own(snapshot, workload)
        and any(str(p.number) in targets for c in workload.spec.containers for p in c.ports)
    ]
    return fitting[0] if len(fitting) == 1 else None


def _judge_port(
    snapshot: Snapshot, service: Service, port: Port, workload: Workload
) -> Iterator[Suspicion]:
    declared = [each for container in workload.spec.containers for each in container.ports]
    probes = [probe for container in workload.spec.containers for probe in container.probes]
    reached = snapshot.reached.get((service.name, port.number))
    serves = ", ".join(f"{each.number}/{each.protocol}" for each in declared)
    route = f"service {service.name} sends port {port.number}/{port.protocol} to {port.target}"
    report = f"{workload.name} serves {serves}" if serves else ""
    failed = f"no connection to {service.name}:{port.number}" if reached is False else ""
    names = {each.name: each for each in declared if each.name}
    if not port.target.isdecimal():
        if declared and port.target not in names:
            why = f"{route}, a name that no container port has"
            yield Suspicion.of(
                "service_port",
                workload.name,
                CERTAIN,
                why,
                report,
                failed,
                explains=[workload.name],
            )
        return
    same = [each for each in declared if str(each.number) == port.target]
    if same and all(each.protocol != port.protocol for each in same):
        # A port without a declared protocol is TCP, and so is nearly every protocol.
        weight = CERTAIN if reached is not True else POSSIBLE
        yield Suspicion.of(
            "service_protocol",
            workload.name,
            weight,
            route,
            report,
            failed,
            explains=[workload.name],
        )
    elif declared and not same and port.target not in {probe.port for probe in probes}:
        # Containers may serve ports that they do not declare.
        weight = {False: CERTAIN, None: LIKELY, True: WEAK}[reached]
        yield Suspicion.of(
            "service_port", workload.name, weight, route, report, failed, explains=[workload.name]
        )


def _judge_host(snapshot: Snapshot, workload: Workload, address: Address) -> Iterator[Suspicion]:
    """An address that no service has, which counts as far as something fails because of it."""
    where = f"{address.variable} of {workload.name} is {address.host}"
    why = f"{where}, and there is no such service"
    if any(each.name == address.name for each in snapshot.workloads):
        missing = f"{address.name} has no service"
        yield Suspicion.of("service_missing", address.name, LIKELY, missing, why)
        return
    lines = [
        line
        for line in error_lines(snapshot, workload.name)
        if re.search(rf"\b{re.escape(address.name)}\b", line)
    ]
    near = [
        service.name
        for service in snapshot.services
        if _resembles(service.name, address.name) and service.name != address.name
    ]
    used = {a.name for w in snapshot.workloads if w is not workload for a in addresses_of(w)}
    likely = f"perhaps {near[0]} is meant" if near else ""
    weight = (
        CERTAIN if lines else LIKELY if near and near[0] in used else POSSIBLE if near else WEAK
    )
    if address.name in used:
        weight = min(weight, POSSIBLE)
    yield Suspicion.of(
        "wrong_address", workload.name, weight, why, likely, *lines[:1], explains=[workload.name]
    )


def _find_meant(snapshot: Snapshot, address: Address) -> Service | None:
    """The service that a variable is named after; None where that is not clear."""
    words = [word for word in address.variable.lower().split("_") if word not in _ADDRESS_WORDS]
    stem = "".join(words)
    if len(stem) < 3:
        return None
    plain = {service.name: service.name.replace("-", "") for service in snapshot.services}
    if stem in plain.get(address.name, ""):
        return None
    found = [service for service in snapshot.services if plain[service.name].startswith(stem)]
    return found[0] if len(found) == 1 else None


def _blame_variable(
    snapshot: Snapshot, workload: Workload, address: Address, meant: Service
) -> Suspicion:
    """A variable named after one service with the address of another."""
    why = f"{address.variable} of {workload.name} is {address.host}, not {meant.name}"
    failing = bool(error_lines(snapshot, workload.name))
    weight = LIKELY if failing else WEAK
    return Suspicion.of("wrong_address", workload.name, weight, why, explains=[workload.name])


def _resembles(first: str, other: str) -> bool:
    """Whether two names differ by a slip of the keyboard, or by a word at an end."""
    if first in other or other in first:
        return True
    if abs(len(first) - len(other)) > 2:
        return False
    before = list(range(len(other) + 1))
    for row, letter in enumerate(first, start=1):
        now = [row]
        for column, wanted in enumerate(other, start=1):
            change = before[column - 1] + (letter != wanted)
            now.append(min(change, before[column] + 1, now[-1] + 1))
        before = now
    return before[-1] <= 2
