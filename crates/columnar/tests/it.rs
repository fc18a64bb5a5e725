//! Files that are written and read again, files of another program, and damaged ones.

#![cfg(feature = "parquet")]

use columnar::{Column, Error, Reader, Writer};
use sql::{Element, SqlType, text};
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// Each type with texts of its values.
const TYPES: &[(SqlType, &[&str])] = &[
    (SqlType::Bool, &["t", "f"]),
    (SqlType::Int2, &["-32768", "0", "32767"]),
    (SqlType::Int4, &["-2147483648", "7", "2147483647"]),
    (SqlType::Int8, &["-9223372036854775808", "9223372036854775807"]),
    (SqlType::Oid, &["0", "4294967295"]),
    (SqlType::Float4, &["NaN", "Infinity", "-Infinity", "1.5", "-0", "3.4028235e+38", "1e-45"]),
    (SqlType::Float8, &["NaN", "Infinity", "-Infinity", "0.1", "-0", "1.7976931348623157e+308", "5e-324"]),
    (SqlType::Numeric(Some((8, 2))), &["0.00", "-0.05", "123456.78", "-999999.99"]),
    (SqlType::Numeric(Some((1, 0))), &["-9", "9"]),
    (SqlType::Numeric(Some((38, 38))), &["0.00000000000000000000000000000000000001"]),
    (SqlType::Numeric(Some((38, 0))), &["99999999999999999999999999999999999999", "-1"]),
    (SqlType::Numeric(Some((50, 2))), &["99999999999999999999999999999999999999999999999.25", "NaN"]),
    (SqlType::Numeric(None), &["1.10", "NaN", "-100000000000000000000000000000000000000000000000000"]),
    (SqlType::Char(4), &["ab  ", "abcd"]),
    (SqlType::Varchar(Some(9)), &["", "a\tb\n\\N"]),
    (SqlType::Text, &["", "\\N", "äöü \u{1f3dd}", "a,\"b\""]),
    (SqlType::Name, &["public"]),
    (SqlType::Bytea, &["\\x", "\\x00ff5c0a"]),
    (SqlType::Date, &["1970-01-01", "2024-02-29", "4714-11-24 BC", "5874897-12-31"]),
    (SqlType::Time, &["00:00:00", "23:59:59.999999"]),
    (SqlType::Timestamp, &["1970-01-01 00:00:00", "1969-12-31 23:59:59.999999", "4714-11-24 00:00:00 BC"]),
    (SqlType::TimestampTz, &["2024-03-01 10:20:30.5+00", "294246-12-31 00:00:00+00"]),
    (SqlType::Interval, &["00:00:00", "1 year 2 mons -3 days +04:05:06.7"]),
    (SqlType::Uuid, &["c7b9b7b6-17d2-4b0e-b1f5-000000000001"]),
    (SqlType::Json, &["{\"a\" : [1,  null]}"]),
    (SqlType::Jsonb, &["{\"a\": [1, null]}", "null"]),
    (SqlType::Array(Element::Int4), &["{}", "{1,NULL,3}"]),
    (SqlType::Array(Element::Text), &["{\"a b\",NULL,\"\"}"]),
];

type Rows = Vec<Vec<Option<Vec<u8>>>>;

fn column(name: &str, ty: SqlType) -> Column {
    Column { name: name.into(), ty: Some(ty), type_name: format!("{ty:?}") }
}

/// A column for each of the types, and rows that show every value of each, and null.
fn every_type() -> (Vec<Column>, Rows) {
    let columns = TYPES.iter().enumerate().map(|(at, (ty, _))| column(&format!("c{at}"), *ty)).collect();
    let most = TYPES.iter().map(|(_, texts)| texts.len()).max().unwrap_or(0);
    let cell = |texts: &[&str], row: usize| texts.get(row).map(|text| text.as_bytes().to_vec());
    let row = |row| TYPES.iter().map(|(_, texts)| cell(texts, row)).collect();
    (columns, (0..=most).map(row).collect())
}

