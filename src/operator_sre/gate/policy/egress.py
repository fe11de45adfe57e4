"""Which hosts may be spoken to without a person."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from fnmatch import translate
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from operator_protocols.domain.target import Target

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

    Address = IPv4Address | IPv6Address
    Network = IPv4Network | IPv6Network

__all__ = ["Egress", "hosts_of", "network_of"]

_NUMERIC = re.compile(r"(?:0x[0-9a-f]+|[0-9]+)(?:\.(?:0x[0-9a-f]+|[0-9]*))*")
_PORT = re.compile(r":[0-9a-z_-]+$")


class Egress(msgspec.Struct, frozen=True, dict=True):
    """Names, patterns of names, addresses and networks: what is denied wins.

    `allow` are the hosts that anybody reaches, `people` hosts that a person may reach as well.
    `scripts` are the hosts that a boxed script reaches, each by its name and port; none by default.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    people: tuple[str, ...] = ()

    def reaches(self, host: str, known: Collection[str] = (), *, person: bool = False) -> bool:
        """True when a command that only reads may speak to this host by itself.

        `known` are hosts, as `hosts_of` tells them, that may be reached although no list has them.
        """
        name = _bare(host)
        address: Address | None = None
        if name[:1].isdigit() or ":" in name:
            from ipaddress import ip_address

            try:
                address = ip_address(name)
                address = getattr(address, "ipv4_mapped", None) or address
            except ValueError:
                address = None
        if address is None and _NUMERIC.fullmatch(name):
            return False  # an address in disguise: people do not write it like this
        if _any(self._denied, name, address):
            return False
        if name in known or _any(self._allowed, name, address):
            return True
        return person and _any(self._for_people, name, address)

    def leads_anywhere(self, *, person: bool = False) -> bool:
        """True when all hosts may be reached except the denied ones."""
        return "*" in self.allow or (person and "*" in self.people)

    @cached_property
    def _allowed(self) -> tuple[re.Pattern[str], list[Network]]:
        return _sorted_out(self.allow)

    @cached_property
    def _for_people(self) -> tuple[re.Pattern[str], list[Network]]:
        return _sorted_out(self.people)

    @cached_property
    def _denied(self) -> tuple[re.Pattern[str], list[Network]]:
        return _sorted_out(self.deny)


def hosts_of(targets: Iterable[Target]) -> frozenset[str]:
    """Where these targets answer, and where their commands run."""
    found: set[str] = set()
    for target in targets:
        found.update(map(_bare, (target.host, *target.endpoints)))
        if target.runs_at.startswith("ssh://"):
            found.add(_bare(target.runs_at.removeprefix("ssh://")))
    return frozenset(found - {""})


def network_of(text: str) -> Network | None:
    """The network or the address that an entry names; None when it is a pattern of names."""
    from ipaddress import ip_network

    if not text[:1].isdigit() and ":" not in text:
        return None
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def _sorted_out(entries: Iterable[str]) -> tuple[re.Pattern[str], list[Network]]:
    networks = {entry: network_of(entry) for entry in entries}
    names = [translate(entry.lower()) for entry, network in networks.items() if network is None]
    return re.compile("|".join(names) or r"(?!)"), [
        network for network in networks.values() if network
    ]


def _any(
    entries: tuple[re.Pattern[str], list[Network]], name: str, address: Address | None
) -> bool:
    names, networks = entries
    if names.match(name):
        return True
    return address is not None and any(
        address.version == network.version and address in network for network in networks
    )


def _bare(host: str) -> str:
    """A host without its port, its brackets, its zone and the length of its network."""
    name = host.strip().lower().rpartition("@")[2].split("/")[0]
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = _PORT.sub("", name)
    return name.partition("%")[0].rstrip(".")
