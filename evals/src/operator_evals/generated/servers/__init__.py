"""Servers as a fault generator and an oracle speak to them: with clients of their own.

Nothing here comes from the product: which settings there are, what its administrators can do and
who takes writes is asked of the server itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from operator_evals.generated.servers.etcd import EtcdServer
from operator_evals.generated.servers.kafka import KafkaServer
from operator_evals.generated.servers.kubernetes import KubernetesServer
from operator_evals.generated.servers.postgres import PostgresServer
from operator_evals.generated.servers.server import Holder, Seat, Server, Undo, nothing_to_undo
from operator_evals.generated.servers.valkey import ValkeyServer
from operator_protocols.domain.rig import ProcessSpec

__all__ = ["Holder", "Seat", "Server", "Undo", "nothing_to_undo", "servers_of"]

_PROGRAM = re.compile(
    r"/(postgres|etcd|valkey-server|redis-server)(?:[\s\"']|$)|\s(kafka)\.Kafka(?:\s|$)"
)
# One program is every part of a cluster, and its argument says which.
API_SERVER, MACHINE = "kube-apiserver", "machine"


def servers_of(processes: Iterable[ProcessSpec], seats: dict[str, Seat]) -> dict[str, Server]:
    """A client for each process whose program is known; others have none."""
    processes = list(processes)
    found: dict[str, Server] = {}
    for process in processes:
        if API_SERVER in process.argv:
            nodes = [each.name for each in processes if each.kind == MACHINE]
            found[process.name] = KubernetesServer(seats[process.name], nodes)
            continue
        scripts = [text for name, text in process.files.items() if name.endswith(".sh")]
        match = _PROGRAM.search("\n".join([*process.argv[:1], *scripts]))
        if match is None:
            continue
        seat = seats[process.name]
        kin = [seats[each.name] for each in processes if each.name != process.name]
        match match[1] or match[2]:
            case "kafka":
                found[process.name] = KafkaServer(seat, kin)
            case "postgres":
                found[process.name] = PostgresServer(seat)
            case "etcd":
                found[process.name] = EtcdServer(seat, kin, program=process.argv[0])
            case _:
                found[process.name] = ValkeyServer(seat, kin, sentinel="--sentinel" in process.argv)
    return found
