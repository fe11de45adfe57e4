"""TLS, logins and rights against a real broker that lets nobody in without them.

The rights are those that docs/subjects/kafka.md lists, read from the page.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest

from operator_lab.ports import reserve_ports
from operator_protocols.domain.action import Argument, Result
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation
from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import MissingProgramError
from operator_protocols.ports import Job, SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.subjects.kafka.client import driver
from operator_sre.subjects.kafka.rig import artifacts, jmx_agent, rig
from operator_sre.subjects.kafka.subject import KafkaCluster
from operator_sre.subjects.kafka.tools import kafka_tools
from tests.subjects.certificates import certificate

pytestmark = [pytest.mark.asyncio, pytest.mark.system, pytest.mark.timeout(300)]

PAGE = Path(__file__).parents[3] / "docs/subjects/kafka.md"
USER, SCRAM_USER, ADMINISTRATOR = "operator", "scrammed", "admin"
READY_S_MAX = 180.0
ANSWER_S_MAX = 20.0
ORDERS, CANARY = "orders", "operator-canary"


class Purpose(IntEnum):
    """What rights are for, in the order of the page."""

    OBSERVE = 0
    CANARY = 1
    REPAIR = 2


@dataclass(frozen=True)
class Broker:
    """A real broker with a port for clients (SASL_SSL) and one for its administrator."""

    folder: Path
    port: int
    plain_port: int
    agent_port: int

    def client(self) -> Any:
        """A client with all rights."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": f"127.0.0.1:{self.plain_port}", "log_level": 0})

    def target(self, user: str = USER, *, password: str = "", ca: str = "") -> Target:
        """The broker as Operator reaches it."""
        access = Access(
            user=user,
            password_file=password or str(self.folder / f"{user}.password"),
            tls=True,
            ca_file=ca or str(self.folder / "ca.pem"),
        )
        return Target("broker-1", "broker", "127.0.0.1", self.port, access=access)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker, which is its own controller."""
    try:
        run = next(each for each in rig().processes if each.name == "broker-1").argv
    except MissingProgramError as problem:
        pytest.skip(str(problem))
    if not all(Path(each.file).exists() for each in (*artifacts(), jmx_agent())):
        pytest.skip("The files of Kafka are not cached: `python -m tests.tools.kafka`.")
    folder = tmp_path_factory.mktemp("access")
    passwords = {name: secrets.token_hex(12) for name in (USER, SCRAM_USER)}
    for name, password in passwords.items():
        (folder / f"{name}.password").write_text(password + "\n")
    pem = certificate(folder, name="127.0.0.1", days=400)
    (folder / "ca.pem").write_text(pem.read_text().partition("-----END PRIVATE KEY-----\n")[2])
    with reserve_ports(["clients", "administrator", "controller", "agent"]) as reservation:
        port = reservation.ports
        (folder / "server.properties").write_text(
            f"""\
