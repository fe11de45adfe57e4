"""Which files hold secrets, whatever way their names are written."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from functools import lru_cache

__all__ = ["Secrets", "one_of", "resolved"]

NAME_CHARACTERS_MAX = 255  # no file on Linux or macOS has a longer name
_WILD = re.compile(r"[*?\[]")
_WILDS = re.compile(r"[*?\[\]]+")
_ENDING = re.compile(r"\*\.[^*.]+")
_INSIDE = re.compile(r"\*[^*]+\*")
_OF_NO_PROCESS = re.compile(r"/proc/(?!self|thread-self)[a-z][a-z_]+(?:/[a-z0-9_.-]+)*")
# Where homes and settings lie: whoever reads all below one of them reads secrets.
_ROOTS = ((), ("home", "**"), ("root", "**"), ("etc",), ("var",), ("run",), ("dev",), ("proc",))


def resolved(path: str, cwd: str) -> str:
    """An absolute path without `.` and `..`, by its text; `~` stands for somebody's home."""
    if path.startswith("~"):
        user, _, rest = path[1:].partition("/")
        home = "/root" if user == "root" else f"/home/{user or '~'}"
        path = f"{home}/{rest}"
    elif not path.startswith("/"):
        path = f"{cwd or '/'}/{path}"
    if "/." not in path and "//" not in path:
        return path.rstrip("/") or "/"
    return posixpath.normpath(path).replace("//", "/")


class Secrets:
    """Patterns of paths: `*` is part of a name, `**` is any number of folders.

    Most patterns are names that count wherever they lie; those are looked up, not tried in turn.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self.patterns = tuple(patterns)
        self._parts = [tuple(pattern.strip("/").split("/")) for pattern in self.patterns]
        anywhere = [one[1] for one in self._parts if one[0] == "**" and len(one) == 2]
        self._names = frozenset(name for name in anywhere if "*" not in name)
        self._endings = frozenset(name[2:] for name in anywhere if _ENDING.fullmatch(name))
        self._inside = tuple(name[1:-1] for name in anywhere if _INSIDE.fullmatch(name))
        self._other = one_of(
            f"/**/{name}"
            for name in anywhere
            if "*" in name and not (_ENDING.fullmatch(name) or _INSIDE.fullmatch(name))
        )
        self._folders = frozenset(
            one[1] for one in self._parts if one[0] == one[-1] == "**" and len(one) == 3
        )
        long = [one for one in self._parts if one[0] == "**" and len(one) > 2]
        self._starts = frozenset(one[1] for one in long)
        self._long = one_of("/".join(one) for one in long)
        self._roots: dict[str, re.Pattern[str]] = {
            root: one_of("/".join(one) for one in self._parts if one[0] == root)
            for root in {one[0] for one in self._parts} - {"**"}
        }

    def holds(self, path: str, *, below: bool = False) -> bool:
        """True when the path may be one of them, or with `below`, when one may lie under it."""
        found = self._may_match(path) if _WILD.search(path) else self._is_one(path)
        return found or (below and self._under(path))

    def _is_one(self, path: str) -> bool:
        parts = path.split("/")
        name = parts[-1]
        if name in self._names or name.rpartition(".")[2] in self._endings:
            return True
        if any(one in name for one in self._inside) or self._other.fullmatch(f"/{name}"):
            return True
        if not self._starts.isdisjoint(parts) and (
            not self._folders.isdisjoint(parts) or self._long.fullmatch(path)
        ):
            return True
        root = self._roots.get(parts[1]) if len(parts) > 1 else None
        return root is not None and root.fullmatch(path) is not None

    def _under(self, path: str) -> bool:
        """True when a secret may lie below the path; not for every folder that may have a .env."""
        parts = tuple(path.strip("/").split("/")) if path != "/" else ()
        if parts[:1] == ("proc",) and _OF_NO_PROCESS.fullmatch(path):
            return False
        homes = len(parts) < 3 and any(_overlap(parts, root) for root in _ROOTS)
        return homes or any(_leads_to(parts, one) for one in self._parts if one[0] != "**")

    def _may_match(self, path: str) -> bool:
        parts = tuple(path.strip("/").split("/"))
        first = "" if _WILD.search(parts[0]) else parts[0]
        for pattern in self._parts:
            if pattern[0] == "**" and len(pattern) == 2:
                if _meet(parts[-1], pattern[1]):
                    return True
            elif (not first or pattern[0] in ("**", first)) and _overlap(parts, pattern):
                return True
        return False


def one_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """What fits one of some patterns of paths, and nothing else; without any, nothing does."""
    return re.compile("|".join(map(_expression, patterns)) or r"(?!)")


def _expression(pattern: str) -> str:
    parts = []
    for part in pattern.strip("/").split("/"):
        if part == "**":
            parts.append("(?:/[^/]+)*")
        else:
            parts.append("/" + "".join("[^/]*" if one == "*" else re.escape(one) for one in part))
    return "".join(parts)


def _overlap(names: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """True when some path fits both; `**` only ever stands in the pattern."""
    reach = {0}  # how many names are used up so far
    for part in pattern:
        if part == "**":
            reach = set(range(min(reach), len(names) + 1))
        else:
            reach = {n + 1 for n in reach if n < len(names) and _meet(names[n], part)}
        if not reach:
            return False
    return len(names) in reach


def _leads_to(names: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """True when something that fits the pattern may lie at or below a path."""
    for place, part in enumerate(pattern):
        if part == "**" or place >= len(names):
            return True
        if not _meet(names[place], part):
            return False
    return len(names) == len(pattern)


@lru_cache(maxsize=4096)
def _meet(one: str, other: str) -> bool:
    """True when some name fits both patterns; a bracket stands for any one letter.

    `app.log.*` is no attempt at `*.key`, though there could be an `app.log.key`.
    """
    if "*" in other:
        core = other.strip("*")
        told = [run for run in _WILDS.split(one) if len(run) >= 3]
        if told and not any(_is_akin(run, core) for run in told):
            return False
    left, right = _signs(one), _signs(other)
    if len(left) - left.count("*") > NAME_CHARACTERS_MAX:
        return False
    reach = {(0, 0)}
    seen = set(reach)
    while reach:
        a, b = reach.pop()
        if a == len(left) and b == len(right):
            return True
        for step in _steps(left, right, a, b):
            if step not in seen:
                seen.add(step)
                reach.add(step)
    return False


def _is_akin(run: str, core: str) -> bool:
    """True when what a glob tells has to do with a name: `my-sec` with `secret`."""
    if run in core or core in run or (run[-1] == "." == core[0] and run.count(".") == 1):
        return True
    sizes = range(2, min(len(run), len(core)))
    return any(run[-size:] == core[:size] or run[:size] == core[-size:] for size in sizes)


def _steps(left: list[str], right: list[str], a: int, b: int) -> list[tuple[int, int]]:
    here = left[a] if a < len(left) else ""
    there = right[b] if b < len(right) else ""
    found = []
    if here == "*":
        found += [(a + 1, b), *([(a, b + 1)] if there else [])]
    if there == "*":
        found += [(a, b + 1), *([(a + 1, b)] if here else [])]
    if here and there and "*" not in (here, there) and (here == there or "?" in (here, there)):
        found.append((a + 1, b + 1))
    return found


def _signs(pattern: str) -> list[str]:
    closed = pattern.rfind("]") + 1  # a bracket behind it is only a bracket
    return [*re.sub(r"\[!?\]?[^]]*\]", "?", pattern[:closed]), *pattern[closed:]]
