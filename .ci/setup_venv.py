"""Set up `.venv` so that nothing is in it whose hash is not in requirements.lock.

    python3 .ci/setup_venv.py demo                     install what the demo needs
    .venv/bin/python .ci/setup_venv.py --check demo    is it there? costs milliseconds, exit 0 or 1
    python3 .ci/setup_venv.py lock [--upgrade]         write requirements.lock

The levels are `uv` (the installer alone), `demo` (the base and the lab), `all` (every extra and the
tools of development) and `docs` (what builds the site of the documentation, too). pip brings uv, by
its hash; uv brings the rest, in its strict mode. The machine's pip settings (index, certificate,
proxy, ...) hold for uv as well.
"""

import argparse
import compileall
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pinned import LEVELS, NotLockedError, pins, pip_settings, requirements, uv_settings

__all__ = ["SetupError", "is_ready", "main"]

_ROOT = Path(__file__).resolve().parent.parent
_VENV = _ROOT / ".venv"
_PYTHON = _VENV / "bin" / "python"
_UV = _VENV / "bin" / "uv"
_STATE = _VENV / "operator-setup.json"
_LOCK = _ROOT / "requirements.lock"

# Settings that would send an install somewhere else than into `.venv`, or change its meaning.
_ELSEWHERE = {
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_TARGET",
    "PYTHONHOME",
    "PYTHONPATH",
    "UV_BREAK_SYSTEM_PACKAGES",
    "UV_CONSTRAINT",
    "UV_OVERRIDE",
    "UV_PREFIX",
    "UV_SYSTEM_PYTHON",
    "UV_TARGET",
}


class SetupError(Exception):
    """The set-up cannot go on; the message is a sentence for a person, with the next step."""


