"""The line protocol of lines.mjs for Python clients: one JSON object a line on stdin and stdout."""

import asyncio
import json
import sys
from typing import Any, Awaitable, Callable

TARGET: dict[str, Any] = json.loads(sys.argv[1])
SAMPLING = {"model": "interop-model", "role": "assistant", "content": {"type": "text", "text": "an answer sampled by the client"}}
ELICITATION = {"action": "accept", "content": {"name": "Ada", "check": True, "integer": 42, "number": 3.5}}
ROOTS = {"roots": [{"uri": "file:///interop", "name": "interop"}]}

Operation = Callable[[dict[str, Any], list[Any]], Awaitable[Any]]


def plain(model: Any) -> Any:
    """A pydantic model as the JSON that was on the wire."""
    return None if model is None else model.model_dump(mode="json", by_alias=True, exclude_none=True)


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


async def serve(session: dict[str, Any], operations: dict[str, Operation], error_type: type[Exception]) -> None:
    """Answer requests until the input ends. Errors of the protocol are told with their code, others without one."""
    say({"ready": session})
    while line := await asyncio.to_thread(sys.stdin.readline):
        request = json.loads(line)
        progress: list[Any] = []
        try:
            result = await operations[request["op"]](request.get("params") or {}, progress)
            say({"id": request["id"], "result": plain(result), "progress": progress, "logs": []})
        except error_type as error:
            say({"id": request["id"], "error": {"code": error.error.code, "message": error.error.message}})
        except Exception as error:  # What else a client raises is what its user would see.
            say({"id": request["id"], "error": {"code": None, "message": f"{type(error).__name__}: {error}"}})
