import asyncio
import os
from pathlib import Path

from aiokafka import AIOKafkaProducer

CONNECTION = {
    "bootstrap_servers": os.environ["MUSTER_KAFKA_BOOTSTRAP"],
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_plain_username": os.environ["MUSTER_KAFKA_USER"],
    "sasl_plain_password": Path(os.environ["MUSTER_KAFKA_PASSWORD_FILE"]).read_text().strip(),
}
ATTRIBUTES = {"specversion": "1.0", "type": "org.example.dataset.ready", "source": "/datasets", "id": "2026-11-20"}


async def main() -> None:
    async with AIOKafkaProducer(**CONNECTION) as kafka:
        headers = [(f"ce_{name}", text.encode()) for name, text in ATTRIBUTES.items()]
        await kafka.send_and_wait("muster.triggers", b'{"uri": "s3://datasets/2026-11-20"}', headers=headers)


asyncio.run(main())
