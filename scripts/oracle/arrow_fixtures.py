"""Writes data/promptset/testdata/arrow/: files as pyarrow and datasets write them, and what pyarrow reads from them.

types.parquet has what the types*.arrow files have, written by pyarrow. Columns whose types it does not write to Parquet
are first made those that have the same values.

Run from the repository root: python scripts/oracle/arrow_fixtures.py
"""

import datetime as dt
import decimal
import os
import shutil
import uuid

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

OUT = "data/promptset/testdata/arrow"
N = 11


def nulls(make):
    return [None if i % 4 == 3 else make(i) for i in range(N)]


def types():
    """Columns of every type, with nulls at every level."""
    D = decimal.Decimal
    day = dt.datetime(2024, 2, 29, 12, 30, 1, 123456)
    stamp = lambda i: day + dt.timedelta(days=i, microseconds=i)
    columns = {
        "id": pa.array([f"r{i}" for i in range(N)]),
        "prompt": pa.array([None if i == 6 else f"p{i} \u00e9\u4e2d\U0001f600" for i in range(N)]),
        "n": pa.array(nulls(lambda i: i % 3 + 1), pa.int8()),
        "temperature": pa.array(nulls(lambda i: i / 10), pa.float32()),
        "stop": pa.array(nulls(lambda i: ["\n", "END"][: i % 3]), pa.large_list(pa.string())),
        "bool": pa.array(nulls(lambda i: i % 2 == 0)),
    }
    for bits in (8, 16, 32, 64):
        columns[f"i{bits}"] = pa.array(nulls(lambda i: i - 2 ** (bits - 1)), f"int{bits}")
        columns[f"u{bits}"] = pa.array(nulls(lambda i: 2**bits - 1 - i), f"uint{bits}")
    columns |= {
        "f16": pa.array(nulls(lambda i: np.float16(i / 4)), pa.float16()),
        "f64": pa.array([float("nan"), float("inf"), -0.0, None, 1e300, 5e-324, 0.1, 1.0, 2.0, 3.0, 4.0]),
        "large": pa.array(nulls(lambda i: f"large {i}"), pa.large_string()),
        "view": pa.array(nulls(lambda i: "short" if i % 2 else f"more than twelve bytes {i}"), pa.string_view()),
        "binary": pa.array(nulls(lambda i: bytes([i, 255, 0]))),
        "large_binary": pa.array(nulls(lambda i: bytes([i, 254])), pa.large_binary()),
        "binary_view": pa.array(nulls(lambda i: bytes([i, 254] * 9)), pa.binary_view()),
        "fixed": pa.array(nulls(lambda i: bytes([i] * 5)), pa.binary(5)),
        "dec32": pa.array(nulls(lambda i: D(f"-{i}.5")), pa.decimal32(6, 1)),
        "dec64": pa.array(nulls(lambda i: D(f"-{i}.25")), pa.decimal64(12, 2)),
        "dec128": pa.array(nulls(lambda i: D(f"{-1 if i % 2 else 1}234567890123456789{i}.125")), pa.decimal128(30, 3)),
        "dec256": pa.array(nulls(lambda i: D(f"-{'9' * 48}{i}.5")), pa.decimal256(60, 1)),
        "date": pa.array(nulls(lambda i: dt.date(1969, 12, 28 + i % 4))),
        "date64": pa.array(nulls(lambda i: dt.date(1969, 12, 28 + i % 4)), pa.date64()),
        "time_s": pa.array(nulls(lambda i: dt.time(1, 2, i)), pa.time32("s")),
        "time_ms": pa.array(nulls(lambda i: dt.time(1, 2, i, 5000)), pa.time32("ms")),
        "time_us": pa.array(nulls(lambda i: dt.time(1, 2, i, 5)), pa.time64("us")),
        "time_ns": pa.array(nulls(lambda i: dt.time(1, 2, i, 5)), pa.time64("ns")),
        "ts_s": pa.array(nulls(lambda i: stamp(i).replace(microsecond=0)), pa.timestamp("s")),
        "ts_ms": pa.array(nulls(lambda i: stamp(i).replace(microsecond=0)), pa.timestamp("ms", "Europe/Berlin")),
        "ts_us": pa.array(nulls(stamp), pa.timestamp("us")),
        "ts_ns_utc": pa.array(nulls(stamp), pa.timestamp("ns", "UTC")),
        "duration": pa.array(nulls(lambda i: dt.timedelta(seconds=i)), pa.duration("us")),
        "uuid": pa.array(nulls(lambda i: uuid.UUID(int=i * 2**100 + 1).bytes), pa.uuid()),
        "json": pa.array(nulls(lambda i: '{"a": %d}' % i), pa.json_()),
        "opaque": pa.ExtensionArray.from_storage(pa.opaque(pa.int64(), "t", "v"), pa.array(nulls(int), pa.int64())),
        "dict": pa.array(nulls(lambda i: "ab"[i % 2])).dictionary_encode(),
        "dict_int": pa.DictionaryArray.from_arrays(
            pa.array([i % 3 for i in range(N)], pa.uint8()), pa.array([7, None, 9])),
        "dict_in_list": pa.array(([["x", None], [], None, ["y"]] * 3)[:N],
                                 pa.list_(pa.dictionary(pa.int16(), pa.string()))),
        "nothing": pa.nulls(N),
        "list": pa.array(([[1, None, 3], [], None, [4]] * 3)[:N], pa.list_(pa.int64())),
        "needed": pa.array(([[1], [], [2, 3]] * 4)[:N], pa.list_(pa.field("item", pa.int64(), nullable=False))),
        "fixed_list": pa.array(([[1.5, 2.5], None, [None, 4.0]] * 4)[:N], pa.list_(pa.float32(), 2)),
        "list_view": pa.array(([[1, None, 3], [], None, [4]] * 3)[:N], pa.list_view(pa.int64())),
        "deep": pa.array(([[[["x"], []], None], [], None, [[]]] * 3)[:N],
                         pa.list_(pa.large_list(pa.list_(pa.string())))),
        "struct": pa.array(
            ([{"a": 1, "b": {"c": "x", "d": [1.5]}}, {"a": None, "b": None}, None,
              {"a": 2, "b": {"c": None, "d": None}}] * 3)[:N],
            pa.struct([
                ("a", pa.int32()), ("b", pa.struct([("c", pa.string()), ("d", pa.list_(pa.float64()))]))])),
        "map": pa.array(([[("k", 1), ("l", None)], [], None, [("m", 3)]] * 3)[:N], pa.map_(pa.string(), pa.int32())),
        "list_of_struct": pa.array(([[{"x": 1, "y": ["a", None]}, None], [], None, [{"x": None, "y": []}]] * 3)[:N],
                                   pa.list_(pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]))),
        "seed": pa.array(range(N), pa.int64()),
    }
    fields = [pa.field(k, v.type, nullable=k not in ("seed", "id")) for k, v in columns.items()]
    table = pa.table(list(columns.values()), schema=pa.schema(fields))
    # Batches that are slices: their buffers do not begin at the first row.
    batches = [b for start in range(0, N, 4) for b in table.slice(start, 4).combine_chunks().to_batches()]
    write("types_lz4.arrow", pa.ipc.new_file, batches, compression="lz4")
    write("types_zstd.arrows", pa.ipc.new_stream, batches, compression="zstd")
    write("types_slices.arrow", pa.ipc.new_stream, table.to_batches(max_chunksize=3))
    feather.write_feather(table, f"{OUT}/types.feather", compression="uncompressed", chunksize=5)
    for name, typ in (("list_view", pa.list_(pa.int64())), ("dict_int", pa.int64())):
        i = table.schema.get_field_index(name)
        table = table.set_column(i, name, pa.array(table[name].to_pylist(), typ))
    pq.write_table(table, f"{OUT}/types.parquet", row_group_size=4)


