"""Build Helm for the tests of the chart: `python -m tests.tools.helm`. Needs Go; takes minutes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.engines.debian import CACHE

__all__ = ["helm", "main"]

# Go checks its sum, and those of all that it needs, in the public log of sums.
MODULE = "helm.sh/helm/v4/cmd/helm@v4.3.1"
BUILD_S_MAX = 5400.0
_PLACE = CACHE / "helm" / MODULE.rpartition("@")[2]


def helm() -> Path | None:
    """The Helm that was built, or that of the machine; None where there is neither."""
    built, found = _PLACE / "helm", shutil.which("helm")
    if os.access(built, os.X_OK):
        return built
    return Path(found) if found else None


def main() -> int:
    """Build it unless it is there; 1 where that cannot be done."""
    if helm() is None:
        go = shutil.which("go")
        if go is None:
            sys.stderr.write("Helm cannot be built: there is no Go.\n")
            return 1
        _PLACE.mkdir(parents=True, exist_ok=True)
        words = [go, "install", "-trimpath", "-ldflags", "-s -w", MODULE]
        environment = {**os.environ, "GOBIN": str(_PLACE), "GOFLAGS": "-buildvcs=false"}
        done = subprocess.run(words, env=environment, check=False, timeout=BUILD_S_MAX)
        if done.returncode:
            return 1
    sys.stdout.write(f"Helm is {helm()}.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
