"""Build the real PD for tests, and the small store that goes with it: `python -m tests.tools.pd`.

PD is a public Go module, taken at a pinned version and checked against a pinned sum. Both programs
go into a cache folder outside of the tree, under the names by which a rig finds them. A machine
without Go fetches one from Debian's packages for the build. Where no build is possible, one
sentence says why, and tests that need one are skipped.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.engines.debian import unpack

__all__ = ["CannotBuild", "build", "built", "folder"]

MODULE = "github.com/tikv/pd"
VERSION = "v1.1.0-beta.0.20240407022249-7179657d129b"
SUM = "h1:t2XoZp4UHrkPpYPsxbRTRVExJnriWlh+ZsDIfpYyd98="
# What that state of the module was going to be. Stores must be of the same version.
RELEASE = "v8.1.0-alpha"
_PD = f"{VERSION} {SUM} {RELEASE}".encode()
STORE = Path(__file__).parents[1] / "engines" / "tikv" / "store"
PD, TIKV = "pd-server", "tikv-server"
GO_PACKAGES, GO = ("golang-1.24-go", "golang-1.24-src"), "usr/lib/go-1.24/bin/go"
DOWNLOAD_S_MAX, BUILD_S_MAX = 600.0, 5400.0
PACKAGES_PER_LINE = 100
ENVIRONMENT = {"CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-mod=readonly -buildvcs=false"}


class CannotBuild(Exception):
    """A sentence that says why there is no PD to test with."""


def folder() -> Path:
    """Where both programs are when they are built; other sources have another place."""
    sources = [one for one in sorted(STORE.iterdir()) if one.suffix in (".go", ".mod", ".sum")]
    texts = (one.name.encode() + b"\0" + one.read_bytes() for one in sources)
    return _cache() / f"pd-{_digest(_PD)}-{_digest(_PD, *texts)}"


def _cache() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME") or "/tmp") / ".cache"
    return Path(cache) / "operator-sre-tests" / "pd"


def _digest(*texts: bytes) -> str:
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:12]


def built() -> bool:
    """Both programs are there."""
    return all(os.access(folder() / name, os.X_OK) for name in (PD, TIKV))


def build() -> Path:
    """The folder of both programs, built where they are not; CannotBuild where they cannot be."""
    place = folder()
    if built():
        return place
    with tempfile.TemporaryDirectory(prefix="operator-go-") as fetched:
        go = shutil.which("go") or _fetch_go(Path(fetched))
        _build_with(go, place)
    return place


def _fetch_go(folder: Path) -> str:
    _say("Fetching Go from Debian's packages ...")
    if not unpack(folder, *GO_PACKAGES):
        raise CannotBuild("There is no Go to build PD with: install Go 1.22 or newer.")
    return str(folder / GO)


def _build_with(go: str, place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place, prefix="half.") as half:
        pd, tikv = Path(half) / PD, Path(half) / TIKV
        _compile(go, STORE, tikv, "-ldflags", "-s -w")
        # Where only the store was changed since PD was built, it is the same PD.
        if others := sorted(_cache().glob(f"pd-{_digest(_PD)}-*/{PD}")):
            shutil.copy2(others[0], pd)
        else:
            stamp = f"-X {MODULE}/pkg/versioninfo.PDReleaseVersion={RELEASE}"
            flags = ("-tags", "without_dashboard", "-ldflags", f"-s -w {stamp}")
            _compile(go, _fetched(go, half), pd, *flags, package="./cmd/pd-server")
        for program in (pd, tikv):
            program.replace(place / program.name)


def _fetched(go: str, half: str) -> Path:
    """The sources of PD, with the sum that they should have."""
    _say(f"Fetching {MODULE} ...")
    words = [go, "mod", "download", "-json", f"{MODULE}@{VERSION}"]
    try:
        done = subprocess.run(
            words, cwd=half, capture_output=True, text=True, timeout=DOWNLOAD_S_MAX, check=False
        )
        found = json.loads(done.stdout or "{}")
    except (subprocess.TimeoutExpired, ValueError) as problem:
        raise CannotBuild(f"The module of PD cannot be fetched: {problem}") from None
    if "Dir" not in found:
        why = _last(str(found.get("Error") or done.stderr))
        raise CannotBuild(f"The module of PD cannot be fetched: {why}")
    if found.get("Sum") != SUM:
        raise CannotBuild(f"The module of PD has the sum {found.get('Sum')!r}, not the pinned one.")
    return Path(found["Dir"])


def _compile(go: str, source: Path, to: Path, *flags: str, package: str = ".") -> None:
    _say(f"Building {to.name}; what is new to this machine takes minutes ...")
    words = [go, "build", "-v", "-trimpath", *flags, "-o", str(to), package]
    environment = os.environ | ENVIRONMENT
    with subprocess.Popen(
        words, cwd=source, env=environment, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stderr is not None
        lines: list[str] = []
        for line in child.stderr:
            lines.append(line)
            if len(lines) % PACKAGES_PER_LINE == 0:
                _say(f"  {len(lines)} packages")
        if child.wait(timeout=BUILD_S_MAX):
            raise CannotBuild(f"{to.name} cannot be built: {_last(''.join(lines))}")


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else "nobody said why"


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Build, and say where; 1 and one sentence where it cannot be done."""
    try:
        place = build()
    except CannotBuild as problem:
        _say(f"{problem} Tests with the real PD are skipped.")
        return 1
    _say(f"PD and the store of the tests are in {place}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
