"""A Kubernetes API server with nothing behind it: it checks and keeps objects, and runs no pod."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from operator_lab.kubernetes.build import find_programs
from operator_lab.ports import reserve_ports
from tests.e2e.waiting import eventually

__all__ = ["ApiServer", "running_api_server"]

TOKEN = "of-the-tests"
COMMAND_S_MAX, END_S_MAX = 120.0, 30.0


@dataclass(frozen=True, slots=True)
class ApiServer:
    """One that runs."""

    program: Path
    kubeconfig: Path

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command that finds the server by its kubeconfig."""
        return subprocess.run(
            words,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_S_MAX,
        )

    def kubectl(self, *words: str) -> str:
        """What kubectl prints, or its error."""
        done = self.run(self.program, "kubectl", *words)
        return done.stdout + done.stderr


@contextmanager
def running_api_server(folder: Path) -> Iterator[ApiServer]:
    """Its own etcd behind it; skips where the lab has built no Kubernetes."""
    found = find_programs()
    if found is None:
        pytest.skip("there is no Kubernetes: operator lab up kubernetes builds it")
    program = found.cluster
    (folder / "tokens").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
    key = folder / "accounts.key"
    make = ["openssl", "genrsa", "-out", str(key), "2048"]
    subprocess.run(make, check=True, capture_output=True, timeout=COMMAND_S_MAX)
    with ExitStack() as stack:
        ports = stack.enter_context(reserve_ports(("client", "peer", "api"))).ports
        client, peer, port = ports["client"], ports["peer"], ports["api"]
        clients, peers = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
        etcd = (
            *("etcd", "--data-dir", str(folder / "etcd"), "--unsafe-no-fsync"),
            *("--listen-client-urls", clients, "--advertise-client-urls", clients),
            *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
            *("--initial-cluster", f"default={peers}"),
        )
        server = (
            *("kube-apiserver", f"--etcd-servers={clients}", "--bind-address=127.0.0.1"),
            *(f"--secure-port={port}", f"--cert-dir={folder / 'certificates'}"),
            *("--endpoint-reconciler-type=none", "--authorization-mode=RBAC"),
            *("--service-cluster-ip-range=10.96.0.0/16", f"--token-auth-file={folder / 'tokens'}"),
            "--service-account-issuer=https://kubernetes.default.svc",
            *(f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"),
        )
        log = stack.enter_context((folder / "log").open("wb"))
        for words in (etcd, server):
            process = subprocess.Popen([str(program), *words], stdout=log, stderr=log)
            stack.callback(process.wait, END_S_MAX)
            stack.callback(process.kill)
        server_of = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
        settings = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "own",
            "clusters": [{"name": "own", "cluster": server_of}],
            "users": [{"name": "own", "user": {"token": TOKEN}}],
            "contexts": [{"name": "own", "context": {"cluster": "own", "user": "own"}}],
        }
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(settings))
        made = ApiServer(program, kubeconfig)
        names = ("get", "namespace", "default", "--output=name")
        eventually(lambda: made.kubectl(*names) == "namespace/default\n", "it is ready")
        yield made
