"""Values that Python has classes for, from and to the plain ones of the library."""

import datetime as dt
import decimal
import uuid

_EPOCH = dt.datetime(2000, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=dt.timezone.utc)
_EPOCH_DAY = _EPOCH.toordinal()


def _date(days):
    return dt.date.fromordinal(days + _EPOCH_DAY)


def _time(micros):
    return (_EPOCH + dt.timedelta(microseconds=micros)).time()


def _timestamp(micros):
    return _EPOCH + dt.timedelta(microseconds=micros)


def _timestamptz(micros):
    return _EPOCH_UTC + dt.timedelta(microseconds=micros)


def _uuid(octets):
    return uuid.UUID(bytes=bytes(octets))


_READERS = {
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": _timestamptz,
    "numeric": decimal.Decimal,
    "uuid": _uuid,
}


def readers(types):
    """A function for each column that needs one, by position."""
    return [(i, _READERS[ty]) for i, ty in enumerate(types) if ty in _READERS]


def convert(rows, columns):
    """Rows of plain values as rows of Python's classes. A date beyond Python's raises OverflowError."""
    if not columns:
        return rows
    converted = []
    for row in rows:
        row = list(row)
        for i, read in columns:
            if row[i] is not None:
                row[i] = read(row[i])
        converted.append(tuple(row))
    return converted


def plain(value):
    """A parameter as a plain value."""
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return f"{value.days} days {value.seconds}.{value.microseconds:06} seconds"
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    if hasattr(value, "item"):  # a number of numpy
        return plain(value.item())
    name = type(value).__name__
    raise TypeError(f"a parameter of type {name}: expected None, a number, text, bytes, a date, a UUID")
