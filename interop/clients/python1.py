"""The Python mcp 1.x client behind the line protocol of lines.py."""

import asyncio
import os
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.auth import OAuthClientProvider
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

import lines


async def sampling(_context: Any, _params: Any) -> types.CreateMessageResult:
    return types.CreateMessageResult.model_validate(lines.SAMPLING)


async def elicitation(_context: Any, _params: Any) -> types.ElicitResult:
    return types.ElicitResult.model_validate(lines.ELICITATION)


async def roots(_context: Any) -> types.ListRootsResult:
    return types.ListRootsResult.model_validate(lines.ROOTS)


REDIRECT = "http://127.0.0.1:9/callback"


class Storage:
    """What a client with OAuth has, in memory."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None
        if known := lines.TARGET["oauth"].get("client"):
            self.client = OAuthClientInformationFull(client_id=known, redirect_uris=[AnyUrl(REDIRECT)], token_endpoint_auth_method="none")

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def signed_in() -> OAuthClientProvider:
    """A provider whose browser is browse.mjs."""
    back: dict[str, list[str]] = {}

    async def redirected(address: str) -> None:
        browser = await asyncio.create_subprocess_exec(*lines.TARGET["oauth"]["browser"], address, stdout=asyncio.subprocess.PIPE)
        printed, _ = await browser.communicate()
        back.clear()
        back.update(parse_qs(urlsplit(printed.decode().strip()).query))

    async def came_back() -> tuple[str, str | None]:
        return back["code"][0], back["state"][0]

    metadata = OAuthClientMetadata(
        client_name="weir-interop", redirect_uris=[AnyUrl(REDIRECT)], grant_types=["authorization_code", "refresh_token"],
        response_types=["code"], token_endpoint_auth_method="none",
    )
    return OAuthClientProvider(lines.TARGET["url"], metadata, Storage(), redirected, came_back)


def connect() -> Any:
    match lines.TARGET["transport"]:
        case "http" if lines.TARGET.get("oauth"):
            return streamable_http_client(lines.TARGET["url"], http_client=create_mcp_http_client(auth=signed_in()))
        case "http":
            return streamable_http_client(lines.TARGET["url"])
        case "sse":
            return sse_client(lines.TARGET["url"])
        case "stdio":
            return stdio_client(StdioServerParameters(command=lines.TARGET["command"], args=lines.TARGET["args"], env=dict(os.environ)))
        case other:
            raise ValueError(f"unknown transport {other!r}")


async def main() -> None:
    async with AsyncExitStack() as stack:
        streams = await stack.enter_async_context(connect())
        session = await stack.enter_async_context(
            ClientSession(streams[0], streams[1], sampling_callback=sampling, elicitation_callback=elicitation, list_roots_callback=roots)
        )
        hello = await session.initialize()

        async def call_tool(params: dict[str, Any], progress: list[Any]) -> Any:
            async def on_progress(done: float, total: float | None, message: str | None) -> None:
                progress.append({"progress": done, "total": total})

            return await session.call_tool(params["name"], params.get("arguments"), progress_callback=on_progress, meta=params.get("_meta"))

        await lines.serve(
            {
                "server": lines.plain(hello.serverInfo),
                "capabilities": lines.plain(hello.capabilities),
                "instructions": hello.instructions,
                "protocolVersion": hello.protocolVersion,
            },
            {
                "listTools": lambda _params, _progress: session.list_tools(),
                "listResources": lambda _params, _progress: session.list_resources(),
                "listResourceTemplates": lambda _params, _progress: session.list_resource_templates(),
                "listPrompts": lambda _params, _progress: session.list_prompts(),
                "readResource": lambda params, _progress: session.read_resource(params["uri"]),
                "getPrompt": lambda params, _progress: session.get_prompt(params["name"], params.get("arguments")),
                "callTool": call_tool,
            },
            McpError,
        )


asyncio.run(main())
