"""Patterns learned from what worked again and again, and which of them might help with a need."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log

from operator_protocols.domain.command import Attempt
from operator_protocols.domain.observation import Value
from operator_protocols.domain.pattern import Pattern
from operator_sre.ledger.history.templates import placeholders_of, template_of
from operator_sre.shell.pythons import needs_venv

__all__ = ["category_of_line", "learn", "rank_patterns"]

RUNS_MIN = 3
SUCCESS_RATE_MIN = 0.6
SEQUENCE_MAX = 5
EXAMPLES_MAX = 3
NAME_WORDS_MAX = 3
NAME_CHARS_MAX = 48
_CATEGORIES = {
    "package_management": "apt apt-get brew cargo dnf gem npm pip pip3 uv yarn yum",
    "version_control": "git hg svn",
    "containers": "crictl docker docker-compose helm kubectl podman",
    "services": "initctl rc-service service supervisorctl systemctl",
    "processes": "kill pgrep pkill ps renice strace top",
    "network": "check_port curl dig host ip nc netstat nslookup ping ss traceroute wget",
    "disk": "df du fsck lsblk mount umount",
    "logs": "dmesg grep head journalctl less tail zgrep",
    "databases": "etcdctl mysql psql redis-cli sqlite3 valkey-cli",
    "python": "python python3 pytest",
    "files": "cat chmod chown cp find ln ls mkdir mv rm rsync sed tar touch",
}
_CATEGORY = {name: category for category, names in _CATEGORIES.items() for name in names.split()}


@dataclass(slots=True)
class _Group:
    """What fits one template: each time it was run, and how that went."""

    times: list[Sequence[Attempt]] = field(default_factory=list)
    successes: int = 0
    values: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, attempts: Sequence[Attempt], values: Mapping[str, str], *, ok: bool) -> None:
        self.times.append(attempts)
        self.successes += ok
        for name, value in values.items() if ok else ():
            self.values.setdefault(name, Counter())[value] += 1


def learn(attempts: Iterable[Attempt], *, runs_min: int = RUNS_MIN) -> list[Pattern]:
    """Commands, and sequences within a run, that went well at least so often, best first."""
    # Only finished attempts, whose text cannot be mistaken for a placeholder.
    finished = (attempt for attempt in attempts if attempt.succeeded or attempt.failed)
    ended = [attempt for attempt in finished if not placeholders_of([attempt.command])]
    ended.sort(key=lambda attempt: attempt.seq)
    groups: dict[tuple[str, ...], _Group] = {}
    for attempt in ended:
        template = template_of([attempt])
        groups.setdefault(template.lines, _Group()).add(
            [attempt], template.values, ok=attempt.succeeded
        )
    groups |= _find_sequences(ended, runs_min)
    found = [
        _build_pattern(lines, group)
        for lines, group in groups.items()
        if group.successes >= runs_min and group.successes / len(group.times) >= SUCCESS_RATE_MIN
    ]
    return sorted(found, key=lambda it: (-(it.success_rate or 0.0), -it.uses, it.name))


def _find_sequences(ended: Sequence[Attempt], runs_min: int) -> dict[tuple[str, ...], _Group]:
    """Sequences that succeeded in the same order in several runs; only the longest of each."""
    # Successes that followed each other in a run; a failure between them ends a sequence.
    by_run: dict[str, list[list[Attempt]]] = {}
    for attempt in ended:
        parts = by_run.setdefault(attempt.run, [[]])
        if attempt.run and attempt.succeeded:
            parts[-1].append(attempt)
        else:
            parts.append([])
    runs = [part for parts in by_run.values() for part in parts if len(part) > 1]
    line = {attempt.seq: template_of([attempt]).lines[0] for run in runs for attempt in run}
    rough = Counter(
        lines for run in runs for lines in {_lines_of(it, line) for it in _windows(run)}
    )
    groups: dict[tuple[str, ...], _Group] = {}
    for run in runs:
        seen: set[tuple[str, ...]] = set()
        for window in _windows(run):
            if rough[_lines_of(window, line)] < runs_min:
                continue  # it is not worth finding out which of its values are the same
            template = template_of(window)
            if template.lines not in seen and len(set(template.lines)) > 1:
                seen.add(template.lines)
                groups.setdefault(template.lines, _Group()).add(window, template.values, ok=True)
    often = {lines: group for lines, group in groups.items() if group.successes >= runs_min}
    inside = {
        lines
        for lines, group in often.items()
        for other, wider in often.items()
        if len(other) > len(lines) and wider.successes >= group.successes
        if any(other[at : at + len(lines)] == lines for at in range(len(other)))
    }
    return {lines: group for lines, group in often.items() if lines not in inside}


def _lines_of(window: Sequence[Attempt], line: Mapping[int, str]) -> tuple[str, ...]:
    """Its lines, each by itself: no two windows with one template differ in this."""
    return tuple(line[attempt.seq] for attempt in window)


def _windows(run: Sequence[Attempt]) -> Iterable[Sequence[Attempt]]:
    for start in range(len(run)):
        for end in range(start + 2, min(start + SEQUENCE_MAX, len(run)) + 1):
            yield run[start:end]


def _build_pattern(lines: tuple[str, ...], group: _Group) -> Pattern:
    every = [attempt for attempts in group.times for attempt in attempts]
    # What held each time has to hold again.
    preconditions: dict[str, Value] = {}
    if any(needs_venv(attempt.command) for attempt in every):
        preconditions["venv_required"] = True
    if len(folders := {attempt.cwd for attempt in every}) == 1 and folders != {"/"}:
        preconditions["cwd"] = folders.pop()
    if any(attempt.level == "review" for attempt in every):
        preconditions["approval"] = "a person or the policy has to approve it"
    # A name that a person can type, and that stays the same as long as the lines do.
    each = NAME_WORDS_MAX if len(lines) == 1 else 1
    words = [word for line in lines for word in _words(line)[:each]]
    slug = re.sub(r"[^a-z0-9_]+", "-", "-".join(words).lower()).strip("-")[:NAME_CHARS_MAX]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    contexts = Counter(attempt.context for attempt in every if attempt.context)
    return Pattern(
        name=f"{slug or 'pattern'}-{digest[:4]}",
        lines=lines,
        category=category_of_line(lines[-1]),
        preconditions=preconditions,
        placeholders=placeholders_of(lines),
        examples={
            name: tuple(value for value, _ in counter.most_common(EXAMPLES_MAX))
            for name, counter in group.values.items()
        },
        contexts=tuple(context for context, _ in contexts.most_common(EXAMPLES_MAX)),
        learned=True,
        uses=len(group.times),
        success_rate=round(group.successes / len(group.times), 4),
    )


def _words(line: str) -> list[str]:
    """The program and its subcommands: the words before the first option or placeholder."""
    words = re.sub(r"\(.*", "", line).split() or [line]
    found = [words[0].rpartition("/")[2]]
    for word in words[1:]:
        if not re.fullmatch(r"[A-Za-z][\w-]*", word):
            break
        found.append(word)
    return found


def category_of_line(line: str) -> str:
    """What a command is about, by its program; a tool call by the first word of its name."""
    program = (_words(line) or [""])[0]
    if program.startswith(("restart_", "start_", "stop_", "resume_", "pause_")):
        return "services"
    return _CATEGORY.get(program, "general")


_ENDINGS = ("ing", "ed", "es", "s")
STEM_CHARS_MIN = 3


def rank_patterns(patterns: Sequence[Pattern], need: str) -> list[Pattern]:
    """The patterns that share words with the need, the nearest first.

    A rare word counts more than a common one; between equals the more successful pattern wins.
    """
    wanted = set(_stems(need))
    texts = {
        pattern.name: (pattern.name, pattern.category, *pattern.lines, *pattern.contexts)
        for pattern in patterns
    }
    words = {name: set(_stems(" ".join(text))) for name, text in texts.items()}
    known = Counter(word for found in words.values() for word in found)

    def score(pattern: Pattern) -> float:
        shared = wanted & words[pattern.name]
        weight = sum(log(1 + len(patterns) / known[word]) for word in shared)
        return weight * (0.5 + (pattern.success_rate or 0.5) / 2)

    near = [(score(pattern), pattern) for pattern in patterns]
    ranked = sorted(near, key=lambda pair: (-pair[0], -pair[1].uses, pair[1].name))
    return [pattern for value, pattern in ranked if value > 0]


def _stems(text: str) -> Iterable[str]:
    """Words without their endings, so that `restarted` is near to `restart`."""
    for word in re.findall(r"[^\W_]+", text.lower()):
        ending = next((suffix for suffix in _ENDINGS if word.endswith(suffix)), "")
        stem = word.removesuffix(ending)
        yield stem if len(stem) >= STEM_CHARS_MIN else word
