"""Checkpoints of their own on S3 and HDFS; the manager of their files is Spark's choice there, or the caller's."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.clusters.moving import Place
from tests.conftest import CANNOT_BE_HAD
from tests.support.hdfs_server import NameNode
from tests.support.s3_server import BUCKET, S3Server
from tpc.chaos.servers.spark_session import MANAGER_SETTING, checkpoint_manager, s3a_settings


def s3_place(room: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch, *, manager: str | None = None) -> Place:
    """The log lies beside it; this process reaches it too. Skips where Spark's jars for S3 cannot be had."""
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    key, secret = "key-not-to-be-seen", "secret-not-to-be-seen"
    try:
        settings = s3a_settings(s3.address, key, secret, abortable_manager=manager is not None)
    except CANNOT_BE_HAD as error:
        pytest.skip(f"no S3A: {error}")
    chosen = {MANAGER_SETTING: manager or checkpoint_manager("FileContextBased")}
    url = f"s3a://{BUCKET}/{uuid.uuid4().hex}"
    return Place(room, url, {**settings, **chosen}, environment=s3.environment())


def hdfs_place(room: Path, names: NameNode, *, log_url: str | None = None) -> Place:
    """The log is in the database `log_url`, or in one that is a file on a disk that all machines share."""
    settings = {"spark.hadoop.dfs.replication": "1", MANAGER_SETTING: checkpoint_manager("FileContextBased")}
    url = f"{names.address}/{uuid.uuid4().hex}"
    return Place(room, url, settings, log_url=log_url or f"sqlite:///{room / 'log.db'}")
