"""The closed shape of a policy file: YAML with the place of everything that is wrong with it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from operator_protocols.domain.permit import Approver
from operator_protocols.domain.verdict import Level, Mode, Risk
from operator_protocols.errors import ConfigError
from operator_sre.gate.policy.egress import network_of
from operator_sre.gate.policy.rule import (
    UNENFORCED,
    Decision,
    Override,
    PolicyRule,
    compile_expression,
)

__all__ = [
    "BUDGETS",
    "FILE_BYTES_MAX",
    "LIMITS",
    "ROLES",
    "RULE_KEYS",
    "SECTIONS",
    "Node",
    "Written",
    "parse_yaml",
    "read_policy",
]

FILE_BYTES_MAX = 1_000_000
DEPTH_MAX = 12
_KINDS = {"text": "a text", "list": "a list", "map": "a table"}
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class Node:
    """One value and where it stands. Texts stay texts: no type is guessed."""

    kind: str
    file: str
    line: int
    column: int
    text: str = ""
    quoted: bool = False
    items: Sequence[Node] = ()
    pairs: Sequence[tuple[Node, Node]] = ()

    def error(self, sentence: str, *, next_step: str = "") -> ConfigError:
        """What is wrong here, to be raised."""
        place = f"{self.file}:{self.line}:{self.column}"
        return ConfigError(f"{place}: {sentence}", next_step=next_step)

    def table(self, valid: Iterable[str] | None = None) -> dict[str, Node]:
        """The entries of a table; with `valid`, every other key is an error."""
        self._expect("map")
        found: dict[str, Node] = {}
        known = None if valid is None else [str(name) for name in valid]
        for key, value in self.pairs:
            name = key.word()
            if name in found:
                raise key.error(f"{name!r} is a duplicate.")
            if known is not None and name not in known:
                raise key.unknown(name, known, "a key here")
            found[name] = value
        return found

    def unknown(self, name: str, valid: Iterable[str], noun: str) -> ConfigError:
        """An error for a name that is not valid, with the nearest valid name."""
        near = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.0)
        hint = f"Did you mean {near[0]!r}?" if near else ""
        return self.error(f"{name[:60]!r} is not {noun}.", next_step=hint)

    def word(self) -> str:
        """A text that is not empty."""
        self._expect("text")
        if not self.text.strip():
            raise self.error("There must be a text here.")
        return self.text

    def words(self) -> tuple[str, ...]:
        """One text or a list of them, none of them twice."""
        if self.kind == "text":
            return (self.word(),)
        found = [(item, item.word()) for item in self.list()]
        seen: set[str] = set()
        for node, text in found:
            if text in seen:
                raise node.error(f"{text[:60]!r} is a duplicate.")
            seen.add(text)
        return tuple(text for _, text in found)

    def list(self) -> Sequence[Node]:
        """The items of a list."""
        self._expect("list")
        return self.items

    def flag(self) -> bool:
        """True or false."""
        self._expect("text")
        if self.quoted or self.text not in ("true", "false"):
            raise self.error(f"{self.text[:60]!r} must be true or false.")
        return self.text == "true"

    def choice(self, valid: Iterable[str]) -> str:
        """One of several words."""
        known = [str(word) for word in valid]
        if self.word() not in known:
            raise self.error(f"{self.text[:60]!r} must be one of {', '.join(known)}.")
        return self.text

    def number(self, *, low: float, high: float) -> float:
        """A number within a range."""
        self._expect("text")
        try:
            value = float(self.text)
        except ValueError:
            raise self.error(f"{self.text[:60]!r} must be a number.") from None
        if not low <= value <= high:
            raise self.error(f"{self.text[:60]!r} must be between {low:g} and {high:g}.")
        return value

    def _expect(self, kind: str) -> None:
        if self.kind != kind:
            raise self.error(f"This is {_KINDS[self.kind]}, and must be {_KINDS[kind]}.")


def parse_yaml(text: str, file: str) -> Node:
    """The one document of a text; errors carry line and column."""
    if len(text) > FILE_BYTES_MAX:
        raise _at(file, text, 0, f"The file is longer than {FILE_BYTES_MAX} characters.")
    bad = next((at for at, letter in enumerate(text) if "\ud800" <= letter <= "\udfff"), None)
    if bad is not None:
        raise _at(file, text, bad, "This is not a letter.")
    try:
        return _Tree(file).read(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = f"This is not YAML: {error.problem or error.context}."
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise ConfigError(f"{file}:{line}:{column}: {reason}") from None
    except yaml.reader.ReaderError as error:
        at = error.position if isinstance(error.position, int) else 0
        raise _at(file, text, at, "This character cannot be in a YAML file.") from None


def _at(file: str, text: str, at: int, sentence: str) -> ConfigError:
    before = text[:at]
    line, column = before.count("\n") + 1, at - before.rfind("\n")
    return ConfigError(f"{file}:{line}:{column}: {sentence}")


class _Tree:
    """Builds nodes from events, so that no depth of nesting is beyond it."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._open: list[tuple[Node, list[Node]]] = []
        self._root: Node | None = None

    def read(self, events: Iterable[Any]) -> Node:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if self._root is not None:
                    raise self._node("map", event).error("A second document begins here.")
            elif isinstance(event, yaml.ScalarEvent):
                node = self._node("text", event)
                node.text, node.quoted = event.value, bool(event.style)
                self._put(node)
            elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
                kind = "list" if isinstance(event, yaml.SequenceStartEvent) else "map"
                node = self._node(kind, event)
                if len(self._open) >= DEPTH_MAX:
                    raise node.error("This is nested too deeply.")
                self._open.append((node, []))
            elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
                node, inside = self._open.pop()
                if node.kind == "list":
                    node.items = inside
                else:
                    node.pairs = list(zip(inside[::2], inside[1::2], strict=True))
                self._put(node)
            elif isinstance(event, yaml.AliasEvent):
                self._node("text", event)
        return self._root or Node("map", self._file, 1, 1)

    def _node(self, kind: str, event: Any) -> Node:
        mark = event.start_mark
        node = Node(kind, self._file, mark.line + 1, mark.column + 1)
        if isinstance(event, yaml.AliasEvent):
            raise node.error("Aliases are not understood: write it out.")
        if getattr(event, "tag", None) or getattr(event, "anchor", None):
            raise node.error("Tags and anchors are not understood: write it out.")
        return node

    def _put(self, node: Node) -> None:
        if self._open:
            self._open[-1][1].append(node)
        else:
            self._root = node


