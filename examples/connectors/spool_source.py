# spool_source.py
"""Each file of a subdirectory of `spool` is a record, in the order of names."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from penstock import connect


class SpoolSource(connect.SourceConnector):
    version = "1.0"
    definition = connect.ConfigDef(
        (
            connect.ConfigKey("spool", connect.ConfigType.STRING, doc="A directory of directories of files."),
            connect.ConfigKey("topic", connect.ConfigType.STRING, doc="The topic that records are written to."),
            connect.ConfigKey("batch.files", connect.ConfigType.INT, 500, doc="How many files are read at a time."),
        )
    )

    def __init__(self, name: str, config: Mapping[str, str]) -> None:
        super().__init__(name, config)
        values = connect.parse(self.definition, config)
        self._spool, self._topic = Path(values["spool"]), values["topic"]
        self._batch: int = values["batch.files"]

    def plan(self, offsets: Mapping[str, connect.SourceOffset]) -> Sequence[connect.Slice]:
        slices = []
        for directory in sorted(each for each in self._spool.glob("*") if each.is_dir()):
            partition = {"directory": directory.name}
            offset = connect.offset_of(offsets, partition)
            done = "" if offset is None else offset["file"]
            files = sorted(each.name for each in directory.glob("*.txt") if each.name > done)
            if files:
                slices.append(connect.Slice(partition, offset, plan=files[: 20 * self._batch]))
        return slices

    def read(self, slice_: connect.Slice) -> Iterator[connect.SourceRows]:
        directory = self._spool / slice_.partition["directory"]
        for start in range(0, len(slice_.plan), self._batch):
            files = slice_.plan[start : start + self._batch]
            try:
                texts = [(directory / file).read_text() for file in files]
            except OSError as error:
                raise connect.RetriableError(f"{directory}: {error.strerror}") from error
            group = connect.RecordGroup(
                rows=pa.array(range(len(files)), pa.int64()),
                topic=pa.array([self._topic] * len(files)),
                partition=pa.nulls(len(files), pa.int32()),
                timestamp=pa.nulls(len(files), pa.int64()),
                key=connect.Column(connect.STRING, pa.array([directory.name] * len(files))),
                value=connect.Column(connect.STRING, pa.array(texts)),
            )
            yield connect.SourceRows(group, {"file": files[-1]})
