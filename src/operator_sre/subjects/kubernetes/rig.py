"""A disposable cluster: a control plane, two nodes with real pods, and a sample application. Data.

Where nodes cannot be made they are simulated, and the note of the rig says why.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys

from operator_protocols.domain.rig import ProcessSpec, RigSpec
from operator_sre.subjects.kubernetes.shop import CLIENTS_FILE

__all__ = ["NAMESPACE", "NODES", "rig", "why_no_nodes"]

NODES = 2
NAMESPACE = "shop"
SWITCH = "10.99.0.1"
API = f"https://{SWITCH}:6443"
PKI = "{switch.dir}/pki"
PROGRAM = "{built}/labkube"
# Every node has a folder /run of its own.
SOCKET = "/run/containerd.sock"
# On a busy machine a component must not lose its lease, because nothing starts it again.
_LEASES = (
    "--leader-elect-lease-duration=20s",
    "--leader-elect-renew-deadline=15s",
    "--leader-elect-retry-period=1s",
)
# A node with this label has no kubelet.
SIMULATED = "operator-lab/simulated"
_SIMULATED_SIZE = {"cpu": "4", "memory": "8Gi", "pods": "110"}
READY_S_MAX = 90.0
PODS_S_MAX = 180.0
_LAB = (sys.executable, "-P", "-m")
_IN_SWITCH = ("nsenter", "--net={switch.dir}/net", "--")

CONTAINERD = """\
version = 2
root = "{dir}/root"
state = "{dir}/state"
oom_score = 0
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "/run/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{dir}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  netns_mounts_under_state_dir = true
  restrict_oom_score_adj = true
  sandbox_image = "lab.local/pause:1"
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{built}/root/usr/lib/cni"
    conf_dir = "{dir}/cni"
  [plugins."io.containerd.grpc.v1.cri".registry.mirrors."@SWITCH@:5000"]
    endpoint = ["http://@SWITCH@:5000"]
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
""".replace("@SWITCH@", SWITCH)

CNI = """\
{"cniVersion": "1.0.0", "name": "lab", "plugins": [
 {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "{dir}/ipam",
   "ranges": [[{"subnet": "@NETWORK@"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
"""

KUBELET = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: @ADDRESS@
healthzBindAddress: 127.0.0.1
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: "@PKI@/ca.crt"}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupRoot: /@GROUP@
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd.sock
crashLoopBackOff: {maxContainerRestartPeriod: 30s}
enforceNodeAllocatable: [pods]
evictionHard: {memory.available: 100Mi, nodefs.available: "1%", imagefs.available: "1%"}
failCgroupV1: false
failSwapOn: false
featureGates: {KubeletCrashLoopBackOffMax: true}
imageGCHighThresholdPercent: 99
imageGCLowThresholdPercent: 98
nodeStatusReportFrequency: 10s
nodeStatusUpdateFrequency: 2s
oomScoreAdj: 0
podLogsDir: {dir}/logs
resolvConf: {dir}/resolv.conf
syncFrequency: 3s
tlsCertFile: "@PKI@/@NODE@.crt"
tlsPrivateKeyFile: "@PKI@/@NODE@.key"
volumePluginDir: {dir}/plugins
"""

PROXY = """\
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clusterCIDR: 10.244.0.0/16
hostnameOverride: @NODE@
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
oomScoreAdj: 0
conntrack: {maxPerCore: 0, min: 0}
clientConnection: {kubeconfig: "@PKI@/proxy.kubeconfig"}
"""


def rig() -> RigSpec:
    """The control plane, and nodes where this machine can have them."""
    why = why_no_nodes()
    nodes = 0 if why else NODES
    processes = [_switch(nodes), *_control_plane(nodes)]
    for index in range(1, nodes + 1):
        processes += _node(index, nodes)
    if not nodes:
        processes.append(_simulator())
    processes.append(_sample(nodes))
    options: dict[str, str | int | float | bool] = {
        "kubeconfig": f"{PKI}/kubeconfig",
        "good_after_s": 30.0,
    }
    note = f"Nodes and pods are simulated, so that no container runs: {why}." if why else ""
    return RigSpec("kubernetes", tuple(processes), options=options, builds="kubernetes", note=note)


def why_no_nodes() -> str:
    """Why this machine cannot have nodes with pods, or ""."""
    if os.geteuid() != 0:
        return "nodes are network namespaces, which need root"
    if (machine := platform.machine()) != "x86_64":
        return f"images and libraries of nodes are for x86_64, and this machine is {machine}"
    lacking = [name for name in ("ip", "nsenter", "apt-get", "dpkg") if shutil.which(name) is None]
    return f"nodes need {', '.join(lacking)}" if lacking else ""


def _address(index: int) -> str:
    return f"10.99.0.{10 + index}"


def _switch(nodes: int) -> ProcessSpec:
    """The network that all are plugged into, and the way from this machine to the API server."""
    known = [f"--node=node{index}={_address(index)}" for index in range(1, nodes + 1)]
    server = API if nodes else "https://127.0.0.1:{apiserver.port}"
    outside = "https://127.0.0.1:{port}" if nodes else server
    keys = (*_LAB, "operator_lab.kubernetes.pki", "{dir}/pki", "--server", server)
    hold = (
        *(*_LAB, "operator_lab.kubernetes.namespaces", "switch", "{dir}"),
        *("--port", "{port}", "--clients", "{port:clients}"),
    )
    idle = (*_LAB, "http.server", "--bind", "127.0.0.1", "--directory", "{dir}/empty", "{port}")
    return ProcessSpec(
        "switch",
        "network",
        (*hold, "--nodes", str(nodes)) if nodes else idle,
        ports=("clients",) if nodes else (),
        files={"empty/index.html": "", **({CLIENTS_FILE: "{port:clients}"} if nodes else {})},
        prepare=((*keys, "--outside", outside, *known),),
        # Its port answers before its network is there.
        ready_argv=("test", "-e", "{dir}/net") if nodes else (),
    )


def _control_plane(nodes: int) -> list[ProcessSpec]:
    """etcd, the API server, the controllers and the scheduler."""
    within = _IN_SWITCH if nodes else ()
    bind, port = (SWITCH, "6443") if nodes else ("127.0.0.1", "{port}")
    etcd = "http://127.0.0.1:2379" if nodes else "http://127.0.0.1:{etcd.port}"
    peer = "http://127.0.0.1:2380" if nodes else "http://127.0.0.1:{etcd.port:peer}"
    kubectl = (PROGRAM, "kubectl", "--kubeconfig", f"{PKI}/kubeconfig")

    def part(name: str, *words: str, needs: tuple[str, ...], ready: tuple[str, ...]) -> ProcessSpec:
        return ProcessSpec(
            name,
            "control-plane",
            (*within, PROGRAM, *words),
            depends_on=("switch", *needs),
            ready_argv=ready,
            ready_s_max=READY_S_MAX,
            ports=("peer",) if name == "etcd" else (),
        )

    serving = "--bind-address=127.0.0.1" if nodes else "--secure-port=0"
    return [
        part(
            "etcd",
            *("etcd", "--data-dir", "{dir}/data", "--unsafe-no-fsync", "--log-level", "warn"),
            *("--listen-client-urls", etcd, "--advertise-client-urls", etcd),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"default={peer}"),
            needs=(),
            ready=("test", "-d", "{dir}/data/member"),
        ),
        part(
            "apiserver",
            *("kube-apiserver", f"--etcd-servers={etcd}", f"--bind-address={bind}"),
            *(f"--advertise-address={bind}",) if nodes else ("--endpoint-reconciler-type=none",),
            f"--secure-port={port}",
            *("--service-cluster-ip-range=10.96.0.0/16", "--allow-privileged=true"),
            *("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"),
            *(f"--tls-cert-file={PKI}/apiserver.crt", f"--client-ca-file={PKI}/ca.crt"),
            *(f"--tls-private-key-file={PKI}/apiserver.key", "--cert-dir={dir}/certificates"),
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={PKI}/accounts.pub",
            f"--service-account-signing-key-file={PKI}/accounts.key",
            f"--kubelet-client-certificate={PKI}/admin.crt",
            f"--kubelet-client-key={PKI}/admin.key",
            f"--kubelet-certificate-authority={PKI}/ca.crt",
            "--kubelet-preferred-address-types=InternalIP",
            needs=("etcd",),
            ready=(*kubectl, "get", "--raw", "/readyz"),
        ),
        part(
            "controllers",
            *("kube-controller-manager", f"--kubeconfig={PKI}/controllers.kubeconfig", serving),
            *(f"--service-account-private-key-file={PKI}/accounts.key", *_LEASES),
            *(f"--root-ca-file={PKI}/ca.crt", "--use-service-account-credentials=true"),
            *("--node-monitor-period=2s", "--node-monitor-grace-period=20s"),
            "--cert-dir={dir}/certificates",
            needs=("apiserver",),
            ready=(*kubectl, "-n", "kube-system", "get", "lease", "kube-controller-manager"),
        ),
        part(
            "scheduler",
            *("kube-scheduler", f"--kubeconfig={PKI}/scheduler.kubeconfig", serving, *_LEASES),
            "--cert-dir={dir}/certificates",
            needs=("apiserver",),
            ready=(*kubectl, "-n", "kube-system", "get", "lease", "kube-scheduler"),
        ),
    ]


def _node(index: int, nodes: int) -> list[ProcessSpec]:
    """A node, and what runs on it."""
    name, group = f"node{index}", f"{{group}}-node{index}"
    network = f"10.244.{index}.0/24"
    words = {"@ADDRESS@": _address(index), "@NETWORK@": network, "@NODE@": name}
    words |= {"@PKI@": PKI, "@GROUP@": group}
    home = f"{{{name}.dir}}"
    inside = ("sh", "-c", _ENTER, f"{home}/init")
    path = "{built}/root/usr/sbin:{built}/root/usr/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    libraries = "{built}/root/usr/lib/x86_64-linux-gnu"
    env = {"PATH": path, "LD_LIBRARY_PATH": libraries, "XTABLES_LIBDIR": f"{libraries}/xtables"}
    load = f"for image in {{built}}/images/*.tar; do ctr -a {SOCKET} -n k8s.io images import $image"
    kubectl = (PROGRAM, "kubectl", "--kubeconfig", f"{PKI}/kubeconfig")
    wait = ("wait", "--for=condition=Ready", f"node/{name}", "--timeout=2s")
    return [
        ProcessSpec(
            name,
            "machine",
            (
                *(*_LAB, "operator_lab.kubernetes.namespaces", "node", "{dir}"),
                *("--index", str(index), "--nodes", str(nodes), "--switch", "{switch.dir}"),
                *("--pause", "{built}/pause", "--group", group),
            ),
            depends_on=("switch",),
            # A killed node leaves its file.
            ready_argv=("sh", "-c", 'test -e "/proc/$(cat "$0")/ns"', "{dir}/init"),
        ),
        ProcessSpec(
            f"{name}-runtime",
            "container-runtime",
            (*inside, "containerd", "--config", "{dir}/config.toml"),
            depends_on=(name,),
            env=env,
            files={"config.toml": CONTAINERD, "cni/10-lab.conflist": _fill(CNI, words)},
            ready_argv=(*inside, "ctr", "-a", SOCKET, "version"),
            ready_s_max=READY_S_MAX,
        ),
        ProcessSpec(
            f"{name}-kubelet",
            "kubelet",
            (
                *(*inside, PROGRAM, "kubelet", "--config", "{dir}/kubelet.yaml"),
                *("--kubeconfig", f"{PKI}/{name}.kubeconfig", "--hostname-override", name),
                *("--node-ip", _address(index), "--root-dir", "{dir}/root"),
                *("--cert-dir", "{dir}/certificates"),
            ),
            depends_on=(f"{name}-runtime", "apiserver", "controllers"),
            env=env,
            files={
                "kubelet.yaml": _fill(KUBELET, words),
                "resolv.conf": f"nameserver {SWITCH}\n",
            },
            prepare=((*inside, "sh", "-ec", f"{load}; done"),),
            ready_argv=(*kubectl, *wait),
            ready_s_max=READY_S_MAX,
        ),
        ProcessSpec(
            f"{name}-proxy",
            "kube-proxy",
            (*inside, PROGRAM, "kube-proxy", "--config", "{dir}/proxy.yaml"),
            depends_on=(name, "apiserver"),
            env=env,
            files={"proxy.yaml": _fill(PROXY, words)},
            ready_argv=(*inside, "sh", "-c", _ROUTES_KNOWN),
            ready_s_max=READY_S_MAX,
        ),
    ]


def _simulator() -> ProcessSpec:
    """Nodes that exist in the API only, and whose pods are ready at once. Where KWOK could not be
    built there are none, and the process does nothing.
    """
    kubeconfig = f"{PKI}/kubeconfig"
    kubectl = (PROGRAM, "kubectl", "--kubeconfig", kubeconfig)
    wait = ("wait", "--for=condition=Ready", "node", "--all", "--timeout=2s")
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": f"node{index}",
                "labels": {"kubernetes.io/hostname": f"node{index}", SIMULATED: "true"},
            },
            "status": {"allocatable": _SIMULATED_SIZE, "capacity": _SIMULATED_SIZE},
        }
        for index in range(1, NODES + 1)
    ]
    record = json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes})
    return ProcessSpec(
        "simulator",
        "simulator",
        (
            *("sh", "-c", '[ -x "$0" ] && exec "$0" "$@"; exec tail -f /dev/null', "{built}/kwok"),
            *("--kubeconfig", kubeconfig, "--manage-all-nodes", "--node-lease-duration-seconds=20"),
        ),
        depends_on=("apiserver", "controllers"),
        # A node of its own cluster never has the configuration of the user.
        env={"KWOK_WORKDIR": "{dir}", "HOME": "{dir}"},
        files={"nodes.json": record},
        prepare=((*_IF_BUILT, *kubectl, "apply", "-f", "{dir}/nodes.json"),),
        ready_argv=(*_IF_BUILT, *kubectl, *wait),
        ready_s_max=READY_S_MAX,
    )