def write(name, new, batches, **options):
    with new(f"{OUT}/{name}", batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as w:
        for b in batches:
            w.write_batch(b)


def dictionaries():
    """Batches whose dictionaries differ: in a stream a dictionary is replaced, or grows."""
    def batch(texts, words):
        d = pa.DictionaryArray.from_arrays(pa.array(range(len(texts)), pa.int32()), pa.array(texts))
        return pa.record_batch({"prompt": d, "topic": pa.array(words).dictionary_encode()})

    batches = [batch(["a", "b"], ["x", "x"]), batch(["a", "b", "c"], ["x", "x", "x"]), batch(["z"], ["y"])]
    write("replaced.arrows", pa.ipc.new_stream, batches)
    write("deltas.arrows", pa.ipc.new_stream, batches[:2], emit_dictionary_deltas=True)
    write("deltas.arrow", pa.ipc.new_file, batches[:2], emit_dictionary_deltas=True)


def saved():
    """A DatasetDict as datasets saves it: streams, in several files."""
    def rows(n, split):
        for i in range(n):
            yield {"id": f"{split}{i}", "topic": None if i % 2 else split,
                   "messages": [{"role": "user", "content": f"{split} {i}?"}]}

    both = datasets.DatasetDict({
        split: datasets.Dataset.from_list(list(rows(n, split))) for split, n in (("train", 5), ("test", 2))})
    shutil.rmtree(f"{OUT}/saved", ignore_errors=True)
    both.save_to_disk(f"{OUT}/saved", num_shards={"train": 2, "test": 1})


def main():
    os.makedirs(OUT, exist_ok=True)
    types()
    dictionaries()
    saved()


if __name__ == "__main__":
    main()
