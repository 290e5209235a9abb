"""Computers of python-socketio in one office: computers.py URL COUNT OFFICE. Each line is JSON: a Computer is in its office
("in", with the time for which it was not), or its connection has ended ("out"). They end with their standard input.
"""
import asyncio
import json
import sys
import time

import socketio

SPACE = "/smcp"


class Computer:
    def __init__(self, name, office):
        self.name, self.office = name, office
        self.client = socketio.AsyncClient(reconnection_delay=0.1, reconnection_delay_max=1)
        self.client.on("connect", self.connected, namespace=SPACE)
        self.client.on("disconnect", self.disconnected, namespace=SPACE)
        self.away, self.joining = time.monotonic(), set()

    def say(self, event):
        print(json.dumps({"name": self.name, "event": event, "ms": round((time.monotonic() - self.away) * 1000)}), flush=True)

    async def connected(self):
        task = asyncio.create_task(self.join())  # the library waits for this handler before it reads on
        self.joining.add(task)
        task.add_done_callback(self.joining.discard)

    async def disconnected(self, *_reason):
        self.away = time.monotonic()
        self.say("out")

    async def join(self):
        request = {"role": "computer", "name": self.name, "office_id": self.office}
        while SPACE in self.client.namespaces:
            try:
                answer = await self.client.call("server:join_office", request, namespace=SPACE, timeout=5)
            except Exception:  # pylint: disable=broad-except  # the node has ended, or the store elects its leader
                answer = None
            if answer and answer[0]:
                self.say("in")
                return
            await asyncio.sleep(0.2)


async def main(url, count, office):
    computers = [Computer(f"desk{i}", office) for i in range(count)]
    await asyncio.gather(*(c.client.connect(url, namespaces=[SPACE], transports=["websocket"], retry=True, wait_timeout=10) for c in computers))
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await asyncio.gather(*(c.client.disconnect() for c in computers))


asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
