"""What others than us are let in to, or let do: a listener beyond this machine, one command."""

from __future__ import annotations

from operator_protocols.domain.action import Action
from operator_protocols.domain.confirmation import Boundary, Confirmation
from operator_protocols.domain.verdict import Risk
from operator_sre.app.crossing import Asked, Crossing
from operator_sre.codec import to_json

__all__ = ["CROSSING", "command_asked", "listener_asked"]


def listener_asked(what: str, *, bind: str, port: int, tls: bool) -> Asked:
    """What a person has to say yes to before others can reach us there; it is used up by opening.

    Whoever opens it asks with `cross`, and comes back with the id of the yes.
    """
    how = "with TLS" if tls else "without TLS: whoever is on the way reads along"
    where = f"[{bind}]:{port}" if ":" in bind else f"{bind}:{port}"
    return Asked(
        Boundary.EXPOSED_LISTENER,
        {"what": what, "bind": bind, "port": port, "tls": tls},
        Risk.HIGH,
        f"Others can reach {what} at {where} from then on, {how}.",
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
    bound = {"action": action.digest, "target": identity, "policy": policy}
    return Asked(
        Boundary.DESTRUCTIVE_OPERATION,
        change,
        Risk.HIGH,
        rationale,
        bound,
        destinations=(target,) if target else (),
    )


_DEEDS = {
    Boundary.EXPOSED_LISTENER: "let others reach us",
    # Whoever has a value once has it; binding it takes an admin as well.
    Boundary.DIRECT_LEASE: "let a command have a credential",
}


def _deed(confirmation: Confirmation) -> str:
    return _DEEDS.get(confirmation.boundary, "")


CROSSING = Crossing(deed=_deed)
