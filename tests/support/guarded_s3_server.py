"""An S3 server that answers 403 to what a policy of IAM does not allow, as far as such policies are read here.

Read are allowing statements with actions, resources and the condition `StringLike` on `s3:prefix`.
"""

from __future__ import annotations

import fnmatch
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote

from tests.support.s3_server import S3Server, refuse

ARN = "arn:aws:s3:::"
_UPLOAD = {"PUT": "s3:PutObject", "POST": "s3:PutObject", "DELETE": "s3:AbortMultipartUpload"}
_OBJECT = {"GET": "s3:GetObject", "HEAD": "s3:GetObject", "PUT": "s3:PutObject", "DELETE": "s3:DeleteObject"}
Asked = tuple[str, str, str | None]
"""An action, what it is done to, and of a list its prefix."""


class GuardedS3Server(S3Server):
    """`policy` guards it once it is set. `used` has the actions that were allowed, `refused` what was not."""

    def __init__(self) -> None:
        super().__init__()
        self.policy: Mapping[str, Any] | None = None
        self.used: set[str] = set()
        self.refused: list[Asked] = []

    def honest(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        """See `S3Server.honest`."""
        if self.policy is None:
            return super().honest(environ, start)
        asked = list(actions(environ))
        denied = [one for one in asked if not _allows(self.policy, *one)]
        self.used |= {action for action, *_ in asked} if not denied else set()
        self.refused += denied
        return (
            refuse("403 Forbidden", "AccessDenied")(self, environ, start) if denied else super().honest(environ, start)
        )


def actions(environ: dict[str, Any]) -> Iterator[Asked]:
    """What a request does, as IAM calls it (Service Authorization Reference, "Amazon S3")."""
    method, query = environ["REQUEST_METHOD"], parse_qs(environ["QUERY_STRING"], keep_blank_values=True)
    bucket, _, key = unquote(environ["PATH_INFO"]).lstrip("/").partition("/")
    if not key:
        yield from _of_bucket(environ, bucket, method, query)
    elif "uploadId" in query or "uploads" in query:
        yield _UPLOAD[method], f"{ARN}{bucket}/{key}", None
    else:
        if source := environ.get("HTTP_X_AMZ_COPY_SOURCE"):
            yield "s3:GetObject", ARN + unquote(source).lstrip("/"), None
        yield _OBJECT[method], f"{ARN}{bucket}/{key}", None


def _of_bucket(environ: dict[str, Any], bucket: str, method: str, query: Mapping[str, list[str]]) -> Iterator[Asked]:
    if "delete" in query:
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        environ["wsgi.input"] = io.BytesIO(body)
        for key in re.findall(r"<Key>(.*?)</Key>", body.decode()):
            yield "s3:DeleteObject", f"{ARN}{bucket}/{key}", None
    elif method in ("GET", "HEAD") and not query.keys() & {"location", "uploads"}:
        yield "s3:ListBucket", ARN + bucket, query.get("prefix", [""])[0]
    else:
        yield f"{method} ?{'&'.join(query)}", ARN + bucket, None


def _allows(policy: Mapping[str, Any], action: str, resource: str, prefix: str | None) -> bool:
    for statement in policy["Statement"]:
        assert statement.keys() <= {"Effect", "Action", "Resource", "Condition"}
        assert statement["Effect"] == "Allow"
        prefixes = statement.get("Condition", {"StringLike": {"s3:prefix": ["*"]}})["StringLike"]["s3:prefix"]
        if (
            action in statement["Action"]
            and any(fnmatch.fnmatchcase(resource, one) for one in statement["Resource"])
            and any(fnmatch.fnmatchcase(prefix or "", one) for one in prefixes)
        ):
            return True
    return False
