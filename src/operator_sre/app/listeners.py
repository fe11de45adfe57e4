"""Listeners: on this machine by default; beyond it only if confirmed, with TLS."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from operator_protocols.domain.action import Action
from operator_protocols.domain.confirmation import Boundary
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import UsageError
from operator_sre.app.confirmations import Asked, Crossing
from operator_sre.codec import to_json

__all__ = ["CROSSING", "Listener", "command_asked", "exposure_of", "is_loopback", "listener_asked"]
# What only an admin may say yes to.
_ADMIN_DEEDS = {
    Boundary.EXPOSED_LISTENER: "open a listener to the network",
    # A value that has been given out stays known; binding one requires an admin as well.
    Boundary.DIRECT_LEASE: "let a command have a credential",
}
CROSSING = Crossing(admin_action=lambda confirmation: _ADMIN_DEEDS.get(confirmation.boundary, ""))


@dataclass(frozen=True, slots=True)
class Listener:
    """An address, how it is protected, and the names that it is reached by."""

    bind: str
    port: int
    tls_cert: Path | None = None
    tls_key: Path | None = None
    hosts: tuple[str, ...] = ()
    rate: int = 100
    insecure: bool = False

    @property
    def tls(self) -> bool:
        """True when the traffic is encrypted."""
        return self.tls_cert is not None and self.tls_key is not None

    @property
    def scheme(self) -> str:
        """How its address begins."""
        return "https" if self.tls else "http"

    @property
    def public(self) -> bool:
        """True when others than this machine can reach it."""
        return not is_loopback(self.bind)


def is_loopback(host: str) -> bool:
    """True for an address that only this machine can reach."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def exposure_of(listener: Listener, server: str = "the API") -> Asked | None:
    """The change to confirm before a listener opens; UsageError when it may not open at all."""
    if (listener.tls_cert is None) is not (listener.tls_key is None):
        raise UsageError(
            "--tls-cert and --tls-key must be used together.", next_step="Name both files."
        )
    for file in (listener.tls_cert, listener.tls_key):
        if file is not None and not file.is_file():
            raise UsageError(f"There is no file {str(file)!r}.", next_step="Name a PEM file.")
    if not listener.public:
        return None
    if not listener.tls and not listener.insecure:
        raise UsageError(
            f"{listener.bind!r} is not a loopback address, and tokens would be unencrypted.",
            next_step="Add --tls-cert and --tls-key, or accept it with --insecure-public.",
        )
    return listener_asked(server, bind=listener.bind, port=listener.port, tls=listener.tls)


def listener_asked(server: str, *, bind: str, port: int, tls: bool) -> Asked:
    """The change to confirm before other machines can reach a server; opening it uses it.

    The caller requests it with `cross`, and passes the id of the confirmation later.
    """
    how = "with TLS" if tls else "without TLS, so that the network can read the traffic"
    where = f"[{bind}]:{port}" if ":" in bind else f"{bind}:{port}"
    return Asked(
        Boundary.EXPOSED_LISTENER,
        {"what": server, "bind": bind, "port": port, "tls": tls},
        Risk.HIGH,
        f"{server} becomes reachable from other machines at {where}, {how}.",
        destinations=(where,),
    )


def command_asked(
    action: Action, *, target: str, identity: str, policy: str, rationale: str
) -> Asked:
    """The same for one command that destroys something: it, where it runs, and on what.

    `identity` tells the target from a later one of the same name, `policy` is the digest of what
    the command was judged by; a yes counts for no other.
    """
    change = {
        "command": action.command,
        "action": action.digest,
        "arguments": to_json(action.arguments),
        "cwd": action.cwd,
        "target": target,
    }
    return Asked(
        Boundary.DESTRUCTIVE_OPERATION,
        change,
        Risk.HIGH,
        rationale,
        {"action": action.digest, "target": identity, "policy": policy},
        destinations=(target,) if target else (),
    )
