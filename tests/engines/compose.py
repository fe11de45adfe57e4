"""Docker Compose for the tests: that of this machine, one that was kept, or one that is built.

`python -m tests.engines.compose` puts it where tests look: from the package of the system where
that is version 2, else built with Go from its public module, slowly and out of everybody's way.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

__all__ = ["CACHE", "VERSION", "compose_or_why", "main"]

VERSION = "2.40.3"
MODULE = "github.com/docker/compose/v2"
CACHE = Path.home() / ".cache" / "operator-sre-tests" / "compose"
NAME = "docker-compose"
BUILD_S_MAX = 3 * 3600.0
# Nobody else on this machine is to notice that something is built.
QUIETLY = ("nice", "-n", "19")


@cache
def compose_or_why() -> tuple[Path | None, str]:
    """A `docker-compose` of version 2, or why there is none."""
    folders = ("/usr/libexec/docker", "/usr/lib/docker", "/usr/local/lib/docker")
    places = [CACHE / NAME, *(Path(folder) / "cli-plugins" / NAME for folder in folders)]
    for place in (*places, Path(shutil.which(NAME) or os.devnull)):
        if _is_fit(place):
            return place, ""
    return None, "needs Docker Compose 2: python -m tests.engines.compose"


def _is_fit(place: Path) -> bool:
    if not os.access(place, os.X_OK):
        return False
    asked = subprocess.run(
        [str(place), "version", "--short"], capture_output=True, text=True, check=False
    )
    told = re.match(r"v?(\d+)\.", asked.stdout)
    return asked.returncode == 0 and told is not None and int(told[1]) >= 2


def _from_the_system(folder: Path) -> Path | None:
    """The package of the system, unpacked and not installed; None where it is too old."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return None
    fetched = subprocess.run(
        ["apt-get", "download", "-qq", NAME], cwd=folder, capture_output=True, check=False
    )
    packages = list(folder.glob("*.deb"))
    if fetched.returncode != 0 or not packages:
        return None
    subprocess.run(["dpkg", "-x", str(packages[0]), str(folder)], check=True)
    found = [place for place in folder.glob(f"usr/**/{NAME}") if place.is_file()]
    return next((place for place in found if _is_fit(place)), None)


def _built(folder: Path) -> Path | None:
    if shutil.which("go") is None:
        return None
    told = subprocess.run(
        ["go", "mod", "download", "-json", f"{MODULE}@v{VERSION}"],
        check=True,
        capture_output=True,
        cwd=folder,
    )
    place = folder / NAME
    flags = f"-s -w -X {MODULE}/internal.Version=v{VERSION}"
    idle = ("chrt", "-i", "0") if shutil.which("chrt") else ()
    build = ("go", "build", "-p", "1", "-trimpath", "-ldflags", flags, "-o", str(place), "./cmd")
    subprocess.run(
        [*idle, *QUIETLY, *build],
        cwd=json.loads(told.stdout)["Dir"],
        env={**os.environ, "GOMAXPROCS": "1", "GOFLAGS": "-buildvcs=false"},
        check=True,
        timeout=BUILD_S_MAX,
    )
    return place if _is_fit(place) else None


def main() -> int:
    """Put it where tests look, unless it is there; 1 where it cannot be had."""
    found, why = compose_or_why()
    if found is None:
        with tempfile.TemporaryDirectory() as folder:
            made = _from_the_system(Path(folder)) or _built(Path(folder))
            if made is None:
                sys.stderr.write(f"{why}; neither the system nor Go has it.\n")
                return 1
            CACHE.mkdir(parents=True, exist_ok=True)
            # Renamed into its place, because a test may look at the same moment.
            shutil.copy2(made, CACHE / f".{NAME}.{os.getpid()}")
            (CACHE / f".{NAME}.{os.getpid()}").rename(CACHE / NAME)
            found = CACHE / NAME
    sys.stdout.write(f"Docker Compose is {found}.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
