"""Plain requests for a change of the policy: what exactly is wanted, or that it is not clear."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from operator_protocols.errors import UsageError

__all__ = [
    "REQUEST_CHARACTERS_MAX",
    "WantedBinding",
    "WantedBudget",
    "WantedCommand",
    "WantedHost",
    "parse_request",
]

REQUEST_CHARACTERS_MAX = 500
PORT_MAX = 65_535
EXAMPLES = (
    "'allow host api.example.com port 443', 'allow command jobctl depth mail',"
    " 'raise budget turns to 60', 'raise usd per day to 40', 'bind credential NAME to subject shop'"
)
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*", re.ASCII)
# Names that resolve only inside a network; its owner decides to which address.
_INSIDE = (
    *(".local", ".localhost", ".localdomain", ".internal", ".intranet", ".lan", ".corp", ".home"),
    *(".home.arpa", ".private", ".test", ".example", ".invalid"),
    # Services that answer with whatever address a name spells out, or with this machine.
    *(".nip.io", ".sslip.io", ".xip.io", ".localtest.me", ".lvh.me", ".vcap.me", ".traefik.me"),
)
# An address that is spelt out in a name.
_SPELT = re.compile(r"(?:^|[.-])((?:[0-9]{1,3}[.-]){3}[0-9]{1,3})(?=[.-]|$)", re.ASCII)
# Networks whose addresses stand for an address of IPv4, which is in their last four bytes.
_STANDING_IN = tuple(map(IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0/96", "::/96")))
_SIX_TO_FOUR = IPv6Network("2002::/16")
# An obfuscated address.
_DISGUISED = re.compile(r"[0-9]+|0x[0-9a-f]*")
_WORD = re.compile(r"[A-Za-z0-9_./:=,@%+-]+", re.ASCII)
_CREDENTIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", re.ASCII)
# What stands behind a request and says how much is meant.
_HIGH = re.compile(
    r"(?:\s*\((?:at |with )?high(?: risk)?\)"
    r"|[\s,;]+(?:(?:at |with )?high(?: risk)?|risk[ =:]?high))\.?$",
    re.IGNORECASE,
)
_HIGH_COMMAND = re.compile(r"\s*\(high(?: risk)?\)$", re.IGNORECASE)
_POLITE = re.compile(
    r"(?:please |(?:can|could|would) you (?:please )?|we need to |i want to )+", re.I
)
_ALLOW = r"(?:allow|permit|enable|open|whitelist|allowlist|unblock|grant)"
_PORT = r"(?: (?:on |at |using )?port (?P<port>[0-9]{1,6}))?"
_HOST = re.compile(
    rf"{_ALLOW}(?P<to>(?: (?:network )?(?:access|egress|traffic|connections?|requests?))? to)?"
    r"(?P<noun>(?: the)? (?:host|domain|site|server|address|destination|network))?"
    rf" (?P<host>[^\s]+){_PORT}(?P<scripts> (?:for|from|in) scripts)?",
    re.IGNORECASE,
)
_REACH = re.compile(
    r"(?:let|allow) (?P<who>scripts|agents|it|the agent|us) (?:to )?"
    rf"(?:reach|talk to|connect to|access|contact) (?P<host>[^\s]+){_PORT}",
    re.IGNORECASE,
)
# Endings of names that are files at least as often as hosts.
_FILES = frozenset({"sh", "py", "pl", "rb", "js", "md", "so", "ps", "rs", "zip", "exe", "bin"})
_COMMANDS = (
    re.compile(rf"{_ALLOW}(?: the| this)? command:? (?P<command>.+)", re.IGNORECASE),
    re.compile(rf"{_ALLOW}(?: us| it)?(?: to run|(?: the)? running(?: of)?) (?P<command>.+)", re.I),
    re.compile(r"(?:let|allow) agents (?:to )?run (?P<command>.+)", re.IGNORECASE),
    re.compile(r"make(?: the)? command (?P<command>.+) safe", re.IGNORECASE),
)
_RAISE = r"(?:raise|increase|lift|bump|extend|set|change|lower|reduce)"
_UNIT = r"(?P<unit>turns?|commands?|minutes?|seconds?|attempts?|tokens?|usd|dollars?|cost)"
_NUMBER = r"\$?(?P<number>[0-9]{1,12}(?:\.[0-9]{1,4})?)"
_DAY = r"(?P<day> (?:per|a|each) (?:day|run))?"
_BUDGETS = (
    re.compile(
        rf"{_RAISE}(?: the| our)?(?: run)?(?: budget| limit)?(?: of| for)?(?: the)? {_UNIT}"
        rf"(?: budget| limit)?{_DAY} (?:to|=) {_NUMBER}",
        re.IGNORECASE,
    ),
    re.compile(
        rf"{_RAISE}(?: the| our)?(?: run)? (?:budget|limit) to {_NUMBER} {_UNIT}{_DAY}", re.I
    ),
    re.compile(rf"(?:allow|give it|permit) {_NUMBER} {_UNIT}{_DAY}", re.IGNORECASE),
)
_SECRET = r"(?:(?:the )?(?:credential|secret|token|key|password) )?(?P<name>[^\s]+)"
_HOLDER = r"(?:the )?(?P<kind>subject|model|command) (?P<holder>[^\s]+)"
_BINDINGS = (
    re.compile(rf"(?:bind|attach|give|grant|connect) {_SECRET} to {_HOLDER}", re.IGNORECASE),
    re.compile(rf"(?:let|allow) {_HOLDER} (?:to )?use {_SECRET}", re.IGNORECASE),
)
_SETTINGS = {
    "turn": "turns_max",
    "command": "commands_max",
    "minute": "seconds_max",
    "second": "seconds_max",
    "attempt": "attempts_max",
    "token": "tokens_max",
    "usd": "usd_max",
    "dollar": "usd_max",
    "cost": "usd_max",
}
_DAILY = {"usd_max": "usd_per_day", "tokens_max": "tokens_per_day"}


@dataclass(frozen=True, slots=True)
class WantedHost:
    """A host that is to be reached; without a port by commands that only read."""

    host: str
    port: int = 0
    scripts: bool = False
    wide: bool = False
    private: bool = False
    high: bool = False


@dataclass(frozen=True, slots=True)
class WantedCommand:
    """A command that is to run by itself, in full."""

    argv: tuple[str, ...]
    high: bool = False

    @property
    def line(self) -> str:
        """As it is written."""
        return " ".join(self.argv)


@dataclass(frozen=True, slots=True)
class WantedBudget:
    """A limit of each run, or of each day, as it is to be."""

    setting: str
    number: float
    daily: bool = False
    high: bool = False


@dataclass(frozen=True, slots=True)
class WantedBinding:
    """A credential that a subject, a model or a command is to be given."""

    name: str
    kind: str
    holder: str
    high: bool = False


Wanted = WantedHost | WantedCommand | WantedBudget | WantedBinding


def parse_request(text: str, *, high: bool = False) -> Wanted:
    """What a request asks for, and nothing else. UsageError when that is not clear. Pure."""
    if len(text) > REQUEST_CHARACTERS_MAX:
        raise UsageError(
            f"A request has up to {REQUEST_CHARACTERS_MAX} characters.",
            next_step="Request one change at a time.",
        )
    if not text.isascii() or not text.isprintable():
        raise UsageError(
            "A request must be one line of ASCII text.",
            next_step="Write a name of another script in its ASCII form (xn--...).",
        )
    # Only what stands between the words is evened out, for a command is meant as it is written.
    line = _POLITE.sub("", text.strip(), count=1) if _POLITE.match(text.strip()) else text.strip()
    bare_line = _HIGH_COMMAND.sub("", line)
    for shape in _COMMANDS:
        if found := shape.fullmatch(bare_line):
            words = found["command"].strip()
            quoted = len(words) > 1 and words[0] == words[-1] in "'\"`"
            bare = words[1:-1] if quoted else words
            argv = bare.split(" ")
            if not all(map(_WORD.fullmatch, argv)) or "=" in argv[0]:
                raise UsageError(
                    f"The command {bare[:80]!r} cannot be allowed as it is written: a rule names"
                    " one plain command in full, without wildcards, quotes, variables or pipes.",
                    next_step="Write every word, with one space between them.",
                )
            return WantedCommand(tuple(argv), high or bool(_HIGH_COMMAND.search(line)))
    meant = high or _HIGH.search(line) is not None
    plain = " ".join(_HIGH.sub("", line).split())
    wanted = (
        _parse_binding(plain, meant) or _parse_budget(plain, meant) or _parse_host(plain, meant)
    )
    if wanted is None:
        raise UsageError(
            f"The request {text[:80]!r} is not understood, so nothing is proposed.",
            next_step=f"Request one change, such as {EXAMPLES}.",
        )
    return wanted


def _parse_binding(line: str, high: bool) -> WantedBinding | None:
    for shape in _BINDINGS:
        found = shape.fullmatch(line)
        if found is None:
            continue
        names = (found["name"], found["holder"])
        if not all(map(_CREDENTIAL.fullmatch, names)):
            raise UsageError(
                "The names of a credential and of its holder have letters, digits, '-', '_'"
                " and '.'.",
                next_step="List them with: operator secrets list",
            )
        return WantedBinding(found["name"], found["kind"].lower(), found["holder"], high)
    return None


def _parse_budget(line: str, high: bool) -> WantedBudget | None:
    for shape in _BUDGETS:
        found = shape.fullmatch(line)
        if found is None:
            continue
        unit = found["unit"].lower().removesuffix("s") if found["unit"].lower() != "usd" else "usd"
        setting = _SETTINGS[unit]
        daily = bool(found["day"]) and found["day"].lower().endswith("day")
        if daily and setting not in _DAILY:
            raise UsageError(
                f"There is no daily limit of {found['unit']}.",
                next_step="Daily limits are usd and tokens; the others apply to each run.",
            )
        number = float(found["number"]) * (60 if unit == "minute" else 1)
        return WantedBudget(_DAILY[setting] if daily else setting, number, daily, high)
    return None


def _parse_host(line: str, high: bool) -> WantedHost | None:
    reach, found = _REACH.fullmatch(line), _HOST.fullmatch(line)
    match = reach or found
    if match is None:
        return None
    written, port = _split_port(match["host"], match["port"])
    named = reach or port or (found and (found["noun"] or found["to"])) or "://" in match["host"]
    ending = written.rpartition(".")[2]
    if not named and ("." not in written or ending in _FILES):
        return None  # one word may be anything
    scripts = reach["who"].lower() == "scripts" if reach else bool(found and found["scripts"])
    return _as_host(written, port, scripts=scripts or bool(port), high=high)


def _split_port(host: str, port: str | None) -> tuple[str, int]:
    """A host without scheme and port; what else is in an address is not for a policy."""
    bare = re.sub(r"^https?://", "", host, flags=re.IGNORECASE)
    if bare != host:
        bare = bare.removesuffix("/")
        if "/" in bare or "?" in bare or "#" in bare:
            raise UsageError(
                f"The policy has hosts and ports only, and {host[:80]!r} is a URL.",
                next_step="Name the host alone, such as: allow host api.example.com",
            )
    if inside := re.fullmatch(r"\[([0-9a-fA-F:.]+)\](?::([0-9]{1,5}))?", bare):
        bare, suffix = inside[1], inside[2]
    elif bare.count(":") == 1:
        bare, _, suffix = bare.partition(":")
    else:
        suffix = None
    ports = {number for number in (suffix, port) if number is not None}
    numbers = {int(number) for number in ports if re.fullmatch(r"[0-9]{1,6}", number)}
    if len(ports) > 1 or len(numbers) < len(ports) or not all(0 < x <= PORT_MAX for x in numbers):
        raise UsageError("A port is one number from 1 to 65535.", next_step="Name one port.")
    return bare.lower().removesuffix("."), next(iter(numbers), 0)


def _as_host(written: str, port: int, *, scripts: bool, high: bool) -> WantedHost:
    try:
        network = ip_network(written)
    except ValueError:
        network = None
    if network is not None:
        wide = network.num_addresses > 1
        host = str(network) if wide else str(network.network_address)
        return WantedHost(host, port, scripts, wide, _is_private(network), high)
    if written == "*":
        return WantedHost("*", port, scripts, wide=True, private=True, high=high)
    last = written.rpartition(".")[2]
    if not _NAME.fullmatch(written) or len(written) > 253 or _DISGUISED.fullmatch(last):
        raise UsageError(
            f"{written[:80]!r} is not a valid host.",
            next_step="Name it as api.example.com, *.example.com, 192.0.2.7 or 192.0.2.0/24.",
        )
    inside = "." not in written or f".{written}".endswith(_INSIDE)
    for spelt in _SPELT.findall(written):
        try:
            inside = inside or not ip_address(spelt.replace("-", ".")).is_global
        except ValueError:
            continue
    return WantedHost(written, port, scripts, written.startswith("*"), inside, high)


def _is_private(network: IPv4Network | IPv6Network) -> bool:
    """True for what leads into a network; also for IPv4 that is written as IPv6."""
    if not network.is_global:
        return True
    if isinstance(network, IPv4Network):
        return False
    number = int(network.network_address)
    if any(network.subnet_of(prefix) for prefix in _STANDING_IN):
        return network.num_addresses > 1 or not ip_address(number & 0xFFFFFFFF).is_global
    if network.subnet_of(_SIX_TO_FOUR):
        return network.prefixlen < 48 or not ip_address(number >> 80 & 0xFFFFFFFF).is_global
    return False
