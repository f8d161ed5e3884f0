"""The clients of the matrix, in the order of its columns."""

from __future__ import annotations

from typing import Final

from tests.clients.aiokafka_client import AiokafkaClient
from tests.clients.confluent_kafka_client import ConfluentKafkaClient
from tests.clients.interface import KafkaClient
from tests.clients.java_client import JavaClient
from tests.clients.kafka_python_client import KafkaPythonClient
from tests.clients.kafkajs_client import KafkajsClient
from tests.clients.kcat_client import KcatClient

CLIENTS: Final[tuple[type[KafkaClient], ...]] = (
    ConfluentKafkaClient,
    KafkaPythonClient,
    AiokafkaClient,
    JavaClient,
    KafkajsClient,
    KcatClient,
)
