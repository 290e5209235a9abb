"""The Python server, with the events of examples/socketio-peer: python server.py PORT."""
import asyncio
import sys

import socketio
from aiohttp import web

sio = socketio.AsyncServer(async_mode="aiohttp", cors_allowed_origins="*")


@sio.event
async def connect(sid, environ, auth):
    if not auth or auth.get("token") != "secret":
        raise socketio.exceptions.ConnectionRefusedError("bad token", {"code": 401})
    # python-socketio sends its CONNECT after this handler.
    sio.start_background_task(sio.emit, "hello", {"sid": sid}, to=sid)


@sio.event
async def echo(sid, *args):
    return args


@sio.on("ask-me")
async def ask_me(sid, about):
    return await sio.call("question", about, to=sid, timeout=5)


@sio.event
async def join(sid, room):
    await sio.enter_room(sid, room)
    return True


@sio.event
async def say(sid, room, text):
    await sio.emit("said", text, room=room, skip_sid=sid)
    return True


@sio.event
async def shout(sid, room, text):
    await sio.emit("said", text, room=room)
    return True


@sio.event
async def burst(sid, n):
    for i in range(n):
        await sio.emit("tick", i, to=sid)


@sio.event
async def kick(sid, *_):
    await sio.disconnect(sid)


@sio.event
async def cut(sid, *_):
    await sio.eio.disconnect(sio.manager.eio_sid_from_sid(sid, "/"))


async def main():
    app = web.Application()
    sio.attach(app)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", int(sys.argv[1])).start()
    await asyncio.Event().wait()


asyncio.run(main())
