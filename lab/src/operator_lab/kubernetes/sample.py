"""The sample application of the rig: deployed, awaited, and then used by steady customers."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

__all__ = ["NODE_PORT", "main", "manifests"]

NODE_PORT = 30080
WAIT_S_MAX = 150
TRIES_MAX, TRY_S = 30, 1.0
VOLUME_WORD = "VOLUME_PATH"
MANIFESTS = Path(__file__).parent / "manifests"


def manifests() -> list[Path]:
    """The files that are applied, in their order."""
    return sorted(MANIFESTS.glob("*.yaml"))


def main(words: Sequence[str] | None = None) -> int:
    """Deploy, wait, and be the customers."""
    parser = argparse.ArgumentParser(prog="sample", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--program", required=True)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--shop", required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--switch", type=Path, required=True)
    given = parser.parse_args(words)
    kubectl = (given.program, "kubectl", "--kubeconfig", given.kubeconfig)
    for path in manifests():
        _apply(kubectl, path, given.directory / "volume")
    ready = given.directory / "ready"
    nodes = subprocess.run(
        (*kubectl, "get", "nodes", "-o", "name"), capture_output=True, check=False
    )
    for namespace in ("kube-system", "shop") if nodes.stdout else ():
        wait = ("wait", "--for=condition=Available", "deploy", "--all")
        argv = (*kubectl, "-n", namespace, *wait, f"--timeout={WAIT_S_MAX}s")
        if subprocess.run(argv, check=False).returncode != 0:
            raise SystemExit(_describe_unready(kubectl, namespace))
    ready.touch()
    if not given.nodes:  # simulated pods answer no customer
        while True:
            time.sleep(3600)
    env = {
        **os.environ,
        "FRONTEND_URL": f"http://10.99.0.11:{NODE_PORT}",
        "REPORT": str(given.directory / "report.json"),
        "CACHE_MB": "0",
    }
    become = ("nsenter", f"--net={given.switch / 'net'}", "--", given.shop, "customers")
    os.execvpe(become[0], become, env)  # noqa: S606  it becomes the customers


def _describe_unready(kubectl: Sequence[str], namespace: str) -> str:
    """Which pods are not ready, and the last warning, in one line."""
    reason = "{.involvedObject.name}: {.message}"
    show = {
        "pods": "{range .items[*]}{.metadata.name} {.status.phase}, {end}",
        "events": "{range .items[?(@.type=='Warning')]}" + reason + "; {end}",
    }
    found = []
    for kind, template in show.items():
        argv = (*kubectl, "-n", namespace, "get", kind, "-o", f"jsonpath={template}")
        done = subprocess.run(argv, capture_output=True, check=False)
        found.append(done.stdout.decode(errors="replace").strip(" ,;")[-1000:])
    pods, warnings = found
    return f"the sample in {namespace} is not ready: {pods}; warnings: {warnings or 'none'}"


def _apply(kubectl: Sequence[str], path: Path, volume: Path) -> None:
    """Apply a file; the first objects of a new cluster are refused for a moment."""
    text = path.read_text(encoding="utf-8").replace(VOLUME_WORD, str(volume)).encode()
    for left in reversed(range(TRIES_MAX)):
        done = subprocess.run((*kubectl, "apply", "-f", "-"), input=text, check=False)
        if done.returncode == 0:
            return
        if left:
            time.sleep(TRY_S)
    raise SystemExit(f"{path.name} could not be applied")


if __name__ == "__main__":
    sys.exit(main())