def is_ready(level: str, *, state: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether the state describes a finished install of at least this level, still up to date."""
    done = state.get("level", "")
    if done not in LEVELS or LEVELS.index(done) < LEVELS.index(level):
        return False
    return all(state.get(name) == value for name, value in now.items())


def _projects() -> list[Path]:
    """The folders of our own distributions, what is depended on first."""
    services = sorted((_ROOT / "services").glob("*/"))
    folders = [_ROOT / "protocols", *services, _ROOT, _ROOT / "lab", _ROOT / "evals"]
    return [folder for folder in folders if (folder / "pyproject.toml").is_file()]


def _fingerprint() -> dict[str, str]:
    """What an install depends on: when it changes, the install is out of date."""
    if not _LOCK.is_file():
        raise SetupError("requirements.lock is missing: restore it with `git checkout`.")
    declared = hashlib.sha256()
    for path in [*(folder / "pyproject.toml" for folder in _projects()), Path(__file__)]:
        declared.update(path.read_bytes())
    return {
        "checkout": str(_ROOT),
        "declared": declared.hexdigest(),
        "lock": hashlib.sha256(_LOCK.read_bytes()).hexdigest(),
    }


def _read_state() -> dict[str, str]:
    try:
        state = json.loads(_STATE.read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def _version_of(python: str | Path) -> str:
    """The full version text of an interpreter; empty when it does not start."""
    try:
        done = subprocess.run(
            [python, "-E", "-S", "-c", "import sys; print(sys.version)"],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _stale_reason(state: Mapping[str, str], now: Mapping[str, str], python: str) -> str:
    """Why `.venv` cannot be kept and completed; empty when it can."""
    version = _version_of(_PYTHON)
    if not state or not version or version != state.get("python"):
        return "it is incomplete, or its Python has changed"
    if python and version != _version_of(python):
        return f"it is not of the Python asked for, {python!r}"
    if state.get("checkout") != now["checkout"]:
        return "it was made in another folder"
    if state.get("lock") != now["lock"]:
        return "requirements.lock has changed"
    return ""


def _is_writable(folder: Path) -> bool:
    """Whether this folder, or else the nearest existing one above it, can be written."""
    while not os.access(folder, os.F_OK) and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _environment() -> dict[str, str]:
    """The environment of pip and uv: the user's, kept inside `.venv`."""
    environ = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    environ |= {"PIP_USER": "0", "UV_PYTHON_DOWNLOADS": "never"}
    home = Path(environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    if "UV_CACHE_DIR" not in environ and not _is_writable(home / "uv"):
        # No home, or one that cannot be written: a cache of our own, removed at the end.
        environ |= {"PIP_NO_CACHE_DIR": "1", "UV_CACHE_DIR": str(_VENV / "cache")}
    return environ


def _say(sentence: str) -> None:
    sys.stderr.write(sentence + "\n")
    sys.stderr.flush()


def _run(command: list[str | Path], *, environ: Mapping[str, str], goal: str) -> None:
    done = subprocess.run(command, cwd=_ROOT, env=dict(environ), check=False)
    if done.returncode != 0:
        raise SetupError(
            f"could not {goal} (exit {done.returncode}, the reason is above). If the package index"
            " was out of reach, run the same command again."
        )


def _make_venv(environ: Mapping[str, str]) -> None:
    """An empty `.venv` of the Python that runs this file, in place of whatever was there."""
    if _VENV.is_symlink() or _VENV.is_file():
        _VENV.unlink()
    elif _VENV.exists():
        shutil.rmtree(_VENV)
    # Inside an activated environment, perhaps the one just removed, its base is meant.
    base = Path(getattr(sys, "_base_executable", sys.executable))
    _say(f"Making .venv with Python {'.'.join(map(str, sys.version_info[:3]))} ...")
    _run([base, "-m", "venv", _VENV], environ=environ, goal="make .venv")


def _bring_uv(environ: Mapping[str, str], declared: list[dict[str, Any]], lock_text: str) -> None:
    """Install uv with pip, by its hash in the lock, unless that version is there."""
    wanted = pins(requirements("uv", declared), lock_text)
    wanted_file = _VENV / "operator-uv.txt"
    if _UV.exists() and wanted_file.is_file() and wanted_file.read_text() == wanted:
        return
    wanted_file.write_text(wanted)
    _say("Installing uv ...")
    options = ["--only-binary=:all:", "--no-deps", "--no-input", "--quiet"]
    pip: list[str | Path] = [_PYTHON, "-m", "pip", "--disable-pip-version-check", "install"]
    _run(
        [*pip, *options, "--require-hashes", "-r", wanted_file],
        environ=environ,
        goal="install uv with pip",
    )


def _with_pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for uv: it reads no pip settings by itself."""
    listing = subprocess.run(
        [_PYTHON, "-m", "pip", "--disable-pip-version-check", "config", "list"],
        env=dict(environ),
        capture_output=True,
        text=True,
        check=False,
    )
    return {**environ, **uv_settings(pip_settings(listing.stdout), environ)}


def _bring_packages(
    environ: Mapping[str, str], level: str, declared: list[dict[str, Any]], lock_text: str
) -> None:
    """Install what others made, by hash, and then what is ours, as editable distributions."""
    wanted_file = _VENV / f"operator-{level}.txt"
    wanted_file.write_text(pins(requirements(level, declared), lock_text))
    uv: list[str | Path] = [_UV, "pip", "install", "--python", _PYTHON]
    if not sys.stderr.isatty():
        uv.append("--quiet")
    _say("Installing the packages of requirements.lock ...")
    # Building a source distribution would download its build backend, unlocked: wheels only.
    strict = ["--require-hashes", "--no-build", "--compile-bytecode"]
    files: list[str | Path] = ["-r", wanted_file, "-c", _LOCK]
    _run([*uv, *strict, *files], environ=environ, goal="install the packages")
    own = [part for folder in _projects() for part in ("-e", folder)]
    _run([*uv, "--no-deps", "--no-index", *own], environ=environ, goal="install Operator itself")


def _compile_own() -> None:
    """Byte code for our own source, also where PYTHONDONTWRITEBYTECODE is exported."""
    for folder in _projects():
        compileall.compile_dir(folder / "src", quiet=2)


@contextmanager
def _alone() -> Iterator[None]:
    """One set-up in this checkout at a time; a second one waits and then finds it done."""
    handle = os.open(_ROOT, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _install(level: str, python: str) -> None:
    """Bring `.venv` to a level. The state is complete last, so an interrupted install shows."""
    now, state = _fingerprint(), _read_state()
    reason = _stale_reason(state, now, python) if _VENV.exists() else "there is none"
    if not reason and is_ready(level, state=state, now=now):
        return
    if not _is_writable(_ROOT):
        raise SetupError(f"{str(_ROOT)!r} cannot be written by this user: use a clone of your own.")
    environ = _environment()
    if reason:
        if _VENV.exists():
            _say(f"The old .venv goes: {reason}.")
        _make_venv(environ)
    elif level != "uv" and state.get("level") in LEVELS:  # a new lock needs no packages of the old
        level = max(level, state["level"], key=LEVELS.index)
    begun = {**now, "python": _version_of(_PYTHON)}
    _STATE.write_text(json.dumps({**begun, "level": ""}))
    declared = [tomllib.loads((folder / "pyproject.toml").read_text()) for folder in _projects()]
    lock_text = _LOCK.read_text()
    _bring_uv(environ, declared, lock_text)
    if level != "uv":
        _bring_packages(_with_pip_settings(environ), level, declared, lock_text)
        _compile_own()
    shutil.rmtree(_VENV / "cache", ignore_errors=True)
    _STATE.write_text(json.dumps({**begun, "level": level}))


def _write_lock(*, upgrade: bool) -> None:
    """Resolve everything for every Python and platform at once, and write the lock."""
    own = [
        tomllib.loads((folder / "pyproject.toml").read_text())["project"]["name"]
        for folder in _projects()
    ]
    command: list[str | Path] = [_UV, "pip", "compile", "--quiet", "pyproject.toml"]
    command += ["--universal", "--python-version=3.11", "--all-extras"]
    command += ["--group=dev", "--group=docs", "--group=install", "--generate-hashes"]
    command += ["--no-header", "--no-emit-index-url", "--no-emit-find-links"]
    command += [f"--no-emit-package={name}" for name in own]
    command += ["--upgrade"] if upgrade else []
    environ = _with_pip_settings(_environment())
    _run([*command, f"--output-file={_LOCK.name}"], environ=environ, goal="write the lock")


def _check(level: str, python: str) -> bool:
    """Whether `.venv`, whose Python runs this, is in place; brings our byte code up to date."""
    state, now = _read_state(), _fingerprint()
    now |= {"python": sys.version}
    if not is_ready(level, state=state, now=now) or (python and _version_of(python) != sys.version):
        return False
    if level != "uv":
        _compile_own()
    return True


def main(arguments: list[str]) -> int:
    """Do what the command line asks; a failure is one sentence and exit code 1."""
    parser = argparse.ArgumentParser(description="Set up .venv from requirements.lock.")
    parser.add_argument("goal", choices=[*LEVELS, "lock"])
    parser.add_argument("--check", action="store_true", help="only say whether it is in place")
    parser.add_argument("--python", default="", help="the Python that .venv must be of")
    parser.add_argument("--upgrade", action="store_true", help="lock: take the newest versions")
    options = parser.parse_args(arguments)
    try:
        if options.check:
            return 0 if _check(options.goal, options.python) else 1
        with _alone():
            _install("uv" if options.goal == "lock" else options.goal, options.python)
            if options.goal == "lock":
                _write_lock(upgrade=options.upgrade)
    except (NotLockedError, OSError, SetupError) as error:
        _say(f"Set-up failed: {error}")
        return 1
    except KeyboardInterrupt:
        _say("Set-up interrupted; the next run takes it up again.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
