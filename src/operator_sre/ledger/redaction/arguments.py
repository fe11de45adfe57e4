"""Secrets in command lines: long options by their name, short ones by the tool they belong to."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence

from operator_sre.ledger.redaction.finding import Finding, each
from operator_sre.ledger.redaction.names import STEMS, Trust, name_of
from operator_sre.ledger.redaction.pattern import Pattern
from operator_sre.ledger.redaction.reading import Value, closing, line_end, read_value
from operator_sre.ledger.redaction.tools import TOOLS, Tool
from operator_sre.ledger.redaction.values import is_code, is_secret, looks_random

__all__ = [
    "NAMES",
    "TRIGGERS",
    "find_options",
    "find_tools",
    "find_unknown_tools",
    "secret_arguments",
]

COMMAND_BYTES_MAX = 4096
# An option, then its value as the next word or, in a list, as the next string.
_OPTION = Pattern(rb"(?i)--?[\w.-]*(?:" + STEMS + rb")[\w.-]*(?: |[\"'],\s*[\"']|[\"']?\r?\n\s*- )")
NAMES = sorted({name.encode() for tool in TOOLS for name in tool.names.split()}, key=len)[::-1]
_CALLED = rb"\b(?:" + b"|".join(NAMES) + rb")[ <]"
_TOOL = Pattern(rb"(?i)" + _CALLED)
TRIGGERS = _CALLED + rb"| -p ?| -u | -a | --user[ =]"
# A tool that we do not know, with a user and something that could be a password.
_LOGIN = Pattern(
    rb" (?:-u|-U|-l|--user|--username|--login)[ =]?[\w.@-]+ (?:-{1,2}[\w-]+[ =][\w.:-]+ ){0,3}-p ?"
)
_PAIR = Pattern(
    rb"(?: -[uAa]| --user| --[\w-]*auth| --[\w-]*creds?| --credentials"
    rb"|\b(?:stats|user) (?:auth|add))"
    rb"[ =][\"']?[\w.@-]+:"
)
_PROPERTY = Pattern(rb"[A-Za-z.-]+=|-")
_NEXT = Pattern(rb" \|\|? | && |; ")


@functools.cache
def _by_name() -> Mapping[bytes, Sequence[tuple[Tool, Pattern, Pattern | None]]]:
    found: dict[bytes, list[tuple[Tool, Pattern, Pattern | None]]] = {}
    for tool in TOOLS:
        after = Pattern(tool.after) if tool.after else None
        for name in tool.names.split():
            found.setdefault(name.encode(), []).append((tool, Pattern(tool.before), after))
    return found


def find_tools(data: bytes) -> Iterator[Finding]:
    """What known tools take as a secret, anywhere in a command line."""
    done: dict[bytes, int] = {}  # how far the line of a tool has been read, by its name
    for start, end in _TOOL.spans(data):
        name = data[start : end - 1].lower()
        if start < done.get(name, 0):
            continue
        last = line_end(data, start, COMMAND_BYTES_MAX)
        cut = _NEXT.first(data, end, last)
        done[name] = cut[0] if cut else last
        for tool, before, after in _by_name()[name]:
            stop = done[name]
            if after is not None:
                wanted = after.first(data, end, last)
                stop = wanted[0] if wanted else end - 1
            yield from _taken(data, end - 1, stop, tool, before)


def find_unknown_tools(data: bytes) -> Iterator[Finding]:
    """What any tool takes as `-p` after a user, unless it is a port or a property."""
    yield from each(data, _LOGIN, _unknown)
    yield from each(data, _PAIR, _login_pair)


def _unknown(data: bytes, _: int, end: int) -> Iterator[Finding]:
    value = read_value(data, end)
    if value is None or value.quote == b"`" or _PROPERTY.at(data, value.start) > 0:
        return
    if is_secret(value.of(data), Trust.SAID):
        yield Finding(value.start, value.end, "password", value.plain(data))


def _login_pair(data: bytes, begin: int, end: int) -> Iterator[Finding]:
    value = _after(data, begin, end)
    if value is not None and is_secret(value.of(data), Trust.SAID):
        yield Finding(value.start, value.end, "password")


def _taken(data: bytes, start: int, end: int, tool: Tool, before: Pattern) -> Iterator[Finding]:
    done = 0
    places = before.spans(data, start, end)
    for begin, at in itertools.islice(places, 1) if tool.is_next else places:
        value = _after(data, begin, at) if at > done else None
        if value is None or value.start >= end or value.quote == b"`":
            continue  # in a shell, backticks are another command
        raw = value.of(data)
        done = value.end
        if raw[:1] in b"=-" and not looks_random(raw):
            continue  # the next option, or no value at all
        is_env = tool.trust is Trust.ANY and not tool.is_next
        if not is_secret(raw, tool.trust, is_env=is_env, at_least=1):
            continue
        yield Finding(value.start, value.end, tool.kind, value.plain(data))


def _after(data: bytes, begin: int, at: int) -> Value | None:
    """The value at `at`; when a quote was opened on the way there, it ends with that quote."""
    for mark in (b'"', b"'"):
        if data.count(mark, begin, at) % 2:
            end = closing(data, at, mark, 0)
            if end > at:
                return Value(at, end, mark)
    return read_value(data, at)


def find_options(data: bytes) -> Iterator[Finding]:
    """`--password x`, `--api-token x`, `"--password", "x"`; `--password=x` is an assignment."""
    return each(data, _OPTION, _option)


def _option(data: bytes, start: int, end: int) -> Iterator[Finding]:
    if start and data[start - 1] not in b" \t\n\"'`([{,=|;&\\":
        return
    named = name_of(data[start:end].strip(b" \"',\r\n-"))
    value = read_value(data, end)
    if named is None or value is None:
        return
    raw = value.of(data)
    is_option = raw[:1] == b"-" and not looks_random(raw)
    if is_option or _repeats(data[start:end], raw) or (not value.quote and is_code(raw)):
        return
    if is_secret(raw, named.trust):
        yield Finding(value.start, value.end, named.kind, value.plain(data))


def _repeats(option: bytes, value: bytes) -> bool:
    """Whether this is help: `--password PASSWORD`, `--token TOKEN`."""
    return value.isupper() and value.lower().replace(b"_", b"-") in option.lower()


def secret_arguments(arguments: Sequence[object]) -> dict[int, str]:
    """Which words of an argument list are secrets because of the word before, with their kinds."""
    found: dict[int, str] = {}
    for at, (option, value) in enumerate(itertools.pairwise(arguments)):
        if not (isinstance(option, str) and isinstance(value, str)):
            continue
        if option[:1] != "-" or "=" in option or "[REDACTED:" in option:
            continue
        named = name_of(option.encode("utf-8", "surrogatepass"))
        raw = value.encode("utf-8", "surrogatepass")
        if named is not None and raw[:1] != b"-" and is_secret(raw, named.trust):
            found[at + 1] = named.kind
    return found
