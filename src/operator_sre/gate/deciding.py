"""What is for people alone: the operator's own commands that decide what may run.

A yes of an agent to its own question is none. Whoever runs commands for it could forget to mark
them, or be talked into taking the mark off, so that such a command is never run for an agent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from operator_protocols.domain.verdict import Level, Rule
from operator_sre.gate.grammar.reading import COMMANDS_MAX, Finding, name_of
from operator_sre.gate.grammar.words import Script, Simple, Word

__all__ = ["FOR_PEOPLE", "Ours", "decides"]

FOR_PEOPLE = Rule(
    "for_people",
    Level.BLOCKED,
    "It decides what the operator may do, which only a person does, and never through an agent.",
)
_PROGRAMS = ("operator", "operator.exe", "operator-sre")
_MODULE = re.compile(r"(?:-[A-Za-z]*m)?operator_sre(?:\.[\w.]+)?")
# The nouns that decide, each with the verbs that decide nothing; whatever else it has does.
_NOUNS: Mapping[str, frozenset[str]] = {
    "approvals": frozenset({"list", "show", "rules"}),
    "config": frozenset({"show"}),
    "confirmations": frozenset({"list", "show"}),
    "hub": frozenset({"request", "result", "pending", "listen"}),
    "kill-switch": frozenset({"status"}),
    "limits": frozenset({"show"}),
    "mode": frozenset({"show"}),
    "policy": frozenset({"check", "show", "explain", "diff", "init"}),
    "secrets": frozenset({"list", "test"}),
    "session": frozenset({"list", "show"}),
    "store": frozenset({"backup", "check", "migrate", "purge", "rebuild"}),
    "tokens": frozenset({"list"}),
}
# Where `operator` is a word among others, only those are known to decide.
_VERBS: Mapping[str, frozenset[str]] = {
    "approvals": frozenset({"approve", "reject", "revoke", "withdraw"}),
    "config": frozenset({"trust"}),
    "confirmations": frozenset({"approve", "decline"}),
    "hub": frozenset({"approve"}),
    "kill-switch": frozenset({"on", "off"}),
    "limits": frozenset({"reset"}),
    "mode": frozenset({"set", "reset"}),
    "policy": frozenset({"change"}),
    "secrets": frozenset({"set", "bind", "unbind", "remove", "lease"}),
    "session": frozenset({"reset"}),
    "store": frozenset({"restore"}),
    "tokens": frozenset({"create", "revoke"}),
}
# The same in a text that something else runs: a line of a shell, a list of words, code. How many
# options stand between is bounded, so that no text takes long.
_GAP = r"[\s\"',\\\[\]]+"
_CHARACTER = r"[^\s\"',\\\[\]]"
_OPTIONS = rf"(?:-{_CHARACTER}*{_GAP}(?:(?!-){_CHARACTER}+{_GAP})?){{0,8}}?"
_DECISIONS = "|".join(
    f"{noun}{_GAP}{_OPTIONS}(?:{'|'.join(sorted(verbs))})" for noun, verbs in _VERBS.items()
)
_TEXT = re.compile(
    rf"(?:^|[^\w-])operator(?:\.exe|-sre|_sre[\w.]*)?{_GAP}{_OPTIONS}(?:{_DECISIONS})(?![\w-])"
)
_CODE = re.compile(r"\boperator_sre\b")
_INTERPRETERS = ("python*", "pypy*", "ipython*", "uv", "uvx", "pipx")
# To those a command is a text that is shown, kept or told.
_TELLING = frozenset({"echo", "printf", "logger", "git", "grep", "wall", "mail"})
# What follows their own words is a command; with others, `operator` may be a name of something.
_CARRYING = frozenset(
    {
        "env",
        "sudo",
        "doas",
        "nohup",
        "setsid",
        "xargs",
        "parallel",
        "ssh",
        "docker",
        "podman",
        "uvx",
    }
)
# Those put words that they read where one of their own words stands.
_FILLING = ("-I*", "-i*", "--replace*")
# The verbs of the operator that run another command for whoever asks.
_RUNNING = frozenset({"exec", "hub", "workflows"})
_MODE = re.compile(r"OPERATOR_(?:SAFETY_|APPROVAL_)?MODE=(?!observe$).*", re.DOTALL)
_OBSERVE = "observe"


# Whether the program of a path, as it is called in a folder, is the operator under another name.
Ours = Callable[[str, str], bool]
DISGUISED_WORDS_MAX = 8


def decides(
    line: str, script: Script, findings: Iterable[Finding], ours: Ours | None = None
) -> bool:
    """True when a line, or anything that it runs, decides in the place of a person."""
    found = list(findings)
    if (script.trouble or len(found) > COMMANDS_MAX) and _TEXT.search(line):
        return True
    found = [one for one in found if one.reason]
    if any(_decides(one.simple) for one in found):
        return True
    return ours is not None and any(_disguised(one, ours) for one in found)


def _disguised(found: Finding, ours: Ours) -> bool:
    """True when it is the operator under another name; files are looked at only if it may be."""
    words = found.simple.words
    for at, word in enumerate(words[:DISGUISED_WORDS_MAX]):
        if word.opaque or word.glob or (at and "/" not in word.text):
            continue
        if _command(words[at + 1 :], certain=True) and ours(word.text, found.cwd):
            return True
    return False


def _decides(simple: Simple) -> bool:
    words = simple.words
    if any(_MODE.fullmatch(f"{name}={_value(word)}") for name, word in simple.assignments):
        return True
    for at, word in enumerate(words):
        if at and _MODE.fullmatch(word.text):
            return True
        if _is_operator(word, program=at == 0):
            certain = at == 0 or name_of(simple) in _CARRYING or _MODULE.fullmatch(word.text)
            if _command(words[at + 1 :], certain=bool(certain) and not word.opaque):
                return True
            if _filled(words[:at]):
                return True
    return _in_texts(simple)


def _value(word: Word) -> str:
    return word.text.partition("=")[2] if "=" in word.text else word.text


def _is_operator(word: Word, *, program: bool) -> bool:
    """True when a word may be the operator, by its name, its path or its module."""
    name = word.text.rpartition("/")[2]
    if word.opaque:  # nobody knows what it is, and a program by that name may be ours
        return program or any(one in name for one in _PROGRAMS)
    if word.glob:
        return any(fnmatchcase(one, name) for one in _PROGRAMS)
    return name in _PROGRAMS or _MODULE.fullmatch(word.text) is not None


def _filled(before: Sequence[Word]) -> bool:
    """True when words are put in that are only known when it runs."""
    if not before or before[0].text.rpartition("/")[2] not in ("xargs", "parallel"):
        return False
    return any(fnmatchcase(one.text, form) for one in before[1:] for form in _FILLING)


def _command(words: Sequence[Word], *, certain: bool) -> bool:
    """True when what follows the operator decides; what is not known does, if it is certain."""
    if certain and _sets_mode(words):
        return True
    after_option = False
    for at, word in enumerate(words):
        text = word.text
        if text[:1] == "-" and len(text) > 1:
            after_option = "=" not in text
            continue
        if _is_open(word):
            return certain
        if text in _NOUNS:
            return _verb(text, words[at + 1 :], certain=certain)
        if not after_option:  # it is the noun, and no value of an option
            return False
        after_option = False
    return False


def _verb(noun: str, words: Sequence[Word], *, certain: bool) -> bool:
    found: list[str] = []
    after_option = False
    for word in words:
        if word.text[:1] == "-" and len(word.text) > 1 and not word.opaque:
            after_option = "=" not in word.text
            continue
        if _is_open(word) and not found:
            return certain
        found.append(word.text)
        if not after_option:
            break
        after_option = False
    if not _VERBS[noun].isdisjoint(found):
        return True
    return certain and bool(found) and _NOUNS[noun].isdisjoint(found)


def _is_open(word: Word) -> bool:
    """True when a word is only known when it runs."""
    return (word.opaque and not word.bland) or word.glob or "{" in word.text


def _sets_mode(words: Sequence[Word]) -> bool:
    """True when more than looking is asked for by an option, wherever it stands."""
    for at, word in enumerate(words):
        option, equals, value = word.text.partition("=")
        if option == "--":
            return False
        if option == "--mode":
            return (
                value if equals else "".join(one.text for one in words[at + 1 : at + 2])
            ) not in (
                "",
                _OBSERVE,
            )
    return False


def _in_texts(simple: Simple) -> bool:
    """True when an argument is a text that something runs, and that decides."""
    name = name_of(simple)
    if name in _TELLING:
        return False
    if name in _PROGRAMS and all(one.text not in _RUNNING for one in simple.words[1:]):
        return False
    code = any(fnmatchcase(name, one) for one in _INTERPRETERS)
    for word in simple.words[1:]:
        if "operator" not in word.text or word.text.isidentifier():
            continue
        if _TEXT.search(word.text) or (code and _CODE.search(word.text) and _is_code(word.text)):
            return True
    return False


def _is_code(text: str) -> bool:
    """True for a program in an argument, which may call whatever it likes of ours."""
    return any(one in text for one in " ;(\n")
