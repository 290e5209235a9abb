"""An MCP client of the Python SDK that calls the counting tool until its input ends, and then until a call works.

It writes a line of JSON for each call. An HTTP error as the answer to a call ends the SDK's client: it connects
again then.

    python client.py URL NAME
"""

import asyncio
import json
import sys
import time
from datetime import timedelta

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client


def say(began: float, error: str, last: bool) -> None:
    print(json.dumps({"ms": round((time.monotonic() - began) * 1000), "error": error, "last": last}), flush=True)


async def main(url: str, name: str) -> None:
    over = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    number, end = 0, float("inf")
    while time.monotonic() < end:
        began = time.monotonic()
        try:
            async with streamable_http_client(url) as streams, ClientSession(streams[0], streams[1]) as session:
                await session.initialize()
                while time.monotonic() < end:
                    call, last, began, error = f"{name}-{number}", over.done(), time.monotonic(), ""
                    number += 1
                    if last:
                        end = min(end, began + 60)
                    result = await session.call_tool("count", {"id": call}, read_timeout_seconds=timedelta(seconds=20))
                    if not any(getattr(part, "text", "") == f"counted {call}" for part in result.content):
                        error = str(result)
                    say(began, error, last)
                    if last and not error:
                        return
                    await asyncio.sleep(0.05)
        except Exception as failed:  # the call failed with what was killed
            say(began, repr(failed), False)
            await asyncio.sleep(0.2)


asyncio.run(main(sys.argv[1], sys.argv[2]))
