"""Reads an Arrow IPC stream or a Parquet file with a library and prints what it holds, as JSON.

python readers.py pyarrow|polars|duckdb FILE
python readers.py write FOLDER        writes a table with pyarrow and polars, in each form and codec
"""

import datetime
import decimal

import json
import sys

import pyarrow as pa


def read(file):
    if file.endswith(".parquet"):
        import pyarrow.parquet

        return pyarrow.parquet.read_table(file)
    with pa.ipc.open_stream(file) as stream:
        return stream.read_all()


def pyarrow(file):
    table = read(file)
    batches = table.to_batches()
    table.validate(full=True)
    types = {f.name: str(f.type) for f in table.schema}
    marked = [f.name for f in table.schema if f.metadata == {b"weir:encoding": b"json"}]
    return {"types": types, "marked": marked, "batches": len(batches), "rows": table.to_pylist()}


def polars(file):
    import polars

    frame = polars.read_parquet(file) if file.endswith(".parquet") else polars.read_ipc_stream(file)
    return {"types": {name: str(t) for name, t in frame.schema.items()}, "rows": frame.to_dicts()}


def duckdb(file):
    import duckdb

    found = duckdb.read_parquet(file) if file.endswith(".parquet") else duckdb.from_arrow(read(file))
    return {
        "types": dict(zip(found.columns, (str(t) for t in found.types))),
        "rows": [dict(zip(found.columns, row)) for row in found.fetchall()],
    }


def write(folder):
    import polars
    import pyarrow.parquet

    table = pa.table({
        "n": [1, None],
        "text": ["ü,\n", None],
        "day": [datetime.date(2026, 1, 31), None],
        "at": [datetime.datetime(2026, 1, 31, 10, 20, 30, 123456, tzinfo=datetime.timezone.utc), None],
        "price": [decimal.Decimal("12345678901234567890.50"), None],
        "list": [[1, None], []],
        "word": pa.array(["a", "a"]).dictionary_encode(),
        "inner": [{"a": 1, "b": None}, None],
        "bytes": [b"\x00", None],
    })
    for codec in ["none", "snappy", "gzip", "zstd"]:
        for version in ["1.0", "2.0"]:
            pyarrow.parquet.write_table(table, f"{folder}/pyarrow-{codec}-{version}.parquet", compression=codec, data_page_version=version)
    with pa.OSFile(f"{folder}/pyarrow-stream.arrow", "wb") as f, pa.ipc.new_stream(f, table.schema) as w:
        w.write_table(table)
    with pa.OSFile(f"{folder}/pyarrow-file.arrow", "wb") as f, pa.ipc.new_file(f, table.schema) as w:
        w.write_table(table)
    frame = polars.from_arrow(table)
    for codec in ["uncompressed", "snappy", "gzip", "zstd"]:
        frame.write_parquet(f"{folder}/polars-{codec}.parquet", compression=codec)
    frame.write_ipc(f"{folder}/polars-file.arrow")
    frame.write_ipc_stream(f"{folder}/polars-stream.arrow", compression="zstd")


if sys.argv[1] == "write":
    write(sys.argv[2])
    sys.exit()
answer = {"pyarrow": pyarrow, "polars": polars, "duckdb": duckdb}[sys.argv[1]](sys.argv[2])
# Numbers become texts: what reads this has doubles only.
for row in answer["rows"]:
    for name, value in row.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            row[name] = repr(value)
        elif isinstance(value, (decimal.Decimal, datetime.date)):
            row[name] = value.isoformat() if isinstance(value, datetime.date) else str(value)
        elif isinstance(value, bytes):
            row[name] = value.decode()
json.dump(answer, sys.stdout)
