# A Socket.IO peer that does what it is told: a JSON command a line on stdin, a JSON answer a line on stdout. python-socketio, asyncio.
import asyncio, json, sys
import socketio

NS = "/smcp"
URL, TRANSPORTS = sys.argv[1], sys.argv[2].split(",")


async def main():
    client, heard = socketio.AsyncClient(), []
    loop = asyncio.get_running_loop()

    async def other(event, *args):
        heard.append([event, *args])

    client.on("*", other, namespace=NS)
    await client.connect(URL, namespaces=[NS], transports=TRANSPORTS)
    print(json.dumps("ready"), flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        op, *rest = json.loads(line)
        out = None
        if op == "call":
            try:
                out = await client.call(rest[0], rest[1], namespace=NS, timeout=8)
            except socketio.exceptions.TimeoutError:
                out = "no ack"
        elif op == "emit":
            await client.emit(rest[0], rest[1], namespace=NS)
        elif op == "answer":
            event, value = rest

            async def handler(data, event=event, value=value):
                heard.append([event, data])
                return {**value, "req_id": data.get("req_id")} if isinstance(value, dict) else value

            if value is None:  # never answers
                async def handler(data, event=event):
                    heard.append([event, data])
                    await asyncio.sleep(30)

            client.on(event, handler, namespace=NS)
        elif op == "heard":
            out, heard[:] = list(heard), []
        print(json.dumps(out), flush=True)
    await client.disconnect()


asyncio.run(main())
