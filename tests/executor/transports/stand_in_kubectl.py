"""A stand-in for kubectl: the same words, and behind them not a cluster but a loopback sshd.

What it starts is no child of whoever calls it, as in a cluster.
"""

from __future__ import annotations

from pathlib import Path

from operator_sre.executor.transports.places import Pod
from tests.executor.transports.sshd import Sshd

__all__ = ["POD", "POD_UID", "stand_in_kubectl"]

POD = Pod("lab", "shop", "web-0", "app")
POD_UID = "5c0f4e2a-0d5b-4b8e-9d5e-000000000001"
_SCRIPT = """#!/bin/sh
[ "$1" = --context=lab ] || { echo "error: context \\"$1\\" does not exist" >&2; exit 1; }
[ "$2" = --namespace=shop ] || exit 64
case "$3 $4" in
    "get pod/web-0") printf %s '@UID@'; exit 0 ;;
    "get "*) echo "Error from server (NotFound): pods not found" >&2; exit 1 ;;
    "exec --stdin") ;;
    *) exit 64 ;;
esac
[ "$5" = --container=app ] || { echo "error: container x not found in pod web-0" >&2; exit 1; }
[ "$6" = pod/web-0 ] || { echo 'Error from server (NotFound): pods "x" not found' >&2; exit 1; }
[ "$7" = -- ] || exit 64
shift 7
exec ssh -F none -q -i '@KEY@' -o IdentityAgent=none -o BatchMode=yes \\
    -o UserKnownHostsFile='@KNOWN@' -p @PORT@ @USER@@127.0.0.1 "$*"
"""


def stand_in_kubectl(folder: Path, sshd: Sshd) -> str:
    """The path of one that starts shells at this sshd."""
    folder.mkdir(parents=True, exist_ok=True)
    text = _SCRIPT
    for name, value in (
        ("@UID@", POD_UID),
        ("@KEY@", str(sshd.key)),
        ("@KNOWN@", str(sshd.known_hosts)),
        ("@PORT@", str(sshd.port)),
        ("@USER@", sshd.user),
    ):
        text = text.replace(name, value)
    path = folder / "kubectl"
    path.write_text(text)
    path.chmod(0o700)
    return str(path)
