from __future__ import annotations

import asyncio
import logging

import pytest

from penstock.broker.tasks import Tasks


def test_a_task_that_fails_stops_the_broker(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise ValueError("a bug")

    async def main() -> None:
        fatal: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        tasks = Tasks(asyncio.get_running_loop(), fatal.set_result)
        tasks.start("compute", work())
        assert "the task compute failed: ValueError('a bug')" in await fatal
        assert len(tasks) == 0

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert [record.message for record in caplog.records] == ["the task compute failed"]


def test_closing_ends_every_task_and_waits_for_it() -> None:
    ended: list[int] = []

    async def work(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(number)

    async def main() -> None:
        tasks = Tasks(asyncio.get_running_loop(), pytest.fail)
        for number in range(3):
            tasks.start(f"wait {number}", work(number))
        await asyncio.sleep(0)
        await tasks.close()
        assert sorted(ended) == [0, 1, 2]
        tasks.start("too late", work(3))
        assert len(tasks) == 0

    asyncio.run(main())
