"""A rule of a policy: what it speaks of, what it says, and which rules speak of a command."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from fnmatch import translate
from functools import lru_cache
from typing import Any, Protocol

import msgspec

from operator_protocols.domain.verdict import Level, Risk
from operator_sre.gate.grammar.paths import Secrets, resolve_path
from operator_sre.shell.words import Redirect, Simple

__all__ = [
    "BUILT_IN",
    "UNENFORCED",
    "Decision",
    "Index",
    "Override",
    "PolicyRule",
    "Seen",
    "compile_expression",
]

BUILT_IN = "built-in"
# Beside the risks, what the policy decides for a SAFE command that no kernel holds to its verdict.
UNENFORCED = "unenforced"


class Decision(StrEnum):
    """What a policy answers to a risk: it runs, a person is asked, or it does not run."""

    AUTO = "auto"
    REQUIRE = "require"
    DENY = "deny"


class PolicyRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """A verdict on every simple command that fits all of its conditions.

    A rule of `review` or `blocked` is open: it fits when what it asks for is there, whatever else
    is. A rule of `safe` is closed: every option must be listed and every operand has to match,
    nothing is unknown before it runs, nothing is redirected, and it runs without `sudo`.
    With `cwd` it fits only what is started in one of these folders, in a line that stays there.
    """

    id: str
    level: Level
    why: str
    command: tuple[str, ...] = ()
    subcommand: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    operand: str = ""
    path: tuple[str, ...] = ()
    redirect: str = ""
    regex: str = ""
    piped: bool | None = None
    privileged: bool | None = None
    cwd: tuple[str, ...] = ()
    risk: Risk = Risk.MEDIUM
    reversible: bool | None = None
    match: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()
    origin: str = BUILT_IN

    @property
    def is_built_in(self) -> bool:
        """True when it came with this version and was not written by the user."""
        return self.origin == BUILT_IN


class Override(msgspec.Struct, frozen=True):
    """A built-in rule that a person disabled, with the name and the reason."""

    rule: str
    reason: str
    by: str


ABBREVIATION_MIN = 4
SHORT_MAX = 256
# Rules only add to a verdict that is not SAFE anyway, so long lists need no full check.
PATHS_MAX = 256
# Where programs of the system lie; a safe rule trusts a name only there.
_BINARIES = frozenset({"", "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin"})
_GLOB = re.compile(r"[*?\[]")
_LETTERS = re.compile(r"-[A-Za-z0-9]*")
_HOME = re.compile(r"\$HOME(?=/|$)")
_WITH_HEADERS = frozenset({"curl", "wget"})
_HEADER = frozenset({"-H", "--header"})
_TOLD = re.compile(r"[A-Za-z][A-Za-z0-9-]*:")
# Where output may always go: nowhere, or to where it would have gone.
_OUTPUTS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_DESCRIPTORS = frozenset({"1", "2", "-"})


def goes_nowhere(redirect: Redirect) -> bool:
    """True when nothing is fed by it and nothing is written: what it means is in its operator.

    The same word is a descriptor after `>&`, a file after `>` or `<`, and a text after `<<<`.
    """
    text = redirect.word.text
    if redirect.word.opaque or redirect.descriptor == "0":
        return text == "/dev/null" and redirect.operator == "<"
    match redirect.operator:
        case "<":
            return text == "/dev/null"
        case "<&":
            return text == "-"
        case ">&":
            return text in _DESCRIPTORS or text in _OUTPUTS
        case ">" | ">>" | ">|" | "&>" | "&>>":
            return text in _OUTPUTS
    return False


class Expression(Protocol):
    """What is used of a compiled expression, whichever library made it."""

    def fullmatch(self, text: str, /) -> object | None: ...
    def search(self, text: str, /) -> object | None: ...


def compile_expression(source: str, *, trusted: bool) -> Expression:
    """An expression that matches in linear time, whatever it is and whatever the text.

    Raises ValueError when it is not one.
    """
    return _Quick(source) if trusted else _linear(source)


class _Quick:
    """One of our own: a short text needs no library to be loaded, a long one is not trusted."""

    __slots__ = ("_short", "_source")

    def __init__(self, source: str) -> None:
        self._source = source
        self._short = re.compile(source, re.DOTALL)

    def fullmatch(self, text: str, /) -> object | None:
        return self._for(text).fullmatch(text)

    def search(self, text: str, /) -> object | None:
        return self._for(text).search(text)

    def _for(self, text: str) -> Expression:
        return self._short if len(text) <= SHORT_MAX else _linear(self._source)


@lru_cache(maxsize=1024)
def _linear(source: str) -> Expression:
    re2: Any = importlib.import_module("re2")  # it has no types
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True
    try:
        found: Expression = re2.compile(source, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "it cannot be read"
        raise ValueError(reason.decode() if isinstance(reason, bytes) else str(reason)) from error
    return found


class Seen:
    """One simple command as rules see it: its options, its operands, and all other words."""

    __slots__ = (
        "_paths",
        "argv",
        "cwd",
        "folder",
        "name",
        "operands",
        "options",
        "simple",
        "texts",
    )

    def __init__(self, simple: Simple, cwd: str) -> None:
        self.simple = simple
        self.cwd = cwd
        self.argv = [word.text for word in simple.words]
        self.folder, _, self.name = self.argv[0].rpartition("/") if self.argv else ("", "", "")
        self.options: list[str] = []
        # Each with whether it may be the value of the option before it.
        self.operands: list[tuple[str, bool]] = []
        self.texts: list[str] = []
        self._paths: list[str] | None = None
        only_operands = after_option = False
        for text in self.argv[1:]:
            if only_operands or text[:1] != "-" or text == "-":
                self.operands.append((text, after_option))
                self.texts.append(text)
                after_option = False
            elif text == "--":
                only_operands, after_option = True, False
            else:
                self.options.append(text)
                after_option = "=" not in text

    def has(self, wanted: str) -> bool:
        """True when an option is there: by itself, in a cluster, or abbreviated."""
        for option in self.options:
            if len(wanted) == 2:
                letters = None if option[:2] == "--" else _LETTERS.match(option)
                if letters is not None and wanted[1] in letters[0][1:]:
                    return True
                continue
            name = option.partition("=")[0]
            # Most tools take a beginning of a long option for the whole.
            short = name[:2] == "--" and len(name) >= ABBREVIATION_MIN and wanted.startswith(name)
            if name == wanted or short:
                return True
        return False

    def has_exactly(self, wanted: str) -> bool:
        """True when an option is there as it is written."""
        return any(option == wanted or option.startswith(f"{wanted}=") for option in self.options)

    def paths(self) -> list[str]:
        """Everything that may be the name of a file that it works on."""
        if self._paths is None:
            headers: set[str] = set()  # sent to a server, such as `Accept: */*`; no files
            if self.name in _WITH_HEADERS:
                pairs = zip(self.argv[1:], self.argv[2:], strict=False)
                headers = {
                    value for option, value in pairs if option in _HEADER and _TOLD.match(value)
                }
            texts = [text for text in self.texts if text not in headers]
            texts += [text.partition("=")[2] for text in self.argv[1:] if "=" in text]
            texts += [
                redirect.word.text for redirect in self.simple.redirects if redirect.operator == "<"
            ]
            found = []
            for text in list(dict.fromkeys(texts))[:PATHS_MAX]:
                text = text.lstrip("@")
                if text[:1] == "$":
                    text = _HOME.sub("~", text)
                if text[:1] in ("/", "~") or (self.cwd and text):
                    found.append(resolve_path(text, self.cwd))
            # Everything in a folder is as good as the folder.
            self._paths = found + [path[:-2] or "/" for path in found if path.endswith("/*")]
        return self._paths


class Matcher:
    """A rule with its expressions compiled."""

    __slots__ = ("_first", "_operand", "_paths", "_redirect", "_regex", "_subcommands", "rule")

    def __init__(self, rule: PolicyRule) -> None:
        trusted = rule.is_built_in
        self.rule = rule
        # Each word of a sub-command is one of some words, or fits a pattern.
        self._subcommands: list[list[tuple[frozenset[str], re.Pattern[str] | None]]] = []
        for phrase in rule.subcommand:
            choices = [word.split("|") for word in phrase.split()]
            globs = ([translate(word) for word in words if _GLOB.search(word)] for words in choices)
            patterns = (re.compile("|".join(parts)) if parts else None for parts in globs)
            self._subcommands.append(list(zip(map(frozenset, choices), patterns, strict=True)))
        # The words with which all of them begin: most commands hold none, and need no closer look.
        firsts = [phrase[0] for phrase in self._subcommands]
        known = firsts and all(pattern is None for _, pattern in firsts)
        self._first = frozenset[str]().union(*(words for words, _ in firsts)) if known else None
        self._operand = compile_expression(rule.operand, trusted=trusted) if rule.operand else None
        self._redirect = (
            compile_expression(rule.redirect, trusted=trusted) if rule.redirect else None
        )
        self._regex = compile_expression(rule.regex, trusted=trusted) if rule.regex else None
        self._paths = Secrets(rule.path) if rule.path else None

    def speaks(self, seen: Seen) -> bool:
        """True when all of its conditions hold; that the name fits was found out before."""
        rule, simple = self.rule, seen.simple
        if self._first is not None and self._first.isdisjoint(seen.texts):
            return False
        if rule.piped is not None and rule.piped is not simple.piped:
            return False
        if rule.privileged is not None and rule.privileged is not simple.privileged:
            return False
        if rule.level is Level.SAFE and not _is_plain(seen, rule):
            return False
        if rule.cwd and (simple.moved or seen.cwd not in rule.cwd):
            return False
        is_safe = rule.level is Level.SAFE
        if rule.options and not (is_safe or (seen.options and any(map(seen.has, rule.options)))):
            return False
        rest = self._after_subcommand(seen)
        if rest is None:
            return False
        if rule.without and any(map(seen.has_exactly, rule.without)):
            return False
        if is_safe:
            if self._regex is not None and not self._regex.fullmatch(" ".join(seen.argv)):
                return False
            if self._paths is not None and not all(map(self._paths.holds, seen.paths())):
                return False
            listed = _only(seen.options, rule.options)
            if self._operand is not None:
                return listed and all(map(self._operand.fullmatch, rest))
            return self._regex is not None or (listed and (self._paths is not None or not rest))
        if self._operand is not None and not any(map(self._operand.fullmatch, rest)):
            return False
        if self._paths is not None and not any(map(self._paths.holds, seen.paths())):
            return False
        if self._redirect is not None and not any(
            self._redirect.fullmatch(redirect.word.text)
            for redirect in simple.redirects
            # A connection is opened in both directions, whichever is asked for.
            if ">" in redirect.operator or redirect.word.text.startswith(("/dev/tcp/", "/dev/udp/"))
        ):
            return False
        return self._regex is None or self._regex.search(" ".join(seen.argv)) is not None

    def _after_subcommand(self, seen: Seen) -> list[str] | None:
        """The operands behind the sub-command, or None when it is another one."""
        if not self._subcommands:
            return seen.texts
        operands, strict = seen.operands, self.rule.level is Level.SAFE
        count = len(operands)
        for phrase in self._subcommands:
            at = 0
            for words, pattern in phrase:
                while at < count:
                    text, may_be_value = operands[at]
                    if text in words or (pattern is not None and pattern.match(text)):
                        break
                    # The value of an option may stand before the sub-command.
                    at = at + 1 if may_be_value and not strict else count
                at += 1
            if at <= count:
                return [text for text, _ in operands[at:]]
        return None


def _is_plain(seen: Seen, rule: PolicyRule) -> bool:
    """True when a command is what its text says, and touches nothing but its arguments."""
    simple = seen.simple
    if simple.privileged or simple.assignments:
        return False
    if not all(map(goes_nowhere, simple.redirects)):
        return False
    if simple.piped and not rule.piped:  # what it is fed may be all that it does
        return False
    if any(word.opaque or word.splits or word.glob for word in simple.words):
        return False
    return seen.argv[0] in rule.command or (seen.folder in _BINARIES and seen.name in rule.command)


def _only(options: Sequence[str], listed: Sequence[str]) -> bool:
    for option in options:
        name = option.partition("=")[0]
        cluster = name[:2] != "--" and all(f"-{letter}" in listed for letter in name[1:])
        if name not in listed and not cluster:
            return False
    return True


class Index:
    """Rules by the name of the command. A rule is compiled when it is first asked."""

    def __init__(self, rules: Iterable[PolicyRule]) -> None:
        self._named: dict[str, list[PolicyRule]] = {}
        self._wild: list[tuple[re.Pattern[str], PolicyRule]] = []
        self._always: list[PolicyRule] = []
        self._redirecting: list[PolicyRule] = []
        self._matchers: dict[str, Matcher] = {}
        self._rules = ordered = sorted(rules, key=lambda rule: -rule.level.rank)
        self._places = {rule.id: place for place, rule in enumerate(ordered)}
        for rule in ordered:
            if not rule.command:
                (self._redirecting if rule.redirect else self._always).append(rule)
            for name in rule.command:
                if _GLOB.search(name):
                    self._wild.append((re.compile(translate(name)), rule))
                else:
                    self._named.setdefault(name.rpartition("/")[2], []).append(rule)
        for named in self._named.values():
            named += self._always
        wild = "|".join(pattern.pattern for pattern, _ in self._wild)
        self._any_wild = re.compile(wild or r"(?!)")

    def speaking(self, simple: Simple, cwd: str = "") -> Sequence[PolicyRule]:
        """The rules that count for one command, the strictest first.

        A rule of `safe` stands against built-in rules of `review`, and against nothing else.
        """
        name = simple.words[0].text.rpartition("/")[2] if simple.words else ""
        candidates = self._named.get(name, self._always)
        if simple.redirects and not all(map(goes_nowhere, simple.redirects)):
            candidates = [*candidates, *self._redirecting]
        if self._any_wild.match(name):
            matching = [rule for pattern, rule in self._wild if pattern.match(name)]
            candidates = [*candidates, *matching]
        if not candidates:
            return ()
        seen, matchers = Seen(simple, cwd), self._matchers
        found = [
            rule
            for rule in candidates
            if (matchers.get(rule.id) or self._matcher(rule)).speaks(seen)
        ]
        if len(found) < 2:
            return found
        found.sort(key=lambda rule: self._places[rule.id])
        once = list({rule.id: rule for rule in found}.values())
        if once[-1].level is not Level.SAFE:
            return once
        strict = [
            rule
            for rule in once
            if rule.level is Level.BLOCKED or (rule.level is Level.REVIEW and not rule.is_built_in)
        ]
        return strict or [rule for rule in once if rule.level is Level.SAFE]

    def warm(self) -> None:
        """Compile all rules now: for a process that judges many commands."""
        for rule in self._rules:
            self._matcher(rule)

    def _matcher(self, rule: PolicyRule) -> Matcher:
        try:
            return self._matchers[rule.id]
        except KeyError:
            made = self._matchers[rule.id] = Matcher(rule)
            return made
