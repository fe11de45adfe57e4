"""The programs of the cluster: built from Go modules once for each version, kept in the cache.

Three builds, each of its own Go module beside this file: `cluster` is etcd, the control plane, the
kubelet, kube-proxy and kubectl in one file; `addons` are CoreDNS, the sample application and what
holds the namespaces of a pod; `simulated` is KWOK, for machines that cannot have nodes. Container
runtime and network come from the packages of Debian, unpacked beside the builds and not installed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from operator_lab.kubernetes.images import make_image
from operator_protocols.errors import RigError

__all__ = [
    "ADDONS",
    "NODE_KIND",
    "PROGRAMS",
    "SAMPLE_IMAGE",
    "Programs",
    "build",
    "build_sample",
    "find_programs",
    "missing_tools",
]

HERE = Path(__file__).parent
# The kind of the processes of a rig that are nodes.
NODE_KIND = "machine"
PROGRAMS = "labkube"
ADDONS = ("coredns", "pause", "shop")
SAMPLE, SIMULATOR = "shop", "kwok"
SAMPLE_IMAGE = f"lab.local/{SAMPLE}:1"
PACKAGES = (
    "conntrack",
    "containerd",
    "containernetworking-plugins",
    "iptables",
    "libip4tc2",
    "libip6tc2",
    "libmnl0",
    "libnetfilter-conntrack3",
    "libnfnetlink0",
    "libnftnl11",
    "libseccomp2",
    "libxtables12",
    "runc",
)
BUILD_CPU_MINUTES = 15
SIMULATOR_CPU_MINUTES = 3
BUILD_S_MAX, FETCH_S_MAX = 7200, 600
NICE = 10
POLL_S = 1.0
# About how many packages the compiler works through, for the progress.
MODULE_PACKAGES = {"cluster": 2600, "addons": 900, "simulated": 1000}
_VERSION = re.compile(r"^\s*k8s\.io/kubernetes (v\S+)", re.MULTILINE)

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Programs:
    """Where the programs of one version lie; `nodes` says whether pods can run here."""

    folder: Path
    version: str

    @property
    def cluster(self) -> Path:
        """etcd, the control plane, the node agents and kubectl."""
        return self.folder / PROGRAMS

    @property
    def root(self) -> Path:
        """The unpacked packages."""
        return self.folder / "root"

    def addon(self, name: str) -> Path:
        """CoreDNS, the sample application, or `pause`."""
        return self.folder / name


def version() -> str:
    """The version of Kubernetes that is built."""
    match = _VERSION.search((HERE / "cluster" / "go.mod").read_text(encoding="utf-8"))
    assert match is not None, "cluster/go.mod names no version"
    return match.group(1)


def cache_folder() -> Path:
    """Where the programs of this version are kept."""
    name = f"{version()}-{platform.machine()}"
    return platformdirs.user_cache_path("operator-sre") / "lab" / "kubernetes" / name


def _digest(module: str) -> str:
    """Changes with every source of a module; the stamp beside a program has it."""
    digest = hashlib.sha256()
    for path in sorted((HERE / module).rglob("*")):
        if path.suffix in (".go", ".mod", ".sum"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _is_built(program: Path, module: str) -> bool:
    stamp = program.with_name(f"{program.name}.stamp")
    try:
        return program.exists() and stamp.read_text(encoding="utf-8") == _digest(module)
    except OSError:
        return False


def find_programs() -> Programs | None:
    """The programs, if they were built from these sources; None otherwise."""
    programs = Programs(cache_folder(), version())
    modules = {programs.cluster: "cluster", **{programs.addon(name): "addons" for name in ADDONS}}
    return programs if all(_is_built(*pair) for pair in modules.items()) else None


def missing_tools(*, nodes: bool) -> str:
    """What this machine lacks to build and run it, as a sentence; "" for nothing."""
    if sys.platform != "linux":
        return "the rig of kubernetes needs Linux"
    if nodes and os.geteuid() != 0:
        return "nodes with real pods need root, because they are network namespaces"
    if find_programs() is None and shutil.which("go") is None:
        return "building the cluster needs Go 1.24 or newer, and there is no `go` on the PATH"
    needed = ("ip", "nsenter", "unshare") if nodes else ()
    lacking = [name for name in needed if shutil.which(name) is None]
    if lacking:
        return f"nodes need {', '.join(lacking)}: install iproute2 and util-linux"
    if nodes and not runtime_there() and shutil.which("apt-get") is None:
        return "nodes need containerd, runc, CNI plug-ins and iptables, which only Debian has here"
    return ""


def runtime_there() -> bool:
    """Whether the container runtime was unpacked."""
    return (cache_folder() / "root" / "usr" / "bin" / "containerd").exists()


def build(*, nodes: bool, tell: Progress, stop: threading.Event) -> Programs:
    """Build what is missing, saying before what it takes. RigError says why it cannot be done."""
    if why := missing_tools(nodes=nodes):
        raise RigError(
            f"This machine cannot run the rig of kubernetes: {why}.",
            next_step="Or watch a cluster that you have: operator discover",
        )
    programs = Programs(cache_folder(), version())
    if find_programs() is None:
        tell(
            f"Kubernetes {programs.version} is built once from source: about "
            f"{BUILD_CPU_MINUTES} minutes of CPU time, 1.5 GB of Go's cache, 200 MB in "
            f"{str(programs.folder)!r}."
        )
        programs.folder.mkdir(parents=True, exist_ok=True)
        v = programs.version
        minor = v.split(".")[1]
        stamps = (
            f"k8s.io/component-base/version.gitVersion={v}",
            "k8s.io/component-base/version.gitMajor=1",
            f"k8s.io/component-base/version.gitMinor={minor}",
            f"k8s.io/client-go/pkg/version.gitVersion={v}",
        )
        flags = " ".join(("-s -w", *(f"-X {stamp}" for stamp in stamps)))
        for name in ADDONS:
            _compile("addons", f"./{name}", programs.addon(name), "-s -w", tell, stop)
        _compile("cluster", ".", programs.cluster, flags, tell, stop)
    if nodes and not runtime_there():
        _unpack(programs.root, tell)
    if not nodes:
        _build_simulator(programs, tell, stop)
    for name in ADDONS:
        _make_image_of(programs, name)
    return programs


def build_sample(*, tell: Progress, stop: threading.Event) -> Path:
    """Build the sample application alone; returns the archive of its image."""
    programs = Programs(cache_folder(), version())
    if not _is_built(programs.addon(SAMPLE), "addons"):
        if shutil.which("go") is None:
            raise RigError(
                "The image of the sample cannot be built: there is no `go` on the PATH.",
                next_step="Name an image that the nodes can pull with --image.",
            )
        programs.folder.mkdir(parents=True, exist_ok=True)
        _compile("addons", f"./{SAMPLE}", programs.addon(SAMPLE), "-s -w", tell, stop)
    return _make_image_of(programs, SAMPLE)


def _build_simulator(programs: Programs, tell: Progress, stop: threading.Event) -> None:
    """Build KWOK; without it the cluster has no nodes at all, and is still of use."""
    program = programs.addon(SIMULATOR)
    if _is_built(program, "simulated"):
        return
    tell(f"KWOK is built once from source: about {SIMULATOR_CPU_MINUTES} minutes of CPU time.")
    try:
        _compile("simulated", ".", program, "-s -w", tell, stop)
    except RigError as problem:
        if stop.is_set():
            raise
        program.unlink(missing_ok=True)
        tell(f"The cluster has no simulated nodes either: {problem.message}")


def _make_image_of(programs: Programs, name: str) -> Path:
    """The archive of the image of a program, made again where the program is newer."""
    images = programs.folder / "images"
    images.mkdir(exist_ok=True)
    image, program = images / f"{name}.tar", programs.addon(name)
    if not image.exists() or image.stat().st_mtime < program.stat().st_mtime:
        draft = images / f"{name}.draft"
        make_image(program, f"lab.local/{name}:1", draft)
        draft.rename(image)
    return image


def _compile(
    module: str, package: str, output: Path, flags: str, tell: Progress, stop: threading.Event
) -> None:
    """Build one program beside its place and move it there, so that half a build is none."""
    if _is_built(output, module):
        return
    total = MODULE_PACKAGES[module]
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".build-") as folder:
        log, made = Path(folder) / "log", Path(folder) / output.name
        argv = ["go", "build", "-v", "-trimpath", "-buildvcs=false", "-ldflags", flags]
        with log.open("wb") as file:
            process = subprocess.Popen(
                # Who builds in the background is nice already.
                ["nice", "-n", str(max(0, NICE - os.nice(0))), *argv, "-o", str(made), package],
                cwd=HERE / module,
                # Its work takes gigabytes for a while, where /tmp is often small and cleaned.
                env={
                    **os.environ,
                    "CGO_ENABLED": "0",
                    "GOFLAGS": "-mod=readonly",
                    "GOTMPDIR": folder,
                },
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
            began = time.monotonic()
            try:
                while process.poll() is None:
                    if stop.wait(POLL_S):
                        raise RigError(f"The build of {output.name} was stopped.")
                    done = log.read_bytes().count(b"\n")
                    tell(f"building {output.name}: {min(99, 100 * done // total)} %")
                    if time.monotonic() - began > BUILD_S_MAX:
                        raise RigError(f"Building {output.name} took more than two hours.")
            finally:
                if process.poll() is None:
                    # Its compilers are in its group: without them `go` alone would leave them.
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.returncode != 0:
            words = log.read_text(errors="replace").strip().splitlines()[-3:]
            raise RigError(
                f"{output.name} could not be built: {' '.join(words)[:400]}.",
                next_step="The Go modules must be reachable once; then run it again.",
            )
        made.rename(output)
    output.with_name(f"{output.name}.stamp").write_text(_digest(module), encoding="utf-8")


def _unpack(root: Path, tell: Progress) -> None:
    """The packages of Debian below a folder of ours; nothing is installed."""
    tell("fetching containerd, runc, CNI plug-ins and iptables (36 MB)")
    with tempfile.TemporaryDirectory(dir=root.parent, prefix=".packages-") as folder:
        place = Path(folder)
        _run(["apt-get", "download", "-qq", *PACKAGES], place)
        unpacked = place / "root"
        for package in sorted(place.glob("*.deb")):
            _run(["dpkg", "-x", str(package), str(unpacked)], place)
        # What starts iptables finds it under the name that kube-proxy uses.
        for name in ("iptables", "ip6tables"):
            for ending in ("", "-save", "-restore"):
                link = unpacked / "usr" / "sbin" / f"{name}{ending}"
                link.unlink(missing_ok=True)
                link.symlink_to("xtables-nft-multi")
        if root.exists():
            shutil.rmtree(root)
        unpacked.rename(root)


def _run(argv: Sequence[str], folder: Path) -> None:
    done = subprocess.run(argv, cwd=folder, capture_output=True, timeout=FETCH_S_MAX, check=False)
    if done.returncode != 0:
        words = done.stderr.decode(errors="replace").strip()[-300:]
        raise RigError(
            f"{argv[0]} failed: {words}.", next_step="Run apt-get update, then start it again."
        )
