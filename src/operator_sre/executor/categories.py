"""Why a command failed: by exit status and errno first, by the text on stderr last."""

from __future__ import annotations

import errno
import re
import signal
from collections.abc import Iterator

from operator_protocols.domain.action import Outcome
from operator_protocols.domain.category import FailureCategory

__all__ = ["category_of", "named_exit"]

CANNOT_RUN, NOT_FOUND, BY_SIGNAL, LOST = 126, 127, 128, 255
# Only the end of stderr is read, and only the end of each line.
TEXT_CHARACTERS_MAX, LINES_MAX, LINE_CHARACTERS_MAX = 16_384, 100, 512

_TIMEOUT, _PERMISSION = FailureCategory.TIMEOUT, FailureCategory.PERMISSION
_MISSING, _SYNTAX = FailureCategory.NOT_FOUND, FailureCategory.SYNTAX
_RUNTIME, _RESOURCE = FailureCategory.RUNTIME, FailureCategory.RESOURCE
_NETWORK = FailureCategory.NETWORK

_BY_ERRNO = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _PERMISSION),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.ESRCH, errno.ENODEV), _MISSING),
    **dict.fromkeys((errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE), _RESOURCE),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.E2BIG), _RESOURCE),
    **dict.fromkeys((errno.EBUSY, errno.ETXTBSY, errno.EADDRINUSE), _RESOURCE),
    **dict.fromkeys((errno.ECONNREFUSED, errno.ECONNRESET, errno.ETIMEDOUT), _NETWORK),
    **dict.fromkeys((errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN), _NETWORK),
    **dict.fromkeys((errno.ECONNABORTED, errno.ENETDOWN, errno.ENETRESET), _NETWORK),
    errno.ENOEXEC: _SYNTAX,
}
_BY_EXIT = {
    124: _TIMEOUT,
    BY_SIGNAL + signal.SIGKILL: _RESOURCE,  # not sent by Operator: most likely out of memory
    BY_SIGNAL + signal.SIGXCPU: _RESOURCE,
    BY_SIGNAL + signal.SIGXFSZ: _RESOURCE,
    BY_SIGNAL + signal.SIGSYS: _PERMISSION,  # a call that a filter of the kernel forbids
}
# Who aborts says why; and git leaves with the number of a hang-up when it is used wrongly.
_ALSO_SPEAKS = {BY_SIGNAL + signal.SIGABRT, BY_SIGNAL + signal.SIGHUP}
# Numbers that mean something only when one knows whose they are.
_BY_PROGRAM = {
    "curl": {
        **dict.fromkeys((5, 6, 7, 18, 28, 35, 52, 55, 56), _NETWORK),
        **dict.fromkeys((2, 3), _SYNTAX),
        **dict.fromkeys((9, 67), _PERMISSION),
        37: _MISSING,
    },
    "ping": {1: _NETWORK},
    "rsync": {10: _NETWORK, 12: _NETWORK, 30: _NETWORK, 35: _NETWORK, LOST: _NETWORK},
    "scp": {LOST: _NETWORK},
    "sftp": {LOST: _NETWORK},
    "ssh": {LOST: _NETWORK},
    # BusyBox's lets the signal show that ended the command, and so does GNU's when it had to kill.
    "timeout": {BY_SIGNAL + signal.SIGKILL: _TIMEOUT, BY_SIGNAL + signal.SIGTERM: _TIMEOUT},
    "wget": {4: _NETWORK, 5: _NETWORK, 6: _PERMISSION},
}
# What programs say. Of several in a line the last one counts: a reason stands at the end.
_SAID = {
    _RESOURCE: (
        *("no space left on device", "disk quota exceeded", "too many open files"),
        *("cannot allocate memory", "out of memory", "std::bad_alloc", "memoryerror"),
        *("outofmemoryerror", "resource temporarily unavailable", "file too large"),
        *("argument list too long", "device or resource busy", "text file busy"),
        *("address already in use", "file size limit exceeded", "cpu time limit exceeded"),
        *("failed to map segment from shared object", "virtual memory exhausted"),
        *("memory exhausted", "too many connections", "too many clients"),
    ),
    _NETWORK: (
        *("connection refused", "no route to host", "could not resolve host", "host is down"),
        *("network is unreachable", "connection reset", "connection timed out"),
        *("name or service not known", "temporary failure in name resolution", "bad address"),
        *("no address associated with hostname", "connection closed by", "connection aborted"),
        *("nodename nor servname", "unable to resolve host address", "no such host"),
        *("could not connect to", "failed to connect to", "kex_exchange_identification"),
        *("tls handshake timeout", "i/o timeout", "network unreachable", "empty reply from server"),
        *("getaddrinfo", "remote end hung up"),
    ),
    _PERMISSION: (
        *("permission denied", "operation not permitted", "access denied", "read-only file system"),
        *("a password is required", "authentication required", "authentication failed"),
        *("host key verification failed", "must be root", "are you root", "must be superuser"),
        *("only root can", "requires root", "need to be root", "not in the sudoers file"),
        *("permissionerror", "(forbidden)", "(unauthorized)", "noauth", "noperm"),
    ),
    _MISSING: (
        *("no such file or directory", "command not found", "no such process", "not found"),
        *("does not exist", "no such device", "no such container", "no such image"),
        *("could not be found", "no module named", "not a directory", "no such user"),
        *("cannot find module", "no such object", "no rule to make target", "unknown user"),
    ),
    _SYNTAX: (
        *("syntax error", "syntaxerror", "unexpected eof", "unexpected end of file"),
        *("parse error", "indentationerror", "taberror", "unterminated", "unmatched"),
        *("exec format error", "cannot execute binary file", "invalid option"),
        *("unrecognized option", "unknown option", "unrecognized argument", "unknown flag"),
        *("unknown command", "invalid regular expression", "bad substitution"),
        *("requires an argument", "missing operand", "invalid choice", "no such option"),
        *("invalid expression", "unknown shorthand flag", "missing argument"),
        *("unexpected token", "unknown switch", "missing destination", "missing }", "missing )"),
        *("unexpected newline", "unexpected end of string", "runaway string constant"),
        *("runaway regular expression", "nonterminated character class", "non-terminated string"),
        *("in regular expression", "regular expression compile failed", "bad regex"),
        *("bad pattern", "not an option:", "lacks argument", "unknown predicate", "unpaired"),
        *("unknown gnu long option", "unexpected argument", "wasn't expected, or isn't valid"),
    ),
    _TIMEOUT: ("timed out", "timeout expired", "deadline exceeded", "timeouterror"),
}
_CATEGORY_OF_TEXT = {text: category for category, texts in _SAID.items() for text in texts}
_TEXT = re.compile("|".join(sorted(map(re.escape, _CATEGORY_OF_TEXT), key=len, reverse=True)))
# Python's, Rust's and Node's way to name an errno; a name that resolves is one of the network.
_NUMBER = re.compile(r"\[errno (-?\d{1,4})\]|\(os error (\d{1,4})\)|\berrno[:= ]+(\d{1,4})\b")
_SYMBOL = re.compile(r"\b(E[A-Z0-9]{3,12})\b")
_CURL = re.compile(r"curl: \((\d{1,3})\)")
# A program that is used wrongly shows its usage, or where to read it. Some do so after any failure,
# but then another line says why, and the word stands alone on its own.
_USAGE = re.compile(
    r"""usage:\ \S | .*(?:\btry\ ['`"] | \(see\ ").{1,80}\ --help\b | .*\bneeds\ \d+\ arg""", re.X
)
_APART = re.compile(r"\|\||&&|[;|&\n]")
_BEFORE = {"sudo", "env", "command", "exec", "nice", "nohup", "time", "builtin"}

