"""RegexRouter and TimestampRouter: records to other topics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import parse
from penstock.connect.data.records import RecordGroup, StepResult
from penstock.connect.transforms.java.date_format import PatternError, SimpleDateFormat
from penstock.connect.transforms.java.values import ILLEGAL_ARGUMENT
from penstock.connect.transforms.java_regex import ReplacementError, compile_java, replace_first
from penstock.connect.transforms.parts import RecordError, Rows, all_failed
from penstock.connect.transforms.properties import regex
from penstock.connect.transforms.transform import Transform


class RegexRouter(Transform):
    """Works topic by topic: a group has few."""

    definition = ConfigDef(
        (
            ConfigKey(
                "regex",
                ConfigType.STRING,
                importance=Importance.HIGH,
                doc="The regular expression that a whole topic name has to match.",
                validator=regex,
            ),
            ConfigKey(
                "replacement",
                ConfigType.STRING,
                importance=Importance.HIGH,
                doc="The new topic name, in which $1 and ${name} stand for groups of the expression.",
            ),
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        values = parse(self.definition, config)
        self._pattern = compile_java(values["regex"])
        self._replacement: str = values["replacement"]

    def apply(self, group: RecordGroup) -> StepResult:
        encoded = group.topic.dictionary_encode()
        rows = Rows(group)
        topics = []
        for index, topic in enumerate(encoded.dictionary.to_pylist()):
            try:
                topics.append(self._route(topic))
            except ReplacementError as error:
                topics.append(topic)
                rows.fail(pc.equal(encoded.indices, index).to_numpy(zero_copy_only=False), str(error), error.java_class)
        return rows.result(replace(group, topic=pa.array(topics, pa.string()).take(encoded.indices)))

    def _route(self, topic: str) -> str:
        if self._pattern.fullmatch(topic) is None:
            return topic
        return replace_first(self._pattern, topic, self._replacement)


class TimestampRouter(Transform):
    definition = ConfigDef(
        (
            ConfigKey(
                "topic.format",
                ConfigType.STRING,
                "${topic}-${timestamp}",
                Importance.HIGH,
                "The new topic name, in which ${topic} and ${timestamp} stand for the old name and the timestamp.",
            ),
            ConfigKey(
                "timestamp.format",
                ConfigType.STRING,
                "yyyyMMdd",
                Importance.HIGH,
                "How the timestamp is written, as a pattern of java.text.SimpleDateFormat, in UTC.",
            ),
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        values = parse(self.definition, config)
        self._pieces = [each for each in re.split(r"(\$\{topic\}|\$\{timestamp\})", values["topic.format"]) if each]
        self._timestamp_format: str = values["timestamp.format"]

    def apply(self, group: RecordGroup) -> StepResult:
        rows = Rows(group)
        missing = group.timestamp.is_null().to_numpy(zero_copy_only=False)
        rows.fail_each(missing, lambda index: f"Timestamp missing on record: {_record_text(group, index)}")
        try:
            # As in Kafka, a bad pattern shows at the first record.
            timestamps = SimpleDateFormat(self._timestamp_format).format(group.timestamp)
        except PatternError as error:
            if missing.any():
                return rows.all_fail(RecordError(str(error), ILLEGAL_ARGUMENT))
            return all_failed(group, RecordError(str(error), ILLEGAL_ARGUMENT))
        columns = {"${topic}": group.topic, "${timestamp}": timestamps}
        parts = [columns.get(piece, pa.repeat(pa.scalar(piece), len(group))) for piece in self._pieces]
        if not parts:
            parts = [pa.repeat(pa.scalar(""), len(group))]
        topics = pc.binary_join_element_wise(*parts, pa.scalar(""))
        return rows.result(replace(group, topic=topics))


def _record_text(group: RecordGroup, index: int) -> str:
    """Where the record is from. Kafka prints all of it, with its key and value."""
    offset = "" if group.offset is None else f", kafkaOffset={group.offset[index]}"
    kind = "SourceRecord" if group.offset is None else "SinkRecord"
    return f"{kind}{{topic='{group.topic[index]}', kafkaPartition={group.partition[index]}{offset}}}"
