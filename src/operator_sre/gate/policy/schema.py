"""The closed shape of a policy file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from operator_protocols.domain.verdict import Level, Mode, Risk
from operator_sre.gate.policy.matching import compiled
from operator_sre.gate.policy.nodes import Node, parse_yaml
from operator_sre.gate.policy.rule import Decision, Override, PolicyRule

__all__ = ["BUDGETS", "LIMITS", "ROLES", "RULE_KEYS", "SECTIONS", "Written", "read_policy"]

VERSION = "1"
RULES_MAX = 1000
TEXT_MAX = 2000
SECTIONS = (
    *("version", "safe", "review", "blocked", "paths", "egress", "hosts", "services", "budgets"),
    *("roles", "grants", "modes", "approval", "tools", "limits", "overrides"),
)
RULE_KEYS = (
    *("id", "why", "command", "subcommand", "options", "without", "operand", "path", "redirect"),
    *("regex", "piped", "privileged", "cwd", "risk", "reversible", "match", "not_match"),
)
ROLES = ("viewer", "approver", "admin")
# Name -> the least and the most it may be.
BUDGETS: Mapping[str, tuple[float, float]] = {
    "turns_max": (1, 1000),
    "commands_max": (1, 1000),
    "seconds_max": (1, 86400),
    "attempts_max": (1, 20),
    "tokens_max": (1, 1_000_000_000),
    "usd_max": (0.001, 1_000_000),
}
LIMITS: Mapping[str, tuple[float, float]] = {
    "changes_per_hour": (0, 100_000),
    "blast_radius": (1, 100_000),
    "breaker_failures": (1, 1000),
}
_ID = re.compile(r"[a-z][a-z0-9_]{0,59}")
_OPTION = re.compile(r"--?[A-Za-z0-9?][A-Za-z0-9_.-]*")
_GLOB = re.compile(r"[*?\[]")
_NAME = re.compile(r"[A-Za-z0-9_.:@*?\[\]-]+")
_DOOR = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?:[1-9][0-9]{0,4}", re.IGNORECASE)
_HOST = re.compile(r"[A-Za-z0-9_.:*?/-]+")
_RISKS = {Level.SAFE: Risk.LOW, Level.REVIEW: Risk.MEDIUM, Level.BLOCKED: Risk.CRITICAL}
Places = dict[str, Node]


@dataclass(slots=True)
class Written:
    """What one file says, and where; nothing is said of what is not in it."""

    file: str
    rules: list[PolicyRule] = field(default_factory=list)
    # The node of each rule by its id, with those of its examples in their order.
    places: Places = field(default_factory=dict)
    examples: dict[str, tuple[list[Node], list[Node]]] = field(default_factory=dict)
    sensitive: tuple[str, ...] = ()
    writable: tuple[str, ...] | None = None
    egress: dict[str, tuple[str, ...]] = field(default_factory=dict)
    services: dict[str, tuple[str, ...]] = field(default_factory=dict)
    approval: dict[str, Decision] = field(default_factory=dict)
    tools: dict[str, Decision] = field(default_factory=dict)
    modes: dict[str, Mode] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    grants: dict[str, tuple[str, ...]] = field(default_factory=dict)
    budgets: dict[str, float] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    overrides: list[tuple[Override, Node]] = field(default_factory=list)


def read_policy(text: str, file: str, *, origin: str) -> Written:
    """What a file says. An error is one sentence with file, line and column."""
    root = parse_yaml(text, file)
    table = root.table(SECTIONS)
    written = Written(file)
    if "version" not in table:
        raise root.error("The file has to say 'version: 1'.")
    if table["version"].word() != VERSION:
        raise table["version"].error(f"This version of Operator reads version {VERSION}.")
    for level in Level:
        for node in table[level].list() if level in table else ():
            _rule(node, level, written, origin)
    _lists(table, written)
    _tables(table, written)
    for node in table["overrides"].list() if "overrides" in table else ():
        written.overrides.append((_override(node), node))
    return written


def _rule(node: Node, level: Level, written: Written, origin: str) -> None:
    body = node.table(RULE_KEYS)
    for key in ("id", "why", "match"):
        if key not in body:
            raise node.error(f"The rule has no {key!r}.")
    id = body["id"].word()
    if not _ID.fullmatch(id):
        raise body["id"].error(f"{id[:60]!r} has to be lower-case letters, digits and '_'.")
    if id in written.places:
        raise body["id"].error(f"{id!r} is the id of another rule.")
    if len(written.places) >= RULES_MAX:
        raise node.error(f"There are more than {RULES_MAX} rules.")
    rule = _rule_of(id, level, body, origin)
    _conditions(node, body, rule)
    written.rules.append(rule)
    written.places[id] = node
    written.examples[id] = (_items(body, "match"), _items(body, "not_match"))


def _rule_of(id: str, level: Level, body: Mapping[str, Node], origin: str) -> PolicyRule:
    risk = Risk(body["risk"].choice(Risk)) if "risk" in body else _RISKS[level]
    return PolicyRule(
        id=id,
        level=level,
        why=" ".join(body["why"].word()[:TEXT_MAX].split()),
        command=_words(body, "command", _NAME_OR_PATH, "the name of a command"),
        subcommand=_words(body, "subcommand", _PHRASE, "words of a command"),
        options=_words(body, "options", _OPTION, "an option such as -r or --recursive"),
        without=_words(body, "without", _OPTION, "an option such as -r or --recursive"),
        operand=_expression(body, "operand", origin),
        path=_paths(body["path"]) if "path" in body else (),
        redirect=_expression(body, "redirect", origin),
        regex=_expression(body, "regex", origin),
        piped=body["piped"].flag() if "piped" in body else None,
        privileged=body["privileged"].flag() if "privileged" in body else None,
        cwd=_paths(body["cwd"]) if "cwd" in body else (),
        risk=risk,
        reversible=body["reversible"].flag() if "reversible" in body else None,
        match=tuple(one.word() for one in _items(body, "match")),
        not_match=tuple(one.word() for one in _items(body, "not_match")),
        origin=origin,
    )


_NAME_OR_PATH = re.compile(rf"(?:/[A-Za-z0-9_.+/-]*/)?(?:{_NAME.pattern}|\[|:|[A-Za-z0-9_.+-]+)")
_PHRASE = re.compile(r"[^\s]+(?: [^\s]+)*")


def _conditions(node: Node, body: Mapping[str, Node], rule: PolicyRule) -> None:
    """What a rule has to have, and what it must not have at its level."""
    if not (rule.command or rule.regex or rule.redirect or rule.path):
        raise node.error("The rule has to name a command, a path, a redirect or a regex.")
    if not rule.match:
        raise body["match"].error("The rule needs at least one example that it matches.")
    if any("*" in one for one in rule.cwd):
        raise body["cwd"].error("A folder in 'cwd' has to be named in full.")
    if rule.level is not Level.SAFE:
        if rule.cwd:  # whatever is not safe is not safe anywhere
            raise body["cwd"].error("'cwd' is for rules of 'safe' only.")
        return
    if not rule.command:
        raise node.error("A rule of 'safe' has to name its commands.")
    if any(map(_GLOB.search, rule.command)):
        raise body["command"].error("A rule of 'safe' has to name its commands in full.")
    if rule.privileged:
        raise body["privileged"].error("Nothing that needs other rights can be made safe.")
    if rule.redirect:
        raise body["redirect"].error("Nothing that is redirected can be made safe.")
    if rule.risk is not Risk.LOW:
        raise body["risk"].error("What is safe has a low risk.")


def _items(body: Mapping[str, Node], key: str) -> list[Node]:
    if key not in body:
        return []
    node = body[key]
    return [node] if node.kind == "text" else list(node.list())


def _words(
    body: Mapping[str, Node], key: str, shape: re.Pattern[str], what: str
) -> tuple[str, ...]:
    if key not in body:
        return ()
    found = body[key].words()
    for one, node in zip(found, _items(body, key), strict=True):
        if not shape.fullmatch(one):
            raise node.error(f"{one[:60]!r} is not {what}.")
    if not found:
        raise body[key].error(f"{key!r} is empty.")
    return found


def _expression(body: Mapping[str, Node], key: str, origin: str) -> str:
    if key not in body:
        return ""
    source = body[key].word()
    if len(source) > TEXT_MAX:
        raise body[key].error("The expression is too long.")
    try:
        compiled(source, trusted=False)
    except ValueError as error:
        raise body[key].error(f"This is not a regular expression (RE2): {error}.") from None
    return source


def _paths(node: Node) -> tuple[str, ...]:
    nodes = [node] if node.kind == "text" else node.list()
    for one, text in zip(nodes, node.words(), strict=True):
        if not text.startswith("/"):
            raise one.error(f"{text[:60]!r} has to begin with '/'; '/**/' is any folder.")
        for part in text.split("/"):
            if "**" in part and part != "**":
                raise one.error("'**' has to stand alone between two slashes.")
            if "?" in part or "[" in part:
                raise one.error("Only '*' and '**' are understood in paths.")
    return node.words()


def _hosts(node: Node) -> tuple[str, ...]:
    nodes = [node] if node.kind == "text" else node.list()
    for one, text in zip(nodes, node.words(), strict=True):
        if not _HOST.fullmatch(text):
            raise one.error(f"{text[:60]!r} is not a host, a pattern of hosts, or a network.")
        if "/" in text and _network(text) is None:
            raise one.error(f"{text[:60]!r} is not a network such as 10.0.0.0/8.")
    return node.words()


def _doors(node: Node) -> tuple[str, ...]:
    nodes = [node] if node.kind == "text" else node.list()
    for one, text in zip(nodes, node.words(), strict=True):
        if not _DOOR.fullmatch(text):
            raise one.error(f"{text[:60]!r} is not a host and port such as api.example.com:443.")
    return node.words()


def _network(text: str) -> object | None:
    from operator_sre.gate.policy.egress import network_of

    return network_of(text)


def _lists(table: Mapping[str, Node], written: Written) -> None:
    if "paths" in table:
        paths = table["paths"].table(("sensitive", "write"))
        written.sensitive = _paths(paths["sensitive"]) if "sensitive" in paths else ()
        written.writable = _paths(paths["write"]) if "write" in paths else None
    if "hosts" in table and "egress" in table:
        raise table["hosts"].error("'hosts' is another name of 'egress', which is there too.")
    for section in ("egress", "hosts"):
        if section in table:
            body = table[section].table(("allow", "deny", "scripts", "people"))
            written.egress = {
                key: _doors(node) if key == "scripts" else _hosts(node)
                for key, node in body.items()
            }
    if "services" in table:
        services = table["services"].table(("allow", "deny"))
        written.services = {key: _services(node) for key, node in services.items()}


def _services(node: Node) -> tuple[str, ...]:
    nodes = [node] if node.kind == "text" else node.list()
    for one, text in zip(nodes, node.words(), strict=True):
        if "/" in text or ".." in text or _GLOB.search(text):
            raise one.error(f"{text[:60]!r} is not the name of a service.")
    return tuple(text.removesuffix(".service").lower() for text in node.words())


def _tables(table: Mapping[str, Node], written: Written) -> None:
    def entries(name: str, valid: tuple[str, ...] | None = None) -> Mapping[str, Node]:
        return table[name].table(valid) if name in table else {}

    for name, node in entries("approval", tuple(Risk)).items():
        written.approval[name] = Decision(node.choice(Decision))
    for name, node in entries("tools").items():
        # The strictest word counts, so that a tool alone is never made to run by itself.
        written.tools[name] = Decision(node.choice((Decision.REQUIRE, Decision.DENY)))
    for name, node in entries("modes").items():
        written.modes[name] = Mode(node.choice(Mode))
    for name, node in entries("roles").items():
        written.roles[name] = node.choice(ROLES)
    for name, node in entries("grants").items():
        written.grants[name] = node.words()
    for name, node in entries("budgets", tuple(BUDGETS)).items():
        low, high = BUDGETS[name]
        written.budgets[name] = node.number(low=low, high=high)
    for name, node in entries("limits", tuple(LIMITS)).items():
        low, high = LIMITS[name]
        written.limits[name] = node.number(low=low, high=high)


def _override(node: Node) -> Override:
    keys = ("rule", "reason", "by")
    body = node.table(keys)
    for key in keys:
        if key not in body:
            raise node.error(f"The override has no {key!r}.")
    return Override(*(body[key].word() for key in keys))
