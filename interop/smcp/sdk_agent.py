# An agent of the a2c-smcp SDK calls what a Computer offers and prints what it got: URL OFFICE COMPUTER
import asyncio, json, logging, sys

import a2c_smcp
from a2c_smcp.agent import AsyncSMCPAgentClient, DefaultAgentAuthProvider

URL, OFFICE, COMPUTER = sys.argv[1:]
logging.disable(logging.CRITICAL)


async def main():
    agent = AsyncSMCPAgentClient(auth_provider=DefaultAgentAuthProvider(agent_id=OFFICE, office_id=OFFICE))
    await agent.connect_to_server(URL)
    joined = await agent.call("server:join_office", {"role": "agent", "name": OFFICE, "office_id": OFFICE}, namespace="/smcp")
    for _ in range(60):
        if any(c["name"] == COMPUTER for c in await agent.get_computers_in_office(OFFICE)):
            break
        await asyncio.sleep(0.2)
    tools = [t["name"] for t in (await agent.get_tools_from_computer(COMPUTER))["tools"]]
    echo = next(t for t in tools if t.endswith("echo"))
    slow = next(t for t in tools if t.endswith("sleep"))
    result = await agent.emit_tool_call(COMPUTER, echo, {"text": "hello from the SDK"}, 10)
    late = await agent.emit_tool_call(COMPUTER, slow, {"sleep_ms": 8000}, 1)
    desktop = await agent.get_desktop_from_computer(COMPUTER)
    room = await agent.call("server:list_room", {"agent": OFFICE, "req_id": "r", "office_id": OFFICE}, namespace="/smcp")
    versions = {s["role"]: s.get("a2c_version") for s in room["sessions"]}
    print("RESULT " + json.dumps({"versions": versions, "own": getattr(a2c_smcp, "PROTOCOL_VERSION", None), "joined": joined, "tools": tools, "echo": result.content[0].text, "late": bool(late.isError), "desktop": desktop["desktops"]}), flush=True)
    await agent.disconnect()


asyncio.run(asyncio.wait_for(main(), 60))
