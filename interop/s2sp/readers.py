"""Reads an Arrow IPC stream with a library and prints what it holds, as JSON.

python readers.py pyarrow|polars|duckdb FILE
"""

import json
import sys

import pyarrow as pa


def pyarrow(file):
    with pa.ipc.open_stream(file) as stream:
        table = stream.read_all()
        batches = table.to_batches()
    table.validate(full=True)
    types = {f.name: str(f.type) for f in table.schema}
    marked = [f.name for f in table.schema if f.metadata == {b"weir:encoding": b"json"}]
    return {"types": types, "marked": marked, "batches": len(batches), "rows": table.to_pylist()}


def polars(file):
    import polars

    frame = polars.read_ipc_stream(file)
    return {"types": {name: str(t) for name, t in frame.schema.items()}, "rows": frame.to_dicts()}


def duckdb(file):
    import duckdb

    with pa.ipc.open_stream(file) as stream:
        found = duckdb.from_arrow(stream.read_all())
    return {
        "types": dict(zip(found.columns, (str(t) for t in found.types))),
        "rows": [dict(zip(found.columns, row)) for row in found.fetchall()],
    }


answer = {"pyarrow": pyarrow, "polars": polars, "duckdb": duckdb}[sys.argv[1]](sys.argv[2])
# Numbers become texts: what reads this has doubles only.
for row in answer["rows"]:
    for name, value in row.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            row[name] = repr(value)
json.dump(answer, sys.stdout)
