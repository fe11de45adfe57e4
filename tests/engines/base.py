"""A stand-in for the base of our images: Debian's packages with a Python.

The real one would have to be pulled. `python -m tests.engines.base` makes it and keeps it: a tar of
a root file system. Its Python is a 3.12 of this machine, in /usr/local like that of the real one; a
machine without one takes the Python of Debian's packages.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.engines.debian import CACHE, SUITE, mirror, unpack

__all__ = ["Base", "base_or_why", "main"]

# Another way to make it makes another one.
_WAY = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
OURS, DEBIANS = "3.12", "3.13"
MAKE_S_MAX = 900.0
# What the real one has beside the smallest Debian: what Python needs, and whom to trust.
PACKAGES = (
    *("ca-certificates", "libbz2-1.0", "libffi8", "liblzma5", "libsqlite3-0", "libssl3t64"),
    *("libuuid1", "netbase", "tzdata", "zlib1g"),
)
# What Debian's Python needs to be the Python of an image.
PYTHON_PACKAGES = ("python3", "python3-pip", "python3-venv")
LEFT_OUT = ("test", "idlelib", "tkinter", "turtledemo", "lib2to3", "__pycache__")
TRUSTED = "etc/ssl/certs/ca-certificates.crt"
PIP = '#!/bin/sh\nexec /usr/local/bin/python3 -m pip "$@"\n'


@dataclass(frozen=True, slots=True)
class Base:
    """The tar of a root file system, and which Python is in it, like `3.12`."""

    tar: Path
    python: str


def base_or_why() -> tuple[Base | None, str]:
    """The stand-in, made where it is not yet; or why it cannot be had."""
    python = _python()
    version = DEBIANS if python is None else OURS
    base = Base(CACHE / "base" / f"python-{version}-{SUITE}-{_WAY}.tar", version)
    if base.tar.exists():
        return base, ""
    if os.geteuid() != 0:
        return None, "needs a base image, and only root can make one"
    if not mirror():
        return None, "needs a base image, and apt knows no Debian here to make one from"
    with tempfile.TemporaryDirectory(prefix="operator-base-") as folder:
        why = _make(Path(folder), python, base.tar)
    return (None, why) if why else (base, "")


def _python() -> Path | None:
    """The prefix of a Python 3.12 that lies in a folder of its own."""
    places = sorted(Path.home().glob(".pyenv/versions/3.12.*/bin/python3.12"), reverse=True)
    found = shutil.which("python3.12")
    for place in (*([found] if found else []), *places):
        told = subprocess.run(
            [str(place), "-I", "-c", "import sys, pip; print(sys.base_prefix)"],
            capture_output=True,
            text=True,
            check=False,
        )
        if told.returncode == 0 and told.stdout.strip() != "/usr":
            return Path(told.stdout.strip())
    return None


def _make(folder: Path, python: Path | None, tar: Path) -> str:
    """Make it; "" when it is made, else why not."""
    tools, root = folder / "tools", folder / "root"
    tools.mkdir()
    if not unpack(tools, "debootstrap"):
        return "needs a base image, and Debian's packages cannot be fetched here"
    packages = PACKAGES if python else (*PACKAGES, *PYTHON_PACKAGES)
    made = subprocess.run(
        [
            *("unshare", "--mount", "sh", str(tools / "usr/sbin/debootstrap")),
            *("--variant=minbase", f"--include={','.join(packages)}", SUITE, str(root), mirror()),
        ],
        env={**os.environ, "DEBOOTSTRAP_DIR": str(tools / "usr/share/debootstrap")},
        capture_output=True,
        text=True,
        check=False,
        timeout=MAKE_S_MAX,
    )
    if made.returncode != 0:
        said = (made.stdout + made.stderr).strip().splitlines() or ["nothing"]
        return f"needs a base image, and debootstrap said: {said[-1][:200]}"
    if python:
        _copy_python(python, root)
    else:
        _use_debians_python(root)
    (root / "usr/local/bin/pip").write_text(PIP)
    (root / "usr/local/bin/pip").chmod(0o755)
    # Whom this machine trusts: what is fetched during a build may come through somebody of ours.
    shutil.copy2(f"/{TRUSTED}", root / TRUSTED)
    subprocess.run(["chroot", str(root), "/sbin/ldconfig"], check=True)
    shutil.rmtree(root / "var/cache/apt/archives", ignore_errors=True)
    for one in (root / "var/lib/apt/lists").iterdir():
        if one.is_file():
            one.unlink()
    tar.parent.mkdir(parents=True, exist_ok=True)
    fresh = tar.with_name(f".{tar.name}.{os.getpid()}")
    subprocess.run(
        ["tar", "--numeric-owner", "--one-file-system", "-C", str(root), "-cf", str(fresh), "."],
        check=True,
    )
    fresh.rename(tar)
    return ""


def _copy_python(python: Path, root: Path) -> None:
    local = root / "usr/local"
    left_out = shutil.ignore_patterns(*LEFT_OUT, "config-*", "*.a")
    shutil.copytree(python / "lib", local / "lib", ignore=left_out, dirs_exist_ok=True)
    program = local / "bin/python3.12"
    shutil.copy2(python / "bin/python3.12", program)
    for name in ("python", "python3"):
        (local / "bin" / name).symlink_to("python3.12")


def _use_debians_python(root: Path) -> None:
    for name in ("python", "python3"):
        (root / "usr/local/bin" / name).symlink_to("/usr/bin/python3")
    # An image installs into its Python, which Debian reserves for its own packages.
    (root / "usr/lib" / f"python{DEBIANS}" / "EXTERNALLY-MANAGED").unlink()


def main() -> int:
    """Make it unless it is there; 1 where it cannot be had."""
    found, why = base_or_why()
    if found is None:
        sys.stderr.write(f"{why}\n")
        return 1
    sys.stdout.write(f"The base is {found.tar}.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
