"""The pods of the chart, really run: in the rig of Kubernetes, from the image of the Dockerfile."""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from operator_lab.kubernetes.build import Programs, find_programs, missing_tools
from operator_lab.kubernetes.namespaces import SWITCH
from operator_lab.rig import Rig
from operator_protocols.domain.ticket import TicketState
from operator_sre.clock import SystemClock
from operator_sre.engine.leader import SILENT_S
from operator_sre.subjects.kubernetes.rig import NODES, rig
from tests.contract.postgres import Server, shared_server
from tests.deploy.built import COMMIT
from tests.deploy.test_chart import CHART
from tests.e2e.patients import SUBJECT, Patients, running_patients
from tests.e2e.test_soak import Watched
from tests.e2e.waiting import eventually
from tests.tools.helm import helm

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.slow,
    pytest.mark.system,
    pytest.mark.timeout(3600),
    pytest.mark.group("archive"),
    pytest.mark.skipif(
        find_programs() is None or bool(missing_tools(nodes=True)) or os.geteuid() != 0,
        reason="needs `operator lab up kubernetes` to have built the cluster, and root",
    ),
]
ROOT = Path(__file__).resolve().parents[2]
HERE = "default"
RELEASE = "night"
DATABASE_PORT = 5432
STARTED_S_MAX, INCIDENT_S_MAX, COMMAND_S_MAX = 300.0, 300.0, 300.0
SERVERS, INCIDENTS = 6, 6
SETTINGS = """\
interval_s = 1
stable_s = 2
timeout_s = 20
changes_per_hour = 10000
[subjects.farm]
plugin = "declarative"
options = { file = "/etc/operator/files/farm.yaml" }
"""
CURE = """\
import sys, urllib.request
urllib.request.urlopen(f"http://{sys.argv[1]}:{sys.argv[2]}/cure", timeout=10)
"""
VOLUME = """\
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  capacity: {{storage: 20Gi}}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  hostPath: {{path: {path}, type: Directory}}
"""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The rig, with the image of Operator on its nodes."""

    programs: Programs
    folder: Path
    helm: Path

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "switch" / "pki" / "kubeconfig"

    def run(self, *words: str | Path, text: str = "") -> str:
        """What a command prints that finds the cluster by its kubeconfig."""
        done = subprocess.run(
            words,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_S_MAX,
        )
        assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout

    def kubectl(self, *words: str, text: str = "") -> str:
        """What kubectl prints."""
        return self.run(self.programs.cluster, "kubectl", "--namespace", HERE, *words, text=text)

    def install(self, values: Mapping[str, Any]) -> None:
        """Install the chart with these values."""
        file = self.folder / "values.yaml"
        file.write_text(yaml.safe_dump(dict(values)))
        self.run(
            *(self.helm, "install", RELEASE, CHART, "--values", file, "--namespace", HERE),
        )

    def load(self, archive: Path) -> None:
        """Give every node an image."""
        root = self.programs.root
        environ = {
            **os.environ,
            "PATH": f"{root}/usr/sbin:{root}/usr/bin:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": f"{root}/usr/lib/x86_64-linux-gnu",
        }
        for index in range(1, NODES + 1):
            pid = (self.folder / f"node{index}" / "init").read_text().strip()
            enter = ("nsenter", "-t", pid, "-n", "-m", "-p", "--")
            take = ("ctr", "-a", "/run/containerd.sock", "-n", "k8s.io", "images", "import")
            subprocess.run([*enter, *take, archive], env=environ, check=True, timeout=COMMAND_S_MAX)

    def add_secret(self, name: str, files: Mapping[str, bytes]) -> None:
        """A Secret with these files."""
        data = {key: base64.b64encode(content).decode() for key, content in files.items()}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
        self.kubectl("apply", "--filename=-", text=json.dumps(secret))

    def pods(self) -> dict[str, bool]:
        """The pods of the release, and whether each is ready."""
        label = f"app.kubernetes.io/instance={RELEASE}"
        found = json.loads(self.kubectl("get", "pods", "--selector", label, "--output=json"))
        return {
            each["metadata"]["name"]: any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for condition in each["status"].get("conditions", ())
            )
            for each in found["items"]
            if "deletionTimestamp" not in each["metadata"]
        }

    def wait_ready(self, count: int) -> list[str]:
        """The names of so many pods, once all are ready; a failure shows what they say."""
        try:
            eventually(
                lambda: list(self.pods().values()) == [True] * count,
                f"{count} pods are ready",
                within_s=STARTED_S_MAX,
                every_s=1.0,
            )
        except AssertionError as error:
            label = f"app.kubernetes.io/instance={RELEASE}"
            told = self.kubectl("describe", "pods", "--selector", label)
            logs = self.kubectl("logs", "--selector", label, "--all-containers", "--tail=20")
            raise AssertionError(f"{told[-3000:]}\n{logs}") from error
        return sorted(self.pods())


@pytest_asyncio.fixture
async def cluster(tmp_path: Path, archive: Path) -> AsyncIterator[Cluster]:
    """The rig, which goes with the test."""
    program, programs = helm(), find_programs()
    if program is None:
        pytest.skip("there is no Helm: python -m tests.tools.helm")
    assert programs is not None
    # A node works below this folder as another user.
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    made = await Rig.up(rig(), tmp_path / "rig", owned=True)
    try:
        ready = Cluster(programs, tmp_path / "rig", program)
        ready.load(archive)
        yield ready
    finally:
        await made.down()


async def test_one_pod_observes_by_default_and_keeps_its_ledger(
    cluster: Cluster, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    disk.chmod(0o777)
    cluster.kubectl("apply", "--filename=-", text=VOLUME.format(name="night", path=disk))
    cluster.install(
        {
            "image": {"pullPolicy": "Never"},
            "store": {"persistence": {"storageClassName": "local"}},
            "config": "interval_s = 5",
        }
    )
    (pod,) = cluster.wait_ready(1)

    def run(*words: str) -> str:
        return cluster.kubectl("exec", pod, "--container=operator", "--", *words)

    status = json.loads(run("operator", "status", "--json"))["status"]
    assert status["mode"] == "observe"
    assert {part["name"]: part["state"] for part in status["parts"]} == {
        "monitor": "running",
        "agent": "running",
    }
    assert run("id", "-u") == "10001\n"
    assert run("operator", "--version").endswith(f"(commit {COMMIT[:12]})\n")
    touched = run("sh", "-c", "touch /x /etc/x /usr/x 2>&1; true")
    assert touched.count("Read-only file system") == 3, touched
    before = run("operator", "config", "show", "--json")
    key = run("sh", "-c", "sha256sum /var/lib/operator/ledger.key || true")
    cluster.kubectl("delete", "pod", pod, "--grace-period=0", "--force")
    eventually(lambda: cluster.pods().get(pod) is True, "it is back", within_s=STARTED_S_MAX)
    assert run("operator", "config", "show", "--json") == before
    assert run("sh", "-c", "sha256sum /var/lib/operator/ledger.key || true") == key
    assert run("operator", "store", "check")


@contextmanager
def _database(cluster: Cluster, server: Server, place: str) -> Iterator[str]:
    """The address of a database that pods can reach."""
    (socket,) = server.folder.glob(".s.PGSQL.[0-9]*[0-9]")
    enter = ("nsenter", f"--net={cluster.folder}/switch/net", "--")
    relay = subprocess.Popen(
        [
            *enter,
            *(sys.executable, "-m", "tests.deploy.relay", SWITCH, str(DATABASE_PORT), str(socket)),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert relay.stdout is not None
    try:
        assert relay.stdout.readline() == "listening\n"
        yield f"postgresql://tester@{SWITCH}:{DATABASE_PORT}/{place.rpartition('/')[2]}"
    finally:
        relay.terminate()
        relay.wait(30.0)
        relay.stdout.close()


def _leaders(watched: Watched) -> list[str]:
    """The living monitors that check the subject themselves."""
    now = SystemClock().now()
    return [
        watcher.worker
        for watcher in watched.store.watchers.find()
        for watch in watcher.watches
        if (now - watcher.at).total_seconds() <= SILENT_S
        and watch.subject == SUBJECT
        and not watch.leader
    ]


async def test_of_two_pods_one_leads_and_killing_it_loses_and_repeats_nothing(
    cluster: Cluster, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    server = shared_server(pytestconfig)
    place = server.database(like=server.prepared())
    key = tmp_path / "ledger.key"
    key.write_bytes(secrets.token_bytes(32))
    key.chmod(0o600)
    enter = ("nsenter", f"--net={cluster.folder}/switch/net", "--")
    command = '[python, cure.py, "{host}", "{port}"]'
    farm = tmp_path / "farm"
    farm.mkdir()
    watched = Watched(place, key)
    try:
        with (
            _database(cluster, server, place) as url,
            running_patients(
                farm, SERVERS, address=SWITCH, within=enter, command=command
            ) as patients,
        ):
            files = {"farm.yaml": (farm / "farm.yaml").read_bytes(), "cure.py": CURE.encode()}
            cluster.add_secret("files", files)
            keys = {"ledger.key": key.read_bytes(), "secrets.key": secrets.token_bytes(32)}
            cluster.add_secret("keys", keys)
            cluster.add_secret("database", {"url": url.encode()})
            cluster.install(
                {
                    "image": {"pullPolicy": "Never"},
                    "mode": "execute",
                    "replicas": 2,
                    "keysSecret": "keys",
                    "filesSecret": "files",
                    "store": {"kind": "postgres", "postgres": {"urlSecret": "database"}},
                    "config": SETTINGS,
                }
            )
            cluster.wait_ready(2)
            _break_and_kill(cluster, watched, patients)
            watched.must_be_right(patients, INCIDENTS)
    finally:
        watched.store.close()
        server.drop(place)


def _wait_for_work(watched: Watched, count: int) -> None:
    eventually(
        lambda: watched.is_in_work() or watched.cured(count),
        "a pod works on it",
        within_s=INCIDENT_S_MAX,
    )


def _break_and_kill(cluster: Cluster, watched: Watched, patients: Patients) -> None:
    """Break one server after another; kill the pod that leads, and the one that repairs."""
    killed: list[str] = []
    for number in range(INCIDENTS):
        eventually(lambda: len(_leaders(watched)) == 1, "one pod leads", within_s=INCIDENT_S_MAX)
        (leader,) = _leaders(watched)
        patients.jam(patients.names[number])
        if number % 2:
            _wait_for_work(watched, number + 1)
        if number % 3:
            working = [
                each.worker.rpartition(":")[0]
                for each in watched.store.tickets.find(states=(TicketState.CLAIMED,))
                if each.subject == SUBJECT
            ]
            pod = working[0] if number % 2 and working else leader.rpartition(":")[0]
            cluster.kubectl("delete", "pod", pod, "--grace-period=0", "--force")
            killed.append(pod)
        watched.wait_cured(number + 1)
        cluster.wait_ready(2)
        if killed:
            checks = watched.checks()
            eventually(lambda: watched.checks() > checks, "it is checked")  # noqa: B023
            assert killed[-1] not in {each.rpartition(":")[0] for each in _leaders(watched)}
    assert killed
