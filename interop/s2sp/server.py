# A server made with the public Python implementation: one tool that returns a table and one that takes one.
from mcp_s2sp import S2SPServer

server = S2SPServer("python")


@server.s2sp_resource_tool()
async def list_readings(count: int = 3) -> list[dict]:
    """List readings of a sensor."""
    return [{"sensor": f"s{n % 2}", "value": n * 10, "place": f"hall {n}", "comment": "ä somewhat longer text about it " * 3} for n in range(count)]


@server.s2sp_consumer_tool()
async def sum_rows(rows: list[dict]) -> str:
    """Sum the column value of rows."""
    columns = list(dict.fromkeys(c for row in rows for c in row))
    return f"{len(rows)} rows, sum {sum(row.get('value') or 0 for row in rows)}, columns {','.join(columns)}"


server.run()
