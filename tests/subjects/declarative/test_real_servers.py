"""Packs and probes against the servers that they are for, and what they say when those break."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import httpx2
import pytest

from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.health import Health
from tests.contract.servers import http, serving
from tests.e2e.waiting import eventually
from tests.models.world import WELL
from tests.subjects.certificates import certificate
from tests.subjects.declarative.diagnosing import diagnose
from tests.subjects.declarative.probes.test_host import asking
from tests.subjects.declarative.servers import (
    CACHE,
    WHEELS,
    accepts,
    erlang,
    java,
    libraries,
    ports,
    running,
    sharing,
)
from tests.subjects.declarative.test_packs import PACKS
from tests.subjects.declarative.trying import Tried, described

WAIT_S_MAX = 60.0
pytestmark = [pytest.mark.asyncio, pytest.mark.system, pytest.mark.timeout(300)]


def pack(folder: Path, name: str, *changes: tuple[str, str]) -> Tried:
    """A pack as somebody adds it, with their addresses in the places of its own."""
    text = PACKS[name].text.replace("@NAME@", "mine")
    for old, new in changes:
        assert old in text, f"{old!r} is not in the pack {name}"
        text = text.replace(old, new)
    return described(folder, text, timeout_s=20.0)


async def broken(tried: Tried) -> set[str]:
    return {f.invariant for f in await tried.findings() if f.health is not Health.HEALTHY}


async def find(tried: Tried) -> Diagnosis:
    return await diagnose(tried, **{target.name: WELL for target in tried.targets})


def run_once(argv: list[str], folder: Path, env: Mapping[str, str] | None = None) -> None:
    """A command that prepares or changes a server."""
    words = {**os.environ, **(env or {})}
    subprocess.run(argv, cwd=folder, env=words, check=True, capture_output=True, timeout=120)


async def until(met: Callable[[], Awaitable[bool]], wanted: str) -> None:
    """Ask a real server again until it is so."""
    ends = time.monotonic() + WAIT_S_MAX
    while not await met():
        assert time.monotonic() < ends, wanted


async def until_broken(tried: Tried, invariants: set[str]) -> None:
    """Wait until exactly these are broken."""

    async def is_met() -> bool:
        return await broken(tried) == invariants

    await until(is_met, f"{invariants or 'nothing'} is broken")


HAPROXY = """\
global
  maxconn 200
defaults
  mode http
  timeout connect 2s
  timeout client 5s
  timeout server 5s
frontend stats
  bind 127.0.0.1:{stats}
  http-request use-service prometheus-exporter if {{ path /metrics }}
frontend web
  bind 127.0.0.1:{web}
  default_backend shop
backend shop
  server one 127.0.0.1:{backend} check inter 300ms fall 1 rise 1