def _sample(nodes: int) -> ProcessSpec:
    """The sample application, and the customers who use it."""
    kubelets = tuple(f"node{index}-{part}" for index in range(1, nodes + 1) for part in _AGENTS)
    return ProcessSpec(
        "customers",
        "load",
        (
            *(*_LAB, "operator_lab.kubernetes.sample", "{dir}", "--program", PROGRAM),
            *("--kubeconfig", f"{PKI}/kubeconfig", "--shop", "{built}/shop"),
            *("--nodes", str(nodes), "--switch", "{switch.dir}"),
        ),
        depends_on=("scheduler", "controllers", *(kubelets or ("simulator",))),
        ready_argv=("test", "-e", "{dir}/ready"),
        ready_s_max=PODS_S_MAX,
    )


# The first process of the node, as this machine numbers it, is known once the node is up. After a
# crash another process may have its number: this machine itself is never entered.
_ENTER = (
    'pid=$(cat "$0") own=$(readlink /proc/self/ns/net)'
    ' && [ "$(readlink "/proc/$pid/ns/net")" != "$own" ]'
    ' && exec nsenter -t "$pid" -n -m -p -- "$@"'
)
_IF_BUILT = ("sh", "-c", '[ ! -x "$0" ] || exec "$@"', "{built}/kwok")
_ROUTES_KNOWN = "iptables -t nat -S KUBE-SERVICES | grep -q kubernetes"
_AGENTS = ("kubelet", "proxy")


def _fill(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text
