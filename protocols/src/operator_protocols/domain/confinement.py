"""A Confinement is what the kernel lets a command do; everything else fails."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from operator_protocols.domain.target import Process

__all__ = ["Ability", "Confinement"]


class Ability(StrEnum):
    """What a command needs beyond reading files and speaking to its hosts."""

    DISKS = "disks"
    ECHO = "echo"
    FILES = "files"
    FIREWALL = "firewall"
    INTERFACES = "interfaces"
    KERNEL_LOG = "kernel_log"
    PROCESSES = "processes"


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a verdict declares of a command, for the kernel to enforce.

    `reads` are files that the command is to read. It may write below `writes` only, and connect to
    `hosts` and to the UNIX `sockets` only, the latter from `programs`. None means that it is not
    known, and so not limited: then only the files of Operator itself are closed to it. With
    `credentials`, it may read files that hold secrets of others, because a person approved that.
    Of the hidden files of rigs it sees only `shown`; None means all of them. `inside`
    names the rig whose boundary this is: the command may signal the `processes` of the rig.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] | None = ()
    hosts: tuple[str, ...] | None = ()
    sockets: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    abilities: tuple[Ability, ...] = ()
    credentials: bool = False
    inside: str = ""
    processes: tuple[Process, ...] = ()
    shown: tuple[str, ...] | None = None

    def __str__(self) -> str:
        """One line for people."""
        if self.writes is None:
            return "Operator's own files are hidden from it"
        parts = [f"writes {', '.join(self.writes)}" if self.writes else "writes nothing"]
        if self.hosts is None:
            parts.append("connects to any host")
        elif self.hosts:
            parts.append(f"connects to {', '.join(self.hosts)}")
        else:
            parts.append("no network")
        if self.sockets:
            parts.append(f"local sockets {', '.join(self.sockets)}")
        if self.credentials:
            parts.append("may read credentials")
        if self.inside:
            count = len(self.processes)
            parts.append(f"signals {count} processes of the rig {self.inside}")
        if self.abilities:
            parts.append(f"needs {', '.join(self.abilities)}")
        return "; ".join(parts)