VERSION = "1"
RULES_MAX = 1000
TEXT_MAX = 2000
SECTIONS = (
    *("version", "safe", "review", "blocked", "paths", "egress", "hosts", "services", "budgets"),
    *("roles", "groups", "grants", "modes", "approval", "approvers", "tools", "limits"),
    "overrides",
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
# Of a chain of approvers: how many steps, and how long each has by default and at most.
STEPS_MAX = 10
MINUTES, MINUTES_MAX = 5.0, 1440.0
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
_NAME_OR_PATH = re.compile(rf"(?:/[A-Za-z0-9_.+/-]*/)?(?:{_NAME.pattern}|\[|:|[A-Za-z0-9_.+-]+)")
_PHRASE = re.compile(r"[^\s]+(?: [^\s]+)*")
Places = dict[str, Node]


@dataclass(slots=True)
class Written:
    """The contents of one file with their places; a missing entry has no value."""

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
    chains: dict[str, tuple[Approver, ...]] = field(default_factory=dict)
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
    if "paths" in table:
        paths = table["paths"].table(("sensitive", "write"))
        written.sensitive = _paths(paths["sensitive"]) if "sensitive" in paths else ()
        written.writable = _paths(paths["write"]) if "write" in paths else None
    if "hosts" in table and "egress" in table:
        raise table["hosts"].error("'hosts' is another name of 'egress', which is there too.")
    for section in ("egress", "hosts"):
        if section in table:
            body = table[section].table(("allow", "deny", "scripts", "people"))
            written.egress = {key: _hosts(node, key) for key, node in body.items()}
    if "services" in table:
        for key, node in table["services"].table(("allow", "deny")).items():
            for item, text in _texts(node):
                if "/" in text or ".." in text or _GLOB.search(text):
                    raise item.error(f"{text[:60]!r} is not the name of a service.")
            names = (text.removesuffix(".service").lower() for text in node.words())
            written.services[key] = tuple(names)

    def entries(name: str, valid: tuple[str, ...] | None = None) -> Mapping[str, Node]:
        return table[name].table(valid) if name in table else {}

    for name, node in entries("approval", (*Risk, UNENFORCED)).items():
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
    _chains(table, written)
    for node in table["overrides"].list() if "overrides" in table else ():
        keys = ("rule", "reason", "by")
        body = node.table(keys)
        for key in keys:
            if key not in body:
                raise node.error(f"The override has no {key!r}.")
        written.overrides.append((Override(*(body[key].word() for key in keys)), node))
    return written


def _rule(node: Node, level: Level, written: Written, origin: str) -> None:
    body = node.table(RULE_KEYS)
    for key in ("id", "why", "match"):
        if key not in body:
            raise node.error(f"The rule has no {key!r}.")
    id = body["id"].word()
    if not _ID.fullmatch(id):
        raise body["id"].error(f"{id[:60]!r} must be lower-case letters, digits and '_'.")
    if id in written.places:
        raise body["id"].error(f"{id!r} is the id of another rule.")
    if len(written.places) >= RULES_MAX:
        raise node.error(f"There are more than {RULES_MAX} rules.")
    risk = Risk(body["risk"].choice(Risk)) if "risk" in body else _RISKS[level]
    rule = PolicyRule(
        id=id,
        level=level,
        why=" ".join(body["why"].word()[:TEXT_MAX].split()),
        command=_words(body, "command", _NAME_OR_PATH, "the name of a command"),
        subcommand=_words(body, "subcommand", _PHRASE, "words of a command"),
        options=_words(body, "options", _OPTION, "an option such as -r or --recursive"),
        without=_words(body, "without", _OPTION, "an option such as -r or --recursive"),
        operand=_expression(body, "operand"),
        path=_paths(body["path"]) if "path" in body else (),
        redirect=_expression(body, "redirect"),
        regex=_expression(body, "regex"),
        piped=body["piped"].flag() if "piped" in body else None,
        privileged=body["privileged"].flag() if "privileged" in body else None,
        cwd=_paths(body["cwd"]) if "cwd" in body else (),
        risk=risk,
        reversible=body["reversible"].flag() if "reversible" in body else None,
        match=tuple(node.word() for node in _items(body, "match")),
        not_match=tuple(node.word() for node in _items(body, "not_match")),
        origin=origin,
    )
    if not (rule.command or rule.regex or rule.redirect or rule.path):
        raise node.error("The rule has to name a command, a path, a redirect or a regex.")
    if not rule.match:
        raise body["match"].error("The rule needs at least one example that it matches.")
    if any("*" in folder for folder in rule.cwd):
        raise body["cwd"].error("A folder in 'cwd' must be named in full.")
    if rule.level is not Level.SAFE:
        if rule.cwd:  # whatever is not safe is not safe anywhere
            raise body["cwd"].error("'cwd' is for rules of 'safe' only.")
    else:
        if not rule.command:
            raise node.error("A rule of 'safe' has to name its commands.")
        if any(map(_GLOB.search, rule.command)):
            raise body["command"].error("A rule of 'safe' has to name its commands in full.")
        if rule.privileged:
            raise body["privileged"].error("Nothing that needs other rights can be made safe.")
        if rule.redirect:
            raise body["redirect"].error("Nothing that is redirected can be made safe.")
        if rule.risk is not Risk.LOW:
            raise body["risk"].error("A rule of 'safe' has to have a low risk.")
    written.rules.append(rule)
    written.places[id] = node
    written.examples[id] = (_items(body, "match"), _items(body, "not_match"))


def _items(body: Mapping[str, Node], key: str) -> list[Node]:
    if key not in body:
        return []
    node = body[key]
    return [node] if node.kind == "text" else list(node.list())


def _words(
    body: Mapping[str, Node], key: str, shape: re.Pattern[str], noun: str
) -> tuple[str, ...]:
    if key not in body:
        return ()
    found = body[key].words()
    for word, node in zip(found, _items(body, key), strict=True):
        if not shape.fullmatch(word):
            raise node.error(f"{word[:60]!r} is not {noun}.")
    if not found:
        raise body[key].error(f"{key!r} is empty.")
    return found


def _expression(body: Mapping[str, Node], key: str) -> str:
    if key not in body:
        return ""
    source = body[key].word()
    if len(source) > TEXT_MAX:
        raise body[key].error("The expression is too long.")
    try:
        compile_expression(source, trusted=False)
    except ValueError as error:
        raise body[key].error(f"This is not a regular expression (RE2): {error}.") from None
    return source


def _texts(node: Node) -> Iterator[tuple[Node, str]]:
    """One text or a list of them, each with where it stands."""
    nodes = [node] if node.kind == "text" else node.list()
    return zip(nodes, node.words(), strict=True)


def _paths(node: Node) -> tuple[str, ...]:
    for item, text in _texts(node):
        if not text.startswith("/"):
            raise item.error(f"{text[:60]!r} has to begin with '/'; '/**/' is any folder.")
        for part in text.split("/"):
            if "**" in part and part != "**":
                raise item.error("'**' has to stand alone between two slashes.")
            if "?" in part or "[" in part:
                raise item.error("Only '*' and '**' are understood in paths.")
    return node.words()


def _hosts(node: Node, section: str) -> tuple[str, ...]:
    for item, text in _texts(node):
        if section == "scripts":
            if not _DOOR.fullmatch(text):
                why = "is not a host and port such as api.example.com:443."
                raise item.error(f"{text[:60]!r} {why}")
            continue
        if not _HOST.fullmatch(text):
            raise item.error(f"{text[:60]!r} is not a host, a pattern of hosts, or a network.")
        if "/" in text and network_of(text) is None:
            raise item.error(f"{text[:60]!r} is not a network such as 10.0.0.0/8.")
    return node.words()


def _chains(table: Mapping[str, Node], written: Written) -> None:
    """Who is asked for each risk, one after the other; a name is a group or a person."""
    groups = {
        name: node.words()
        for name, node in (table["groups"].table().items() if "groups" in table else ())
    }
    for risk, node in table["approvers"].table(Risk).items() if "approvers" in table else ():
        steps = node.list()
        if not 0 < len(steps) <= STEPS_MAX:
            raise node.error(f"A chain has 1 to {STEPS_MAX} steps.")
        chain = []
        for step in steps:
            minutes = MINUTES
            place = step
            if step.kind != "text":
                body = step.table(("ask", "minutes"))
                if "ask" not in body:
                    raise step.error("The step has no 'ask'.")
                place = body["ask"]
                if "minutes" in body:
                    minutes = body["minutes"].number(low=0.1, high=MINUTES_MAX)
            name = place.word()
            people = groups.get(name, (name,))
            if not any(_may_answer(person, Risk(risk), written.roles) for person in people):
                why = f"{name[:60]!r} has no person whose role may approve {risk} risk."
                raise place.error(
                    why, next_step="Name a group under 'groups', or a person with a role."
                )
            chain.append(Approver(name, people, minutes * 60.0))
        written.chains[risk] = tuple(chain)


def _may_answer(person: str, risk: Risk, roles: Mapping[str, str]) -> bool:
    role = roles.get(person, ROLES[0]) if roles else ROLES[-1]
    return role == "admin" or (role == "approver" and risk <= Risk.HIGH)
