"""What an install needs, worked out from the lock, the pyproject files and pip's settings. Pure."""

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["LEVELS", "NotLockedError", "pins", "pip_settings", "requirements", "uv_settings"]

LEVELS = ("uv", "demo", "all", "docs")
_DEMO_EXTRAS = ("demo",)

# pip setting -> uv variable. A variable that the user has set wins.
_UV_NAMES = {
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "index-url": "UV_DEFAULT_INDEX",
    "no-index": "UV_NO_INDEX",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "trusted-host": "UV_INSECURE_HOST",
}
_UV_OLD_NAMES = {"UV_DEFAULT_INDEX": "UV_INDEX_URL", "UV_INDEX": "UV_EXTRA_INDEX_URL"}


class NotLockedError(Exception):
    """A requirement of ours is not in the lock."""


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _stanzas(lock_text: str) -> dict[str, list[str]]:
    """The lock's entries by package name: the pin, its marker and all its hashes."""
    found: dict[str, list[str]] = {}
    for match in re.finditer(r"(?m)^([A-Za-z0-9][\w.-]*)==.*(?:\n +--hash=.*)*", lock_text):
        found.setdefault(_canonical(match[1]), []).append(match[0].rstrip(" \\"))
    return found


def requirements(level: str, declared: list[dict[str, Any]]) -> list[str]:
    """What the given pyproject files ask for at a level, without our own distributions."""
    own = {_canonical(data["project"]["name"]) for data in declared}
    wanted: list[object] = []
    for data in declared:
        groups: dict[str, list[object]] = data.get("dependency-groups", {})
        extras: dict[str, list[object]] = data["project"].get("optional-dependencies", {})
        wanted += groups.get("install", [])
        if level == "uv":
            continue
        wanted += data["project"].get("dependencies", [])
        for name, entries in extras.items():
            wanted += entries if level != "demo" or name in _DEMO_EXTRAS else []
        for name, entries in groups.items():
            wanted += entries if level == "docs" or (level == "all" and name != "docs") else []
    # `name[extra]`, without version and marker: both are the lock's business.
    texts = (entry.replace(" ", "") for entry in wanted if isinstance(entry, str))
    names = dict.fromkeys(re.sub(r"[^\w.\[\],-].*", "", text) for text in texts)
    return [name for name in names if _canonical(name.partition("[")[0]) not in own]


def pins(names: list[str], lock_text: str) -> str:
    """The lock's entries for these requirements, for a requirements file in hash-checking mode."""
    locked = _stanzas(lock_text)
    lines: list[str] = []
    for name in names:
        plain, bracket, extras = name.partition("[")
        if _canonical(plain) not in locked:
            raise NotLockedError(f"{plain!r} is not in requirements.lock: run `make lock`.")
        for entry in locked[_canonical(plain)]:
            lines.append(entry.replace("==", f"{bracket}{extras}==", 1))
    return "\n".join(lines) + "\n"


def pip_settings(listing: str) -> dict[str, str]:
    """The settings that `pip config list` shows for an install; the environment's win."""
    settings: dict[str, str] = {}
    for section in ("global", "install", ":env:"):
        for line in listing.splitlines():
            key, _, value = line.partition("=")
            if key.startswith(section + ".") and value:
                settings[key.removeprefix(section + ".")] = str(ast.literal_eval(value))
    return settings


def uv_settings(pip: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The machine's pip settings as uv's variables, except where uv has been told already."""
    settings: dict[str, str] = {}
    for key, name in _UV_NAMES.items():
        if key not in pip or name in environ or _UV_OLD_NAMES.get(name) in environ:
            continue
        words = pip[key].split()
        if key == "find-links":
            # pip passes over a folder that is not there, uv stops.
            words = [word for word in words if "://" in word or Path(word).is_dir()]
        if words:
            settings[name] = ("," if key == "find-links" else " ").join(words)
    if "UV_INDEX" in settings:
        # pip looks in all indexes for the pinned version; the hash makes that safe.
        settings["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return settings
