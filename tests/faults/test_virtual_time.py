"""Timers cost nothing, and neither sockets nor threads lose against them."""

from __future__ import annotations

import asyncio
import time

from tests.faults.virtual_time import run


def test_an_hour_passes_at_once() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await asyncio.sleep(3600)
        return loop.time() - began

    # It takes longer than a test may, if it does not.
    assert 3600 <= run(main()) < 3601


def test_timers_run_in_order() -> None:
    async def main() -> list[int]:
        order: list[int] = []

        async def after(seconds: int) -> None:
            await asyncio.sleep(seconds)
            order.append(seconds)

        await asyncio.gather(*(after(seconds) for seconds in (300, 10, 60)))
        return order

    assert run(main()) == [10, 60, 300]


def test_an_answer_over_loopback_comes_before_a_timeout() -> None:
    async def main() -> list[bytes]:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                writer.write(line)
                await writer.drain()
            writer.close()

        async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            answers = []
            for number in range(200):
                writer.write(f"{number}\n".encode())
                async with asyncio.timeout(1):
                    answers.append(await reader.readline())
            writer.close()
            await writer.wait_closed()
        return answers

    assert run(main()) == [f"{number}\n".encode() for number in range(200)]


def test_the_clock_waits_for_a_thread() -> None:
    async def main() -> str:
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.timeout(60):
            await asyncio.to_thread(time.sleep, 0.05)
        return "in time" if loop.time() - began < 30 else "overtaken"

    assert run(main()) == "in time"


def test_no_timer_fires_because_the_machine_is_slow() -> None:
    """As it was where two control planes shared the cores: a fake's answer lost against a timer of 0.3 seconds."""

    async def main() -> list[str]:
        order: list[str] = []

        def work() -> None:
            time.sleep(0.02)

        async def busy() -> None:
            for _ in range(5):
                work()
                await asyncio.sleep(0)
            order.append("done")

        async def timer() -> None:
            await asyncio.sleep(0.03)
            order.append("timer")

        await asyncio.gather(busy(), timer())
        return order

    assert run(main()) == ["done", "timer"]