process.roles=broker,controller
node.id=2
controller.quorum.voters=2@127.0.0.1:{port["controller"]}
listeners=SASL_SSL://127.0.0.1:{port["clients"]},PLAINTEXT://127.0.0.1:{port["administrator"]},\
CONTROLLER://127.0.0.1:{port["controller"]}
advertised.listeners=SASL_SSL://127.0.0.1:{port["clients"]},\
PLAINTEXT://127.0.0.1:{port["administrator"]}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.sasl_ssl.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{passwords[USER]}";
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.keystore.type=PEM
ssl.keystore.location={pem}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
log.dirs={folder}/log
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=4194304
"""
        )
        (folder / "cluster.id").write_text("AAAAAAAAAAAAAAAAAAAAAA\n")
        # `broker.sh run JAVA JARS DIRECTORY DATA NODE`, as the rig does it.
        script = Path(rig.__code__.co_filename).with_name("broker.sh")
        words = [run[3], run[4], str(folder), str(folder), "2"]
        subprocess.run(["/bin/sh", script, "prepare", *words], check=True)
        agent = f"{jmx_agent().file}=127.0.0.1:{port['agent']}:{script.with_name('jmx.yml')}"
        env = {**os.environ, "JAVA_TOOL_OPTIONS": f"-javaagent:{agent}"}
        with (folder / "broker.log").open("wb") as log:
            process = subprocess.Popen(
                ["/bin/sh", script, "run", *words], stdout=log, stderr=log, env=env
            )
        try:
            made = Broker(folder, port["clients"], port["administrator"], port["agent"])
            _prepare(made, process, passwords[SCRAM_USER])
            yield made
        finally:
            process.kill()
            process.wait()


def _prepare(broker: Broker, process: subprocess.Popen[bytes], password: str) -> None:
    """Topics, a group that has read, and an account of SCRAM."""
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

    admin = driver().admin

    ends = time.monotonic() + READY_S_MAX
    client = broker.client()
    while True:
        try:
            client.list_topics(timeout=2)
            break
        except KafkaException:
            assert process.poll() is None, (broker.folder / "broker.log").read_text()[-2000:]
            assert time.monotonic() < ends
    topics = [admin.NewTopic(ORDERS, 2, 1), admin.NewTopic(CANARY, 1, 1)]
    account = admin.UserScramCredentialUpsertion(
        SCRAM_USER,
        admin.ScramCredentialInfo(admin.ScramMechanism.SCRAM_SHA_512, 4096),
        password.encode(),
    )
    for future in (
        *client.create_topics(topics).values(),
        *client.alter_user_scram_credentials([account]).values(),
    ):
        future.result(60)
    place = {"bootstrap.servers": f"127.0.0.1:{broker.plain_port}", "log_level": 0}
    producer = Producer(place)
    producer.produce(ORDERS, b"{}", partition=0)
    producer.flush(60)
    consumer = Consumer({**place, "group.id": "billing", "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(ORDERS, 0, 1)], asynchronous=False)
    consumer.close()


def _rules(purpose: Purpose, user: str = USER) -> list[Any]:
    """The rights of one purpose, as the page lists them."""
    admin = driver().admin
    text = PAGE.read_text(encoding="utf-8")
    section = text.partition("## Rights")[2].partition("\n## ")[0]
    block = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)[purpose]
    lines = [line for line in block.splitlines() if line.startswith("kafka-acls.sh --add ")]
    found = []
    for line in lines:
        words = shlex.split(line)
        at = next(n for n, word in enumerate(words) if word in ("--cluster", "--topic", "--group"))
        kind = {"--cluster": "BROKER", "--topic": "TOPIC", "--group": "GROUP"}[words[at]]
        name = "kafka-cluster" if kind == "BROKER" else words[at + 1]
        operations = [words[n + 1] for n, word in enumerate(words) if word == "--operation"]
        for operation in operations:
            snake = re.sub(r"(?<!^)(?=[A-Z])", "_", operation).upper()
            found.append(
                admin.AclBinding(
                    *(admin.ResourceType[kind], name, admin.ResourcePatternType.LITERAL),
                    *(f"User:{user}", "*", admin.AclOperation[snake]),
                    admin.AclPermissionType.ALLOW,
                )
            )
    assert found, purpose
    return found


def _write(place: dict[str, Any], *texts: bytes) -> None:
    """Records of the second partition; the client is gone afterwards."""
    from confluent_kafka import Producer

    producer = Producer(place)
    for text in texts:
        producer.produce(ORDERS, text, key=b"k", partition=1)
    assert producer.flush(60) == 0


@pytest.fixture
def grant(broker: Broker) -> Iterator[Any]:
    """Gives rights, and takes all of them back."""
    admin = driver().admin
    client = broker.client()

    def give(rules: list[Any]) -> None:
        for future in client.create_acls(rules).values():
            future.result(60)

    yield give
    every = admin.AclBindingFilter(
        *(admin.ResourceType.ANY, None, admin.ResourcePatternType.ANY, None, None),
        *(admin.AclOperation.ANY, admin.AclPermissionType.ANY),
    )
    for future in client.delete_acls([every]).values():
        future.result(60)


def _settings(target: Target, **options: object) -> SubjectSettings:
    group = Target("billing", "group", access=target.access)
    given = {"settings_every_s": 0.0, "disk_free_bytes_min": 0, **options}
    return SubjectSettings(
        "kafka", lambda: (target, group), SystemClock(), ANSWER_S_MAX, given, secret=_read
    )


def _read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8").strip()


def _findings(subject: KafkaCluster, seen: Observation, health: Health) -> dict[str, str]:
    return {
        f"{finding.invariant}@{finding.target}": finding.detail
        for invariant in subject.invariants
        for finding in invariant.check(seen)
        if finding.health is health
    }


async def _observe(target: Target, **options: object) -> tuple[KafkaCluster, Observation]:
    subject = KafkaCluster(_settings(target, **options))
    return subject, await subject.observe()


async def _until_known(target: Target, **options: object) -> tuple[KafkaCluster, Observation]:
    """Rights reach a broker a moment after they were given."""
    ends = time.monotonic() + ANSWER_S_MAX
    while True:
        subject, seen = await _observe(target, **options)
        unknown = _findings(subject, seen, Health.UNKNOWN)
        if not unknown:
            return subject, seen
        assert time.monotonic() < ends, unknown


async def _call(target: Target, name: str, **arguments: Argument) -> Result:
    tools = {tool.spec.name: tool for tool in kafka_tools(_settings(target))}
    return await tools[name].call(arguments, Job("call", timeout_s=60.0))


@pytest.mark.parametrize(("user", "mechanism"), [(USER, "PLAIN"), (SCRAM_USER, "SCRAM-SHA-512")])
async def test_the_rights_of_the_page_are_enough_to_observe_and_to_do_no_more(
    broker: Broker, grant: Any, user: str, mechanism: str
) -> None:
    grant(_rules(Purpose.OBSERVE, user))
    target = broker.target(user)
    subject, seen = await _until_known(target, mechanism=mechanism)
    assert set(_findings(subject, seen, Health.BROKEN)) == {"group_stopped@billing"}
    cluster = seen.of("cluster").readings
    assert (cluster["let_in"], cluster["controller"]) == (True, "broker-1")
    assert cluster["partitions"] == 4  # with the offsets of groups
    assert seen.of("billing").readings["lag"] == 0
    days = seen.of("broker-1").readings["certificate_s"]
    assert isinstance(days, float)
    assert 399 < days / 86_400 < 401
    # What only repairs need is refused.
    arguments = {"topic": ORDERS, "setting": "min.insync.replicas"}
    if mechanism == "PLAIN":
        refused = await _call(target, "reset_topic_setting", **arguments)
        assert not refused.ok
        assert "authoriz" in refused.stderr.lower()


async def test_each_right_of_the_page_is_needed(broker: Broker, grant: Any) -> None:
    """Without one of them something is unknown: no more is asked for than is used."""
    admin = driver().admin
    rules = _rules(Purpose.OBSERVE)
    assert len(rules) == 5
    grant(rules)
    await _until_known(broker.target())
    client = broker.client()
    for rule in rules:
        # A right to describe settings includes none to describe, and the other way round.
        without = admin.AclBindingFilter(
            *(rule.restype, rule.name, rule.resource_pattern_type, rule.principal, rule.host),
            *(rule.operation, rule.permission_type),
        )
        for future in client.delete_acls([without]).values():
            future.result(60)
        ends = time.monotonic() + ANSWER_S_MAX
        while True:
            subject, seen = await _observe(broker.target())
            if (
                _findings(subject, seen, Health.UNKNOWN)
                or seen.of("cluster").readings.get("partitions") != 4
            ):
                break
            assert time.monotonic() < ends, f"{rule} is not needed"
        grant([rule])
        await _until_known(broker.target())


async def test_the_rights_of_the_canary_are_enough_for_it(broker: Broker, grant: Any) -> None:
    grant([*_rules(Purpose.OBSERVE), *_rules(Purpose.CANARY)])
    ends = time.monotonic() + ANSWER_S_MAX
    while True:
        _, seen = await _until_known(broker.target(), canary=CANARY)
        cluster = seen.of("cluster").readings
        if cluster.get("write_error") == cluster.get("read_error") == "":
            break
        assert time.monotonic() < ends, cluster
    assert cluster["write_lost"] == ""


async def test_the_rights_for_repairs_are_enough_for_them(broker: Broker, grant: Any) -> None:
    admin = driver().admin
    grant([*_rules(Purpose.OBSERVE), *_rules(Purpose.REPAIR)])
    target = broker.target()
    await _until_known(target)
    operation = admin.AlterConfigOpType.SET
    entry = admin.ConfigEntry("min.insync.replicas", "2", incremental_operation=operation)
    resource = admin.ConfigResource("topic", ORDERS, incremental_configs=[entry])
    client = broker.client()
    for future in client.incremental_alter_configs([resource]).values():
        future.result(60)
    subject, seen = await _observe(target)
    assert "minimum_strict@cluster" in _findings(subject, seen, Health.BROKEN)
    done = await _call(target, "reset_topic_setting", topic=ORDERS, setting="min.insync.replicas")
    assert done.ok, done.stderr
    calls: tuple[tuple[str, dict[str, Argument]], ...] = (
        ("elect_preferred_leaders", {}),
        ("clear_throttle", {}),
        ("cancel_reassignment", {}),
        ("set_quota", {"entity": "client-id=web", "quota": "producer_byte_rate", "value": 9e9}),
        ("set_quota", {"entity": "client-id=web", "quota": "producer_byte_rate", "value": 0}),
    )
    for tool, arguments in calls:
        done = await _call(target, tool, **arguments)
        assert done.ok, f"{tool}: {done.stderr}"
    subject, seen = await _observe(target)
    assert "minimum_strict@cluster" not in _findings(subject, seen, Health.BROKEN)


async def test_a_wrong_password_and_a_certificate_of_strangers_are_named(
    broker: Broker, grant: Any, tmp_path: Path
) -> None:
    grant(_rules(Purpose.OBSERVE))
    wrong = tmp_path / "wrong.password"
    wrong.write_text("guess-4711\n")
    for user, mechanism in ((USER, "PLAIN"), (SCRAM_USER, "SCRAM-SHA-512")):
        subject, seen = await _observe(
            broker.target(user, password=str(wrong)), mechanism=mechanism
        )
        broken = _findings(subject, seen, Health.BROKEN)
        assert "Authentication failed" in broken["not_let_in@cluster"]
        assert "guess-4711" not in str(seen)
    stranger = certificate(tmp_path, name="127.0.0.1", days=30)
    subject, seen = await _observe(broker.target(ca=str(stranger)))
    broken = _findings(subject, seen, Health.BROKEN)
    assert "certificate is not trusted" in broken["broker_down@broker-1"]
    plain = broker.target()
    assert plain.access is not None
    unencrypted = replace(plain, access=replace(plain.access, tls=False))
    subject, seen = await _observe(unencrypted)
    assert "it expects TLS" in _findings(subject, seen, Health.BROKEN)["broker_down@broker-1"]


async def test_the_jmx_agent_tells_how_busy_a_broker_is(broker: Broker, grant: Any) -> None:
    grant(_rules(Purpose.OBSERVE))
    _, seen = await _until_known(broker.target(), jmx_port=broker.agent_port)
    readings = seen.of("broker-1").readings
    assert isinstance(readings["produce_p99_ms"], float)
    assert isinstance(idle := readings["handlers_idle_ratio"], float)
    assert 0 < idle <= 1
    subject, seen = await _observe(broker.target(), jmx_port=broker.agent_port, request_ms_max=0.0)
    assert "slow_requests@broker-1" in _findings(subject, seen, Health.BROKEN)
    # Another program on that port is no agent.
    subject, seen = await _observe(broker.target(), jmx_port=broker.plain_port)
    unknown = _findings(subject, seen, Health.UNKNOWN)
    assert "JMX agent" in unknown["slow_requests@broker-1"]


async def test_exactly_one_record_is_skipped_and_it_is_saved_first(
    broker: Broker, tmp_path: Path
) -> None:
    from confluent_kafka import Consumer, TopicPartition

    place = {"bootstrap.servers": f"127.0.0.1:{broker.plain_port}", "log_level": 0}
    _write(place, b"poison \xff", b"{}", b"{}")
    consumer = Consumer({**place, "group.id": "shipping", "enable.auto.commit": False})
    places = [TopicPartition(ORDERS, 0, 1), TopicPartition(ORDERS, 1, 0)]
    consumer.commit(offsets=places, asynchronous=False)
    target = Target("broker-1", "broker", "127.0.0.1", broker.plain_port)

    def offsets() -> list[int]:
        return [each.offset for each in consumer.committed(places, timeout=30)]

    async def skip(offset: int, log: Path) -> Result:
        group = Target("shipping", "group", log=str(log))
        settings = SubjectSettings(
            "kafka", lambda: (target, group), SystemClock(), ANSWER_S_MAX, {}, secret=_read
        )
        tool = next(each for each in kafka_tools(settings) if each.spec.name == "skip_offset")
        arguments: dict[str, Argument] = {
            "group": "shipping",
            "topic": ORDERS,
            "partition": 1,
            "offset": offset,
        }
        return await tool.call(arguments, Job("call", timeout_s=60.0))

    try:
        for offset, log, why in (
            (1, tmp_path / "shipping.log", "stands at offset 0"),
            (0, tmp_path / "missing" / "shipping.log", "cannot be saved"),
        ):
            refused = await skip(offset, log)
            assert why in refused.stderr
            assert offsets() == [1, 0]
        done = await skip(0, tmp_path / "shipping.log")
        assert done.ok, done.stderr
        assert offsets() == [1, 1]
        saved = json.loads((tmp_path / f"{ORDERS}-1-0.json").read_text())
        assert bytes.fromhex(saved["value"]) == b"poison \xff"
        assert bytes.fromhex(saved["key"]) == b"k"
        # The call that is made again does not skip the next one.
        assert "stands at offset 1" in (await skip(0, tmp_path / "shipping.log")).stderr
        consumer.subscribe([ORDERS])
        ends = time.monotonic() + READY_S_MAX
        while not consumer.assignment():
            consumer.poll(0.2)
            assert time.monotonic() < ends
        refused = await skip(offsets()[1], tmp_path / "shipping.log")
        assert not refused.ok
    finally:
        consumer.close()
