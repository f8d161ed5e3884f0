"""What a transform and a predicate are. Kafka Connect's are known by their Java class names; `kinds.py` lists them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import pyarrow as pa

from penstock.connect.config.definition import ConfigDef
from penstock.connect.data.records import RecordGroup, StepResult


class Transform(ABC):
    """Picklable: made in the worker, used in tasks."""

    definition: ConfigDef

    @abstractmethod
    def configure(self, config: Mapping[str, str]) -> None:
        """`config` without the prefix `transforms.NAME.`. Raises ConfigException."""

    @abstractmethod
    def apply(self, group: RecordGroup) -> StepResult:
        """A record that cannot be transformed is a failure with Kafka Connect's message; it raises for bugs only."""


class Predicate(ABC):
    definition: ConfigDef

    @abstractmethod
    def configure(self, config: Mapping[str, str]) -> None: ...

    @abstractmethod
    def test(self, group: RecordGroup) -> pa.Array:
        """A bool for each record."""
