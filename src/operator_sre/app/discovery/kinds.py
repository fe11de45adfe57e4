"""The kinds of systems that are recognised, and what each needs to be watched. Data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["IGNORED", "KINDS", "WEB", "Kind"]

WEB = "web"
# Which files speak of a kind, besides a process and a port.
_POSTGRES_GRANT = """\
CREATE ROLE operator LOGIN IN ROLE pg_monitor;
GRANT SELECT ON pg_file_settings, pg_hba_file_rules TO operator;
GRANT EXECUTE ON FUNCTION pg_show_all_file_settings(), pg_hba_file_rules() TO operator;
\\password operator"""
_REDIS_GRANT = "ACL SETUSER operator on >PASSWORD -@all +ping +info"
_MYSQL_GRANT = """\
CREATE USER operator@'127.0.0.1' IDENTIFIED BY 'PASSWORD' WITH MAX_USER_CONNECTIONS 10;
GRANT PROCESS, REPLICATION CLIENT ON *.* TO operator@'127.0.0.1';"""


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
    # Their packs need what is not known here: an exporter, a certificate, a second server.
    Kind("haproxy", r"haproxy", (), asks="http", files=("etc/haproxy",)),
    Kind("caddy", r"caddy", (), asks="http", files=("etc/caddy/Caddyfile",)),
    Kind("prometheus", r"prometheus", (9090,), asks="http", files=("etc/prometheus",)),
    Kind("alertmanager", r"alertmanager", (9093,), asks="http"),
    Kind("opensearch", r"opensearch|elasticsearch", (9200,), pack="opensearch", asks="http"),
    # It counts a connection that says nothing, so it is asked only with the role of its grant.
    Kind(
        *("mysql", r"mysqld|mariadbd", (3306,)),
        pack="mysql",
        grant=_MYSQL_GRANT,
        files=("etc/mysql", "etc/my.cnf"),
    ),
    # Their servers count or log a connection that says nothing, so only their process is watched.
    Kind("rabbitmq", r"beam\.smp", (5672,), files=("etc/rabbitmq",)),
    Kind("nats", r"nats-server", (4222,)),
    Kind(
        *(WEB, r"python.*|node|nodejs|java|ruby|puma.*|gunicorn.*|uvicorn.*|php.*|dotnet|deno|bun"),
        (80, 443, 3000, 5000, 8000, 8080, 8081, 8888, 9000),
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
