"""What is for people alone: the operator's own commands that decide what may run.

An agent cannot approve its own request. A program that runs commands for it could forget to mark
them, or be talked into removing the mark, so such a command never runs for an agent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from operator_protocols.domain.verdict import Level, Rule
from operator_sre.gate.grammar.findings import COMMANDS_MAX, Finding, name_of
from operator_sre.shell.words import Script, Simple, Word

__all__ = ["FOR_PEOPLE", "Ours", "decides"]

FOR_PEOPLE = Rule(
    "for_people",
    Level.BLOCKED,
    "It decides what Operator may do. Only a person may run it, and never through an agent.",
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
# To these programs a command is a text to print, store or send.
_TELLING = frozenset({"echo", "printf", "logger", "git", "grep", "wall", "mail"})
# What follows their own words is a command; with others, `operator` may be a name of something.
_CARRYING = frozenset(
    "env sudo doas nohup setsid xargs parallel ssh docker podman uvx".split()  # noqa: SIM905
)
# Those put words that they read where one of their own words stands.
_FILLING = ("-I*", "-i*", "--replace*")
# The verbs of the operator that run another command for the caller.
_RUNNING = frozenset({"exec", "hub", "workflows"})
_MODE = re.compile(r"OPERATOR_(?:SAFETY_|APPROVAL_)?MODE=(?!observe$).*", re.DOTALL)

# Whether the program of a path, as it is called in a folder, is the operator under another name.
Ours = Callable[[str, str], bool]
DISGUISED_WORDS_MAX = 8


def decides(
    line: str, script: Script, findings: Iterable[Finding], ours: Ours | None = None
) -> bool:
    """True when a line, or anything that it runs, decides in the place of a person."""
    found = list(findings)
    is_long = len(found) > COMMANDS_MAX
    if (script.trouble or is_long) and "operator" in line and _TEXT.search(line):
        return True
    found = [finding for finding in found if finding.reason]
    if any(_decides(finding.simple) for finding in found):
        return True
    if ours is None:
        return False
    for (
        finding
    ) in found:  # the operator under another name; files are checked only where that is possible
        words = finding.simple.words
        for at, word in enumerate(words[:DISGUISED_WORDS_MAX]):
            if word.opaque or word.glob or (at and "/" not in word.text):
                continue
            if _is_decision(words[at + 1 :], certain=True) and ours(word.text, finding.cwd):
                return True
    return False


def _decides(simple: Simple) -> bool:
    """True when the operator is run in it, by name, path or module, or in a text, and decides."""
    for name, word in simple.assignments:
        value = word.text.partition("=")[2] if "=" in word.text else word.text
        if _MODE.fullmatch(f"{name}={value}"):
            return True
    words = simple.words
    for at, word in enumerate(words):
        if not (word.opaque or word.glob or "operator" in word.text or "OPERATOR" in word.text):
            continue
        if at and _MODE.fullmatch(word.text):
            return True
        program = word.text.rpartition("/")[2]
        is_module = _MODULE.fullmatch(word.text) is not None
        if word.opaque:  # unknown until it runs, and a program by that name may be ours
            is_operator = at == 0 or any(name in program for name in _PROGRAMS)
        elif word.glob:
            is_operator = any(fnmatchcase(name, program) for name in _PROGRAMS)
        else:
            is_operator = program in _PROGRAMS or is_module
        if not is_operator:
            continue
        certain = at == 0 or is_module or name_of(simple) in _CARRYING
        if _is_decision(words[at + 1 :], certain=certain and not word.opaque):
            return True
        # xargs and parallel put words in that are only known when it runs.
        if name_of(simple) in ("xargs", "parallel") and any(
            fnmatchcase(option.text, form) for option in words[1:at] for form in _FILLING
        ):
            return True
    # An argument may be a text that something runs.
    texts = [word.text for word in words[1:] if "operator" in word.text]
    if not texts:
        return False
    name = name_of(simple)
    if name in _TELLING:
        return False
    if name in _PROGRAMS and all(word.text not in _RUNNING for word in words[1:]):
        return False
    interprets = any(fnmatchcase(name, pattern) for pattern in _INTERPRETERS)
    for text in texts:
        if text.isidentifier():
            continue
        if _TEXT.search(text):
            return True
        # A program in an argument may call whatever it likes of ours.
        if interprets and _CODE.search(text) and any(sign in text for sign in " ;(\n"):
            return True
    return False


def _is_decision(words: Sequence[Word], *, certain: bool) -> bool:
    """True when what follows the operator decides; what is not known does, if it is certain."""
    for at, word in enumerate(words if certain else ()):
        option, equals, value = word.text.partition("=")
        if option == "--":
            break
        if option == "--mode":  # more than looking is asked for, wherever it stands
            value = value if equals else "".join(each.text for each in words[at + 1 : at + 2])
            if value not in ("", "observe"):
                return True
            break
    verbs: list[str] = []
    noun, after_option = "", False
    for word in words:
        text = word.text
        # Behind the noun, an option that is not known may be its verb.
        if text[:1] == "-" and len(text) > 1 and not (noun and word.opaque):
            after_option = "=" not in text
            continue
        # It is only known when it runs.
        is_open = (word.opaque and not word.bland) or word.glob or "{" in text
        if is_open and not verbs:
            return certain
        if noun:
            verbs.append(text)
        elif text in _NOUNS:
            noun, after_option = text, False
            continue
        if not after_option:  # it is the noun or the verb, and no value of an option
            break
        after_option = False
    if not verbs:
        return False
    if not _VERBS[noun].isdisjoint(verbs):
        return True
    return certain and _NOUNS[noun].isdisjoint(verbs)
