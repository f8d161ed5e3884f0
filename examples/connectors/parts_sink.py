# parts_sink.py
"""Each task writes a file of JSON lines; `manifest.json` has the files that count, and the offsets they stand for."""

import fcntl
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

from penstock import connect


class PartsSink(connect.SinkConnector):
    version = "1.0"
    definition = connect.ConfigDef((connect.ConfigKey("parts", connect.ConfigType.STRING, doc="A directory."),))
    guarantees: ClassVar[Mapping[connect.Guarantee, str]] = {"exactly_once": "a file system with locks"}

    def __init__(self, name: str, config: Mapping[str, str]) -> None:
        super().__init__(name, config)
        self._directory, self._run = Path(connect.parse(self.definition, config)["parts"]), uuid4().hex

    def start(self) -> None:
        self._replace([], {}, takes_over=True)

    def positions(self, partitions: Sequence[connect.TopicPartition]) -> Mapping[connect.TopicPartition, int]:
        file = self._directory / "manifest.json"
        offsets = json.loads(file.read_text())["offsets"] if file.exists() else []
        return {connect.TopicPartition(topic, partition): offset for topic, partition, offset in offsets}

    def set_positions(self, positions: Mapping[connect.TopicPartition, int | None]) -> None:
        self._replace([], positions, takes_over=True)

    def open_writer(self, task: int, guarantee: connect.Guarantee) -> connect.SinkWriter:
        return PartWriter(self._directory / f"part-{task}-{uuid4().hex}.jsonl")

    def commit(self, results: Sequence[str], batch: connect.Batch) -> None:
        self._replace(results, batch.end_offsets, takes_over=False)

    def _replace(
        self, files: Sequence[str], changes: Mapping[connect.TopicPartition, int | None], *, takes_over: bool
    ) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        file = self._directory / "manifest.json"
        with (self._directory / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = json.loads(file.read_text()) if file.exists() else {"run": "", "files": []}
            if not takes_over and known["run"] != self._run:
                raise connect.ConnectError(f"{self._directory}: another run of '{self.name}' has taken over")
            merged = {**self.positions([]), **changes}
            offsets = [[*at, offset] for at, offset in merged.items() if offset is not None]
            manifest = {"run": self._run, "files": [*known["files"], *files], "offsets": offsets}
            file.with_suffix(".new").write_text(json.dumps(manifest))
            file.with_suffix(".new").replace(file)


class PartWriter(connect.SinkWriter):
    def __init__(self, file: Path) -> None:
        self._file = file
        self._lines: list[str] = []

    def put(self, group: connect.RecordGroup) -> Sequence[connect.Failure]:
        try:
            self._lines += [json.dumps(value) + "\n" for value in group.value.values.to_pylist()]
        except TypeError as mistake:
            return [connect.Failure(group.rows.to_pylist(), f"the value has no form in JSON: {mistake}")]
        return []

    def finish(self) -> str:
        self._file.write_text("".join(self._lines))
        return self._file.name
