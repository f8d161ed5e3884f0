"""librdkafka, kafka-python and aiokafka as programs, for `client_attempts.Driver`: what fails leaves sockets behind."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import sys
import time
from typing import Any

TIMEOUT_S = 20
NAMES = {
    "bootstrap.servers": "bootstrap_servers",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}
TLS_NAMES = {
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
}


class Refused(Exception):
    """What librdkafka says of it."""


def with_confluent_kafka(settings: dict[str, str], topic: str, hold_s: float) -> None:
    import confluent_kafka

    errors: list[Any] = []
    delivered: list[Any] = []
    config: dict[str, Any] = dict(settings)
    token = config.pop("sasl.oauthbearer.token", None)
    if token is not None:
        config["oauth_cb"] = lambda _: (token, time.time() + 3600)
    config |= {"error_cb": errors.append, "log_level": 0}
    producer = confluent_kafka.Producer(config | {"message.timeout.ms": TIMEOUT_S * 1000})
    held_until, given_up_at = time.monotonic() + hold_s, time.monotonic() + TIMEOUT_S
    while True:
        count = len(delivered)
        producer.produce(topic, b"x", on_delivery=lambda error, _: delivered.append(error))
        # An error of the connection is reported at once, and the record after its timeout.
        while len(delivered) == count and not errors and time.monotonic() < given_up_at:
            producer.poll(0.05)
        if errors or len(delivered) == count or delivered[-1] is not None:
            producer.purge()
            producer.poll(0)
            raise Refused("; ".join(map(str, errors or delivered[-1:] or ["no answer"])))
        if time.monotonic() >= held_until:
            break
        time.sleep(0.05)
    consumer = confluent_kafka.Consumer(config | {"group.id": "librdkafka", "auto.offset.reset": "earliest"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    message = consumer.poll(TIMEOUT_S)
    consumer.close()
    if message is None or message.error():
        raise Refused(str(message and message.error()))


def with_kafka_python(settings: dict[str, str], topic: str, hold_s: float) -> None:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Given(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return settings["sasl.oauthbearer.token"]

    names = NAMES | TLS_NAMES
    config: dict[str, Any] = {names[name]: value for name, value in settings.items() if name in names}
    if "sasl.oauthbearer.token" in settings:
        config["sasl_oauth_token_provider"] = Given()
    config["bootstrap_timeout_ms"] = 1500
    producer = KafkaProducer(**config, max_block_ms=5000)
    held_until = time.monotonic() + hold_s
    while True:
        producer.send(topic, b"x", partition=0).get(TIMEOUT_S)
        if time.monotonic() >= held_until:
            break
        time.sleep(0.05)
    producer.close(timeout=1)
    consumer = KafkaConsumer(**config, consumer_timeout_ms=TIMEOUT_S * 1000, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    assert next(consumer, None) is not None, "nothing to read"
    consumer.close()


async def with_aiokafka(settings: dict[str, str], topic: str, hold_s: float) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
    from aiokafka.abc import AbstractTokenProvider

    class Given(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return settings["sasl.oauthbearer.token"]

    config: dict[str, Any] = {NAMES[name]: value for name, value in settings.items() if name in NAMES}
    config["request_timeout_ms"] = 5000
    if "sasl.oauthbearer.token" in settings:
        config["sasl_oauth_token_provider"] = Given()
    if "ssl.ca.location" in settings:
        config["ssl_context"] = context = ssl.create_default_context(cafile=settings["ssl.ca.location"])
        if "ssl.certificate.location" in settings:
            context.load_cert_chain(settings["ssl.certificate.location"])
    producer = AIOKafkaProducer(**config)
    try:
        await producer.start()
        held_until = time.monotonic() + hold_s
        while True:
            await asyncio.wait_for(producer.send_and_wait(topic, b"x", partition=0), TIMEOUT_S)
            if time.monotonic() >= held_until:
                break
            await asyncio.sleep(0.05)
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(**config, auto_offset_reset="earliest")
    try:
        await consumer.start()
        consumer.assign([TopicPartition(topic, 0)])
        await asyncio.wait_for(consumer.getone(), TIMEOUT_S)
    finally:
        await consumer.stop()


def main() -> None:
    logging.disable()
    for line in sys.stdin:
        request = json.loads(line)
        arguments = request["settings"], request["topic"], request["hold_ms"] / 1000
        answer = {"result": "ok"}
        try:
            if sys.argv[1] == "aiokafka":
                asyncio.run(with_aiokafka(*arguments))
            elif sys.argv[1] == "kafka-python":
                with_kafka_python(*arguments)
            else:
                with_confluent_kafka(*arguments)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
