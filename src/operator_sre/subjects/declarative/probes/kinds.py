"""Every kind of probe: the keys that its section may have, and how that section is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from operator_protocols.domain.target import Access
from operator_protocols.kit.client import ALL_CHECKED, READS_CHECKED, UNCHECKED
from operator_sre.subjects.declarative.document import Table
from operator_sre.subjects.declarative.probes import (
    amqp,
    canary,
    certificate,
    command,
    dns,
    docker,
    grpc,
    host,
    http,
    journald,
    kafka,
    loki,
    machine,
    mysql,
    prometheus,
    redis,
    s3,
    sql,
    tcp,
)
from operator_sre.subjects.declarative.probes.place import Probe

__all__ = ["OF_STORES", "PROBES", "ProbeKind", "judge_client_view"]


@dataclass(frozen=True, slots=True)
class ProbeKind:
    """`read` gets the section, the folder of the file, and what reads `access` of a section."""

    keys: Sequence[str]
    read: Callable[[Table, str, Callable[[Table], Access | None]], Probe]


def _plain(keys: Sequence[str], read: Callable[[Table], Probe]) -> ProbeKind:
    return ProbeKind(keys, lambda table, folder, access: read(table))


def _with_folder(keys: Sequence[str], read: Callable[[Table, str], Probe]) -> ProbeKind:
    return ProbeKind(keys, lambda table, folder, access: read(table, folder))


def _with_access(keys: Sequence[str], read: Callable[[Table, Access | None], Probe]) -> ProbeKind:
    return ProbeKind(keys, lambda table, folder, access: read(table, access(table)))


# A target that is asked like one of these holds data.
OF_STORES = (
    *(amqp.AmqpProbe, kafka.KafkaProbe, mysql.MySqlProbe),
    *(redis.RedisProbe, s3.S3Probe, sql.SqlProbe),
)
# Of those, what reads as a client does.
_READING = (mysql.MySqlProbe, s3.S3Probe, sql.SqlProbe)
PROBES: Mapping[str, ProbeKind] = {
    "http": _with_folder(http.KEYS, http.read_http),
    "tcp": _plain(tcp.KEYS, tcp.read_tcp),
    "prometheus": _with_access(prometheus.KEYS, prometheus.read_prometheus),
    "loki": _with_access(loki.KEYS, loki.read_loki),
    "command": _with_folder(command.KEYS, command.read_command_probe),
    "canary": _with_folder(canary.KEYS, canary.read_canary),
    "sql": _plain(sql.KEYS, sql.read_sql),
    "mysql": _plain(mysql.KEYS, mysql.read_mysql),
    "redis": _plain(redis.KEYS, redis.read_redis),
    "amqp": _plain(amqp.KEYS, amqp.read_amqp),
    "kafka": _plain(kafka.KEYS, kafka.read_kafka),
    "s3": _plain(s3.KEYS, s3.read_s3),
    "grpc": _plain(grpc.KEYS, grpc.read_grpc),
    "file": _with_folder(machine.FILE_KEYS, machine.read_file),
    "process": _with_folder(machine.PROCESS_KEYS, machine.read_process),
    "certificate": _plain(certificate.KEYS, certificate.read_certificate),
    "dns": _plain(dns.KEYS, dns.read_dns),
    "disk": _plain(host.DISK_KEYS, host.read_disk),
    "memory": _plain(host.MEMORY_KEYS, host.read_memory),
    "systemd": _plain(host.SYSTEMD_KEYS, host.read_systemd),
    "journald": _plain(journald.KEYS, journald.read_journald),
    "docker": _plain(docker.KEYS, docker.read_docker),
}


def judge_client_view(answered: Sequence[Probe]) -> str:
    """How far a target whose probes answered is checked as its clients use it.

    Empty where it keeps no data.
    """
    if any(isinstance(probe, canary.CanaryProbe) for probe in answered):
        return ALL_CHECKED
    if any(isinstance(probe, _READING) for probe in answered):
        return READS_CHECKED
    return UNCHECKED if any(isinstance(probe, OF_STORES) for probe in answered) else ""
