"""The API of AWS: one account and region, bounded calls, and errors that say what to do.

boto3 blocks, so each call runs in a thread. Credentials come from a file, a profile or the usual
places of boto3, and never from an argument. They are in no message and no log line.
"""

from __future__ import annotations

import asyncio
import configparser
import ipaddress
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from operator_protocols.errors import ConfigError, MissingExtraError, OperatorError
from operator_protocols.kit.options import read_options
from operator_protocols.ports import SubjectSettings

__all__ = ["Aws", "AwsError", "Options", "options_from"]

DOCS = "docs/subjects/aws.md"
MESSAGE_CHARACTERS_MAX = 300
# So often in all a call that only reads is tried; a change is never sent twice.
READ_ATTEMPTS_MAX = 3
_DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
_BAD_LOGIN = frozenset(
    {
        *("AuthFailure", "ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId"),
        *("SignatureDoesNotMatch", "UnrecognizedClientException", "InvalidAccessKeyId"),
    }
)
_PREFIXES = {"ec2": "ec2", "autoscaling": "autoscaling", "sts": "sts"}


@dataclass(frozen=True, slots=True)
class Options:
    """Where a subject is and how Operator signs in; `scale_step_max` bounds one change of a group.

    `endpoint` replaces the addresses of AWS, as for a private endpoint or a stand-in.
    """

    region: str = ""
    account: str = ""
    profile: str = ""
    credentials_file: str = ""
    endpoint: str = ""
    scale_step_max: int = 2
    grace_s: float = 120.0


def options_from(given: Mapping[str, Any]) -> Options:
    """The options of a subject; ConfigError for a name or a value that does not fit."""
    options = read_options(Options, given, subject="an aws subject")
    if not options.region:
        raise ConfigError(
            "An aws subject has no 'region'.",
            next_step='Add, for example: region = "eu-central-1".',
        )
    if options.account and not (len(options.account) == 12 and options.account.isdigit()):
        raise ConfigError("'account' must be the 12 digits of an AWS account, in quotes.")
    if options.profile and options.credentials_file:
        raise ConfigError("An aws subject has 'profile' and 'credentials_file'; use one of them.")
    url = urlsplit(options.endpoint)
    if options.endpoint and not (
        url.hostname
        and (url.scheme == "https" or (url.scheme == "http" and _is_loopback(url.hostname)))
        and not (url.username or url.password or url.query)
    ):
        raise ConfigError(
            "'endpoint' must be an https:// URL without a password; http:// only on this machine."
        )
    return options


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class AwsError(OperatorError):
    """AWS refused a call, or did not answer. `code` is its own word for it.

    `unsure` means that a change may have been made all the same.
    """

    def __init__(
        self, message: str, *, code: str = "", next_step: str = "", unsure: bool = False
    ) -> None:
        super().__init__(message, next_step=next_step)
        self.code = code
        self.unsure = unsure


@cache
def _loader() -> Any:
    """The descriptions of the services, which are long: read once for all subjects."""
    from botocore.loaders import create_loader

    return create_loader()


