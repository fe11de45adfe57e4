"""Docker Compose for the tests: that of this machine, or one that was fetched and kept.

`python -m tests.engines.compose` puts it where tests look, from the packages of Debian.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.engines.debian import CACHE, unpack

__all__ = ["compose_or_why", "main"]

NAME = "docker-compose"
KEPT = CACHE / "compose" / NAME
MAJOR_MIN = 2


@cache
def compose_or_why() -> tuple[Path | None, str]:
    """A `docker-compose` of version 2, or why there is none."""
    folders = ("/usr/libexec/docker", "/usr/lib/docker", "/usr/local/lib/docker")
    places = [KEPT, *(Path(folder) / "cli-plugins" / NAME for folder in folders)]
    for place in (*places, Path(shutil.which(NAME) or os.devnull)):
        if _is_fit(place):
            return place, ""
    return None, f"needs Docker Compose {MAJOR_MIN}: python -m tests.engines.compose"


def _is_fit(place: Path) -> bool:
    if not os.access(place, os.X_OK):
        return False
    asked = subprocess.run(
        [str(place), "version", "--short"], capture_output=True, text=True, check=False
    )
    told = re.match(r"v?(\d+)\.", asked.stdout)
    return asked.returncode == 0 and told is not None and int(told[1]) >= MAJOR_MIN


def _fetched(folder: Path) -> Path | None:
    if not unpack(folder, NAME):
        return None
    found = [place for place in folder.glob(f"usr/**/{NAME}") if place.is_file()]
    return next((place for place in found if _is_fit(place)), None)


def main() -> int:
    """Put it where tests look, unless it is there; 1 where it cannot be had."""
    found, why = compose_or_why()
    if found is None:
        with tempfile.TemporaryDirectory() as folder:
            made = _fetched(Path(folder))
            if made is None:
                sys.stderr.write(f"{why}; Debian's packages cannot be reached either.\n")
                return 1
            KEPT.parent.mkdir(parents=True, exist_ok=True)
            # Renamed into its place, because a test may look at the same moment.
            fresh = KEPT.with_name(f".{NAME}.{os.getpid()}")
            shutil.copy2(made, fresh)
            fresh.rename(KEPT)
            found = KEPT
    sys.stdout.write(f"Docker Compose is {found}.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
