"""Whether a rule speaks of one simple command."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache
from typing import Any, Protocol

from operator_protocols.domain.verdict import Level
from operator_sre.gate.grammar.paths import Secrets, resolved
from operator_sre.gate.grammar.words import Redirect, Simple
from operator_sre.gate.policy.rule import PolicyRule

__all__ = ["Matcher", "Seen", "compiled", "goes_nowhere"]

ABBREVIATION_MIN = 4
SHORT_MAX = 256
# Rules only say more of what is not SAFE anyway, so that they need not look at endless lists.
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


def compiled(source: str, *, trusted: bool) -> Expression:
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
        told = error.args[0] if error.args else "it cannot be read"
        raise ValueError(told.decode() if isinstance(told, bytes) else str(told)) from error
    return found


class Seen:
    """One simple command as rules look at it: its options, its operands, and what is neither."""

    __slots__ = ("_paths", "argv", "cwd", "folder", "name", "operands", "options", "simple")

    def __init__(self, simple: Simple, cwd: str) -> None:
        self.simple = simple
        self.cwd = cwd
        self.argv = simple.argv
        self.folder, _, self.name = self.argv[0].rpartition("/") if self.argv else ("", "", "")
        self.options: list[str] = []
        # Each with whether it may be the value of the option before it.
        self.operands: list[tuple[str, bool]] = []
        self._paths: list[str] | None = None
        only_operands = after_option = False
        for text in self.argv[1:]:
            if only_operands or text[:1] != "-" or text == "-":
                self.operands.append((text, after_option))
                after_option = False
            elif text == "--":
                only_operands, after_option = True, False
            else:
                self.options.append(text)
                after_option = "=" not in text

    def has(self, wanted: str) -> bool:
        """True when an option is there: by itself, in a cluster, or abbreviated."""
        if len(wanted) == 2:
            letter = wanted[1]
            return any(_has_letter(one, letter) for one in self.options)
        return any(_is_long(one, wanted) for one in self.options)

    def has_exactly(self, wanted: str) -> bool:
        """True when an option is there as it is written."""
        return any(one == wanted or one.startswith(f"{wanted}=") for one in self.options)

    def paths(self) -> list[str]:
        """Everything that may be the name of a file that it works on."""
        if self._paths is None:
            headers = self._headers()
            texts = [text for text, _ in self.operands if text not in headers]
            texts += [text.partition("=")[2] for text in self.argv[1:] if "=" in text]
            texts += [one.word.text for one in self.simple.redirects if one.operator == "<"]
            some = list(dict.fromkeys(texts))[:PATHS_MAX]
            found = [path for text in some if (path := self._resolved(text))]
            # Everything in a folder is as good as the folder.
            self._paths = found + [path[:-2] or "/" for path in found if path.endswith("/*")]
        return self._paths

    def _headers(self) -> set[str]:
        """What is told to a server, such as `Accept: */*`, and names no file."""
        if self.name not in _WITH_HEADERS:
            return set()
        pairs = zip(self.argv[1:], self.argv[2:], strict=False)
        return {text for option, text in pairs if option in _HEADER and _TOLD.match(text)}

    def _resolved(self, text: str) -> str:
        text = text.lstrip("@")
        if text[:1] == "$":
            text = _HOME.sub("~", text)
        if text[:1] not in ("/", "~") and not (self.cwd and text):
            return ""
        return resolved(text, self.cwd)


class Matcher:
    """A rule with its expressions compiled."""

    __slots__ = ("_operand", "_paths", "_redirect", "_regex", "_subcommands", "rule")

    def __init__(self, rule: PolicyRule) -> None:
        trusted = rule.is_built_in
        self.rule = rule
        self._subcommands = [_phrase(one) for one in rule.subcommand]
        self._operand = compiled(rule.operand, trusted=trusted) if rule.operand else None
        self._redirect = compiled(rule.redirect, trusted=trusted) if rule.redirect else None
        self._regex = compiled(rule.regex, trusted=trusted) if rule.regex else None
        self._paths = Secrets(rule.path) if rule.path else None

    def speaks(self, seen: Seen) -> bool:
        """True when all of its conditions hold; that the name fits was found out before."""
        rule, simple = self.rule, seen.simple
        if rule.piped is not None and rule.piped is not simple.piped:
            return False
        if rule.privileged is not None and rule.privileged is not simple.privileged:
            return False
        if rule.level is Level.SAFE and not _is_plain(seen, rule):
            return False
        if rule.cwd and (simple.moved or seen.cwd not in rule.cwd):
            return False
        rest = self._after_subcommand(seen)
        if rest is None:
            return False
        if any(map(seen.has_exactly, rule.without)):
            return False
        if rule.level is Level.SAFE:
            return self._fits_closed(seen, rest)
        return self._fits_open(seen, rest)

    def _after_subcommand(self, seen: Seen) -> list[str] | None:
        """The operands behind the sub-command, or None when it is another one."""
        if not self._subcommands:
            return [text for text, _ in seen.operands]
        for phrase in self._subcommands:
            rest = _behind(phrase, seen.operands, strict=self.rule.level is Level.SAFE)
            if rest is not None:
                return rest
        return None

    def _fits_open(self, seen: Seen, rest: list[str]) -> bool:
        rule = self.rule
        if rule.options and not any(map(seen.has, rule.options)):
            return False
        if self._operand is not None and not any(map(self._operand.fullmatch, rest)):
            return False
        if self._paths is not None and not any(map(self._paths.holds, seen.paths())):
            return False
        if self._redirect is not None and not self._redirected(seen.simple.redirects):
            return False
        return self._regex is None or self._regex.search(" ".join(seen.argv)) is not None

    def _redirected(self, redirects: Sequence[Redirect]) -> bool:
        assert self._redirect is not None
        return any(
            self._redirect.fullmatch(one.word.text)
            for one in redirects
            # A connection is opened in both directions, whichever is asked for.
            if ">" in one.operator or one.word.text.startswith(("/dev/tcp/", "/dev/udp/"))
        )

    def _fits_closed(self, seen: Seen, rest: list[str]) -> bool:
        if self._regex is not None and not self._regex.fullmatch(" ".join(seen.argv)):
            return False
        if self._paths is not None and not all(map(self._paths.holds, seen.paths())):
            return False
        if self._operand is not None:
            return _only(seen.options, self.rule.options) and all(
                map(self._operand.fullmatch, rest)
            )
        if self._regex is not None or self._paths is not None:
            return self._regex is not None or _only(seen.options, self.rule.options)
        return not rest and _only(seen.options, self.rule.options)


def _is_plain(seen: Seen, rule: PolicyRule) -> bool:
    """True when a command is what its text says, and touches nothing but its arguments."""
    simple = seen.simple
    if simple.privileged or simple.assignments:
        return False
    if not all(map(goes_nowhere, simple.redirects)):
        return False
    if simple.piped and not rule.piped:  # what it is fed may be all that it does
        return False
    if any(one.opaque or one.splits or one.glob for one in simple.words):
        return False
    return seen.argv[0] in rule.command or (seen.folder in _BINARIES and seen.name in rule.command)


def _only(options: Sequence[str], listed: Sequence[str]) -> bool:
    for one in options:
        name = one.partition("=")[0]
        cluster = name[:2] != "--" and all(f"-{letter}" in listed for letter in name[1:])
        if name not in listed and not cluster:
            return False
    return True


def _has_letter(option: str, letter: str) -> bool:
    if option[:2] == "--":
        return False
    letters = _LETTERS.match(option)
    return letters is not None and letter in letters[0][1:]


def _is_long(option: str, wanted: str) -> bool:
    name = option.partition("=")[0]
    if name == wanted:
        return True
    # Most tools take a beginning of a long option for the whole.
    return name[:2] == "--" and len(name) >= ABBREVIATION_MIN and wanted.startswith(name)


class _Choice:
    """One word of a sub-command: any of these, or what fits a pattern."""

    __slots__ = ("_pattern", "_words")

    def __init__(self, written: str) -> None:
        choices = written.split("|")
        patterns = [translate(one) for one in choices if _GLOB.search(one)]
        self._words = frozenset(choices)
        self._pattern = re.compile("|".join(patterns)) if patterns else None

    def fits(self, text: str) -> bool:
        return text in self._words or (
            self._pattern is not None and self._pattern.match(text) is not None
        )


def _phrase(words: str) -> list[_Choice]:
    return [_Choice(word) for word in words.split()]


def _behind(
    phrase: Sequence[_Choice], operands: Sequence[tuple[str, bool]], *, strict: bool
) -> list[str] | None:
    """The operands behind these words; what may be the value of an option is stepped over."""
    at = 0
    for word in phrase:
        while at < len(operands) and not word.fits(operands[at][0]):
            if strict or not operands[at][1]:
                return None
            at += 1
        if at == len(operands):
            return None
        at += 1
    return [text for text, _ in operands[at:]]
