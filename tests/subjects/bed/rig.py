"""The test bed as a rig: nginx, two web applications, MariaDB, PostgreSQL and a cache. Data."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from operator_protocols.domain.rig import ProcessSpec, RigSpec
from operator_protocols.domain.target import Access
from tests.subjects.bed import programs

__all__ = ["bed_rig"]

# A busy machine starts them slowly, which is no failure of the bed.
READY_S_MAX = 60.0
APPLICATION = Path(__file__).with_name("application.py")
NGINX = """\
daemon off;
user root;
pid {dir}/nginx.pid;
error_log {dir}/error.log;
worker_processes 1;
events {
    worker_connections 64;
}
http {
    access_log off;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    proxy_connect_timeout 2s;
    proxy_read_timeout 6s;
    server {
        listen 127.0.0.1:{port};
        location / {
            return 200 open;
        }
        location /nginx_status {
            stub_status;
        }
        location /shop/ {
            proxy_pass http://127.0.0.1:{shop.port}/;
        }
        location /pay/ {
            proxy_pass http://127.0.0.1:{pay.port}/;
        }
    }
}
"""
MARIADB = """\
[mariadbd]
datadir = {volume}/main
port = {port}
bind-address = 127.0.0.1
socket = {dir}/mariadb.sock
pid-file = {dir}/mariadb.pid
log-error = {dir}/error.log
lc-messages-dir = SHARE
character-sets-dir = SHARE/charsets
tmpdir = {volume}
skip-name-resolve = 1
max_connections = 40
innodb_buffer_pool_size = 16M
innodb_log_file_size = 8M
innodb_undo_tablespaces = 0
innodb_temp_data_file_path = ibtmp1:2M:autoextend
key_buffer_size = 1M
performance_schema = 0
log_warnings = 2
"""
POSTGRES = """\
data_directory = '{volume}/main'
hba_file = '{dir}/pg_hba.conf'
ident_file = '{dir}/pg_ident.conf'
listen_addresses = '127.0.0.1'
port = {port}
external_pid_file = '{dir}/postgres.pid'
unix_socket_directories = ''
max_connections = 30
superuser_reserved_connections = 3
reserved_connections = 3
shared_buffers = 16MB
jit = off
max_worker_processes = 2
min_wal_size = 8MB
max_wal_size = 32MB
log_line_prefix = '%m [%p] %a '
log_checkpoints = off
"""
CACHE = """\
port {port}
bind 127.0.0.1
dir {volume}
pidfile {dir}/cache.pid
save 3600 1
appendonly yes
appendfsync everysec
maxmemory 64mb
maxmemory-policy noeviction
repl-timeout 5
requirepass PASSWORD
masterauth PASSWORD
"""


def bed_rig() -> RigSpec:
    """All parts; they are up within seconds, because the databases are copies."""
    copy = ("/bin/cp", "-r")
    mariadb, share = programs.mariadb(), programs.mariadb() / "usr/share/mysql"
    folder = programs.postgres()
    password = {"password": programs.PASSWORD}
    mariadbd = str(mariadb / "usr/sbin/mariadbd")
    db = ProcessSpec(
        name="db",
        kind="mariadb",
        argv=(mariadbd, "--defaults-file={dir}/my.cnf"),
        env={"LD_LIBRARY_PATH": programs.library_path(mariadb)},
        files={"my.cnf": MARIADB.replace("SHARE", str(share)), **password},
        prepare=((*copy, str(programs.mariadb_data()), "{volume}/main"),),
        volume_mb=160,
        ready_s_max=READY_S_MAX,
        linked=True,
        unprivileged=True,
        access=Access(user="operator", password_file="{dir}/password"),
    )
    ledger = ProcessSpec(
        name="ledger",
        kind="postgres",
        argv=(str(folder / "postgres"), "--config-file={dir}/postgresql.conf"),
        files={
            "postgresql.conf": POSTGRES,
            "pg_hba.conf": "host all all 127.0.0.1/32 scram-sha-256\n",
            "pg_ident.conf": "",
            "owner.pgpass": f"*:*:*:postgres:{programs.PASSWORD}\n",
            **password,
        },
        prepare=(
            (*copy, str(programs.postgres_data()), "{volume}/main"),
            ("/bin/chmod", "700", "{volume}/main"),
        ),
        ready_argv=(str(folder / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", "{port}"),
        volume_mb=160,
        ready_s_max=READY_S_MAX,
        linked=True,
        unprivileged=True,
        access=Access(user="operator", password_file="{dir}/password"),
    )
    cache = ProcessSpec(
        name="cache",
        kind="redis",
        argv=(str(programs.valkey()), "{dir}/valkey.conf"),
        files={"valkey.conf": CACHE.replace("PASSWORD", programs.PASSWORD), **password},
        volume_mb=32,
        ready_s_max=READY_S_MAX,
        linked=True,
        access=Access(password_file="{dir}/password"),
    )
    shop = _application("shop", "mysql", "{db.port}", needs=("db", "cache"))
    pay = _application("pay", "postgres", "{ledger.port}", needs=("ledger",))
    edge = ProcessSpec(
        name="edge",
        kind="nginx",
        argv=(str(programs.nginx()), "-c", "{dir}/nginx.conf", "-e", "{dir}/error.log"),
        files={"nginx.conf": NGINX},
        depends_on=("shop", "pay"),
        ready_path="/",
        ready_s_max=READY_S_MAX,
        linked=True,
    )
    return RigSpec("bed", (db, ledger, cache, shop, pay, edge))


def _application(name: str, kind: str, port: str, *, needs: tuple[str, ...]) -> ProcessSpec:
    place = {"host": "127.0.0.1", "user": "shop", "password_file": "{dir}/password"}
    config: dict[str, object] = {
        "port": "{port}",
        "database": {**place, "kind": kind, "port": port},
    }
    if "cache" in needs:
        config["cache"] = {**place, "port": "{cache.port}"}
    return ProcessSpec(
        name=name,
        kind="web",
        argv=(sys.executable, "-P", str(APPLICATION), "{dir}/app.json"),
        files={"app.json": json.dumps(config, indent=1), "password": programs.PASSWORD},
        depends_on=needs,
        ready_path="/ready",
        ready_s_max=READY_S_MAX,
        linked=True,
    )
