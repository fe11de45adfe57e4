"""Programs of Debian for the tests: fetched by apt, unpacked, and never installed.

`tests/tools/debian.sh` has put some of this Debian into a cache. `unpack` fetches those of a newer
one than this; nothing of the machine's own apt is changed: all that is fetched and remembered goes
to a folder of its own. The mirror is the one that this machine uses already, and signatures are
checked.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

__all__ = ["CACHE", "SUITE", "busybox", "mirror", "unpack"]

SUITE = "trixie"
CACHE = (
    Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "operator-sre-tests"
).absolute()
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
FETCH_S_MAX = 300.0


def busybox() -> Path | None:
    """The one of this machine, or the one that was fetched."""
    installed, fetched = shutil.which("busybox"), CACHE / "busybox" / "bin" / "busybox"
    if installed:
        return Path(installed)
    return fetched if fetched.exists() else None


def mirror() -> str:
    """Where this machine has Debian from; "" where it has none."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None or not KEYS.exists():
        return ""
    told = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)"],
        capture_output=True,
        text=True,
        check=False,
    )
    found = (line.removeprefix("Debian Debian ") for line in told.stdout.splitlines())
    return next((one for one in found if "://" in one and " " not in one), "")


def unpack(folder: Path, *packages: str) -> bool:
    """Have the files of packages in this folder; False where they cannot be had."""
    source = mirror()
    if not source:
        return False
    state = folder / "apt"
    for inner in ("lists/partial", "cache/archives/partial", "etc"):
        (state / inner).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    (state / "sources.list").write_text(f"deb [signed-by={KEYS}] {source} {SUITE} main\n")
    options = {
        "Dir::State": state,
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
        "Dir::Etc::SourceList": state / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    for words in (("update",), ("download", *packages)):
        done = subprocess.run(
            [*apt, *words], cwd=folder, capture_output=True, check=False, timeout=FETCH_S_MAX
        )
        if done.returncode != 0:
            return False
    shutil.rmtree(state)
    for fetched in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", str(fetched), str(folder)], check=True)
        fetched.unlink()
    return True
