"""The Python client with asyncio, using every event of examples/socketio-peer: client_async.py URL TRANSPORTS."""
import asyncio
import sys
import time

import socketio

url, transports = sys.argv[1], sys.argv[2].split(",")
failed = 0


async def step(name, run):
    global failed
    try:
        await run()
        print(f"ok      {name}", flush=True)
    except Exception as error:  # pylint: disable=broad-except
        failed += 1
        print(f"FAILED  {name}: {type(error).__name__}: {error}", flush=True)


def equal(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


async def until(done, limit=5):
    end = time.monotonic() + limit
    while not done():
        if time.monotonic() > end:
            raise AssertionError("nothing came")
        await asyncio.sleep(0.01)


class Guest:
    def __init__(self):
        self.client = socketio.AsyncClient(reconnection_delay=0.05, reconnection_delay_max=0.2)
        self.hello, self.said, self.ticks, self.left, self.refusals = [], [], [], [], []
        self.client.on("connect_error", self.refusals.append)
        self.client.on("hello", self.hello.append)
        self.client.on("said", self.said.append)
        self.client.on("tick", self.ticks.append)
        self.client.on("question", lambda about: ("answer", about))
        self.client.on("disconnect", lambda reason: self.left.append(reason))

    async def connect(self, token="secret"):
        await self.client.connect(url, auth={"token": token}, transports=transports, wait_timeout=5)

    async def ask(self, event, *args):
        return await self.client.call(event, args, timeout=5)


async def main():
    async def refused():
        guest = Guest()
        try:
            await guest.connect("wrong")
        except socketio.exceptions.ConnectionError:
            equal(guest.refusals, [{"message": "bad token", "data": {"code": 401}}])
            return
        raise AssertionError("it was let in")

    one, two = Guest(), Guest()

    async def connect():
        began = time.monotonic()
        await one.connect()
        await two.connect()
        took = time.monotonic() - began
        if took > 1.5:
            raise AssertionError(f"took {took:.1f} s: CONNECT is not answered at once")

    async def hello():
        await until(lambda: one.hello)
        equal(one.hello[0], {"sid": one.client.get_sid()})

    async def echo():
        equal(list(await one.ask("echo", 1, "two €", {"3": [True, None]})), [1, "two €", {"3": [True, None]}])

    async def ask_me():
        equal(list(await one.ask("ask-me", "why")), ["answer", "why"])

    async def binary():
        data, large = bytes([0, 1, 2, 255]), bytes([7]) * 5000
        equal(list(await one.ask("echo", {"file": data}, large)), [{"file": data}, large])

    async def rooms():
        for guest in (one, two):
            equal(await guest.ask("join", "den"), True)
        await one.ask("say", "den", "to the others")
        await one.ask("shout", "den", "to all")
        await until(lambda: len(two.said) == 2 and len(one.said) == 1)
        equal((one.said, two.said), (["to all"], ["to the others", "to all"]))

    async def burst():
        await one.client.emit("burst", 40)
        await until(lambda: len(one.ticks) == 40)
        equal(one.ticks, list(range(40)))

    async def events():
        equal(await asyncio.gather(*(one.ask("echo", i) for i in range(40))), list(range(40)))

    async def transport():
        equal(one.client.transport(), transports[-1])

    async def kicked():
        await one.client.emit("kick", None)
        await until(lambda: one.left)
        await one.client.disconnect()
        await one.connect()
        equal(await one.ask("echo", "again"), "again")

    async def back():
        two.hello.clear()
        await two.client.emit("cut", None)
        if transports == ["polling"]:  # There this client takes the server's goodbye for an end.
            await until(lambda: two.left)
            await two.connect()
        await until(lambda: two.hello, 10)
        equal(await two.ask("echo", "again"), "again")

    await step("connect: refused without the token", refused)
    await step("connect", connect)
    await step("event from the server", hello)
    await step("ack from the server", echo)
    await step("ack to the server", ask_me)
    await step("binary", binary)
    await step("room without the sender", rooms)
    await step("burst of 40", burst)
    await step("40 events at once", events)
    await step("transport", transport)
    await step("disconnected by the server", kicked)
    await step("cut by the server, and back", back)
    await one.client.disconnect()
    await two.client.disconnect()


asyncio.run(main())
sys.exit(1 if failed else 0)
