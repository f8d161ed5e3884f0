"""What a start removes from a checkpoint, over a directory of this machine in place of Hadoop's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.pipeline import checkpoint as module
from penstock.pipeline.checkpoint import Checkpoint


class LocalDirectory:
    def __init__(self, _spark: Any, location: str) -> None:
        self._path = Path(location)

    def list_names(self, name: str) -> list[str]:
        path = self._path / name
        return [each.name for each in path.iterdir()] if path.exists() else []

    def delete_file(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    monkeypatch.setattr(module, "HadoopDirectory", LocalDirectory)
    return Checkpoint(None, str(tmp_path))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ([], []),
        (["metadata"], ["metadata"]),
        # A first plan that was not written whole, with the checksum that Hadoop's local file system may add.
        (["metadata", "offsets/.0.7f3a.tmp", "offsets/..0.7f3a.tmp.crc"], ["metadata"]),
        # A later one: Spark itself takes no notice of it.
        (["offsets/0", "offsets/.1.7f3a.tmp", "commits/0"], ["commits/0", "offsets/.1.7f3a.tmp", "offsets/0"]),
        # Plans that were lost: Spark has to refuse that, or it would begin at the beginning.
        (["offsets/.0.7f3a.tmp", "commits/0"], ["commits/0", "offsets/.0.7f3a.tmp"]),
        (["offsets/0.compact"], ["offsets/0.compact"]),
    ],
)
def test_a_torn_first_plan_is_removed_and_nothing_else(
    checkpoint: Checkpoint, tmp_path: Path, files: list[str], left: list[str]
) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    checkpoint.remove_torn_plan()
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == left
