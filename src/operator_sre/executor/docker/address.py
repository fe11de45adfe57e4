"""Where the Docker engine answers, as its own command line would find it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["Address", "address_here"]

DEFAULT = "/var/run/docker.sock"
SETTINGS_BYTES_MAX = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Address:
    """A Unix socket or a URL; `certificates` is the folder with the TLS certificates.

    `problem` says why nothing can be reached this way.
    """

    socket: str = ""
    url: str = "http://docker"
    certificates: str = ""
    problem: str = ""

    def __str__(self) -> str:
        return self.socket or self.url

    @property
    def is_missing(self) -> bool:
        """There is no socket, so no engine can answer."""
        return bool(self.socket) and not Path(self.socket).exists()


def address_here(environment: Mapping[str, str] | None = None) -> Address:
    """What `DOCKER_HOST` says, else the chosen context, else the first socket there is."""
    known = os.environ if environment is None else environment
    home = Path(known.get("HOME") or "/")
    if address := known.get("DOCKER_HOST", ""):
        is_safe = known.get("DOCKER_TLS_VERIFY", "") not in ("", "0")
        certificates = known.get("DOCKER_CERT_PATH") or str(home / ".docker")
        return _parse_address(address, certificates if is_safe else "", "DOCKER_HOST")
    settings = Path(known.get("DOCKER_CONFIG") or home / ".docker")
    context = known.get("DOCKER_CONTEXT") or _text(
        _read(settings / "config.json"), "currentContext"
    )
    if context and context != "default":
        name = hashlib.sha256(context.encode()).hexdigest()
        read = _read(settings / "contexts" / "meta" / name / "meta.json")
        endpoint = read.get("Endpoints")
        docker = endpoint.get("docker") if isinstance(endpoint, dict) else None
        host = _text(docker, "Host")
        if not host:
            return Address(problem=f"The Docker context {context[:60]!r} cannot be read.")
        folder = settings / "contexts" / "tls" / name / "docker"
        certificates = str(folder) if folder.is_dir() else ""
        return _parse_address(
            host, certificates, f"The host of the Docker context {context[:60]!r}"
        )
    runtime = known.get("XDG_RUNTIME_DIR", "")
    places = (
        DEFAULT,
        *((f"{runtime}/docker.sock",) if runtime else ()),
        str(home / ".docker" / "run" / "docker.sock"),
    )
    return Address(socket=next((place for place in places if _is_socket(place)), DEFAULT))


def _parse_address(address: str, certificates: str, where: str) -> Address:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        return Address(problem=f"{where} is not a valid address.")
    if parts.scheme == "unix" and parts.path.startswith("/") and not host:
        return Address(socket=parts.path)
    if parts.scheme in ("tcp", "http", "https") and host and not parts.username:
        is_safe = bool(certificates) or parts.scheme == "https"
        shown = f"[{host}]" if ":" in host else host
        scheme, standard = ("https", 2376) if is_safe else ("http", 2375)
        return Address(url=f"{scheme}://{shown}:{port or standard}", certificates=certificates)
    return Address(problem=f"{where} must be unix:///path or tcp://host:port.")


def _read(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(SETTINGS_BYTES_MAX))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(table: object, name: str) -> str:
    value = table.get(name) if isinstance(table, dict) else None
    return value if isinstance(value, str) else ""


def _is_socket(place: str) -> bool:
    try:
        return Path(place).is_socket()
    except OSError:
        return False
