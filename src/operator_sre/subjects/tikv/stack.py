"""TiKV in containers: PD and stores behind a relay, Prometheus, Grafana, steady load. Data."""

from __future__ import annotations

from pathlib import Path

from operator_protocols.domain.stack import StackService, StackSpec

__all__ = ["stack"]

_NUMBERS = (1, 2, 3)
_PORTS = {
    **{f"PD_{number}_PORT": 2378 + number for number in _NUMBERS},
    **{f"STORE_{number}_PORT": 20159 + number for number in _NUMBERS},
    **{f"STORE_{number}_STATUS_PORT": 20179 + number for number in _NUMBERS},
    "RELAY_PORT": 8009,
    "PROMETHEUS_PORT": 9090,
    "GRAFANA_PORT": 3000,
}
_SETTINGS = {
    "TIKV_VERSION": "v8.5.5",
    "STORE_MEMORY": "2g",
    "STORE_DISK": "1g",
    "DISKS_MEMORY": "3200m",
    "LOAD_PER_S": "200",
    "LOAD_THREADS": "8",
}


def stack() -> StackSpec:
    """All of it; the others know each by its place at the relay, which only they can reach."""
    members = tuple(
        StackService(
            *(f"pd-{n}", "pd", f"PD_{n}_PORT"), endpoints=(f"relay:{23790 + n}",), relay=True
        )
        for n in _NUMBERS
    )
    stores = tuple(
        StackService(
            name=f"store-{n}",
            kind="store",
            port_variable=f"STORE_{n}_PORT",
            depends_on=tuple(each.name for each in members),
            endpoints=(f"relay:{20160 + n}", f"127.0.0.1:{{STORE_{n}_STATUS_PORT}}"),
            disk=f"/disks/store-{n}",
            relay=True,
        )
        for n in _NUMBERS
    )
    prometheus = StackService("prometheus", "prometheus", "PROMETHEUS_PORT")
    return StackSpec(
        subject="tikv",
        folder=str(Path(__file__).with_name("compose")),
        services=(*members, *stores, prometheus),
        ports=_PORTS,
        settings=_SETTINGS,
        secrets=("grafana", "relay"),
        keeper="disks",
        relay="relay",
        # A busy machine must not look like a slow cluster.
        options={
            "discover": False,
            "grace_ratio": 0.1,
            "append_log_ms_max": 2000.0,
            "p99_ms_max": 2000.0,
        },
    )
