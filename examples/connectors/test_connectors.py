# test_connectors.py
import json
from collections.abc import Sequence

from parts_sink import PartsSink
from spool_source import SpoolSource

from penstock.testing import connectors


class Parts(connectors.SinkAdapter):
    connector = PartsSink
    accepts = (connectors.TEXT, connectors.STRUCT, connectors.NESTED, connectors.SCHEMALESS)
    refuses = (connectors.BYTES_VALUE,)

    def config(self) -> dict[str, str]:
        return {"parts": str(self.directory)}

    def written(self) -> list[int]:
        files = json.loads((self.directory / "manifest.json").read_text())["files"]
        lines = [line for file in files for line in (self.directory / file).read_text().splitlines()]
        return [number for line in lines if (number := connectors.number_in(line)) is not None]


class TestPartsSink(connectors.SinkConformance):
    adapter = Parts


class Spool(connectors.SourceAdapter):
    connector = SpoolSource

    def config(self) -> dict[str, str]:
        return {"spool": str(self.directory), "topic": "letters", "batch.files": "3"}

    def put(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            directory = self.directory / ("odd" if number % 2 else "even")
            directory.mkdir(exist_ok=True)
            (directory / f"{number:06}.txt").write_text(str(number))

    def number_of(self, value: str) -> int:
        return int(value)


class TestSpoolSource(connectors.SourceConformance):
    adapter = Spool
