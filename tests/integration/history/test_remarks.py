"""Common server settings that may lose data: ``doubtless doctor`` mentions them, without a false alarm."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

import pytest

from history import ConfigurationError, RedisHistory, SqlHistory
from history.bridge import drive
from history.redis.connection.checks import Server, refuse_eviction
from tests.fixtures.servers.redis import connected
from tests.fixtures.waiting import eventually
from triggers.testing.postgres_server import PostgresServer, find_programs
from triggers.testing.redis_server import RedisServer


def said_by(store: RedisHistory | SqlHistory) -> tuple[Sequence[str], Sequence[str]]:
    """Return the warnings and the remarks of a store, and close it."""
    try:
        return drive(store.check()), drive(store.remarks())
    finally:
        drive(store.close())


class TestRedis:
    @pytest.mark.parametrize(
        ("appendfsync", "told"),
        [("always", None), ("everysec", "the last second is missing"), ("no", "the system had not written")],
    )
    def test_how_often_the_file_is_synced_is_remarked_on(
        self, tmp_path: Path, appendfsync: str, told: str | None
    ) -> None:
        with RedisServer(tmp_path, appendonly="yes", appendfsync=appendfsync) as server:
            warnings, remarks = said_by(RedisHistory.from_url(server.url))

        assert warnings == []
        assert [told in remark for remark in remarks if told] == ([] if told is None else [True])

    def test_replicas_that_no_write_waits_for_are_remarked_on(self, tmp_path: Path) -> None:
        for name in ("master", "replica"):
            (tmp_path / name).mkdir()
        with (
            RedisServer(tmp_path / "master", appendfsync="always") as master,
            RedisServer(tmp_path / "replica", replicaof=f"127.0.0.1 {master.port}"),
            connected(master.url) as client,
        ):
            eventually(lambda: client.info("replication")["connected_slaves"] == 1)
            without, waiting = (
                said_by(RedisHistory.from_url(f"{master.url}?{urlencode(options)}"))[1]
                for options in ({}, {"durability": "replicas:1"})
            )

        assert [remark for remark in without if "1 replicas, and no write waits for them" in remark]
        assert not [remark for remark in waiting if "replicas" in remark]

    def test_each_server_that_evicts_is_named(self) -> None:
        policies = {"one:1": "allkeys-lru", "two:2": "noeviction", "three:3": "volatile-ttl"}
        servers = [Server(address, {"maxmemory_policy": policy}) for address, policy in policies.items()]

        with pytest.raises(ConfigurationError, match="allkeys-lru at one:1, volatile-ttl at three:3 lets"):
            refuse_eviction(servers)

    def test_a_server_that_hides_its_policy_is_warned_of(self) -> None:
        (warning,) = refuse_eviction([Server("", {"redis_version": "7"})])

        assert "make sure that it is noeviction" in warning


class TestPostgresql:
    def test_commits_that_wait_for_a_standby_half_way_are_remarked_on(self, postgres_folder: Path) -> None:
        settings = {"synchronous_standby_names": "one", "synchronous_commit": "local"}
        with PostgresServer(postgres_folder, **settings) as server:
            warnings, remarks = said_by(SqlHistory.from_url(server.url))

        assert warnings == []
        assert ["synchronous_commit = local" in remark for remark in remarks] == [True]

    def test_standbys_that_no_commit_waits_for_are_remarked_on(
        self, postgres_folder: Path, tmp_path: Path
    ) -> None:
        programs = find_programs()
        assert programs is not None
        with PostgresServer(postgres_folder) as server:
            assert said_by(SqlHistory.from_url(server.url))[1] == []
            words = [str(programs / "pg_receivewal"), "--no-loop", "-D", str(tmp_path), "-d", server.url]
            with subprocess.Popen(words, stderr=subprocess.DEVNULL) as standby:
                try:
                    (remark,) = eventually(lambda: said_by(SqlHistory.from_url(server.url))[1])
                finally:
                    standby.kill()

        assert "1 standbys, and no commit waits for them" in remark


def test_a_sqlite_file_has_no_standby(tmp_path: Path) -> None:
    assert said_by(SqlHistory.from_url(f"sqlite:///{tmp_path}/history.sqlite3")) == ([], [])
