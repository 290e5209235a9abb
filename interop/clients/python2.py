"""The Python mcp 2.x client behind the line protocol of lines.py."""

import asyncio
import os
from typing import Any

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
import mcp_types as types

import lines


async def sampling(_context: Any, _params: Any) -> types.CreateMessageResult:
    return types.CreateMessageResult.model_validate(lines.SAMPLING)


async def elicitation(_context: Any, _params: Any) -> types.ElicitResult:
    return types.ElicitResult.model_validate(lines.ELICITATION)


async def roots(_context: Any) -> types.ListRootsResult:
    return types.ListRootsResult.model_validate(lines.ROOTS)


def server() -> Any:
    match lines.TARGET["transport"]:
        case "http":
            return lines.TARGET["url"]
        case "sse":
            return sse_client(lines.TARGET["url"])
        case "stdio":
            return StdioServerParameters(command=lines.TARGET["command"], args=lines.TARGET["args"], env=dict(os.environ))
        case other:
            raise ValueError(f"unknown transport {other!r}")


async def main() -> None:
    async with Client(
        server(),
        mode=lines.TARGET.get("mode", "legacy"),
        sampling_callback=sampling,
        elicitation_callback=elicitation,
        list_roots_callback=roots,
    ) as client:

        async def call_tool(params: dict[str, Any], progress: list[Any]) -> Any:
            async def on_progress(done: float, total: float | None, message: str | None) -> None:
                progress.append({"progress": done, "total": total})

            return await client.call_tool(params["name"], params.get("arguments"), progress_callback=on_progress, meta=params.get("_meta"))

        await lines.serve(
            {
                "server": lines.plain(client.server_info),
                "capabilities": lines.plain(client.server_capabilities),
                "instructions": client.instructions,
                "protocolVersion": client.protocol_version,
            },
            {
                "listTools": lambda _params, _progress: client.list_tools(),
                "listResources": lambda _params, _progress: client.list_resources(),
                "listResourceTemplates": lambda _params, _progress: client.list_resource_templates(),
                "listPrompts": lambda _params, _progress: client.list_prompts(),
                "readResource": lambda params, _progress: client.read_resource(params["uri"]),
                "getPrompt": lambda params, _progress: client.get_prompt(params["name"], params.get("arguments")),
                "callTool": call_tool,
            },
            MCPError,
        )


asyncio.run(main())
