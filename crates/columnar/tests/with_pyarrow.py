"""Reads the file that Atoll wrote, and writes files that Atoll shall read. Argument: their directory."""

import datetime
import decimal
import math
import pathlib
import sys
import uuid

import pandas
import pyarrow
import pyarrow.parquet

UTC = datetime.timezone.utc
directory = pathlib.Path(sys.argv[1])

# The columns of `every_type` in it.rs: their types, and the first values, where Python has them.
table = pyarrow.parquet.read_table(directory / "ours.parquet")
types = [str(field.type) for field in table.schema]
expected = [
    "bool", "int16", "int32", "int64", "int64", "float", "double",
    "decimal128(8, 2)", "decimal128(1, 0)", "decimal128(38, 38)", "decimal128(38, 0)", "string", "string",
    "string", "string", "string", "string", "binary", "date32[day]", "time64[us]",
    "timestamp[us]", "timestamp[us, tz=UTC]", "string", "UUID", "JSON", "JSON", "string", "string",
]  # fmt: skip
plain = {"fixed_size_binary[16]": "UUID", "extension<arrow.uuid>": "UUID", "extension<arrow.json>": "JSON"}
assert [plain.get(name, name) for name in types] == expected, types


def values(number):
    return table.column(f"c{number}").to_pylist()


assert values(0)[:3] == [True, False, None]
assert values(1)[:4] == [-32768, 0, 32767, None]
assert values(3)[:3] == [-(2**63), 2**63 - 1, None]
assert math.isnan(values(5)[0]) and values(5)[1:4] == [math.inf, -math.inf, 1.5]
assert values(6)[3] == 0.1
assert values(7)[:5] == [decimal.Decimal(text) for text in ["0.00", "-0.05", "123456.78", "-999999.99"]] + [None]
assert values(10)[0] == decimal.Decimal("9" * 38)
assert values(15)[:5] == ["", "\\N", "äöü \U0001f3dd", 'a,"b"', None]
assert values(17)[:3] == [b"", b"\x00\xff\\\n", None]
assert table.column("c18").slice(0, 2).to_pylist() == [datetime.date(1970, 1, 1), datetime.date(2024, 2, 29)]
assert values(19)[1] == datetime.time(23, 59, 59, 999999)
assert table.column("c20").slice(0, 2).to_pylist()[1] == datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)
assert table.column("c21").slice(0, 1).to_pylist() == [datetime.datetime(2024, 3, 1, 10, 20, 30, 500000, UTC)]
assert str(values(23)[0]).replace("-", "").endswith("1") or values(23)[0].hex().endswith("01")

zone = datetime.timezone(datetime.timedelta(hours=1))
row = {
    "flag": (pyarrow.bool_(), True),
    "small": (pyarrow.int8(), -5),
    "number": (pyarrow.int64(), 2**53 + 1),
    "whole": (pyarrow.float64(), 3.0),
    "unsigned": (pyarrow.uint64(), 2**64 - 1),
    "narrow": (pyarrow.float32(), 0.1),
    "price": (pyarrow.decimal128(12, 3), decimal.Decimal("-12.340")),
    "name": (pyarrow.string(), "ä"),
    "category": (pyarrow.dictionary(pyarrow.int8(), pyarrow.string()), "x"),
    "data": (pyarrow.binary(), b"\x00\xff"),
    "day": (pyarrow.date32(), datetime.date(2024, 2, 29)),
    "at": (pyarrow.timestamp("ns"), pandas.Timestamp("2024-02-29 10:20:30.123456789")),
    "zoned": (pyarrow.timestamp("us", "Europe/Berlin"), datetime.datetime(2024, 2, 29, 10, 20, 30, 0, zone)),
    "millis": (pyarrow.timestamp("ms"), datetime.datetime(1999, 12, 31, 23, 59, 59, 999000)),
    "clock": (pyarrow.time64("us"), datetime.time(1, 2, 3, 4)),
    "id": (pyarrow.binary(16), uuid.UUID("c7b9b7b6-17d2-4b0e-b1f5-000000000001").bytes),
    "nothing": (pyarrow.null(), None),
}
arrays = {name: pyarrow.array([value, None], type=ty) for name, (ty, value) in row.items()}
written = pyarrow.table(arrays)
write = pyarrow.parquet.write_table
write(written, directory / "snappy.parquet")
write(written, directory / "zstd.parquet", compression="zstd")
write(written, directory / "plain.parquet", compression="none", use_dictionary=False)
write(written, directory / "v2.parquet", data_page_version="2.0", write_page_checksum=True)
write(written, directory / "gzip.parquet", compression="gzip")
written.to_pandas(types_mapper=pandas.ArrowDtype).to_parquet(directory / "pandas.parquet")
write(pyarrow.table({"a": [[1, 2], [3]]}), directory / "nested.parquet")
old = pyarrow.table({"at": pyarrow.array([datetime.datetime(2024, 2, 29, 10, 20, 30, 123456)])})
write(old, directory / "int96.parquet", use_deprecated_int96_timestamps=True)
