"""How this Operator was installed, and so how a missing package gets into it.

No package index has Operator. Its extras come from the directory of its wheels, which pipx and uv
remember; for pip the command says DIST.
"""

from __future__ import annotations

import json
import shlex
import sys
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["how_to_add_extra", "how_to_add_package"]

NAME = "operator-sre"
DIST = "DIST"
EXPLAINED = f" ({DIST} is the directory with the wheels of Operator)"
CONSTRAINTS = "constraints.txt"
_ABSENT = (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration)


def how_to_add_extra(extra: str, *, prefix: Path | None = None) -> str:
    """The command that adds an extra to the environment in `prefix`, and keeps those it has."""
    place = prefix or Path(sys.prefix)
    if (project := _checkout()) is not None:
        if place == project / ".venv":
            return _command("make", "-C", str(project), "extras")
        return _command(*_pip(place), "-e", f"{project}[{extra}]")
    if (receipt := _uv_receipt(place)) is not None:
        words = ("uv", "tool", "install", *_wheels(_uv_links(receipt)))
        return _command(*words, _with_extra(_uv_extras(receipt), extra))
    if (main := _pipx_package(place)) is not None:
        options = shlex.join(_strings(main.get("pip_args"))) or shlex.join(_wheels(""))
        words = ("pipx", "install", "--force", f"--pip-args={options}")
        return _command(*words, _with_extra(_extras_of(str(main.get("package_or_url"))), extra))
    return _command(*_pip(place), *_wheels(""), f"{NAME}[{extra}]")


def how_to_add_package(package: str, *, prefix: Path | None = None) -> str:
    """The command that adds a package of others to the environment in `prefix`."""
    place = prefix or Path(sys.prefix)
    if (receipt := _uv_receipt(place)) is not None:
        words = ("uv", "tool", "install", *_wheels(_uv_links(receipt)), "--with", package)
        return _command(*words, _with_extra(_uv_extras(receipt)))
    if _pipx_package(place) is not None:
        return _command("pipx", "inject", NAME, package)
    return _command(*_pip(place), package)


def _command(*words: str) -> str:
    line = shlex.join(words)
    return line + EXPLAINED if DIST in line else line


def _pip(prefix: Path) -> tuple[str, ...]:
    """The words that install into an environment, which may have been made without pip."""
    python = str(prefix / "bin" / "python")
    if any(prefix.glob("lib/python*/*-packages/pip")):
        return (python, "-m", "pip", "install")
    return ("uv", "pip", "install", "--python", python)


def _wheels(folder: str) -> tuple[str, ...]:
    where = folder or DIST
    if folder and not Path(folder, CONSTRAINTS).is_file():
        return ("-f", where)
    return ("-f", where, "-c", f"{where}/{CONSTRAINTS}")


def _with_extra(present: list[str], *more: str) -> str:
    extras = ",".join(sorted({*present, *more}))
    return f"{NAME}[{extras}]" if extras else NAME


def _checkout() -> Path | None:
    """The directory that this Operator runs from, when a checkout is installed."""
    with suppress(PackageNotFoundError, *_ABSENT):
        origin = json.loads(distribution(NAME).read_text("direct_url.json") or "{}")
        if origin["dir_info"]["editable"]:
            return Path(unquote(urlsplit(origin["url"]).path))
    return None


def _uv_receipt(prefix: Path) -> dict[str, Any] | None:
    """What `uv tool` remembers of an installation."""
    with suppress(*_ABSENT):
        tool = tomllib.loads((prefix / "uv-receipt.toml").read_text(encoding="utf-8"))["tool"]
        if isinstance(tool, dict):
            return tool
    return None


def _uv_extras(tool: dict[str, Any]) -> list[str]:
    with suppress(*_ABSENT):
        own = next(each for each in tool["requirements"] if each["name"] == NAME)
        return _strings(own.get("extras"))
    return []


def _uv_links(tool: dict[str, Any]) -> str:
    with suppress(*_ABSENT, IndexError):
        (link, *_) = tool["options"]["find-links"]
        return unquote(urlsplit(str(link)).path)
    return ""


def _pipx_package(prefix: Path) -> dict[str, Any] | None:
    """What pipx remembers of an installation."""
    with suppress(*_ABSENT):
        text = (prefix / "pipx_metadata.json").read_text(encoding="utf-8")
        main = json.loads(text)["main_package"]
        if main["package"] == NAME:
            return dict(main)
    return None


def _extras_of(requirement: str) -> list[str]:
    _, _, rest = requirement.partition("[")
    return [word.strip() for word in rest.partition("]")[0].split(",") if word.strip()]


def _strings(found: object) -> list[str]:
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
