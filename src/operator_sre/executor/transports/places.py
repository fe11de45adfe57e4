"""Where commands run, read from what a target says about itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from operator_protocols.errors import ConfigError

__all__ = ["Container", "Here", "Host", "Place", "Pod", "place_of"]

ADDRESS_CHARS_MAX = 1024
SSH_PORT = 22
PORT_MAX = 65_535
_FORMS = (
    "Write ssh://user@host:port, docker://container, "
    "kubectl://context/namespace/pod/container, or nothing for this machine."
)
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\]")
_CONTAINER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
# Neither a word that starts like an option nor one with invisible characters.
_CONTEXT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@/+-]{0,252}")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Here:
    """This machine."""

    def __str__(self) -> str:
        return "this machine"


@dataclass(frozen=True, slots=True)
class Host:
    """Another machine, reached over ssh."""

    user: str
    name: str
    port: int = SSH_PORT

    def __str__(self) -> str:
        host = f"[{self.name}]" if ":" in self.name else self.name
        return f"ssh://{self.user}@{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Container:
    """A container of the Docker engine, by its name or id."""

    name: str

    def __str__(self) -> str:
        return f"docker://{self.name}"


@dataclass(frozen=True, slots=True)
class Pod:
    """A container of a pod, reached by kubectl."""

    context: str
    namespace: str
    name: str
    container: str

    def __str__(self) -> str:
        return f"kubectl://{self.context}/{self.namespace}/{self.name}/{self.container}"


Place = Here | Host | Container | Pod


def place_of(shell: str) -> Place:
    """The place that an address means; a wrong one is a ConfigError of one sentence. Pure."""
    if not shell:
        return Here()
    scheme, colon, rest = shell.partition("://")
    if colon and len(shell) <= ADDRESS_CHARS_MAX and shell.isprintable():
        match scheme:
            case "ssh":
                user, at, address = rest.rpartition("@")
                if not at or not user:
                    raise _wrong(shell, "has no user.")
                if ":" in user:
                    raise _wrong(
                        shell.replace(user, user.partition(":")[0]), "must not contain a password."
                    )
                found = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::([0-9]{1,5}))?", address)
                port = int(found[2] or SSH_PORT) if found else 0
                if found is None or not _HOST.fullmatch(found[1]) or not 0 < port <= PORT_MAX:
                    raise _wrong(shell, "has no valid host and port.")
                if not _USER.fullmatch(user):
                    raise _wrong(shell, "has no valid user.")
                return Host(user, found[1].strip("[]"), port)
            case "docker":
                if not _CONTAINER.fullmatch(rest):
                    raise _wrong(shell, "has no valid container name or id.")
                return Container(rest)
            case "kubectl":
                parts = rest.split("/")
                if len(parts) != 4:
                    raise _wrong(
                        shell, "does not have exactly four parts (write a '/' in a context as %2F)."
                    )
                context, *names = (unquote(part) for part in parts)
                if not _CONTEXT.fullmatch(context):
                    raise _wrong(shell, "has no valid context.")
                for part, name in zip(("namespace", "pod", "container"), names, strict=True):
                    if not _NAME.fullmatch(name):
                        raise _wrong(shell, f"has no valid {part}.")
                return Pod(context, *names)
    raise _wrong(shell, "is not a valid address for commands.")


def _wrong(shell: str, why: str) -> ConfigError:
    return ConfigError(f"The address {shell[:200]!r} {why}", next_step=_FORMS)
