"""The kinds of systems that are recognised, and what each needs to be watched. Data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["IGNORED", "KINDS", "WEB", "Kind", "pack_text"]

WEB = "web"
# Which files speak of a kind, besides a process and a port.
_POSTGRES_GRANT = """\
CREATE ROLE operator LOGIN IN ROLE pg_monitor;
GRANT SELECT ON pg_file_settings, pg_hba_file_rules TO operator;
GRANT EXECUTE ON FUNCTION pg_show_all_file_settings(), pg_hba_file_rules() TO operator;
\\password operator"""
_REDIS_GRANT = "ACL SETUSER operator on >PASSWORD -@all +ping +info"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of system: the names of its processes, its usual ports, and how it is watched.

    `plugin` is a built-in subject with targets of kind `target`; otherwise it is described in a
    file, by the pack of this name where there is one. `asks` is the handshake that confirms it, as
    its protocol has it, so that no server logs an error because of us. `grant` gives the role of
    Operator the rights that it needs, where it needs a credential.
    """

    name: str
    programs: str
    ports: tuple[int, ...] = ()
    plugin: str = ""
    target: str = ""
    pack: str = ""
    asks: str = ""
    grant: str = ""
    files: tuple[str, ...] = ()

    def runs(self, program: str) -> bool:
        """Whether a process of this name is one."""
        return bool(program) and re.fullmatch(self.programs, program) is not None


KINDS: tuple[Kind, ...] = (
    Kind(
        *("postgres", r"postgres|postmaster", (5432,), "postgres", "server"),
        grant=_POSTGRES_GRANT,
        files=("etc/postgresql", "var/lib/pgsql"),
    ),
    Kind("etcd", r"etcd", (2379,), "etcd", "member", asks="etcd", files=("etc/etcd",)),
    Kind("tikv", r"pd-server", (), "tikv", "pd"),
    Kind(
        *("redis", r"redis-server|valkey-server|keydb-server|redis|valkey", (6379,)),
        pack="redis",
        asks="redis",
        grant=_REDIS_GRANT,
        files=("etc/redis", "etc/valkey"),
    ),
    Kind("nginx", r"nginx.*", (), pack="nginx", asks="http", files=("etc/nginx/nginx.conf",)),
    Kind("haproxy", r"haproxy", (), pack="haproxy", asks="http", files=("etc/haproxy",)),
    Kind("caddy", r"caddy", (), pack="caddy", asks="http", files=("etc/caddy/Caddyfile",)),
    Kind(
        *("prometheus", r"prometheus", (9090,)),
        pack="prometheus",
        asks="http",
        files=("etc/prometheus",),
    ),
    Kind("alertmanager", r"alertmanager", (9093,), pack="alertmanager", asks="http"),
    Kind("opensearch", r"opensearch|elasticsearch", (9200,), pack="opensearch", asks="http"),
    # Their servers count or log a connection that says nothing, so only their process is watched
    # until a pack speaks their protocol.
    Kind("mysql", r"mysqld|mariadbd", (3306,), pack="mysql", files=("etc/mysql", "etc/my.cnf")),
    Kind("rabbitmq", r"beam\.smp", (5672,), pack="rabbitmq", files=("etc/rabbitmq",)),
    Kind("nats", r"nats-server", (4222,), pack="nats"),
    Kind(
        *(WEB, r"python.*|node|nodejs|java|ruby|puma.*|gunicorn.*|uvicorn.*|php.*|dotnet|deno|bun"),
        (80, 443, 3000, 5000, 8000, 8080, 8081, 8888, 9000),
        pack=WEB,
        asks="http",
    ),
)
# What belongs to the machine itself, or is Operator's own.
IGNORED: Mapping[str, str] = {
    r"sshd.*": "the ssh server of this machine",
    r"systemd.*": "a part of systemd",
    r"dockerd|containerd.*|docker-proxy|runc": "a part of Docker",
    r"cupsd|cups-browsed": "the print service",
    r"chronyd|ntpd": "the time service",
    r"dnsmasq|named|unbound": "a name server",
    r"operator": "a part of Operator",
}


def pack_text(pack: str) -> str:
    """The description that a pack starts from, or "" where there is none."""
    # Here packs plug in: what has no pack gets a plain description of its own.
    place = files("operator_sre") / "packs" / f"{pack}.yaml"
    return place.read_text("utf-8") if pack and place.is_file() else ""
