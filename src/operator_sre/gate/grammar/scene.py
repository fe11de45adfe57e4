"""Where a command would run, and what its check finds out about it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from operator_sre.gate.grammar.paths import Secrets, resolve_path
from operator_sre.shell.words import Simple, Word

__all__ = ["Scene"]


@dataclass(slots=True)
class Scene:
    """The working directory and the rules of the place; what would be touched is gathered here.

    `reaches` tells whether a host may be spoken to, `anywhere` that all of them may but a few.
    `inner` are commands inside of commands that are not checked yet. `fed`: what the command
    at hand reads comes from elsewhere than the line itself. `earlier` are directories that it may
    still be in. `follows`: an answer may lead it to any other host. `venv`: programs of Python are
    those of a virtual environment that is known.
    """

    secrets: Secrets
    reaches: Callable[[str], bool]
    anywhere: bool = False
    cwd: str = "/"
    fed: bool = False
    follows: bool = False
    venv: bool = False
    earlier: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    network: list[str] = field(default_factory=list)
    sensitive: list[str] = field(default_factory=list)
    inner: list[Simple] = field(default_factory=list)

    def read(self, word: Word, *, below: bool = False) -> str:
        """Note that a file is read; why it must not be without a person, or nothing."""
        text = word.text
        if text[:1] == "~" and text[1:2] not in ("", "/") and not text.startswith("~root/"):
            return "The home directory is not known until it runs."
        path = resolve_path(text, self.cwd)
        self.reads.append(path)
        places = [path]
        if self.earlier and text[:1] not in ("/", "~"):
            places += [resolve_path(text, place) for place in self.earlier]
        if ".." in text.split("/"):  # behind a link, it leads elsewhere than its text says
            parts = text.split("/")
            rest = "/".join(parts[len(parts) - parts[::-1].index("..") :]).strip("/")
            places += [f"{place}/{rest}" for place in _TARGETS] if rest else []
        if ":" in text:  # git names a file of a commit like this
            places.append(resolve_path(text.rpartition(":")[2], self.cwd))
        for place in places:
            if self.secrets.holds(place, below=below):
                self.sensitive.append(place)
                return f"?{place} may hold secrets."
        return self.visit(text)

    def visit(self, text: str) -> str:
        """Why a path must not be touched, for it asks a host or starts a device; or nothing."""
        parts = resolve_path(text, self.cwd).split("/", 3)
        if len(parts) < 3 or not parts[2]:
            return ""
        if parts[1] == "dev" and parts[2].startswith(_ACTING):
            return f"!Opening /dev/{parts[2][:60]} can reset the machine or move a tape."
        folder = parts[1]
        if folder in _HOSTS or (
            _GLOB(folder) and any(fnmatchcase(host, folder) for host in _HOSTS)
        ):
            return self.reach(parts[2])
        return ""

    def write(self, word: Word) -> None:
        """Note that a file is written, as far as its name is known."""
        self.writes.append(word.text if word.opaque else resolve_path(word.text, self.cwd))

    def reach(self, host: str) -> str:
        """Note that a host is spoken to; why it must not be without a person, or nothing."""
        self.network.append(host)
        return "" if self.reaches(host) else _OUTSIDE.format(host)


# Folders whose entries are hosts: listing one asks the host for its files.
_HOSTS = ("net", "afs")
_GLOB = re.compile(r"[*?\[]").search
# Devices that act when they are opened, even to read.
_ACTING = ("watchdog", "st0", "st1", "nst", "nvram")
_OUTSIDE = (
    ">{} is not an allowed host, and even a read request can carry data out. Approve the command,"
    " or add the host to 'egress: allow' in the policy."
)
# Where `..` may lead to from a link: the text before it does not show what lies there.
_TARGETS = ("", "/etc", "/root", "/run", "/proc/1", "/dev", "/var", "/var/lib")
