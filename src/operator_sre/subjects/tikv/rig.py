"""A disposable TiKV: three PD members and three stores, from programs of this machine. Data."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from operator_protocols.domain.rig import LoadSpec, ProcessSpec, RigSpec
from operator_protocols.domain.stack import StackService, StackSpec
from operator_protocols.errors import MissingProgramError
from operator_sre.subjects.tikv.kinds import PD, STORE
from operator_sre.subjects.tikv.load import RegionReads

__all__ = ["rig", "servers", "stack"]

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
    "LOAD_WORKLOAD": "mixed",
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


MEMBERS = ("pd-1", "pd-2", "pd-3")
STORES = ("store-1", "store-2", "store-3")
PD_VOLUME_MB, STORE_VOLUME_MB = 512, 1024
READY_S_MAX = 40.0
LOAD_PER_S = 20.0
PD_FILE, STORE_FILE = "pd.toml", "tikv.toml"
READY = "/pd/api/v1/leader"  # only with a leader does it answer well
PROGRAMS = {"pd": "pd-server", "tikv": "tikv-server"}

# A silent store soon counts as down, so that no test waits half an hour for it. Copies may be made
# as fast as possible: a new cluster has all of them soon.
PD_CONFIG = """\
lease = 5
tick-interval = "1s"
election-interval = "5s"

[log]
level = "info"

[schedule]
max-store-down-time = "30s"
store-balance-rate = 600.0

[replication]
max-replicas = 3
"""

# Ticks are short, so that leaders are elected and PD is notified within seconds. Nothing is
# reserved on the disk, because a volume of the lab is small.
STORE_CONFIG = """\
[log]
level = "info"

[storage]
reserve-space = "0MB"
reserve-raft-space = "0MB"

[storage.block-cache]
capacity = "64MB"

[raftstore]
raft-base-tick-interval = "250ms"
raft-heartbeat-ticks = 2
raft-election-timeout-ticks = 16
pd-heartbeat-tick-interval = "1s"
pd-store-heartbeat-tick-interval = "1s"
max-peer-down-duration = "5s"
"""

# In a cluster that lives this fast, what may last for minutes elsewhere lasts for seconds. PD lets
# the counts of leaders differ by ten, and has regions wait up to 20 s for a store before it says
# that it is gone. A busy machine must not look like a slow cluster.
OPTIONS: Mapping[str, str | int | float | bool] = {
    "append_log_ms_max": 2000.0,
    "grace_ratio": 0.03,
    "leader_spread_min": 15,
    "log_bytes_max": 16 << 20,
    "operator_s_max": 16.0,
    "p99_ms_max": 2000.0,
    "settle_s": 5.0,
}


def rig() -> RigSpec:
    """Members and stores that know each other. MissingProgramError without their programs."""
    pd, tikv = servers()
    initial = ",".join(f"{each}=http://127.0.0.1:{{{each}.port:peer}}" for each in MEMBERS)
    members = tuple(
        ProcessSpec(
            name=name,
            kind=PD,
            argv=(
                pd,
                *("--name", name),
                *("--client-urls", "http://127.0.0.1:{port}"),
                *("--advertise-client-urls", f"http://127.0.0.1:{{{name}.port}}"),
                *("--peer-urls", "http://127.0.0.1:{port:peer}"),
                *("--advertise-peer-urls", f"http://127.0.0.1:{{{name}.port:peer}}"),
                *("--initial-cluster", initial),
                *("--data-dir", "{volume}/data"),
                *("--config", f"{{dir}}/{PD_FILE}"),
            ),
            files={PD_FILE: PD_CONFIG},
            ports=("peer",),
            linked=True,
            volume_mb=PD_VOLUME_MB,
            ready_path=READY,
            ready_s_max=READY_S_MAX,
        )
        for name in MEMBERS
    )
    stores = tuple(
        ProcessSpec(
            name=name,
            kind=STORE,
            argv=(
                tikv,
                *("--addr", "127.0.0.1:{port}"),
                *("--advertise-addr", f"127.0.0.1:{{{name}.port}}"),
                *("--status-addr", "127.0.0.1:{port:status}"),
                *("--advertise-status-addr", f"127.0.0.1:{{{name}.port:status}}"),
                *("--pd-endpoints", ",".join(f"127.0.0.1:{{{each}.port}}" for each in MEMBERS)),
                *("--data-dir", "{volume}/data"),
                *("--config", f"{{dir}}/{STORE_FILE}"),
            ),
            files={STORE_FILE: STORE_CONFIG},
            ports=("status",),
            linked=True,
            volume_mb=STORE_VOLUME_MB,
            ready_s_max=READY_S_MAX,
        )
        for name in STORES
    )
    load = LoadSpec(PD, client=f"{RegionReads.__module__}:RegionReads", rate_per_s=LOAD_PER_S)
    return RigSpec("tikv", (*members, *stores), load=load, options=OPTIONS)


def servers() -> tuple[str, str]:
    """`pd-server` and `tikv-server`: those on PATH, else the newest that tiup has fetched."""
    home = Path(os.environ.get("TIUP_HOME") or Path.home() / ".tiup")
    paths = {}
    for part, name in PROGRAMS.items():
        fetched = (home / "components" / part).glob(f"v*/{name}")
        able = [path for path in fetched if os.access(path, os.X_OK)]
        paths[name] = shutil.which(name) or str(max(able, key=_version, default=""))
    missing = [name for name, path in paths.items() if not path]
    if missing:
        raise MissingProgramError(
            " and ".join(missing),
            needed_for="The rig of 'tikv'",
            next_step="Put them on PATH, or fetch them with: tiup install pd tikv",
        )
    return paths[PROGRAMS["pd"]], paths[PROGRAMS["tikv"]]


def _version(program: Path) -> tuple[tuple[int, ...], bool]:
    """The order of folders such as `v8.5.5` and `v8.5.0-rc.1`, which comes before `v8.5.0`."""
    number, _, early = program.parent.name.partition("-")
    return tuple(int(digits) for digits in re.findall(r"\d+", number)), not early
