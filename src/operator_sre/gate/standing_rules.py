"""Standing rules: what is like a command that a person allowed for always. Closed by default.

A rule compares the words of one plain command, never its text. What is more than one plain
command fits no rule, and what is BLOCKED is never asked about.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from operator_protocols.domain.action import SHELL, Action
from operator_protocols.domain.standing_rule import Likeness, Scope, StandingRule
from operator_protocols.domain.verdict import Level, Verdict
from operator_protocols.errors import UsageError
from operator_sre.shell.line import one_command

if TYPE_CHECKING:
    from operator_protocols.domain.permit import Approval
    from operator_protocols.ports import StandingRules

__all__ = ["Parse", "Standing", "one_plain_command"]

Parse = Callable[[str], Sequence[Sequence[str]] | None]
# A name or a number, and nothing that leads elsewhere or could be taken for an option.
_PLAIN = re.compile(r"[A-Za-z0-9_@%+:,=][A-Za-z0-9_@%+:,=.-]*")
# Below these lies the system itself, so that none of them is a place to let anybody work in.
_SYSTEM = frozenset(
    {
        *("/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32"),
        *("/proc", "/root", "/run", "/sbin", "/sys", "/usr", "/var"),
    }
)


@dataclass(frozen=True, slots=True)
class _Shape:
    """Of a command: flags that take no value, and how many operands are not files."""

    flags: str = ""
    fixed: int = 0
    files: bool = True


# By the words that a line begins with. What may differ in a line is known for these only; a flag
# that is not named may take the next word as its value, which then must be the same.
_SHAPES: Mapping[tuple[str, ...], _Shape] = {
    ("cat",): _Shape("-n -b -A -E -s -v"),
    ("chgrp",): _Shape("-R -v -c -f -h", fixed=1),
    ("chmod",): _Shape("-R -v -c -f", fixed=1),
    ("chown",): _Shape("-R -v -c -f -h", fixed=1),
    ("cp",): _Shape("-a -f -i -n -p -P -r -R -u -v -T"),
    ("docker", "inspect"): _Shape(files=False),
    ("docker", "logs"): _Shape("--timestamps -t --details", files=False),
    ("docker", "pause"): _Shape(files=False),
    ("docker", "restart"): _Shape(files=False),
    ("docker", "start"): _Shape(files=False),
    ("docker", "stop"): _Shape(files=False),
    ("docker", "unpause"): _Shape(files=False),
    ("du",): _Shape("-a -c -h -s -k -m -x -b"),
    ("gzip",): _Shape("-f -k -v -9 -1"),
    ("head",): _Shape("-q -v"),
    ("kill",): _Shape("-9 -15 -1 -2 -KILL -TERM -HUP -INT -CONT -STOP", files=False),
    ("kubectl", "delete", "pod"): _Shape("--wait --now", files=False),
    ("kubectl", "rollout", "restart"): _Shape(files=False),
    ("ls",): _Shape("-a -A -d -h -i -l -la -lah -lh -1 -R -r -S -t"),
    ("mkdir",): _Shape("-p -v --parents --verbose"),
    ("mv",): _Shape("-f -i -n -u -v -T"),
    ("rm",): _Shape("-d -f -i -I -r -R -v -rf -fr -rv -fv --force --recursive --verbose"),
    ("rmdir",): _Shape("-p -v --ignore-fail-on-non-empty"),
    ("stat",): _Shape("-L -f -t"),
    ("systemctl", "reload"): _Shape("--no-block --quiet -q", files=False),
    ("systemctl", "restart"): _Shape("--no-block --quiet -q", files=False),
    ("systemctl", "start"): _Shape("--no-block --quiet -q", files=False),
    ("systemctl", "status"): _Shape("--no-pager -l", files=False),
    ("systemctl", "stop"): _Shape("--no-block --quiet -q", files=False),
    ("tail",): _Shape("-q -v"),
    ("touch",): _Shape("-a -c -m"),
    ("wc",): _Shape("-c -l -m -w -L"),
}
_WORDS_MAX = max(map(len, _SHAPES))


def one_plain_command(command: str) -> Sequence[Sequence[str]] | None:
    """The words of a line that is one plain command; None for everything more."""
    words = one_command(command)
    return None if words is None else [words]


@dataclass(frozen=True, slots=True)
class Standing:
    """The rules that stand, and how they are made. `resolve` follows links, when one is used."""

    rules: StandingRules
    resolve: Callable[[str], str]
    parse: Parse = one_plain_command

    def allowing(self, verdict: Verdict, ticket: int | None, subject: str) -> StandingRule | None:
        """The first rule that lets a REVIEW action run without asking, if there is one."""
        if verdict.level is not Level.REVIEW:
            return None
        argv = self._argv(verdict.action)
        if argv is None:
            return None
        for rule in self.rules.find():
            holds = rule.scope is Scope.EVERYWHERE
            holds = holds or (rule.scope is Scope.TICKET and rule.ticket == ticket is not None)
            holds = holds or (rule.scope is Scope.SUBJECT and rule.subject == subject != "")
            holds = holds and rule.stands and verdict.risk <= rule.risk
            if holds and self._covers(rule, verdict.action, argv):
                return rule
        return None

    def rule_of(
        self,
        approval: Approval,
        likeness: Likeness,
        scope: Scope,
        *,
        name: str,
        by: str,
        at: datetime,
        path: str = "",
        reason: str = "",
    ) -> StandingRule:
        """The rule that a person means by always; UsageError where it cannot be one."""
        if approval.needed > 1:
            raise _no_rule("It needs two people each time.", "Approve it once.")
        if approval.action.digest != approval.binding.action:
            raise _no_rule("It holds a secret, which is not kept.", "Approve it once.")
        if scope is Scope.TICKET and approval.ticket is None:
            raise _no_rule("It belongs to no ticket.", "Use another --scope.")
        if scope is Scope.SUBJECT and not approval.subject:
            raise _no_rule("It belongs to no subject.", "Use another --scope.")
        argv = self._words_to_keep(approval.action, likeness)
        directory = ""
        if likeness is Likeness.PATH:  # as it is found now, not the root and not the system's
            if not path.startswith("/") or ".." in path.split("/"):
                raise UsageError(
                    f"{path!r} is not an absolute path without '..'.",
                    next_step="Name a directory with: --path /srv/app",
                )
            directory = self.resolve(path)
            if directory in {"/", *_SYSTEM}:
                raise UsageError(
                    f"A rule for everything below {directory!r} is not made.",
                    next_step="Name a directory further down.",
                )
        rule = StandingRule(
            id=name,
            likeness=likeness,
            scope=scope,
            tool=approval.action.tool,
            argv=argv,
            cwd=approval.action.cwd,
            target=approval.action.target,
            risk=approval.risk,
            made_at=at,
            made_by=by,
            subject=approval.subject,
            ticket=approval.ticket,
            path=directory,
            approval=approval.id,
            reason=reason,
        )
        if not self._covers(rule, approval.action, rule.argv):
            raise _no_rule(f"It does not lie below {path!r}.", "Name a directory that it is in.")
        return rule

    def _argv(self, action: Action) -> tuple[str, ...] | None:
        if action.tool != SHELL:
            # The arguments of a tool are its words, each with its name and its type.
            return tuple(
                f"{key}={json.dumps(value)}" for key, value in sorted(action.arguments.items())
            )
        if set(action.arguments) != {"command"} or _is_given_more(action):
            return None
        parsed = self.parse(action.command)
        if parsed is None or len(parsed) != 1 or not parsed[0]:
            return None
        return tuple(parsed[0])

    def _words_to_keep(self, action: Action, likeness: Likeness) -> tuple[str, ...]:
        argv = self._argv(action)
        once = "Approve it once."
        if _is_given_more(action):
            raise _no_rule("It runs in an environment of its own, which no rule keeps.", once)
        if argv is None:
            raise _no_rule("It is more than one plain command.", once)
        if likeness is Likeness.EXACT:
            return argv
        exactly = "Use: --always exact"
        if action.tool != SHELL:
            raise _no_rule(f"{action.tool!r} is a tool, and has no flags or paths.", exactly)
        prefix, shape = _shape_of(argv)
        if shape is None:
            raise _no_rule(f"Which words of {argv[0]!r} may differ is not known.", exactly)
        if likeness is Likeness.PATH and not shape.files:
            raise _no_rule(f"{' '.join(prefix)!r} works on no files.", exactly)
        return argv

    def _covers(self, rule: StandingRule, action: Action, argv: tuple[str, ...]) -> bool:
        if (rule.tool, rule.target) != (action.tool, action.target):
            return False
        if rule.likeness is not Likeness.PATH and rule.cwd != action.cwd:
            return False
        if rule.likeness is Likeness.EXACT:
            return rule.argv == argv
        mine, theirs = _parts(rule.argv), _parts(argv)
        if mine is None or theirs is None or mine.flags != theirs.flags:
            return False
        if mine.fixed != theirs.fixed or len(mine.operands) != len(theirs.operands):
            return False
        if rule.likeness is Likeness.FLAGS:
            pairs = zip(mine.operands, theirs.operands, strict=True)
            return all(a == b or (_PLAIN.fullmatch(a) and _PLAIN.fullmatch(b)) for a, b in pairs)
        # A link that was put in its place later would lead somewhere else.
        if not rule.path or self.resolve(rule.path) != rule.path or not theirs.operands:
            return False
        for operand in theirs.operands:
            if not operand or operand.startswith(("-", "~")) or ".." in operand.split("/"):
                return False
            if not self.resolve(posixpath.join(action.cwd, operand)).startswith(rule.path + "/"):
                return False
        return True


@dataclass(frozen=True, slots=True)
class _Parts:
    """A line taken apart: flags with their values in any order, then what is not a flag."""

    flags: Counter[tuple[str, ...]]
    fixed: tuple[str, ...]
    operands: tuple[str, ...]


def _shape_of(argv: Sequence[str]) -> tuple[tuple[str, ...], _Shape | None]:
    for count in range(_WORDS_MAX, 0, -1):
        prefix = tuple(argv[:count])
        if prefix in _SHAPES:
            return prefix, _SHAPES[prefix]
    return tuple(argv[:1]), None


def _parts(argv: Sequence[str]) -> _Parts | None:
    """None where it is not known what the words are."""
    prefix, shape = _shape_of(argv)
    if shape is None:
        return None
    alone = shape.flags.split()
    units: list[tuple[str, ...]] = [prefix]
    operands: list[str] = []
    rest = list(argv[len(prefix) :])
    while rest:
        word = rest.pop(0)
        if word == "--":
            units.append((word,))
            operands += rest
            break
        if not word.startswith("-"):
            operands.append(word)
        elif word in alone or "=" in word or not rest or rest[0].startswith("-"):
            units.append((word,))
        else:
            units.append((word, rest.pop(0)))
    fixed, others = operands[: shape.fixed], operands[shape.fixed :]
    return _Parts(Counter(units), tuple(fixed), tuple(others))


def _is_given_more(action: Action) -> bool:
    """Whether the same words could mean another program, or be given what a person keeps."""
    return bool(action.venv or action.passes)


def _no_rule(why: str, next_step: str) -> UsageError:
    return UsageError(f"This cannot be approved permanently: {why}", next_step=next_step)
