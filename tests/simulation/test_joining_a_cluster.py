"""A broker that starts: etcd that is away, a node id that is taken, and data directories that belong elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Coroutine, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from penstock.broker.etcd.broker_directory import SESSION, BrokerDirectory
from penstock.broker.etcd.metadata_store import EtcdMetadataStore
from penstock.broker.etcd.start import ClusterSettings, NodeIdInUse, open_metadata_store
from penstock.core.ids import BrokerId
from penstock.metadata.cluster_log import ClusterKeys
from penstock.metadata.data_directory import META_PROPERTIES, StoreError, StoreInUse
from penstock.metadata.key_value_store import Delete, Put, StoreRefused
from penstock.metadata.store_local import JOURNAL, LocalJournal
from tests.clocks import SeededEntropy
from tests.simulation.cluster.etcd import EtcdClient
from tests.simulation.cluster.world import ProcessLoop
from tests.simulation.metadata_stores import KEYS, SESSION_TIMEOUT_MS, Cluster, LoopClock
from tests.unit.metadata.images import registered

T = TypeVar("T")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with closing(Cluster()) as cluster:
        yield cluster


class Start:
    """A broker that opens its store. Several may share a data directory, one after the other."""

    def __init__(self, cluster: Cluster, path: Path, node_id: int = 1, prefix: str = KEYS.prefix) -> None:
        self.cluster = cluster
        self.loop = ProcessLoop(cluster.world, f"starting-{node_id}")
        self.client = EtcdClient(cluster.etcd, cluster.network, self.loop, self.loop.name)
        self.directory = BrokerDirectory(path, node_id)
        self.task = self.loop.create_task(self._open(node_id, prefix))

    async def _open(self, node_id: int, prefix: str) -> EtcdMetadataStore:
        try:
            store = await open_metadata_store(
                self.client,
                ClusterSettings(prefix, BrokerId(node_id), SESSION_TIMEOUT_MS, 2000, 30_000),
                self.directory,
                clock=LoopClock(self.loop),
                entropy=SeededEntropy(node_id),
                on_fatal=pytest.fail,
            )
        except BaseException:
            self.directory.close()
            raise
        return store

    def wait(self, seconds: float = 60) -> EtcdMetadataStore:
        self.cluster.run_until(self.task.done, seconds)
        return self.task.result()  # type: ignore[no-any-return]

    def live(self) -> EtcdMetadataStore:
        """Opens and registers."""
        store = self.wait()
        self.run(self._register(store))
        return store

    async def _register(self, store: EtcdMetadataStore) -> None:
        answer = self.loop.create_future()
        store.subscribe(lambda committed: None)
        store.propose(lambda image: [registered(1)], answer.set_result)
        assert await answer is None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        task = self.loop.create_task(work)
        self.cluster.run_until(task.done)
        return task.result()  # type: ignore[no-any-return]

    def stop(self, store: EtcdMetadataStore) -> None:
        store.close()
        self.run(store.leave())

    def die(self, store: EtcdMetadataStore) -> None:
        """Without a word to etcd, and without the lock on its directory."""
        store.close()
        self.directory.close()
        self.cluster.run_for(0.01)


def test_the_first_broker_creates_the_cluster_and_others_join_it(cluster: Cluster, tmp_path: Path) -> None:
    starts = [Start(cluster, tmp_path / str(number), number) for number in (1, 2, 3)]
    ids = {start.wait().image.cluster_id for start in starts}
    assert len(ids) == 1
    assert {start.directory.cluster_id for start in starts} == ids
    for start in starts:
        start.stop(start.wait())
    assert f"cluster.id={ids.pop()}\n" in (tmp_path / "2" / META_PROPERTIES).read_text()


def test_a_broker_waits_for_etcd_and_says_so_once(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.etcd.go_away()
    start = Start(cluster, tmp_path)
    cluster.run_for(600)
    assert not start.task.done()
    assert [record.message for record in caplog.records] == ["waiting for the metadata store: etcd has no leader"]
    cluster.etcd.come_back()
    start.stop(start.wait())


def test_a_killed_broker_does_not_wait_for_its_own_session(cluster: Cluster, tmp_path: Path) -> None:
    first = Start(cluster, tmp_path)
    first.die(first.live())
    assert KEYS.broker(BrokerId(1)) in cluster.stored()
    again = Start(cluster, tmp_path)
    store = again.wait(seconds=1)
    assert KEYS.broker(BrokerId(1)) not in cluster.stored()
    again.stop(store)


def test_without_its_last_lease_a_broker_waits_until_its_session_has_ended(cluster: Cluster, tmp_path: Path) -> None:
    first = Start(cluster, tmp_path)
    first.die(first.live())
    (tmp_path / SESSION).write_bytes(b'{"inode":')
    again = Start(cluster, tmp_path)
    again.stop(again.wait(seconds=SESSION_TIMEOUT_MS / 1000 + 2))


def test_a_node_id_of_a_live_broker_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    first = Start(cluster, tmp_path / "a")
    store = first.live()
    second = Start(cluster, tmp_path / "b")
    with pytest.raises(NodeIdInUse, match=r"node\.id=1 is in use by the live broker at 127\.0\.0\.1:9093; give every"):
        second.wait()
    assert KEYS.broker(BrokerId(1)) in cluster.stored()
    first.stop(store)


def test_a_copied_data_directory_does_not_end_the_session_of_the_original(cluster: Cluster, tmp_path: Path) -> None:
    first = Start(cluster, tmp_path / "a")
    store = first.live()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with pytest.raises(NodeIdInUse):
        Start(cluster, tmp_path / "b").wait()
    assert store.lease_deadline_ms > LoopClock(first.loop).monotonic_ms()
    first.stop(store)


def test_two_processes_cannot_share_a_data_directory(cluster: Cluster, tmp_path: Path) -> None:
    first = Start(cluster, tmp_path)
    with pytest.raises(StoreInUse, match="in use by another broker"):
        BrokerDirectory(tmp_path, 1)
    first.stop(first.wait())
    BrokerDirectory(tmp_path, 1).close()


def test_a_data_directory_of_another_cluster_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    first = Start(cluster, tmp_path / "a", prefix="/one/")
    first.stop(first.wait())
    other = Start(cluster, tmp_path / "b", 2, prefix="/two/")
    other.stop(other.wait())
    before = (tmp_path / "a" / META_PROPERTIES).read_bytes()
    with pytest.raises(
        StoreError, match=r"belongs to the cluster \S+, but metadata\.store holds the cluster \S+; corr"
    ):
        Start(cluster, tmp_path / "a", prefix="/two/").wait()
    assert (tmp_path / "a" / META_PROPERTIES).read_bytes() == before


def test_an_emptied_etcd_is_not_taken_for_a_new_cluster(cluster: Cluster, tmp_path: Path) -> None:
    first = Start(cluster, tmp_path)
    first.stop(first.wait())
    cluster.etcd.commit([], [Delete(KEYS.prefix, "/penstock0")])
    with pytest.raises(StoreError, match="there is no cluster at /penstock/, but the data directory belongs to the cl"):
        Start(cluster, tmp_path).wait()
    assert cluster.stored() == []


def test_a_data_directory_of_another_node_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    first = Start(cluster, tmp_path)
    first.stop(first.wait())
    with pytest.raises(StoreError, match=r"belongs to node 1, not to node 2; set node\.id=1"):
        BrokerDirectory(tmp_path, 2)


def test_a_data_directory_of_a_broker_without_a_cluster_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    LocalJournal.open(tmp_path, node_id=1, new_uuid=SeededEntropy().uuid).close()
    before = (tmp_path / JOURNAL).read_bytes()
    with pytest.raises(StoreError, match="holds the metadata of a broker without a cluster"):
        BrokerDirectory(tmp_path, 1)
    assert (tmp_path / JOURNAL).read_bytes() == before


def test_a_broker_without_a_cluster_refuses_the_data_directory_of_one(cluster: Cluster, tmp_path: Path) -> None:
    first = Start(cluster, tmp_path)
    first.stop(first.wait())
    with pytest.raises(StoreError, match=r"or set metadata\.store if this is a broker of a cluster"):
        LocalJournal.open(tmp_path, node_id=1, new_uuid=SeededEntropy().uuid)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("cluster", b"\xff", "/penstock/cluster is damaged, or belongs to another program"),
        ("cluster", b'{"format":9,"cluster_id":"x"}', "was written by a newer Penstock"),
        ("cluster", b'{"format":1}', "lacks its cluster_id"),
        ("head", b"[]", "/penstock/head is damaged"),
        ("head", b'{"entry":3,"snapshot_entry":0,"snapshot":""}', r"/penstock/log/0+1 is missing"),
        ("brokers/7", b"{}", "/penstock/brokers/7 lacks its epoch"),
    ],
)
def test_what_cannot_be_understood_is_one_line(
    cluster: Cluster, tmp_path: Path, key: str, value: bytes, message: str
) -> None:
    first = Start(cluster, tmp_path)
    first.stop(first.wait())
    cluster.etcd.commit([], [Put(KEYS.prefix + key, value)])
    with pytest.raises(StoreError, match=message) as refused:
        Start(cluster, tmp_path).wait()
    assert "\n" not in str(refused.value)


def test_a_refusal_of_etcd_ends_the_start(cluster: Cluster, tmp_path: Path) -> None:
    start = Start(cluster, tmp_path)

    async def refused(*args: object, **options: object) -> Any:
        raise StoreRefused("etcd at 127.0.0.1:2379 refuses the request: permission denied")

    start.client.read = refused  # type: ignore[method-assign]
    with pytest.raises(StoreError, match=r"metadata\.store: etcd at \S+ refuses the request: permission denied; check"):
        start.wait()


def test_keys_name_what_they_hold() -> None:
    keys = ClusterKeys("/penstock/a/")
    assert keys.broker_id(keys.broker(BrokerId(12))) == 12
    assert keys.broker_id(keys.head) is None
    assert keys.entry(9) < keys.entry(10)
