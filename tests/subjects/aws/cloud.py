"""A cloud of our own: the server of moto in this process, asked over real HTTP."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest

from operator_protocols.domain.target import Target
from operator_protocols.ports import SubjectSettings
from operator_sre.clock import SystemClock

__all__ = ["ACCOUNT", "REGION", "Cloud", "serving"]

REGION = "eu-central-1"
ACCOUNT = "123456789012"  # that of every moto
IMAGE = "ami-12c6146b"
KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


TIMEOUT_S = 30.0


@cache
def _administrator() -> Any:
    return boto3.session.Session(
        aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name=REGION
    )


@dataclass
class Cloud:
    """The server, what is in it, and the credentials of Operator for it."""

    url: str
    folder: Path
    targets: list[Target] = field(default_factory=list)
    keys: tuple[str, str] = (KEY, SECRET)

    @property
    def toml(self) -> str:
        """The subject `cloud` in operator.toml."""
        rows = "\n".join(
            f'[[subjects.cloud.targets]]\nname = "{each.name}"\nkind = "{each.kind}"\n'
            f'host = "{each.host}"'
            for each in self.targets
        )
        options = f'region = "{REGION}", endpoint = "{self.url}", account = "{ACCOUNT}"'
        file = self.write_credentials()
        return (
            f'[subjects.cloud]\nplugin = "aws"\n'
            f'options = {{ {options}, credentials_file = "{file}" }}\n{rows}\n'
        )

    def write_credentials(self) -> Path:
        """A file as ~/.aws/credentials is written."""
        key, secret = self.keys
        file = self.folder / "aws.credentials"
        file.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n")
        file.chmod(0o600)
        return file

    def settings(self, **options: object) -> SubjectSettings:
        """What a plug-in is given."""
        given: Mapping[str, object] = {
            "region": REGION,
            "endpoint": self.url,
            "credentials_file": str(self.write_credentials()),
            **options,
        }

        def read(file: str) -> str:
            return Path(file).read_text()

        return SubjectSettings(
            "cloud", lambda: tuple(self.targets), SystemClock(), TIMEOUT_S, given, secret=read
        )

    def ask(self, service: str, operation: str, **parameters: Any) -> dict[str, Any]:
        """What an administrator asks."""
        client: Any = _administrator().client(service, endpoint_url=self.url)
        try:
            found: dict[str, Any] = getattr(client, operation)(**parameters)
        finally:
            client.close()
        return found

    def start(self, name: str = "web-1", *, kind: str = "t3.micro") -> str:
        """An instance that is a target, by its id."""
        made = self.ask(
            "ec2", "run_instances", ImageId=IMAGE, MinCount=1, MaxCount=1, InstanceType=kind
        )
        id = str(made["Instances"][0]["InstanceId"])
        self.targets.append(Target(name, "instance", id))
        return id

    def volume(self, name: str = "data") -> str:
        """A volume that is a target, by its id."""
        made = self.ask("ec2", "create_volume", AvailabilityZone=f"{REGION}a", Size=8)
        self.targets.append(Target(name, "volume", str(made["VolumeId"])))
        return str(made["VolumeId"])

    def group(self, desired: int = 2, *, low: int = 1, high: int = 6) -> str:
        """A group that is a target, by its name."""
        name = f"web-{uuid.uuid4().hex[:6]}"
        self.ask(
            "autoscaling",
            "create_launch_configuration",
            LaunchConfigurationName=name,
            ImageId=IMAGE,
            InstanceType="t3.micro",
        )
        self.ask(
            "autoscaling",
            "create_auto_scaling_group",
            AutoScalingGroupName=name,
            LaunchConfigurationName=name,
            MinSize=low,
            MaxSize=high,
            DesiredCapacity=desired,
            AvailabilityZones=[f"{REGION}a"],
        )
        self.targets.append(Target("web", "group", name))
        return name

    def state(self, id: str) -> str:
        """The state of an instance."""
        found = self.ask("ec2", "describe_instances", InstanceIds=[id])
        return str(found["Reservations"][0]["Instances"][0]["State"]["Name"])

    def desired(self, name: str) -> int:
        """How many instances a group wants."""
        found = self.ask(
            "autoscaling", "describe_auto_scaling_groups", AutoScalingGroupNames=[name]
        )
        return int(found["AutoScalingGroups"][0]["DesiredCapacity"])


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server that nobody else asks; it is gone with the block."""
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()
