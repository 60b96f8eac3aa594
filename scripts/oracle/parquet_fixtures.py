"""Writes data/promptset/testdata/*.parquet with pyarrow: the forms of Parquet that other tools write.

Run from the repository root: python scripts/oracle/parquet_fixtures.py
"""

import decimal
import datetime as dt
import os
import uuid

import pyarrow as pa
import pyarrow.parquet as pq

OUT = "data/promptset/testdata"
N = 40


def prompts(n=N):
    return [None if i == 7 else f"Prompt {i}: what is {i} + {i}? \u00e9\u4e2d\U0001f600" for i in range(n)]


def write(name, table, **options):
    options.setdefault("row_group_size", 16)
    pq.write_table(table, os.path.join(OUT, name), **options)


def variants():
    """The same rows in each codec, page version and encoding."""
    table = pa.table(
        {
            "id": [f"row-{i}" for i in range(N)],
            "prompt": prompts(),
            "temperature": pa.array([None if i % 3 else i / 10 for i in range(N)], pa.float32()),
            "n": pa.array([None if i % 2 else 1 + i % 4 for i in range(N)], pa.int32()),
            "topic": [["maths", "physics"][i % 2] for i in range(N)],
        }
    )
    write("snappy_v1.parquet", table, compression="snappy", data_page_version="1.0")
    write("zstd_v2.parquet", table, compression="zstd", data_page_version="2.0")
    write("gzip_v1_plain.parquet", table, compression="gzip", data_page_version="1.0", use_dictionary=False)
    write("none_v2_plain.parquet", table, compression="none", data_page_version="2.0", use_dictionary=False)
    write("brotli_v2_delta.parquet", table, compression="brotli", data_page_version="2.0", use_dictionary=False,
          column_encoding={"prompt": "DELTA_BYTE_ARRAY", "id": "DELTA_LENGTH_BYTE_ARRAY", "n": "DELTA_BINARY_PACKED"})