_NAMES = {
    0: "succeeded",
    124: "timed out",
    CANNOT_RUN: "cannot be run",
    NOT_FOUND: "command not found",
    BY_SIGNAL + signal.SIGHUP: "its terminal was closed",
    BY_SIGNAL + signal.SIGINT: "interrupted",
    BY_SIGNAL + signal.SIGQUIT: "quit",
    BY_SIGNAL + signal.SIGABRT: "aborted",
    BY_SIGNAL + signal.SIGBUS: "crashed on a bad address",
    BY_SIGNAL + signal.SIGFPE: "crashed on arithmetic",
    BY_SIGNAL + signal.SIGILL: "crashed on an illegal instruction",
    BY_SIGNAL + signal.SIGKILL: "killed",
    BY_SIGNAL + signal.SIGPIPE: "its output was closed (broken pipe)",
    BY_SIGNAL + signal.SIGSEGV: "crashed on an invalid memory access",
    BY_SIGNAL + signal.SIGSYS: "killed for a forbidden system call",
    BY_SIGNAL + signal.SIGTERM: "asked to stop",
    BY_SIGNAL + signal.SIGXCPU: "exceeded its CPU time",
    BY_SIGNAL + signal.SIGXFSZ: "exceeded the file size limit",
}


def category_of(
    *,
    exit_code: int | None,
    outcome: Outcome,
    stderr: str,
    start_errno: int = 0,
    command: str = "",
) -> FailureCategory | None:
    """Why it failed; None for what succeeded, and where the outcome alone says it all.

    `start_errno` is why it could not be started; `command` is the line that ran, because some
    programs tell by their exit code alone.
    """
    if outcome is Outcome.TIMED_OUT:
        return _TIMEOUT
    if outcome is not Outcome.RAN:
        return None
    if start_errno:
        return _BY_ERRNO.get(start_errno, _RUNTIME)
    code = _as_shells_tell(exit_code)
    if not code:
        return None
    # Whose exit code that of a line is, as far as that can be seen without reading it whole.
    words = _APART.split(command.strip())[-1].split()
    while words and (words[0] in _BEFORE or re.match(r"\w+=", words[0])):
        words.pop(0)
    last_program = words[0].rpartition("/")[2] if words else ""
    by_program = _BY_PROGRAM.get(last_program, {}).get(code)
    if code > BY_SIGNAL and by_program is _TIMEOUT:
        return by_program
    if code in _BY_EXIT:
        return _BY_EXIT[code]
    category = _category_said(stderr)
    if code == NOT_FOUND:
        return _RESOURCE if category is _RESOURCE else _MISSING
    if code == CANNOT_RUN:
        return category if category in {_RESOURCE, _MISSING, _SYNTAX} else _PERMISSION
    if code not in _ALSO_SPEAKS and code > BY_SIGNAL and _signal_of(code):
        return _RUNTIME
    return category or by_program or _RUNTIME


