"""The checks of a script before it runs, its secrets too; each flaw names its check."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator

from operator_protocols.domain.action import Outcome
from operator_protocols.ports import Job
from operator_sre.executor.programs import Program, Programs
from operator_sre.executor.sandbox import Language
from operator_sre.executor.scripts.dangers import (
    Flaw,
    Layer,
    dangers_of_bash,
    dangers_of_python,
    parse_script,
)

__all__ = ["SIZE_CHARS_MAX", "Validation", "secrets_in"]

# Each is linear: nothing that repeats holds something that repeats.
_ASSIGNED = re.compile(
    r"(?i)(?:api_?key|access_?key|auth|passw(?:or)?d|passphrase|private_?key|secret|token"
    r"|credential)[a-z0-9_]{0,40}[\"']?\s{0,8}(?:=|:)\s{0,8}[rbuf]{0,2}"
    r"[\"'](?P<value>[^\"'\n]{1,500})"
)
_KINDS = {
    "an AWS key id": re.compile(r"\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}\b"),
    "a private key": re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY-----"),
    "a GitHub token": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{60})"),
    "a Slack token": re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10}"),
    "a Google API key": re.compile(r"\bAIza[0-9A-Za-z_-]{35}"),
    "a model API key": re.compile(r"\bsk-[A-Za-z0-9_-]{20}"),
    "a JSON web token": re.compile(r"\beyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8}"),
    "a password in a URL": re.compile(
        r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@\"']{0,99}:[^\s/@\"'$]{1,99}@"
    ),
    "a bearer token": re.compile(
        r"(?i)\bauthorization[\"']?\s?[:=,]\s?[\"']?bearer\s[a-z0-9._~+/-]{16}"
    ),
}
# What stands for a secret, and what only looks like one.
_HOLLOW = re.compile(
    r"(?i)[\$%{<]|^(?:x+|\*+|\.+|none|null|true|false|changeme|redacted|example)?$"
)


def secrets_in(text: str) -> Iterator[Flaw]:
    """Every line that holds one; the sentence never does."""
    for number, line in enumerate(text.splitlines(), start=1):
        for kind, pattern in _KINDS.items():
            if pattern.search(line):
                yield _flaw(kind, number)
        for found in _ASSIGNED.finditer(line):
            if not _HOLLOW.search(found["value"]):
                yield _flaw("a quoted secret", number)
                break


def _flaw(kind: str, line: int) -> Flaw:
    sentence = f"{kind} is in the script; remove it and pass it in another way."
    return Flaw(Layer.SECRETS, sentence, line)


SIZE_CHARS_MAX = 10_000
FLAWS_MAX = 20
_LOOK_S = 10.0
_SAID = re.compile(r"line (?P<line>\d+): (?P<what>.*)")
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


class Validation:
    """Size, syntax, secrets, dangerous calls: all flaws of the first check that finds any.

    `secrets` finds secrets in a text and `dangers` adds checks to the ones here; both
    yield flaws, and may be passed in by the caller.
    """

    def __init__(
        self,
        programs: Programs,
        *,
        secrets: Callable[[str], Iterable[Flaw]] = secrets_in,
        dangers: Callable[[Language, str], Iterable[Flaw]] = lambda language, text: (),
        bash: str = "/bin/bash",
    ) -> None:
        self._programs = programs
        self._secrets = secrets
        self._dangers = dangers
        self._bash = bash

    async def check(self, language: Language, text: str, job: Job) -> tuple[Flaw, ...]:
        """What is wrong with it; nothing when it may be boxed."""
        if flaws := tuple(_size(text)):
            return flaws
        tree = (
            parse_script(text)
            if language is Language.PYTHON
            else await self._bash_syntax(text, job)
        )
        if isinstance(tree, Flaw):
            return (tree,)
        if flaws := tuple(self._secrets(text)):
            return flaws[:FLAWS_MAX]
        ours = dangers_of_python(tree) if isinstance(tree, ast.Module) else dangers_of_bash(text)
        return tuple(dict.fromkeys((*ours, *self._dangers(language, text))))[:FLAWS_MAX]

    async def _bash_syntax(self, text: str, job: Job) -> Flaw | None:
        """What `bash -n` says: it reads the text, and runs nothing of it."""
        argv = (self._bash, "--norc", "--noprofile", "-n", "-s")
        program = Program(argv, _ENVIRONMENT, stdin=text.encode("utf-8", "replace"))
        # A job of its own: the id of the job belongs to the script.
        check = Job(f"{job.id[:120]}-syntax", min(_LOOK_S, job.timeout_s))
        result = await self._programs.run(program, check)
        if result.ok and not result.stderr:
            return None
        if result.outcome is not Outcome.RAN:
            return Flaw(Layer.SYNTAX, "bash did not check it in time.")
        found = _SAID.search(result.stderr)
        if found is None:
            message = result.stderr.strip().partition("\n")[0] or f"exit {result.exit_code}"
            return Flaw(Layer.SYNTAX, f"bash says: {message}.")
        return Flaw(Layer.SYNTAX, f"bash says: {found['what']}.", int(found["line"]))


def _size(text: str) -> Iterable[Flaw]:
    if len(text) > SIZE_CHARS_MAX:
        sentence = (
            f"it has {len(text)} characters, but at most {SIZE_CHARS_MAX} are allowed; split it."
        )
        yield Flaw(Layer.SIZE, sentence)
    if not text.strip():
        yield Flaw(Layer.SIZE, "it is empty.")
    if "\x00" in text:
        yield Flaw(Layer.SYNTAX, "it contains a NUL byte, so it is not text.")
