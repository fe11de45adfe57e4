"""The limiter in containers: Redis behind a relay, three nodes, Prometheus and Grafana. Data.

Its load is `operator_sre.subjects.ratelimiter.compose.load`, which one of the containers runs.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from operator_protocols.domain.stack import StackService, StackSpec
from operator_protocols.errors import MissingExtraError

__all__ = ["stack"]

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
