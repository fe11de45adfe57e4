"""Command lines with placeholders for what varies: made from what was run, and filled in again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from operator_protocols.domain.action import SHELL, Action
from operator_protocols.domain.command import Attempt
from operator_protocols.errors import UsageError
from operator_sre.shell.pythons import needs_venv, venv_in

__all__ = [
    "Template",
    "VenvViolation",
    "action_of",
    "fill",
    "fits",
    "kind_of",
    "placeholders_of",
    "quotes_a_placeholder",
    "template_of",
    "venv_of",
    "venv_violations",
]


@dataclass(frozen=True, slots=True)
class VenvViolation:
    """A command of Python that ran outside of any environment, and how to do it right."""

    attempt: Attempt
    program: str
    advice: str


def venv_violations(attempts: Iterable[Attempt]) -> list[VenvViolation]:
    """The attempts that ran without an environment, in the given order."""
    return [
        VenvViolation(attempt, program, f"Run it as .venv/bin/{program}, or activate one first.")
        for attempt in attempts
        if attempt.outcome not in {"", "refused"} and not venv_of(attempt)
        if (program := needs_venv(attempt.command))
    ]


def venv_of(attempt: Attempt) -> str:
    """The environment it ran in: as recorded, or as its command line names one; '' for none."""
    return attempt.venv or venv_in(attempt.command)


# Each is tried in turn on a whole word; all of them are linear in its length.
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("secret", re.compile(r".*\[REDACTED:[^\]]*\].*", re.S)),
    ("url", re.compile(r"[a-z][a-z0-9+.-]*://.+", re.I)),
    ("number", re.compile(r"\d+(?:\.\d+)?(?:%|[smhdKMGT]i?B?|ms)?")),
    ("host", re.compile(r"(?:[\w.-]+@)?\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?")),
    ("host", re.compile(r"(?=[^:]*:[^:]*:)\[?[0-9a-f:.]{2,45}\]?(?::\d{1,5})?", re.I)),
    ("host", re.compile(r"[A-Za-z][\w.-]*:\d{1,5}")),
    ("host", re.compile(r"[\w.-]+@[\w.-]+")),
    ("path", re.compile(r"(?:[\w.-]+:)?[~.\w-]*/\S*")),
    ("id", re.compile(r"(?=[^\d]*\d)[0-9a-f]{8,}(?:-[0-9a-f]+)*", re.I)),
    ("id", re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*[-_](?=[a-z]*\d)[A-Za-z0-9]+")),
    ("host", re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+\.(?:com|net|org|io|local|internal)")),
)
WORD_CHARS_MAX = 256


@lru_cache(maxsize=8192)
def kind_of(word: str) -> str:
    """What kind of varying thing a bare word is; '' when it belongs to the command itself."""
    if len(word) > WORD_CHARS_MAX:
        return ""
    return next((kind for kind, pattern in _KINDS if pattern.fullmatch(word)), "")


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
    lines = []
    for attempt in attempts:
        call = None if attempt.tool == SHELL else _CALL.fullmatch(attempt.command)
        if call is not None:  # the arguments of a typed tool are what varies
            pairs = [_argument(part) for part in call[2].split(", ") if part]
            filled = (f"{key}={_placeholder(key.lower(), value, names)}" for key, value in pairs)
            lines.append(f"{call[1]}({', '.join(filled)})")
        else:
            lines.append(
                _shell_line(attempt.command, names) if attempt.tool == SHELL else attempt.command
            )
    return Template(tuple(lines), {name: value for (_, value), name in names.items()})


def placeholders_of(lines: Sequence[str]) -> tuple[str, ...]:
    """The names of what must be filled in, in their order."""
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
        if not value or len(value) > VALUE_CHARS_MAX or not value.isprintable():
            raise UsageError(
                f"The value of {name!r} is empty, too long, or not plain text.",
                next_step=f"Give it as {name}=VALUE, up to {VALUE_CHARS_MAX} characters.",
            )
    quoted = {name: shlex.quote(value) for name, value in values.items()}
    odd = [name for name, value in values.items() if set(value) & set(",()=")]
    filled = []
    for line in lines:
        is_call = _CALL.fullmatch(line) is not None
        if is_call and odd:
            why = "contains a character that is not allowed in a tool call."
            raise UsageError(f"The value of {odd[0]!r} {why}")
        found = values if is_call else quoted
        parts = _PLACEHOLDER.split(line)
        filled.append("".join(found[part] if at % 2 else part for at, part in enumerate(parts)))
    return tuple(filled)


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
    for pattern, word in zip(wanted, words, strict=True):
        first, *rest = _PLACEHOLDER.split(pattern)[::2]  # what lies between the placeholders
        if not rest and word != first:
            return False
        if not word.startswith(first):
            return False
        at = len(first)
        for piece in rest[:-1]:
            at = word.find(piece, at + 1)
            if at < 0:
                return False
            at += len(piece)
        if rest and not (len(word) - len(rest[-1]) > at and word.endswith(rest[-1])):
            return False
    return True


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
            plain = " " if chunk.isspace() else chunk
            # A placeholder for it, or for its value if it is written `key=value`.
            key, equals, value = chunk.partition("=")
            kind = kind_of(chunk) if bare else ""
            if bare and equals and kind_of(value):
                name = re.sub(r"[^a-z0-9]+", "_", key.lower()).strip("_")
                name = name if name[:1].isalpha() else "value"
                made.append(f"{key}={_placeholder(name, value, names)}")
            elif kind:
                made.append(_placeholder(number if kind == "number" else kind, chunk, names))
            else:
                made.append(plain)
        before = chunk if not chunk.isspace() else before
        if _BREAKS & set(chunk) and not bare:
            program = ""
    return "".join(made).strip()


def _placeholder(name: str, value: str, names: dict[tuple[str, str], str]) -> str:
    known = names.get((name, value))
    if known is None:
        same = sum(base == name for base, _ in names)
        known = names[(name, value)] = name if not same else f"{name}{same + 1}"
    return f"{{{known}}}"


def _argument(part: str) -> tuple[str, str]:
    key, _, value = part.partition("=")
    return key, value