"""


async def test_haproxy_without_a_server_is_named(tmp_path: Path) -> None:
    with ports("web", "stats", "backend") as port:
        (tmp_path / "haproxy.cfg").write_text(HAPROXY.format(**port))
        argv = (str(CACHE / "haproxy/usr/sbin/haproxy"), "-db", "-f", "haproxy.cfg")
        with running(tmp_path, *argv, port=port["web"], env=libraries("haproxy")):
            tried = pack(
                tmp_path,
                "haproxy",
                ("port: 80\n", f"port: {port['web']}\n"),
                ("port: 8405", f"port: {port['stats']}"),
                ("/run/haproxy.pid", f"{tmp_path}/none.pid"),
            )
            backend = [sys.executable, "-m", "http.server", str(port["backend"])]
            backend += ["--bind", "127.0.0.1", "--directory", str(tmp_path)]
            with running(tmp_path, *backend, port=port["backend"]):
                await until_broken(tried, set())
            await until_broken(tried, {"haproxy_serves", "backends_are_up"})
            found = await find(tried)
            assert (found.cause, found.choice) == ("backends_down", "escalate")


async def test_prometheus_and_alertmanager_say_that_a_reload_failed(tmp_path: Path) -> None:
    with ports("prometheus", "alertmanager", "cluster") as port:
        alerts = f"{{static_configs: [{{targets: ['127.0.0.1:{port['alertmanager']}']}}]}}"
        (tmp_path / "prometheus.yml").write_text(f"alerting: {{alertmanagers: [{alerts}]}}\n")
        (tmp_path / "alertmanager.yml").write_text("route: {receiver: a}\nreceivers: [{name: a}]\n")
        first = (
            str(CACHE / "prometheus/usr/bin/prometheus"),
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=data",
            f"--web.listen-address=127.0.0.1:{port['prometheus']}",
        )
        second = (
            *sharing("alertmanager", "/usr/share/prometheus"),
            str(CACHE / "alertmanager/usr/bin/prometheus-alertmanager"),
            "--config.file=alertmanager.yml",
            "--storage.path=alerts",
            "--cluster.listen-address=",
            f"--web.listen-address=127.0.0.1:{port['alertmanager']}",
        )
        with (
            running(tmp_path, *first, port=port["prometheus"]) as prometheus,
            running(tmp_path, *second, port=port["alertmanager"]) as alertmanager,
        ):
            tried = pack(
                tmp_path,
                "prometheus",
                ("9090", str(port["prometheus"])),
                ("9093", str(port["alertmanager"])),
            )
            await until_broken(tried, set())

            async def reload(name: str) -> None:
                if name == "prometheus":
                    prometheus.send_signal(signal.SIGHUP)
                    return
                async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
                    await client.post(f"http://127.0.0.1:{port[name]}/-/reload")

            for name, invariant in (
                ("prometheus", "configuration_is_loaded"),
                ("alertmanager", "routes_are_loaded"),
            ):
                file = tmp_path / f"{name}.yml"
                good = file.read_text()
                file.write_text("nonsense: [\n")
                await reload(name)
                await until_broken(tried, {invariant})
                found = await find(tried)
                assert (found.cause, found.choice) == ("configuration_invalid", "escalate")
                file.write_text(good)
                await reload(name)
                await until_broken(tried, set())
            alertmanager.kill()
            alertmanager.wait(30)
            await until_broken(tried, {"it_is_ready"})


async def test_rabbitmq_and_its_queues(tmp_path: Path) -> None:
    with ports("broker", "distribution", "names", "metrics") as port:
        env = erlang(tmp_path, port["broker"], port["distribution"], port["names"])
        (tmp_path / "plugins").write_text("[rabbitmq_prometheus].\n")
        (tmp_path / "rabbitmq.conf").write_text(
            f"prometheus.tcp.ip = 127.0.0.1\nprometheus.tcp.port = {port['metrics']}\n"
            "prometheus.return_per_object_metrics = false\n"
        )
        programs = CACHE / "rabbitmq/usr/lib/rabbitmq/bin"
        server = str(programs / "rabbitmq-server")
        names = next(CACHE.glob("rabbitmq/usr/lib/erlang/erts-*/bin/epmd"), Path("epmd"))
        with (
            running(tmp_path, str(names), port=port["names"], env=env),
            running(tmp_path, server, port=port["broker"], env=env),
        ):
            eventually(lambda: accepts(port["metrics"]) or None, "its metrics are served")
            tried = pack(tmp_path, "rabbitmq", ("15692", str(port["metrics"])))
            await until_broken(tried, set())
            (tmp_path / "queues").mkdir()
            await _ask_the_broker(tmp_path / "queues", port["broker"])
            _assert_that_probes_are_quiet(tmp_path / "log")
            argv = [str(programs / "rabbitmqctl"), "set_vm_memory_high_watermark", "0.0001"]
            run_once(argv, tmp_path, env)
            await until_broken(tried, {"memory_is_left"})
            found = await find(tried)
            assert (found.cause, found.choice) == ("memory_alarm", "escalate")


async def _ask_the_broker(folder: Path, port: int) -> None:
    import pika

    more = f", port: {port}"
    asked = asking(folder, "{amqp: {queue: jobs}}", more=more)
    assert (await asked.seen()).readings["it.exists"] is False
    place = pika.ConnectionParameters("127.0.0.1", port)
    with pika.BlockingConnection(place) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("jobs")
        for number in range(3):
            channel.basic_publish("", "jobs", f"{number}".encode())
        readings = (await asked.seen()).readings
        assert (readings["it.messages"], readings["it.consumers"]) == (3, 0)
    (folder / "wrong").write_text("guess")
    access = ", access: {user: guest, password_file: wrong}"
    seen = await asking(folder, "{amqp: {queue: jobs}}", more=more + access).seen()
    assert "login rejected" in seen.problem


def _assert_that_probes_are_quiet(folder: Path) -> None:
    """The server logged no error because of a probe, but for the login that it rejected."""

    def read() -> str:
        return "".join(path.read_text() for path in folder.glob("*.log"))

    eventually(lambda: "user 'guest'" in read() or None, "the rejected login is logged")
    assert not [
        line
        for line in read().splitlines()
        if re.search(r"\[(error|warning)\]", line)
        and re.search("closed|handshake|abruptly|unexpected", line)
    ]


async def test_nats_with_its_connections_used_up(tmp_path: Path) -> None:
    with ports("nats", "monitor") as port:
        (tmp_path / "nats.conf").write_text(
            f"listen: 127.0.0.1:{port['nats']}\nhttp: 127.0.0.1:{port['monitor']}\n"
            "max_connections: 3\n"
        )
        argv = (str(WHEELS / "bin/nats-server"), "-c", "nats.conf")
        with running(tmp_path, *argv, port=port["monitor"]):
            tried = pack(tmp_path, "nats", ("8222", str(port["monitor"])))
            await until_broken(tried, set())
            sessions = []
            for _ in range(3):
                session = socket.create_connection(("127.0.0.1", port["nats"]), 5)
                session.sendall(b"CONNECT {}\r\nPING\r\n")
                sessions.append(session)
            try:
                await until_broken(tried, {"connections_have_room"})
                found = await find(tried)
                assert (found.cause, found.choice) == ("connections_used_up", "escalate")
            finally:
                for session in sessions:
                    session.close()


async def test_the_certificate_of_caddy(tmp_path: Path) -> None:
    with ports("caddy") as port:
        argv = (str(WHEELS / "bin/caddy"), "run", "--config", "Caddyfile")
        for days, expected in ((60, set()), (5, {"certificate_is_renewed"})):
            pem = certificate(tmp_path, name="localhost", days=days)
            site = f'tls {pem} {pem}\nrespond "ok"\n'
            options = "{\nadmin off\nauto_https off\nskip_install_trust\n}\n"
            text = f"{options}https://localhost:{port['caddy']} {{\nbind 127.0.0.1\n{site}}}\n"
            (tmp_path / "Caddyfile").write_text(text)
            with running(tmp_path, *argv, port=port["caddy"]):
                tried = pack(
                    tmp_path,
                    "caddy",
                    ("port: 443", f"port: {port['caddy']}"),
                    ("tls: true,", f"tls: true, ca_file: {pem},"),
                )
                await until_broken(tried, expected)
                if expected:
                    assert (await find(tried)).cause == "certificate_expiring"
        await until_broken(tried, {"caddy_serves"})


OPENSEARCH = """\
import java.nio.file.*; import java.util.*;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;
public class One extends Node {
  One(Environment place) { super(place, List.of(Netty4Plugin.class), true); }
  public static void main(String[] words) throws Exception {
    Path home = Paths.get(words[0]).toAbsolutePath();
    Settings settings = Settings.builder().put("path.home", home.toString())
      .put("http.port", words[1]).put("transport.port", words[2])
      .put("network.host", "127.0.0.1").put("discovery.type", "single-node")
      .put("transport.type", "netty4").put("http.type", "netty4")
      .put("cluster.routing.allocation.disk.threshold_enabled", "false").build();
    new One(new Environment(settings, home)).start();
    Thread.currentThread().join();
  }
}
"""


async def test_opensearch_without_the_replicas_of_an_index(tmp_path: Path) -> None:
    with ports("http", "transport") as port:
        (tmp_path / "One.java").write_text(OPENSEARCH)
        quiet = ("-Dlog4j2.disable.jmx=true", f"-Dopensearch.path.home={tmp_path}")
        argv = (*java("opensearch", *quiet, memory_mb=512), "One.java")
        argv += (".", str(port["http"]), str(port["transport"]))
        with running(tmp_path, *argv, port=port["http"]):
            tried = pack(tmp_path, "opensearch", ("9200", str(port["http"])))
            await until_broken(tried, set())
            url = f"http://127.0.0.1:{port['http']}/orders"
            async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
                made = await client.put(url, json={"settings": {"number_of_replicas": 1}})
                assert made.status_code == 200, made.text
            await until_broken(tried, {"data_is_replicated"})
            found = await find(tried)
            assert (found.cause, found.choice) == ("replica_missing", "escalate")


async def test_a_kafka_broker_its_topics_and_the_lag_of_a_group(tmp_path: Path) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    with ports("broker", "controller") as port:
        listen = f"PLAINTEXT://127.0.0.1:{port['broker']}"
        (tmp_path / "server.properties").write_text(
            "process.roles=broker,controller\nnode.id=1\nlog.dirs=data\n"
            f"controller.quorum.voters=1@127.0.0.1:{port['controller']}\n"
            f"listeners={listen},CONTROLLER://127.0.0.1:{port['controller']}\n"
            f"advertised.listeners={listen}\ncontroller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
            "offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n"
            "group.initial.rebalance.delay.ms=0\n"
        )
        argv = java("kafka", memory_mb=256)
        make = [*argv, "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg"]
        make += ["-c", "server.properties"]
        run_once(make, tmp_path)
        more = f", port: {port['broker']}"
        probe = "{kafka: {topic: orders, group: shop}}"
        asked = asking(tmp_path, probe, more=more, timeout_s=20.0)
        with running(tmp_path, *argv, "kafka.Kafka", "server.properties", port=port["broker"]):
            place = {"bootstrap.servers": f"127.0.0.1:{port['broker']}"}
            administrator = AdminClient({**place})
            (made,) = administrator.create_topics([NewTopic("orders", 2, 1)]).values()
            await asyncio.to_thread(made.result, 60)
            producer = Producer(place)
            for number in range(10):
                producer.produce("orders", f"{number}".encode(), partition=number % 2)
            await asyncio.to_thread(producer.flush, 60)
            consumer = Consumer({**place, "group.id": "shop", "enable.auto.commit": False})
            consumer.commit(offsets=[TopicPartition("orders", 0, 4)], asynchronous=False)
            consumer.close()
            readings = (await asked.seen()).readings
            assert (readings["it.ok"], readings["it.brokers"]) == (True, 1)
            assert (readings["it.topics"], readings["it.partitions"]) == (1, 2)
            assert (readings["it.offline"], readings["it.under_replicated"]) == (0, 0)
            # Of the other partition the group has never read anything.
            assert readings["it.lag"] == 1
        seen = await asking(tmp_path, probe, more=more, timeout_s=5.0).seen()
        assert seen.readings["it.up"] is False
        assert "connection refused" in str(seen.readings["it.error"])


async def test_an_object_store_and_its_newest_object(tmp_path: Path) -> None:
    from botocore.session import Session

    with ports("s3", "master", "volume", "filer", "g1", "g2", "g3", "g4") as port:
        (tmp_path / "s3.json").write_text(
            '{"identities": [{"name": "a", "credentials": [{"accessKey": "key", "secretKey":'
            ' "word"}], "actions": ["Admin", "Read", "Write", "List"]}]}'
        )
        argv = [str(WHEELS / "bin/weed"), "server", "-ip=127.0.0.1", "-dir=.", "-s3"]
        argv += ["-s3.config=s3.json", "-volume.max=4", "-master.volumeSizeLimitMB=16"]
        argv += [f"-s3.port={port['s3']}", f"-master.port={port['master']}"]
        argv += [f"-volume.port={port['volume']}", f"-filer.port={port['filer']}"]
        argv += [f"-master.port.grpc={port['g1']}", f"-volume.port.grpc={port['g2']}"]
        argv += [f"-filer.port.grpc={port['g3']}", f"-s3.port.grpc={port['g4']}"]
        with running(tmp_path, *argv, port=port["s3"]):
            client = Session().create_client(
                "s3",
                region_name="us-east-1",
                endpoint_url=f"http://127.0.0.1:{port['s3']}",
                aws_access_key_id="key",
                aws_secret_access_key="word",
            )
            (tmp_path / "secret").write_text("word")
            (tmp_path / "wrong").write_text("guess")

            def asked(file: str) -> Tried:
                access = f"access: {{user: key, password_file: {file}}}"
                more = f", port: {port['s3']}, {access}"
                return asking(tmp_path, "{s3: {bucket: backups, prefix: day}}", more=more)

            async def is_ready() -> bool:
                return (await asked("secret").seen()).readings.get("it.exists") is False

            await until(is_ready, "the store answers that there is no such bucket")
            client.create_bucket(Bucket="backups")
            client.put_object(Bucket="backups", Key="day/one", Body=b"12345")
            client.put_object(Bucket="backups", Key="other", Body=b"1")
            client.close()
            readings = (await asked("secret").seen()).readings
            assert (readings["it.objects"], readings["it.bytes"]) == (1, 5)
            age_s = readings["it.newest_age_s"]
            assert isinstance(age_s, float)
            assert -5 < age_s < 300
            seen = await asked("wrong").seen()
            assert "login rejected: SignatureDoesNotMatch" in seen.problem


async def test_the_health_of_etcd_over_grpc(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("etcd")
    with ports("clients", "peers") as port:
        client = f"http://127.0.0.1:{port['clients']}"
        argv = [str(program), "--data-dir=data", f"--listen-client-urls={client}"]
        argv += [f"--advertise-client-urls={client}", "--log-level=warn"]
        argv += [f"--listen-peer-urls=http://127.0.0.1:{port['peers']}"]
        with running(tmp_path, *argv, port=port["clients"]) as server:
            tried = asking(tmp_path, "{grpc: }", more=f", port: {port['clients']}")

            async def is_serving() -> bool:
                return (await tried.seen()).readings.get("it.state") == "SERVING"

            await until(is_serving, "etcd serves")
            other = asking(tmp_path, "{grpc: {service: shop}}", more=f", port: {port['clients']}")
            assert (await other.seen()).readings.get("it.ok") is not True
            server.send_signal(signal.SIGKILL)
            server.wait(30)
            readings = (await tried.seen()).readings
            assert "connection refused" in str(readings["it.error"])


async def test_a_web_application_that_fails_is_named(tmp_path: Path) -> None:
    async with serving(http(200, {"status": "ok"})) as port:
        tried = pack(tmp_path, "web-application", ("8080", str(port)))
        assert await broken(tried) == set()
    async with serving(http(500, {"status": "error"})) as port:
        tried = pack(tmp_path, "web-application", ("8080", str(port)))
        assert (await find(tried)).cause == "server_errors"
