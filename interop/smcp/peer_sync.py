# peer_async.py with python-socketio's threads.
import json, sys, time
import socketio

NS = "/smcp"
URL, TRANSPORTS = sys.argv[1], sys.argv[2].split(",")
client, heard = socketio.Client(), []
client.on("*", lambda event, *args: heard.append([event, *args]), namespace=NS)
client.connect(URL, namespaces=[NS], transports=TRANSPORTS)
print(json.dumps("ready"), flush=True)


def answering(event, value):
    def handler(data):
        heard.append([event, data])
        if value is None:  # never answers
            time.sleep(30)
        return {**value, "req_id": data.get("req_id")} if isinstance(value, dict) else value

    return handler


for line in sys.stdin:
    op, *rest = json.loads(line)
    out = None
    if op == "call":
        try:
            out = client.call(rest[0], rest[1], namespace=NS, timeout=8)
        except socketio.exceptions.TimeoutError:
            out = "no ack"
    elif op == "emit":
        client.emit(rest[0], rest[1], namespace=NS)
    elif op == "answer":
        client.on(rest[0], answering(*rest), namespace=NS)
    elif op == "heard":
        out, heard[:] = list(heard), []
    print(json.dumps(out), flush=True)
client.disconnect()