fn write(path: &Path, columns: &[Column], rows: &[Vec<Option<Vec<u8>>>]) {
    let mut writer = Writer::new(File::create(path).unwrap(), columns).unwrap();
    for row in rows {
        writer.row(row).unwrap();
    }
    writer.finish().unwrap();
}

fn read(path: &Path, columns: &[Column]) -> Result<Rows, Error> {
    let mut reader = Reader::open(File::open(path).unwrap())?;
    reader.choose(columns)?;
    let mut rows = Vec::new();
    while let Some(row) = reader.row()? {
        rows.push(row.into_iter().map(|cell| cell.map(String::into_bytes)).collect());
    }
    Ok(rows)
}

#[test]
fn every_type_is_read_as_it_was_written() {
    for (ty, texts) in TYPES {
        for value in *texts {
            // The text that COPY gives.
            let read = text::read(*ty, value).unwrap_or_else(|error| panic!("{ty:?} {value}: {error}"));
            assert_eq!(text::to_string(*ty, &read), *value, "{ty:?}");
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let (columns, rows) = every_type();
    write(&path, &columns, &rows);
    assert_eq!(read(&path, &columns).unwrap(), rows);
    // Some columns, in another order.
    let some = [columns[3].clone(), columns[0].clone()];
    let turned: Vec<_> = rows.iter().map(|row| vec![row[3].clone(), row[0].clone()]).collect();
    assert_eq!(read(&path, &some).unwrap(), turned);
    // No rows.
    write(&path, &columns, &[]);
    assert!(read(&path, &columns).unwrap().is_empty());
}

#[test]
fn many_rows_are_many_groups() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let columns = [column("k", SqlType::Int4), column("t", SqlType::Text)];
    // 70 MB of text: three groups.
    let row = |k: u32| {
        let text = (!k.is_multiple_of(3)).then(|| format!("{k:>20000}").into_bytes());
        vec![Some(k.to_string().into_bytes()), text]
    };
    let mut writer = Writer::new(File::create(&path).unwrap(), &columns).unwrap();
    for k in 0..5000 {
        writer.row(&row(k)).unwrap();
    }
    writer.finish().unwrap();
    let found = read(&path, &columns).unwrap();
    assert_eq!(found.len(), 5000);
    assert!(found.into_iter().zip(0..).all(|(found, k)| found == row(k)));
}

#[test]
fn what_has_no_place_in_a_file_is_refused() {
    for (ty, value) in [
        (SqlType::Date, "infinity"),
        (SqlType::Timestamp, "-infinity"),
        (SqlType::TimestampTz, "infinity"),
        (SqlType::Time, "24:00:00"),
        (SqlType::Numeric(Some((8, 2))), "NaN"),
    ] {
        let mut writer = Writer::new(Vec::new(), &[column("a", ty)]).unwrap();
        writer.row(&[None]).unwrap();
        let error = writer.row(&[Some(value.into())]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("row 2, column a: {value} is no value")), "{error}");
    }
}

#[test]
fn a_table_takes_only_columns_that_fit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let columns = [column("b", SqlType::Bool), column("x", SqlType::Bytea), column("d", SqlType::Float8)];
    write(&path, &columns, &[vec![Some("t".into()), Some("\\xff".into()), Some("1.5".into())]]);
    for (wanted, says) in [
        (column("c", SqlType::Bool), "it has no column c; it has: b, x, d"),
        (column("b", SqlType::Int4), "its column b is BOOLEAN, which does not go into a column of type Int4"),
        (column("x", SqlType::Int4), "its column x is BYTE_ARRAY, which does not go"),
        (column("d", SqlType::Date), "its column d is DOUBLE, which does not go"),
        (column("x", SqlType::Text), "row 1, column x: no text in UTF-8"),
        (column("x", SqlType::Uuid), "row 1, column x: no 16 bytes of a UUID"),
    ] {
        let error = read(&path, &[wanted]).unwrap_err().to_string();
        assert!(error.starts_with(says), "{error}");
    }
    let number = read(&path, &[column("d", SqlType::Numeric(None))]).unwrap();
    assert_eq!(number, [[Some(b"1.5".to_vec())]]);
}