def messages():
    def conversation(i):
        if i == 3:
            return None
        if i == 4:
            return []
        turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"Question {i}"}]
        return turns + [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Why?"}] * (i % 3)

    rows = [conversation(i) for i in range(12)]
    rows[5] = [{"role": "user", "content": None}]
    rows[6] = [{"role": "wizard", "content": "hm"}]
    rows[8] = [None]
    typ = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
    # An id of integers, seeds beyond the signed range, stops as a list.
    extra = {
        "id": pa.array(range(100, 112), pa.int64()),
        "seed": pa.array([2**63 + i for i in range(12)], pa.uint64()),
        "stop": pa.array([None if i % 2 else ["\n\n", "END"][: i % 3] for i in range(12)], pa.list_(pa.string())),
        "ignore_eos": pa.array([None, True, False] * 4),
    }
    write("messages.parquet", pa.table({"messages": pa.array(rows, typ), **extra}))
    # List elements called "item", as older pyarrow did.
    write("messages_item.parquet", pa.table({"messages": pa.array(rows, typ)}), use_compliant_nested_type=False)
    # A large_list of structs with more fields than we need.
    wide = pa.large_list(pa.struct([("content", pa.large_string()), ("name", pa.string()), ("role", pa.string())]))
    write("messages_wide.parquet", pa.table({"messages": pa.array(
        [None if r is None else [m and {**m, "name": "x"} for m in r] for r in rows], wide)}))
    # The struct of lists that the datasets library makes of a sequence of dicts.
    split = pa.struct([("role", pa.list_(pa.string())), ("content", pa.list_(pa.string()))])
    write("messages_split.parquet", pa.table({"messages": pa.array(
        [{"role": ["user", "assistant", "user"], "content": ["a", "b", f"c{i}"]} for i in range(4)]
        + [None, {"role": ["user"], "content": []}], split)}))


def tokens():
    rows = [[1, 2, 3], None, [], [5], [7, None], [2**31]] + [list(range(i)) for i in range(1, 20)]
    write("tokens64.parquet", pa.table({"prompt_token_ids": pa.array(rows, pa.list_(pa.int64()))}))
    rows[5] = [9]
    write("tokens32.parquet", pa.table({"prompt_token_ids": pa.array(rows, pa.list_(pa.int32()))}))


def passthrough():
    """Columns of every type, with nulls at every level."""
    D = decimal.Decimal
    n = 8
    nul = lambda v: [None if i % 4 == 3 else v(i) for i in range(n)]
    utc = dt.timezone.utc
    stamp = lambda i: dt.datetime(2024, 2, 29, 12, 30, i, 123456)
    columns = {
        "prompt": pa.array([f"p{i}" for i in range(n)]),
        "text": pa.array(nul(lambda i: f"clash {i}")),  # a column of ours by name
        "i8": pa.array(nul(lambda i: -i), pa.int8()),
        "u16": pa.array(nul(lambda i: 65535 - i), pa.uint16()),
        "u64": pa.array(nul(lambda i: 2**64 - 1 - i), pa.uint64()),
        "f16": pa.array(nul(lambda i: i / 4), pa.float16()),
        "f32": pa.array(nul(lambda i: i / 3), pa.float32()),
        "f64": pa.array([float("nan"), float("inf"), -0.0, None, 1e300, 5e-324, 0.1, 1.0]),
        "bool": pa.array(nul(lambda i: i % 2 == 0)),
        "bin": pa.array(nul(lambda i: bytes([i, 255, 0]))),
        "fixed": pa.array(nul(lambda i: bytes([i] * 5)), pa.binary(5)),
        "dec9": pa.array(nul(lambda i: D(f"-{i}.25")), pa.decimal128(9, 2)),
        "dec30": pa.array(nul(lambda i: D(f"1234567890123456789{i}.125")), pa.decimal128(30, 3)),
        "date": pa.array(nul(lambda i: dt.date(1969, 12, 28 + i % 4))),
        "time_ms": pa.array(nul(lambda i: dt.time(1, 2, i)), pa.time32("ms")),
        "time_ns": pa.array(nul(lambda i: dt.time(1, 2, i, 5)), pa.time64("ns")),
        "ts_us": pa.array(nul(stamp), pa.timestamp("us")),
        "ts_ns_utc": pa.array(nul(lambda i: stamp(i).replace(tzinfo=utc)), pa.timestamp("ns", "UTC")),
        "uuid": pa.array(nul(lambda i: uuid.UUID(int=i * 2**100 + 1).bytes), pa.uuid()),
        "dict": pa.array(nul(lambda i: "ab"[i % 2])).dictionary_encode(),
        "nothing": pa.nulls(n),
        "list": pa.array([[1, None, 3], [], None, [4]] * 2, pa.list_(pa.int64())),
        "deep": pa.array([[[["x"], []], None], [], None, [[]]] * 2, pa.list_(pa.list_(pa.list_(pa.string())))),
        "struct": pa.array(
            [{"a": 1, "b": {"c": "x", "d": [1.5]}}, {"a": None, "b": None}, None, {"a": 2, "b": {"c": None, "d": None}}]
            * 2,
            pa.struct([
                ("a", pa.int32()), ("b", pa.struct([("c", pa.string()), ("d", pa.list_(pa.float64()))]))])),
        "map": pa.array([[("k", 1), ("l", None)], [], None, [("m", 3)]] * 2, pa.map_(pa.string(), pa.int32())),
        "list_of_struct": pa.array([[{"x": 1, "y": ["a", None]}, None], [], None, [{"x": None, "y": []}]] * 2,
                                   pa.list_(pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]))),
        "needed": pa.array(range(n), pa.int64()),
    }
    fields = [pa.field(k, v.type, nullable=k not in ("needed", "prompt")) for k, v in columns.items()]
    write("passthrough.parquet", pa.table(list(columns.values()), schema=pa.schema(fields)), row_group_size=5)
    # The same table as pyarrow reads it back, for the test of what our own output holds.
    write("int96.parquet", pa.table({"prompt": ["a", "b"], "when": pa.array([stamp(1), None], pa.timestamp("ns"))}),
          use_deprecated_int96_timestamps=True)


def main():
    os.makedirs(OUT, exist_ok=True)
    variants()
    messages()
    tokens()
    passthrough()


if __name__ == "__main__":
    main()
