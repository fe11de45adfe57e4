"""The table `[service]` of operator.toml: which parts one process runs, and where they listen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from operator_protocols.errors import ConfigError
from operator_sre.config.tables import check_table

__all__ = ["ADDRESSES", "PARTS", "ServiceConfig", "service_of"]

# Where each part listens unless the table says otherwise: the ports of its own command.
ADDRESSES: Mapping[str, str] = MappingProxyType(
    {
        "web": "127.0.0.1:8442",
        "api": "127.0.0.1:8440",
        "mcp": "127.0.0.1:8441",
        "alerts": "127.0.0.1:9094",
    }
)
PARTS = ("monitor", "agent", *ADDRESSES)
_KEYS = ("parts", *ADDRESSES, "tls_cert", "tls_key", "hosts", "log_file")


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """The parts of the service, their addresses, how listeners are protected, and its log file."""

    parts: tuple[str, ...] = ("monitor", "agent")
    addresses: Mapping[str, str] = field(default_factory=lambda: dict(ADDRESSES))
    tls_cert: Path | None = None
    tls_key: Path | None = None
    hosts: tuple[str, ...] = ()
    log_file: Path | None = None


def service_of(table: Any, file: Path | None) -> ServiceConfig:
    """The `[service]` of a file; ConfigError names the first mistake."""
    place = f"[service] in {str(file)!r}"
    check_table(table, _KEYS, place)
    parts = table.get("parts", ["monitor", "agent"])
    if not isinstance(parts, list) or not parts or not set(map(str, parts)) <= set(PARTS):
        raise ConfigError(f"'parts' of {place} must be a list of {', '.join(PARTS)}.")
    addresses = dict(ADDRESSES)
    for name in ADDRESSES:
        text = table.get(name, ADDRESSES[name])
        host, _, port = str(text).rpartition(":")
        if not (host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ConfigError(f"{name!r} of {place} must be an address such as {ADDRESSES[name]}.")
        addresses[name] = str(text)
    hosts = table.get("hosts", [])
    if not isinstance(hosts, list) or not all(isinstance(host, str) and host for host in hosts):
        raise ConfigError(f"'hosts' of {place} must be a list of host names.")
    files: dict[str, Path | None] = {}
    for name in ("tls_cert", "tls_key", "log_file"):
        text = table.get(name, "")
        if not isinstance(text, str):
            raise ConfigError(f"{name!r} of {place} must be the path of a file.")
        base = file.parent if file else Path()
        files[name] = base / Path(text).expanduser() if text else None
    return ServiceConfig(
        tuple(name for name in PARTS if name in parts), addresses, **files, hosts=tuple(hosts)
    )