def named_exit(exit_code: int | None) -> str:
    """An exit code in words, with its number."""
    code = _as_shells_tell(exit_code)
    if code is None:
        return "no exit code"
    if code in _NAMES:
        return f"{_NAMES[code]} ({code})"
    number = _signal_of(code)
    return f"ended by {number.name} ({code})" if number else f"exit code {code}"


def _as_shells_tell(exit_code: int | None) -> int | None:
    """A death by signal as 128 plus its number, in either notation."""
    return BY_SIGNAL - exit_code if exit_code is not None and exit_code < 0 else exit_code


def _signal_of(code: int) -> signal.Signals | None:
    try:
        return signal.Signals(code - BY_SIGNAL)
    except ValueError:
        return None


def _category_said(stderr: str) -> FailureCategory | None:
    """By the last line that says why, or because it only says how it wants to be used."""
    lines = stderr[-TEXT_CHARACTERS_MAX:].splitlines()[-LINES_MAX:]
    for line in reversed(lines):
        found = list(_found_in(line[-LINE_CHARACTERS_MAX:]))
        if found:
            return max(found)[1]
    used_wrongly = any(_USAGE.match(line[:LINE_CHARACTERS_MAX].lower()) for line in lines)
    return _SYNTAX if used_wrongly else None


def _found_in(line: str) -> Iterator[tuple[int, FailureCategory]]:
    """Every reason in a line, with the place where it ends."""
    lower = line.lower()
    for match in _NUMBER.finditer(lower):
        number = int(match[1] or match[2] or match[3])
        category = _NETWORK if number < 0 else _BY_ERRNO.get(number)
        if category:
            yield _above_words(match), category
    for match in _SYMBOL.finditer(line):
        number = getattr(errno, match[1], 0)
        if isinstance(number, int) and number in _BY_ERRNO:
            yield _above_words(match), _BY_ERRNO[number]
    for match in _CURL.finditer(lower):
        if category := _BY_PROGRAM["curl"].get(int(match[1])):
            yield _above_words(match), category
    for match in _TEXT.finditer(lower):
        yield match.end(), _CATEGORY_OF_TEXT[match[0]]


def _above_words(match: re.Match[str]) -> int:
    """The place of a number, behind that of all words: it cannot be mistaken for a name."""
    return LINE_CHARACTERS_MAX + match.end()
