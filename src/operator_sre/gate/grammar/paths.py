"""Which files hold secrets, whatever way their names are written."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from functools import cache, cached_property, lru_cache

__all__ = ["Secrets", "one_of", "resolve_path"]

NAME_CHARACTERS_MAX = 255  # no file on Linux or macOS has a longer name
_WILD = re.compile(r"[*?\[]")
_WILDCARDS = frozenset("*?[")
BRACKETS_MAX = 8
_ENDING = re.compile(r"\*\.[^*.]+")
_INSIDE = re.compile(r"\*[^*]+\*")
_OF_NO_PROCESS = re.compile(r"/proc/(?!self|thread-self)[a-z][a-z_]+(?:/[a-z0-9_.-]+)*")
# Globs of logs and of settings of the system: what only sounds like a secret by a part of its name
# (`*secret*`, `*.key`) is not looked for among them; files that hold one by their whole name are,
# and all that lies in a folder of secrets.
_TOLD = re.compile(
    r"/var/log/.*|.*\.log[.*?0-9\[\]-]*(?:gz|xz|bz2|zst)?"
    r"|(?:/[^/*?\[]+)*/[^/]*\*\.(?:service|timer|socket|target|mount|slice|path)"
    r"|/etc(?:/[^/*?\[]+)*/[^/]*\*\.(?:conf|list|sources|repo|rules)"
)
_LOG = re.compile(r".*\.log(?:[-.][0-9-]+)?(?:\.(?:gz|xz|bz2|zst))?")
# How people ask which system it is.
_RELEASE = re.compile(r"/etc/\*[-_]?(?:release|version)")
# What the kernel shows and what lies in the system's own folders of settings is not named by
# people; only what is listed there by its root is secret.
_OF_SYSTEM = re.compile(
    r"/(?:proc|sys)/.*|/etc/(?:nginx|apache2|httpd|php|systemd|apt|yum\.repos\.d|security|udev"
    r"|fail2ban|ld\.so\.conf\.d|ssh/sshd_config\.d|NetworkManager/conf\.d"
    r"|(?:sysctl|modprobe|modules-load|rsyslog|tmpfiles|sysusers|dnsmasq|limits)\.d)"
    r"(?:/[^/*?\[]+)*/[^/]*\*\.(?:conf|list|sources|repo|rules)"
)
# Where homes and settings lie: a command that reads all below one of them reads secrets.
_ROOTS = ((), ("home", "**"), ("root", "**"), ("etc",), ("var",), ("run",), ("dev",), ("proc",))


def resolve_path(path: str, cwd: str) -> str:
    """An absolute path without `.` and `..`, by its text; `~` stands for a home directory."""
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
        anywhere = [parts[1] for parts in self._parts if parts[0] == "**" and len(parts) == 2]
        self._names = frozenset(name for name in anywhere if "*" not in name)
        self._endings = frozenset(name[2:] for name in anywhere if _ENDING.fullmatch(name))
        self._inside = tuple(name[1:-1] for name in anywhere if _INSIDE.fullmatch(name))
        self._odd = [
            f"/**/{name}"
            for name in anywhere
            if "*" in name and not (_ENDING.fullmatch(name) or _INSIDE.fullmatch(name))
        ]
        self._folders = frozenset(
            parts[1] for parts in self._parts if parts[0] == parts[-1] == "**" and len(parts) == 3
        )
        self._deep = [parts for parts in self._parts if parts[0] == "**" and len(parts) > 2]
        self._starts = frozenset(parts[1] for parts in self._deep)
        self._globs = lru_cache(maxsize=512)(self._may_match)
        self._rooted = [parts for parts in self._parts if parts[0] != "**"]
        self._roots = frozenset(parts[0] for parts in self._rooted)
        self._wild_roots = any(map(_WILD.search, self._roots))
        self._below = cache(
            lambda root: one_of("/".join(parts) for parts in self._parts if parts[0] == root)
        )

    # Compiled when a path asks for them: all of them take longer than most commands.
    @cached_property
    def _other(self) -> re.Pattern[str]:
        return one_of(self._odd)

    @cached_property
    def _long(self) -> re.Pattern[str]:
        return one_of("/".join(parts) for parts in self._deep)

    def holds(self, path: str, *, below: bool = False) -> bool:
        """True when the path may be one of them, or with `below`, when one may lie under it."""
        if (self._globs if _WILD.search(path) else self._is_one)(path):
            return True
        if not below:
            return False
        # Not for every folder that may have a .env.
        parts = tuple(path.strip("/").split("/")) if path != "/" else ()
        if parts and parts[-1][:1] == "." and _WILD.search(parts[-1]) and _meet(parts[-1], ".."):
            return True
        if parts[:1] == ("proc",) and _OF_NO_PROCESS.fullmatch(path):
            return False
        if len(parts) < 3 and any(_overlap(parts, root) for root in _ROOTS):
            return True
        if not self._wild_roots and parts[0] not in self._roots and not _WILD.search(parts[0]):
            return False
        is_log = _LOG.fullmatch(path)
        return any(
            _leads_to(parts, pattern)
            for pattern in self._rooted
            if not (is_log and _is_rotated(pattern))
        )

    def _is_one(self, path: str) -> bool:
        parts = path.split("/")
        name = parts[-1]
        if name in self._names or name.rpartition(".")[2] in self._endings:
            return True
        if any(part in name for part in self._inside) or self._other.fullmatch(f"/{name}"):
            return True
        if not self._starts.isdisjoint(parts) and (
            not self._folders.isdisjoint(parts) or self._long.fullmatch(path)
        ):
            return True
        if len(parts) == 1 or parts[1] not in self._roots:
            return False
        return self._below(parts[1]).fullmatch(path) is not None

    def _may_match(self, path: str) -> bool:
        parts = tuple(path.strip("/").split("/"))
        first = "" if _WILD.search(parts[0]) else parts[0]
        is_told, of_system = _TOLD.fullmatch(path), _OF_SYSTEM.fullmatch(path)
        is_log = _LOG.fullmatch(path)
        # Among logs, only a folder that is named holds secrets; a `*` is not taken for its name.
        named = tuple("\0" if _WILD.search(part) else part for part in parts)
        if _RELEASE.fullmatch(path):
            return False
        if any(part[:1] == "." and _meet(part, "..") for part in parts[:-1]):
            return True  # to some shells it is the folder above as well
        for pattern in self._parts:
            anywhere = pattern[0] == "**"
            folder = pattern[-1] == "**"
            if anywhere and of_system:
                continue
            if is_told and anywhere and folder:
                if _overlap(named, pattern):
                    return True
                continue
            if is_told and not folder and "*" in pattern[-1]:
                by_part = anywhere or (is_log and _is_rotated(pattern))
                if by_part:
                    continue
            if anywhere and len(pattern) == 2:
                if _meet(parts[-1], pattern[1]):
                    return True
            elif (not first or pattern[0] in ("**", first)) and _overlap(parts, pattern):
                return True
        return False


def _is_rotated(pattern: tuple[str, ...]) -> bool:
    """True for `btmp*`, which is for the files that rotation makes of it: none is a `.log`."""
    return pattern[-1].endswith("*") and pattern[-1] != "**"


def one_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """What fits one of some patterns of paths, and nothing else; without any, nothing does."""
    expressions = []
    for pattern in patterns:
        expression = ""
        for part in pattern.strip("/").split("/"):
            if part == "**":
                expression += "(?:/[^/]+)*"
            else:
                signs = ("[^/]*" if sign == "*" else re.escape(sign) for sign in part)
                expression += "/" + "".join(signs)
        expressions.append(expression)
    return re.compile("|".join(expressions) or r"(?!)")


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


@lru_cache(maxsize=16384)
def _meet(name: str, other: str) -> bool:
    """True when some name fits both patterns; the shell hides names that begin with a dot.

    Quotes are gone here, so that it is not known which bracket closes another: it stands for any
    one letter up to each of those behind it, or for itself.
    """
    if name.count("[") > BRACKETS_MAX:
        return True
    begin, end = name[:1], name[-1:]
    if begin not in _WILDCARDS and other[:1] not in ("*", begin):
        return False
    if end not in "*?]" and other[-1:] not in ("*", end):
        return False
    if len(name) - name.count("*") > NAME_CHARACTERS_MAX:
        return False
    if name[:1] in _WILDCARDS and other[:1] == ".":
        return False
    reach = {(0, 0)}
    seen = set(reach)
    while reach:
        a, b = reach.pop()
        if a == len(name) and b == len(other):
            return True
        here, there = name[a : a + 1], other[b : b + 1]
        steps = []
        if here == "*":
            steps += [(a + 1, b), *([(a, b + 1)] if there else [])]
        # What stands for one letter here: itself, or all up to a closing bracket.
        ends = [a + 1] if here else []
        if here == "[":
            ends += [at + 1 for at in range(a + 2, len(name)) if name[at] == "]"]
        if there == "*":
            steps += [(a, b + 1), *((end, b) for end in ends)]
        elif there:
            steps += [(end, b + 1) for end in ends if here in "?[" or here == there]
        reach.update(step for step in steps if step not in seen)
        seen.update(steps)
    return False
