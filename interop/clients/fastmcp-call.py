# The client of fastmcp, with its own OAuth: fastmcp-call.py URL TOOL prints what the tool answers to the message "hello".
import asyncio
import sys

from fastmcp import Client


async def main(url, tool):
    async with Client(url, auth="oauth") as client:
        result = await client.call_tool(tool, {"message": "hello"})
        print(result.content[0].text)


asyncio.run(main(*sys.argv[1:]))
