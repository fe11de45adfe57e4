"""Asking an object store that speaks S3: a bucket, and its newest object below a prefix."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from operator_protocols.errors import MissingExtraError
from operator_protocols.kit.access import Address
from operator_sre.subjects.declarative.document import Table
from operator_sre.subjects.declarative.probes.place import Blind, Place, observe_first, places_of
from operator_sre.subjects.declarative.values import Readings

__all__ = ["KEYS", "S3Probe", "read_s3"]

KEYS = ("bucket", "prefix", "region", "port")
OBJECTS_MAX = 1000
_SHUT = frozenset({"AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "403"})


@dataclass(frozen=True, slots=True)
class S3Probe:
    """One list of a bucket: at most a thousand names, nothing is read or written."""

    bucket: str
    prefix: str = ""
    region: str = "us-east-1"
    port: int | None = None

    @property
    def fields(self) -> frozenset[str]:
        """The values that it can give."""
        own = {"up", "ok", "error", "latency_ms", "endpoint"}
        return frozenset(own | {"exists", "objects", "bytes", "newest_age_s"})

    async def observe(self, place: Place) -> Readings:
        """Ask the first address that answers."""
        try:
            from botocore.exceptions import BotoCoreError, ClientError
        except ImportError as error:
            raise Blind(str(MissingExtraError("s3", needed_for="An s3 probe"))) from error

        async def ask(address: Address) -> Readings:
            try:
                return await asyncio.to_thread(self._list, place, address)
            except ClientError as error:
                code = str(error.response.get("Error", {}).get("Code", ""))
                if code in ("NoSuchBucket", "404"):
                    return {"exists": False}
                if code in _SHUT:
                    raise Blind(f"login rejected: {code}") from error
                raise OSError(f"it answered {code}") from error
            except BotoCoreError as error:
                text = str(error).lower()
                why = "connection refused" if "connect" in text else "it did not answer in time"
                raise OSError(why) from error

        return await observe_first(place, places_of(place.target, self.port), ask)

    def _list(self, place: Place, address: Address) -> Readings:
        from botocore.config import Config
        from botocore.session import Session

        access = place.access
        password = place.secret(access.password_file) if access.password_file else ""
        host = f"[{address[0]}]" if ":" in address[0] else address[0]
        # Without a user nothing is signed; nothing of the environment of this process counts.
        session = Session(session_vars={"profile": (None, [], None, None)})
        client: Any = session.create_client(
            "s3",
            region_name=self.region,
            endpoint_url=f"{'https' if access.tls else 'http'}://{host}:{address[1]}",
            verify=access.ca_file or True,
            aws_access_key_id=access.user or "anonymous",
            aws_secret_access_key=password or "anonymous",
            config=Config(
                connect_timeout=place.timeout_s,
                read_timeout=place.timeout_s,
                retries={"total_max_attempts": 1},
                s3={"addressing_style": "path"},
            ),
        )
        try:
            found = client.list_objects_v2(
                Bucket=self.bucket, Prefix=self.prefix, MaxKeys=OBJECTS_MAX
            )
        finally:
            client.close()
        objects = found.get("Contents", ())
        readings: Readings = {
            "exists": True,
            "objects": len(objects),
            "bytes": sum(int(each["Size"]) for each in objects),
        }
        times: list[datetime] = [each["LastModified"] for each in objects]
        if times:
            newest = max(times)
            age_s = (place.settings.clock.now() - newest).total_seconds()
            readings["newest_age_s"] = max(0.0, round(age_s, 1))
        return readings


def read_s3(table: Table) -> S3Probe:
    """Parse the probe of a description."""
    return S3Probe(
        bucket=table.require_text("bucket"),
        prefix=table.text("prefix"),
        region=table.text("region", "us-east-1"),
        port=table.port(),
    )
