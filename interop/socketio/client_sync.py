"""The Python client with threads, using every event of examples/socketio-peer: client_sync.py URL TRANSPORTS."""
import sys
import time

import socketio

url, transports = sys.argv[1], sys.argv[2].split(",")
failed = 0


def step(name, run):
    global failed
    try:
        run()
        print(f"ok      {name}", flush=True)
    except Exception as error:  # pylint: disable=broad-except
        failed += 1
        print(f"FAILED  {name}: {type(error).__name__}: {error}", flush=True)


def equal(got, want):
    if got != want:
        raise AssertionError(f"got {got!r}, want {want!r}")


def until(done, limit=5):
    end = time.monotonic() + limit
    while not done():
        if time.monotonic() > end:
            raise AssertionError("nothing came")
        time.sleep(0.01)


class Guest:
    def __init__(self):
        self.client = socketio.Client(reconnection_delay=0.05, reconnection_delay_max=0.2)
        self.hello, self.said, self.ticks, self.left, self.refusals = [], [], [], [], []
        self.client.on("connect_error", self.refusals.append)
        self.client.on("hello", self.hello.append)
        self.client.on("said", self.said.append)
        self.client.on("tick", self.ticks.append)
        self.client.on("question", lambda about: ("answer", about))
        self.client.on("disconnect", lambda reason: self.left.append(reason))

    def connect(self, token="secret"):
        self.client.connect(url, auth={"token": token}, transports=transports, wait_timeout=5)

    def ask(self, event, *args):
        return self.client.call(event, args, timeout=5)


def refused():
    guest = Guest()
    try:
        guest.connect("wrong")
    except socketio.exceptions.ConnectionError:
        equal(guest.refusals, [{"message": "bad token", "data": {"code": 401}}])
        return
    raise AssertionError("it was let in")


one, two = Guest(), Guest()


def connect():
    began = time.monotonic()
    one.connect()
    two.connect()
    took = time.monotonic() - began
    if took > 1.5:
        raise AssertionError(f"took {took:.1f} s: CONNECT is not answered at once")


def hello():
    until(lambda: one.hello)
    equal(one.hello[0], {"sid": one.client.get_sid()})


def binary():
    data, large = bytes([0, 1, 2, 255]), bytes([7]) * 5000
    equal(list(one.ask("echo", {"file": data}, large)), [{"file": data}, large])


def rooms():
    for guest in (one, two):
        equal(guest.ask("join", "den"), True)
    one.ask("say", "den", "to the others")
    one.ask("shout", "den", "to all")
    until(lambda: len(two.said) == 2 and len(one.said) == 1)
    equal((one.said, two.said), (["to all"], ["to the others", "to all"]))


def burst():
    one.client.emit("burst", 40)
    until(lambda: len(one.ticks) == 40)
    equal(one.ticks, list(range(40)))


def events():
    replies = []
    for i in range(40):
        one.client.emit("echo", i, callback=replies.append)
    until(lambda: len(replies) == 40)
    equal(replies, list(range(40)))


def transport():
    equal(one.client.transport(), transports[-1])


def kicked():
    one.client.emit("kick", None)
    until(lambda: one.left)
    one.client.disconnect()
    one.connect()
    equal(one.ask("echo", "again"), "again")


def back():
    two.hello.clear()
    two.client.emit("cut", None)
    if transports == ["polling"]:  # There this client takes the server's goodbye for an end.
        until(lambda: two.left)
        two.connect()
    until(lambda: two.hello, 10)
    equal(two.ask("echo", "again"), "again")


step("connect: refused without the token", refused)
step("connect", connect)
step("event from the server", hello)
step("ack from the server", lambda: equal(list(one.ask("echo", 1, "two €", {"3": [True, None]})), [1, "two €", {"3": [True, None]}]))
step("ack to the server", lambda: equal(list(one.ask("ask-me", "why")), ["answer", "why"]))
step("binary", binary)
step("room without the sender", rooms)
step("burst of 40", burst)
step("40 events at once", events)
step("transport", transport)
step("disconnected by the server", kicked)
step("cut by the server, and back", back)
one.client.disconnect()
two.client.disconnect()
sys.exit(1 if failed else 0)
