# A Computer of the a2c-smcp SDK with one MCP server: URL OFFICE NAME VERSION COMMAND…
import asyncio, sys

from mcp import StdioServerParameters
from a2c_smcp.computer.computer import Computer
from a2c_smcp.computer.mcp_clients.model import StdioServerConfig
from a2c_smcp.computer.socketio.client import SMCPComputerClient

URL, OFFICE, NAME, VERSION, COMMAND, *ARGS = sys.argv[1:]


async def main():
    server = StdioServerConfig(name="fake", disabled=False, forbidden_tools=[], tool_meta={}, default_tool_meta={"auto_apply": True},
                               server_parameters=StdioServerParameters(command=COMMAND, args=ARGS))
    computer = Computer(name=NAME, mcp_servers={server}, auto_connect=True)
    await computer.boot_up()
    client = SMCPComputerClient(computer=computer)
    await client.connect(URL + (f"?a2c_version={VERSION}" if VERSION != "none" else ""), namespaces=["/smcp"])
    await client.join_office(OFFICE)
    print("joined", flush=True)
    await asyncio.sleep(600)


asyncio.run(main())
