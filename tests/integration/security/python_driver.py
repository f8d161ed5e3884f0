"""kafka-python and aiokafka as programs, for `client_attempts.Driver`: what fails to connect leaves sockets behind."""

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
            else:
                with_kafka_python(*arguments)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
