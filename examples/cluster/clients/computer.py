"""A Computer of python-socketio. It writes a line of JSON when it is in its office, with the time for which it was not.

    python computer.py URL NAME OFFICE
"""

import asyncio
import json
import sys
import time

import socketio

SPACE = "/smcp"


async def main(url: str, name: str, office: str) -> None:
    client = socketio.AsyncClient(reconnection_delay=0.1, reconnection_delay_max=1)
    away = time.monotonic()

    async def join() -> None:
        while SPACE in client.namespaces:
            try:
                answer = await client.call("server:join_office", {"role": "computer", "name": name, "office_id": office}, namespace=SPACE, timeout=5)
            except Exception as failed:  # the node has ended, or the store elects its leader
                answer = [False, repr(failed)]
            if answer and answer[0]:
                print(json.dumps({"ms": round((time.monotonic() - away) * 1000), "error": ""}), flush=True)
                return
            await asyncio.sleep(0.2)

    async def connected() -> None:
        asyncio.create_task(join())

    async def disconnected(*_reason: object) -> None:
        nonlocal away
        away = time.monotonic()

    client.on("connect", connected, namespace=SPACE)
    client.on("disconnect", disconnected, namespace=SPACE)
    await client.connect(url, namespaces=[SPACE], transports=["websocket"], retry=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await client.disconnect()


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3]))
