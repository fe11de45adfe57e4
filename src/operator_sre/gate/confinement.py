"""From what is known of a command to what the kernel is to hold it to. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from operator_protocols.domain.confinement import Ability, Confinement
from operator_protocols.domain.verdict import Level
from operator_sre.gate.grammar.findings import Finding, name_of
from operator_sre.gate.grammar.scene import Scene

__all__ = ["UNENFORCED", "confinement_of"]

UNENFORCED = "it changes its user, mounts, traces or enters another process"

_BUS = ("/run/dbus/system_bus_socket", "/run/systemd/private")
_POSTGRES = ("/run/postgresql/.s.PGSQL.*", "/tmp/.s.PGSQL.*")  # noqa: S108
_MYSQL = ("/run/mysqld/mysqld.sock", "/var/lib/mysql/mysql.sock", "/tmp/mysql.sock")  # noqa: S108
_DOCKER = ("/run/docker.sock",)
_REDIS = ("/run/redis/*", "/run/valkey/*")
# The local sockets by which a program asks the service that it is made for.
_SOCKETS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("busctl", "hostnamectl", "journalctl", "localectl", "loginctl"), _BUS),
    **dict.fromkeys(("machinectl", "networkctl", "nmcli", "systemctl", "systemd-analyze"), _BUS),
    **dict.fromkeys(("systemd-cgls", "timedatectl"), _BUS),
    "resolvectl": (*_BUS, "/run/systemd/resolve/io.systemd.Resolve"),
    **dict.fromkeys(("pg_isready", "psql"), _POSTGRES),
    **dict.fromkeys(("mariadb", "mariadb-admin", "mysql", "mysqladmin"), _MYSQL),
    **dict.fromkeys(("redis-cli", "valkey-cli"), _REDIS),
    **dict.fromkeys(("docker", "docker-compose"), _DOCKER),
    "chronyc": ("/run/chrony/chronyd.sock",),
    "supervisorctl": ("/run/supervisor.sock", "/run/supervisor/supervisor.sock"),
}
# Without a host these ask a server of this machine; others ask the server in their settings.
_SERVED_HERE = frozenset(
    {
        *("chronyc", "docker", "docker-compose", "etcdctl", "mariadb", "mariadb-admin"),
        *("mongosh", "mysql", "mysqladmin", "pg_isready", "psql", "rabbitmqctl"),
        *("rabbitmq-diagnostics", "redis-cli", "valkey-cli"),
    }
)
_SERVER_OF = "the server of "
# Without its socket, a client asks this port.
_PORTS = {"chronyc": "localhost:323"}
# What the programs that read disks are called when they run.
_DISK_PROGRAMS: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in ("blkid", "btrfs", "dumpe2fs", "fdisk", "gdisk", "hdparm")},
    **{name: (name,) for name in ("lsblk", "mdadm", "nvme", "parted", "sfdisk", "sgdisk")},
    **{name: (name,) for name in ("smartctl", "tune2fs")},
    **dict.fromkeys(("lvdisplay", "lvs", "pvdisplay", "pvs", "vgdisplay", "vgs"), ("lvm",)),
    "xfs_info": ("xfs_db", "xfs_spaceman"),
}
_ABILITIES: dict[str, tuple[Ability, ...]] = {
    **dict.fromkeys(("lsns", "pidstat", "pmap", "pwdx"), (Ability.PROCESSES,)),
    **dict.fromkeys(("fuser", "lsof"), (Ability.FILES, Ability.INTERFACES, Ability.PROCESSES)),
    **dict.fromkeys(("awk", "cat", "df", "du", "egrep", "fgrep", "file", "find"), (Ability.FILES,)),
    **dict.fromkeys(("findmnt", "getfacl", "grep", "head", "jq", "less", "ls"), (Ability.FILES,)),
    **dict.fromkeys(
        ("lsattr", "md5sum", "namei", "ncdu", "rg", "sed", "sha1sum"), (Ability.FILES,)
    ),
    **dict.fromkeys(("sha256sum", "stat", "tac", "tail", "tar", "tree", "wc"), (Ability.FILES,)),
    **dict.fromkeys(("xzcat", "zcat", "zgrep", "zless", "zstdcat"), (Ability.FILES,)),
    "dmesg": (Ability.KERNEL_LOG,),
    **dict.fromkeys(("arp", "brctl", "ethtool", "hostname", "ifconfig"), (Ability.INTERFACES,)),
    **dict.fromkeys(("ip", "iw", "iwconfig", "lshw", "mii-tool", "route"), (Ability.INTERFACES,)),
    **dict.fromkeys(_DISK_PROGRAMS, (Ability.DISKS,)),
    **dict.fromkeys(("fping", "mtr", "ping", "ping6", "traceroute"), (Ability.ECHO,)),
    **dict.fromkeys(("conntrack", "ip6tables", "ip6tables-save", "ipset"), (Ability.FIREWALL,)),
    **dict.fromkeys(("iptables", "iptables-save", "nft"), (Ability.FIREWALL,)),
}
# With these options they show what the kernel tells about other processes.
_WITH_PROCESSES = {
    "netstat": re.compile(r"-\w*p\w*|--p\w+"),
    "ps": re.compile(r".*wchan.*|-?\w*l\w*"),
    "ss": re.compile(r"-\w*p\w*|--processes"),
}
_OF_PROCESS = re.compile(r"/proc/[\d*?\[]")
# What a program opens for writing though it only looks: locks, and what it would write at work.
_OPENED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("ip6tables", "iptables"), ("/run/xtables.lock",)),
    **dict.fromkeys(("lvdisplay", "lvs", "pvdisplay", "pvs"), ("/run/lock/lvm", "/run/lvm")),
    **dict.fromkeys(("vgdisplay", "vgs"), ("/run/lock/lvm", "/run/lvm")),
    "nginx": ("/run/nginx.pid", "/var/log/nginx/access.log", "/var/log/nginx/error.log"),
}
# What these do is what walls would keep them from: become another user, mount, trace, enter.
_WITHOUT_WALLS = frozenset(
    {
        *("at", "chroot", "crontab", "doas", "fusermount", "gdb", "ltrace", "machinectl", "mount"),
        *("newgrp", "nsenter", "passwd", "perf", "pkexec", "pmount", "runuser", "strace", "su"),
        *("sudo", "swapoff", "swapon", "systemd-run", "umount", "unshare"),
    }
)


_UNLIMITED = Confinement(writes=None, hosts=None)
# Programs that need more than to read files and to reach hosts; most commands hold none of them.
_SPECIAL = frozenset({*_ABILITIES, *_DISK_PROGRAMS, *_OPENED, *_PORTS, *_SOCKETS, *_WITH_PROCESSES})


def confinement_of(findings: Sequence[Finding], scene: Scene, level: Level) -> Confinement | None:
    """What the kernel holds a command to; None if that would stop it from doing its work."""
    names = [name_of(finding.simple) for finding in findings]
    if level is not Level.SAFE:
        if not _WITHOUT_WALLS.isdisjoint(names) or any(
            finding.simple.privileged for finding in findings
        ):
            return None
        return _UNLIMITED
    special = [name for name in names if name in _SPECIAL]
    reads = tuple(dict.fromkeys(scene.reads)) if scene.reads else ()
    abilities = {ability for name in special for ability in _ABILITIES.get(name, ())}
    for name, finding in zip(names, findings, strict=True):
        texts = [word.text for word in finding.simple.words[1:]]
        shows = _WITH_PROCESSES.get(name)
        if shows is not None and any(map(shows.fullmatch, texts)):
            abilities.add(Ability.PROCESSES)
        if name == "netstat":
            abilities.add(Ability.INTERFACES)
        if any(map(_OF_PROCESS.match, texts)):
            abilities.add(Ability.PROCESSES)
    hosts: tuple[str, ...] | None = ()
    if scene.network or not _PORTS.keys().isdisjoint(special):
        named = [*scene.network, *(_PORTS[name] for name in special if name in _PORTS)]
        servers = {host.removeprefix(_SERVER_OF) for host in named if host.startswith(_SERVER_OF)}
        # The settings of other programs name a server that may be any host.
        if servers <= _SERVED_HERE:
            local = ("localhost" if host.startswith(_SERVER_OF) else host for host in named)
            hosts = tuple(dict.fromkeys(local))
        else:
            hosts = None
    if not special:
        held = tuple(sorted(abilities)) if abilities else ()
        return Confinement(reads=reads, hosts=None if scene.follows else hosts, abilities=held)
    clients = [name for name in special if name in _SOCKETS]
    disks = (program for name in special for program in _DISK_PROGRAMS.get(name, ()))
    return Confinement(
        reads=reads,
        writes=tuple(dict.fromkeys(path for name in special for path in _OPENED.get(name, ()))),
        hosts=None if scene.follows else hosts,
        sockets=tuple(dict.fromkeys(path for name in clients for path in _SOCKETS[name])),
        programs=tuple(dict.fromkeys((*clients, *disks))),
        abilities=tuple(sorted(abilities)),
    )