class Aws:
    """Calls of one subject. Credentials are read at the first, and again after a refusal."""

    def __init__(self, settings: SubjectSettings, options: Options) -> None:
        self.options = options
        self._settings = settings
        self._session: Any = None
        self._lock = threading.Lock()
        self._account = ""

    async def read(self, service: str, operation: str, **parameters: object) -> dict[str, Any]:
        """One call that only reads. AwsError when it is refused or not answered."""
        return await self._call(service, operation, parameters, changes=False)

    async def change(self, service: str, operation: str, **parameters: object) -> dict[str, Any]:
        """One call that changes something; it is sent once."""
        return await self._call(service, operation, parameters, changes=True)

    async def account(self) -> str:
        """The account of our credentials. AwsError when it is not the configured one."""
        if not self._account:
            found = await self.read("sts", "get_caller_identity")
            account = str(found.get("Account", ""))
            if self.options.account and account != self.options.account:
                raise AwsError(
                    f"The credentials are for the account {account}, not for"
                    f" {self.options.account}.",
                    next_step="Correct 'account', 'profile' or 'credentials_file' of the subject.",
                )
            self._account = account
        return self._account

    async def _call(
        self, service: str, operation: str, parameters: Mapping[str, object], *, changes: bool
    ) -> dict[str, Any]:
        return await asyncio.to_thread(self._ask, service, operation, parameters, changes)

    def _ask(
        self, service: str, operation: str, parameters: Mapping[str, object], changes: bool
    ) -> dict[str, Any]:
        action = "".join(word.capitalize() for word in operation.split("_"))
        try:
            from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
        except ImportError as error:
            raise MissingExtraError("aws", needed_for="Watching AWS") from error
        client = self._connect(service, changes=changes)
        try:
            found: dict[str, Any] = getattr(client, operation)(**parameters)
        except ClientError as error:
            raise self._refusal(service, action, error.response) from None
        except NoCredentialsError:
            raise AwsError(
                "There are no credentials for AWS.",
                code="NoCredentials",
                next_step=f"Set 'credentials_file' or 'profile' of the subject; see {DOCS}.",
            ) from None
        except BotoCoreError as error:
            # Its words may name a URL, and nothing of a request belongs into a message.
            why = f"AWS did not answer {action}: {type(error).__name__}."
            step = "Check it before a retry: it may have been done." if changes else ""
            raise AwsError(why, next_step=step, unsure=changes) from None
        finally:
            client.close()
        return found

    def _refusal(self, service: str, action: str, response: Mapping[str, Any]) -> AwsError:
        error = response.get("Error", {})
        code = str(error.get("Code", "unknown"))
        if code in _BAD_LOGIN:
            with self._lock:  # new credentials may be in place by the next call
                self._session, self._account = None, ""
            return AwsError(
                f"AWS rejected the credentials: {code}.",
                code=code,
                next_step=f"Renew them; see {DOCS}.",
            )
        if code in _DENIED:
            right = f"{_PREFIXES[service]}:{action}"
            return AwsError(
                f"The credentials do not allow {right}.",
                code=code,
                next_step=f"Allow it in the IAM policy of Operator; see {DOCS}.",
            )
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        text = " ".join(str(error.get("Message", "")).split())[:MESSAGE_CHARACTERS_MAX]
        unsure = isinstance(status, int) and status >= 500
        return AwsError(f"AWS refused {action}: {code}: {text}", code=code, unsure=unsure)

    def _connect(self, service: str, *, changes: bool) -> Any:
        """A client for one call, so that no connection is left open."""
        from botocore.config import Config

        timeout_s = self._settings.timeout_s
        config = Config(
            connect_timeout=timeout_s,
            read_timeout=timeout_s,
            retries={"total_max_attempts": 1 if changes else READ_ATTEMPTS_MAX},
            ignore_configured_endpoint_urls=True,
            user_agent_extra="operator-sre",
        )
        with self._lock:  # a session makes one client at a time
            if self._session is None:
                self._session = self._open_session()
            return self._session.client(
                service, endpoint_url=self.options.endpoint or None, config=config
            )

    def _open_session(self) -> Any:
        import boto3
        import botocore.session
        from botocore.exceptions import ProfileNotFound

        core = botocore.session.Session()
        core.register_component("data_loader", _loader())
        for name in ("boto3", "botocore", "urllib3"):
            logging.getLogger(name).setLevel(logging.WARNING)  # below that they log requests
        options = self.options
        try:
            return boto3.session.Session(
                botocore_session=core,
                region_name=options.region,
                profile_name=options.profile or None,
                **self._login(),
            )
        except ProfileNotFound:
            raise AwsError(
                f"There is no profile {options.profile!r} for AWS.",
                next_step="Set 'profile' to a name in ~/.aws/config.",
            ) from None

    def _login(self) -> dict[str, str]:
        """The keys of the credentials file; none where boto3 finds them itself."""
        file = self.options.credentials_file
        if not file:
            return {}
        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read_string(self._settings.secret(file))
            section = parser["default"]
            login = {name: section[name] for name in ("aws_access_key_id", "aws_secret_access_key")}
        except (configparser.Error, KeyError):
            raise AwsError(
                f"{file!r} has no [default] with aws_access_key_id and aws_secret_access_key.",
                next_step=f"Write it as ~/.aws/credentials is written; see {DOCS}.",
            ) from None
        if token := section.get("aws_session_token", ""):
            login["aws_session_token"] = token
        return login
