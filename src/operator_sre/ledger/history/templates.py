"""Command lines with placeholders: made from what was run, and filled in again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operator_protocols.domain.action import SHELL, Action
from operator_protocols.domain.command import Attempt
from operator_protocols.errors import UsageError
from operator_sre.ledger.history.values import kind_of

__all__ = [
    "Template",
    "action_of",
    "fill",
    "fits",
    "placeholders_of",
    "quotes_a_placeholder",
    "template_of",
]

VALUE_CHARS_MAX = 1000
# Not `${name}`, which is the shell's, nor `{{name}}`, which is a template of some tool.
_PLACEHOLDER = re.compile(r"(?<![$\{])\{([a-z][a-z0-9_]*)\}(?!\})")
# Blanks, what stands in quotes, what joins commands, bare words, and what is left over.
_CHUNK = re.compile(
    r"""\s+|'[^']*'|"(?:\\.|[^"\\])*"|[;&|()<>]+|(?:\\.|[^\s'";&|()<>\\])+|['"\\]""", re.S
)
_CALL = re.compile(r"([A-Za-z_]\w*)\((.*)\)", re.S)
_BREAKS = frozenset(";&|()")
_OF_PROCESSES = {"kill", "ps", "renice", "strace", "gdb", "lsof", "nsenter", "pmap"}


@dataclass(frozen=True, slots=True)
class Template:
    """Lines with placeholders, and what stood in their places."""

    lines: tuple[str, ...]
    values: Mapping[str, str]


def template_of(attempts: Sequence[Attempt]) -> Template:
    """What was run, one after another, as one template; equal values share a placeholder."""
    names: dict[tuple[str, str], str] = {}
    lines = tuple(
        _shell_line(one.command, names) if one.tool == SHELL else _call_line(one.command, names)
        for one in attempts
    )
    return Template(lines, {name: value for (_, value), name in names.items()})


def placeholders_of(lines: Sequence[str]) -> tuple[str, ...]:
    """The names of what has to be filled in, in their order."""
    return tuple(dict.fromkeys(name for line in lines for name in _PLACEHOLDER.findall(line)))


def quotes_a_placeholder(line: str) -> bool:
    """True when a value could get inside quotes, where quoting it would not keep it one word."""
    chunks = _CHUNK.findall(line)
    unclosed = any(chunk in "'\"\\" for chunk in chunks)
    return bool(_PLACEHOLDER.search(line)) and (
        unclosed or any(chunk[0] in "'\"" and _PLACEHOLDER.search(chunk) for chunk in chunks)
    )


def fill(lines: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """The lines with values in their places. A value stays one word, whatever is in it."""
    wanted = placeholders_of(lines)
    if missing := [name for name in wanted if name not in values]:
        needed = " ".join(f"{name}=..." for name in missing)
        raise UsageError("Not every placeholder has a value.", next_step=f"Add: {needed}")
    if unknown := sorted(set(values) - set(wanted)):
        known = ", ".join(wanted) or "none"
        raise UsageError(
            f"There is no placeholder {unknown[0]!r} in it.", next_step=f"Placeholders: {known}."
        )
    for name, value in values.items():
        _must_be_one_word(name, value)
    return tuple(_filled(line, values) for line in lines)


def action_of(line: str) -> Action:
    """A filled line as an action: a typed tool call when it is written as one."""
    call = _CALL.fullmatch(line)
    if call is None:
        return Action.shell(line)
    arguments = dict(_argument(part) for part in call[2].split(", ") if part)
    return Action(call[1], arguments, target=arguments.get("target", ""))


def fits(template: str, line: str) -> bool:
    """True when a line is what the template would give with some values."""
    words, wanted = line.split(), template.split()
    if len(words) != len(wanted):
        return False
    return all(_word_fits(*pair) for pair in zip(wanted, words, strict=True))


def _shell_line(command: str, names: dict[tuple[str, str], str]) -> str:
    made: list[str] = []
    program, before = "", ""
    for chunk in _CHUNK.findall(command):
        bare = chunk[0] not in "'\";&|()<>" and not chunk.isspace()
        if bare and not program:
            program = chunk.rpartition("/")[2]
            made.append(chunk)
        else:
            of_process = program in _OF_PROCESSES or before in {"-p", "--pid"}
            number = "pid" if of_process else "number"
            made.append(_general(chunk, names, number) if bare else _plain(chunk))
        before = chunk if not chunk.isspace() else before
        if _BREAKS & set(chunk) and not bare:
            program = ""
    return "".join(made).strip()


def _plain(chunk: str) -> str:
    return " " if chunk.isspace() else chunk


def _general(word: str, names: dict[tuple[str, str], str], number: str) -> str:
    """A bare word, with a placeholder for it, or for its value if it is written `key=value`."""
    key, equals, value = word.partition("=")
    if equals and kind_of(value):
        name = re.sub(r"[^a-z0-9]+", "_", key.lower()).strip("_")
        return f"{key}={_placeholder(name if name[:1].isalpha() else 'value', value, names)}"
    kind = kind_of(word)
    return _placeholder(number if kind == "number" else kind, word, names) if kind else word


def _call_line(command: str, names: dict[tuple[str, str], str]) -> str:
    """A typed tool call: its arguments are what varies."""
    call = _CALL.fullmatch(command)
    if call is None:
        return command
    pairs = [_argument(part) for part in call[2].split(", ") if part]
    inside = ", ".join(f"{key}={_placeholder(key.lower(), value, names)}" for key, value in pairs)
    return f"{call[1]}({inside})"


def _placeholder(name: str, value: str, names: dict[tuple[str, str], str]) -> str:
    known = names.get((name, value))
    if known is None:
        same = sum(base == name for base, _ in names)
        known = names[(name, value)] = name if not same else f"{name}{same + 1}"
    return f"{{{known}}}"


def _argument(part: str) -> tuple[str, str]:
    key, _, value = part.partition("=")
    return key, value


def _must_be_one_word(name: str, value: str) -> None:
    if not value or len(value) > VALUE_CHARS_MAX or not value.isprintable():
        raise UsageError(
            f"The value of {name!r} is empty, too long, or not plain text.",
            next_step=f"Give it as {name}=VALUE, up to {VALUE_CHARS_MAX} characters.",
        )


def _filled(line: str, values: Mapping[str, str]) -> str:
    call = _CALL.fullmatch(line) is not None
    if call and (bad := [name for name, value in values.items() if set(value) & set(",()=")]):
        raise UsageError(f"The value of {bad[0]!r} has a character that a tool call cannot hold.")
    return _PLACEHOLDER.sub(
        lambda match: values[match[1]] if call else shlex.quote(values[match[1]]), line
    )


def _word_fits(template: str, word: str) -> bool:
    first, *rest = _PLACEHOLDER.split(template)[::2]  # what lies between the placeholders
    if not rest:
        return word == first
    if not word.startswith(first):
        return False
    at = len(first)
    for piece in rest[:-1]:
        at = word.find(piece, at + 1)
        if at < 0:
            return False
        at += len(piece)
    return len(word) - len(rest[-1]) > at and word.endswith(rest[-1])
