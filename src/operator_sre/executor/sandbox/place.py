"""The private folder of one run, its user, and what it sees of this machine: all read-only."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from operator_sre.executor.sandbox import forward, seccomp
from operator_sre.executor.sandbox.box import Language, Script
from operator_sre.executor.sandbox.cgroup import PREFIX

__all__ = [
    "FILES",
    "PATH",
    "Place",
    "View",
    "copy_for_all",
    "forget",
    "fresh_uid",
    "place",
    "reachable",
    "see",
    "sweep",
]

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
# Where programs and libraries lie; links are created again, everything else is bound.
_TREES = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/libx32")
# No secret lies in these: what programs need, and what encrypted connections need.
_FILES = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
_TRUSTED = (
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates"),
    *("/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted"),
)
_PYTHONS = ("/usr/bin/python3", "/usr/local/bin/python3")
_BASHES = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash")


@dataclass(frozen=True, slots=True)
class View:
    """The words for bubblewrap, and the programs that are there; "" where there is none.

    `trusted` are the words for a box that has a way out.
    """

    words: tuple[str, ...]
    trusted: tuple[str, ...]
    python: str
    bash: str
    prlimit: str


def see(*, hides: Iterable[Path] = (), by_anybody: bool) -> View:
    """What this machine offers. `by_anybody` when a user without rights has to read it."""
    words: list[str] = []
    for tree in map(Path, _TREES):
        if tree.is_symlink():
            words += ["--symlink", str(tree.readlink()), str(tree)]
        elif tree.is_dir():
            words += ["--ro-bind", str(tree), str(tree)]
    words += _files(_FILES)
    # The Python of the machine, else our own, with the folder to bind.
    if found := _first(_PYTHONS):
        python, prefix = found, ""
    else:
        ours, base = Path(sys.executable).resolve(), Path(sys.base_prefix).resolve()
        if by_anybody and not reachable(ours):
            python, prefix = "", ""
        else:
            python, prefix = str(ours), str(base)
    if prefix:
        words += ["--ro-bind", prefix, prefix]
    shown = [Path(each) for each in (*_TREES, prefix) if each]
    for hidden in hides:
        if any(tree in hidden.parents for tree in shown):
            words += ["--tmpfs", str(hidden), "--remount-ro", str(hidden)]
    return View(
        words=tuple(words),
        trusted=tuple(_files(_TRUSTED)),
        python=python,
        bash=_first(_BASHES),
        prlimit=shutil.which("prlimit", path=PATH) or "",
    )


def _files(paths: Iterable[str]) -> list[str]:
    found = [Path(path) for path in paths if Path(path).exists()]
    return [word for file in found for word in ("--ro-bind", str(file.resolve()), str(file))]


def _first(paths: Iterable[str]) -> str:
    return next((path for path in paths if Path(path).exists()), "")


def reachable(path: Path) -> bool:
    """True when any user of this machine may run it."""
    path = path.resolve()
    try:
        others = [each.stat().st_mode for each in (path, *path.parents)]
    except OSError:
        return False
    return all(mode & stat.S_IXOTH for mode in others) and bool(others[0] & stat.S_IROTH)


FILES = {Language.PYTHON: "main.py", Language.BASH: "main.sh"}
_FORWARDER = Path(forward.__file__)
_PEOPLE = "nobody:x:65534:65534:nobody:/tmp:/bin/false\n"
# Beyond what distributions, containers and systemd hand out, and below where a sign bit begins.
_UIDS_FROM, _UIDS = 1_900_000_000, 1 << 24
# If there are fewer, as in a container of a plain user: from the top of the range.
_UIDS_FEW, _UIDS_SPARED = 4096, 2048
# No box lives longer than its time-out; what is older was left by an operator that was killed.
_STALE_S = 900.0


@dataclass(frozen=True, slots=True)
class Place:
    """A folder that only the run's own user enters; 0 is the user who runs the operator."""

    folder: Path
    uid: int
    bwrap: Path

    @property
    def name(self) -> str:
        """What tells it from every other run on this machine."""
        return self.folder.name.removeprefix(PREFIX)

    @property
    def filter(self) -> Path:
        """The program that the kernel runs over each system call."""
        return self.folder / "filter"

    @property
    def status(self) -> Path:
        """Where bubblewrap writes what became of the box."""
        return self.folder / "status"

    @property
    def socket(self) -> Path:
        """Where the way out of the box begins."""
        return self.folder / "egress"

    def ran(self) -> bool:
        """Whether the box was made, so that the script ran to its own end."""
        with contextlib.suppress(OSError):
            return '"exit-code"' in self.status.read_text()
        return False


@contextlib.contextmanager
def place(parent: Path, name: str, script: Script, *, bwrap: str, drops: bool) -> Iterator[Place]:
    """A folder with everything that the box sees, until the run ends."""
    folder = parent / f"{PREFIX}{name}"
    folder.mkdir(mode=0o700)
    uid = fresh_uid() if drops else 0
    try:
        (folder / "script").mkdir(mode=0o755)
        (folder / "inputs").mkdir(mode=0o755)
        _write(folder / "script" / FILES[script.language], script.text.encode("utf-8", "replace"))
        for file_name, content in script.inputs.items():
            _write(folder / "inputs" / file_name, content)
        if script.hosts:
            _write(folder / "script" / "forward.py", _FORWARDER.read_bytes())
        _write(folder / "passwd", _PEOPLE.encode())
        _write(folder / "filter", seccomp.program())
        for made in ("script", "inputs"):
            (folder / made).chmod(0o755)  # whatever the umask is; only its owner enters the folder
        program = Path(bwrap)
        if uid and not reachable(program):
            program = copy_for_all(program, folder / "program")
        if uid:
            os.chown(folder, uid, uid)
        yield Place(folder, uid, program)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fresh_uid(mapped: Path = Path("/proc/self/uid_map")) -> int:
    """A user that owns nothing and runs nothing, another one for every run."""
    first, _, count = (int(word) for word in mapped.read_text().split("\n")[0].split())
    if first + count > _UIDS_FROM + _UIDS:
        return _UIDS_FROM + secrets.randbelow(_UIDS)
    lowest = first + count - _UIDS_SPARED - _UIDS_FEW
    if lowest < _UIDS_FEW:
        raise OSError("this user namespace has too few user ids to give the script its own")
    return lowest + secrets.randbelow(_UIDS_FEW)


def forget(parent: Path, name: str) -> None:
    """Remove what an operator that was killed left of one run."""
    shutil.rmtree(parent / f"{PREFIX}{name}", ignore_errors=True)


def sweep(parent: Path) -> None:
    """Remove what operators that were killed left behind."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _STALE_S:
                shutil.rmtree(folder, ignore_errors=True)


def copy_for_all(program: Path, folder: Path) -> Path:
    """Bubblewrap where the run's user reaches it, with the libraries that its wheel brings."""
    package = program.parent.parent
    copy = folder / package.name / program.parent.name / program.name
    copy.parent.mkdir(parents=True)
    shutil.copy(program, copy)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    for made in (folder, *folder.rglob("*")):
        made.chmod(0o755)
    return copy


def _write(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    file.chmod(0o444)
