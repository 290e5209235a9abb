# A server made with the public Python implementation: two tools that return tables and one that takes one.
from datetime import datetime

from mcp_s2sp import S2SPServer

server = S2SPServer("python")


@server.s2sp_resource_tool()
async def list_readings(count: int = 3) -> list[dict]:
    """List readings of a sensor."""
    return [{"sensor": f"s{n % 2}", "value": n * 10, "place": f"hall {n}", "comment": "ä somewhat longer text about it " * 3} for n in range(count)]


@server.s2sp_resource_tool()
async def list_samples() -> list[dict]:
    """List samples, as a DataFrame has them: with times, and NaN for a value that is missing."""
    return [{"sensor": f"s{n}", "value": float("nan") if n == 1 else n * 10.5, "at": datetime(2026, 1, n + 1)} for n in range(3)]


@server.s2sp_consumer_tool()
async def sum_rows(rows: list[dict]) -> str:
    """Sum the column value of rows."""
    columns = list(dict.fromkeys(c for row in rows for c in row))
    return f"{len(rows)} rows, sum {sum(row.get('value') or 0 for row in rows)}, columns {','.join(columns)}"


server.run()
