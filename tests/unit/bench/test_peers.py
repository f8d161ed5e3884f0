from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.bench.fakes import FakePeer, contestant


def test_a_fresh_peer_runs_and_leaves_nothing(tmp_path: Path) -> None:
    peers: list[FakePeer] = []
    with contestant("penstock", peers).fresh(tmp_path / "data") as peer:
        assert peer is peers[0]
        assert (peers[0].data_dir / "data").exists()
    assert peers[0].calls == ["start", "stop", "kill"]
    assert list((tmp_path / "data").iterdir()) == []


def test_a_measurement_that_raises_leaves_nothing_either(tmp_path: Path) -> None:
    peers: list[FakePeer] = []
    with pytest.raises(ValueError, match="bad"), contestant("penstock", peers).fresh(tmp_path):
        raise ValueError("bad")
    assert peers[0].calls == ["start", "kill"]
    assert list(tmp_path.iterdir()) == []


def test_every_fresh_peer_has_a_directory_of_its_own(tmp_path: Path) -> None:
    peers: list[FakePeer] = []
    one = contestant("penstock", peers)
    with one.fresh(tmp_path), one.fresh(tmp_path):
        assert peers[0].data_dir != peers[1].data_dir