#[test]
fn a_damaged_file_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let (columns, rows) = every_type();
    write(&path, &columns, &rows);
    let whole = std::fs::read(&path).unwrap();
    let mut rng = fastrand::Rng::with_seed(23);
    let (mut refused, attempts) = (0, 1000);
    for attempt in 0..attempts {
        let mut bytes = whole.clone();
        if attempt % 3 == 0 {
            bytes.truncate(rng.usize(0..bytes.len()));
        } else {
            for _ in 0..=attempt % 4 {
                let at = rng.usize(0..bytes.len());
                bytes[at] ^= rng.u8(1..);
            }
        }
        std::fs::write(&path, bytes).unwrap();
        // A changed value may be another good value.
        refused += u32::from(read(&path, &columns).is_err());
    }
    assert!(refused > attempts / 2, "{refused}");
}

/// `ATOLL_TEST_PYARROW` names a Python that has pyarrow and pandas.
#[test]
fn pyarrow_and_atoll_read_each_others_files() {
    let Ok(python) = std::env::var("ATOLL_TEST_PYARROW") else {
        return eprintln!("skipped: ATOLL_TEST_PYARROW names no Python with pyarrow");
    };
    let dir = tempfile::tempdir().unwrap();
    let (columns, rows) = every_type();
    write(&dir.path().join("ours.parquet"), &columns, &rows);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/with_pyarrow.py");
    let ran = Command::new(python).arg(script).arg(dir.path()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));

    let columns = [
        ("flag", SqlType::Bool),
        ("small", SqlType::Int2),
        ("number", SqlType::Int8),
        ("whole", SqlType::Int4),
        ("unsigned", SqlType::Numeric(None)),
        ("narrow", SqlType::Float4),
        ("price", SqlType::Numeric(Some((12, 3)))),
        ("name", SqlType::Text),
        ("category", SqlType::Varchar(None)),
        ("data", SqlType::Bytea),
        ("day", SqlType::Date),
        ("at", SqlType::Timestamp),
        ("zoned", SqlType::TimestampTz),
        ("millis", SqlType::Timestamp),
        ("clock", SqlType::Time),
        ("id", SqlType::Uuid),
        ("nothing", SqlType::Date),
    ]
    .map(|(name, ty)| column(name, ty));
    let expected = [
        [
            "t",
            "-5",
            "9007199254740993",
            "3",
            "18446744073709551615",
            "0.1",
            "-12.340",
            "ä",
            "x",
            "\\x00ff",
            "2024-02-29",
            "2024-02-29 10:20:30.123457",
            "2024-02-29 09:20:30+00",
            "1999-12-31 23:59:59.999",
            "01:02:03.000004",
            "c7b9b7b6-17d2-4b0e-b1f5-000000000001",
            "",
        ]
        .map(|text| Some(text.as_bytes().to_vec()).filter(|text| !text.is_empty()))
        .to_vec(),
        vec![None; 17],
    ];
    for name in ["snappy", "zstd", "plain", "v2", "pandas"] {
        let found = read(&dir.path().join(format!("{name}.parquet")), &columns);
        assert_eq!(found.unwrap(), expected, "{name}");
    }
    let listed = read(&dir.path().join("nested.parquet"), &[column("a", SqlType::Text)]).unwrap_err();
    assert!(listed.to_string().contains("has lists or parts"), "{listed}");
    let packed = read(&dir.path().join("gzip.parquet"), &columns).unwrap_err().to_string();
    assert!(packed.contains("is compressed by GZIP") && packed.contains("expected SNAPPY"), "{packed}");
    let old = read(&dir.path().join("int96.parquet"), &[column("at", SqlType::Timestamp)]).unwrap();
    assert_eq!(old[0][0].as_deref(), Some(&b"2024-02-29 10:20:30.123456"[..]));
}
