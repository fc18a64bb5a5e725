//! What clients of PostgreSQL's protocol send: first packets, messages with the values in them,
//! statements, the data of `COPY`.

use crate::{Pace, Target};
use compiler::compiled::{CopyFormat, CopyOptions};
use server::copy_format::Reader;
use server::format;
use server::incoming::{Bind, First, Format, Message};
use sql::catalog::Catalog;
use sql::datetime::zone::Zone;
use sql::{Datum, SqlType, binary};

/// The first packet of a connection.
pub const FIRST: Target = Target { name: "client-first", seeds: firsts, run: first, pace: Pace::Brisk };
/// The messages after it, one after the other.
pub const MESSAGES: Target =
    Target { name: "client-messages", seeds: streams, run: messages, pace: Pace::Brisk };
/// The data of `COPY`, in pieces.
pub const COPY: Target = Target { name: "client-copy", seeds: copies, run: copy, pace: Pace::Brisk };

/// Types of parameters; the message says which form a value has.
const TYPES: [SqlType; 21] = [
    SqlType::Bool,
    SqlType::Int2,
    SqlType::Int4,
    SqlType::Int8,
    SqlType::Oid,
    SqlType::Float4,
    SqlType::Float8,
    SqlType::Numeric(None),
    SqlType::Numeric(Some((6, 2))),
    SqlType::Char(3),
    SqlType::Varchar(Some(3)),
    SqlType::Text,
    SqlType::Bytea,
    SqlType::Date,
    SqlType::Time,
    SqlType::Timestamp,
    SqlType::TimestampTz,
    SqlType::Interval,
    SqlType::Uuid,
    SqlType::Json,
    SqlType::Jsonb,
];

/// The longest text that is compiled: longer ones take long, and find no more.
const MOST_TEXT: usize = 2000;

fn firsts() -> Vec<Vec<u8>> {
    let startup = b"\0\x03\0\x02user\0atoll\0database\0test\0options\0-c x=1\0\0";
    let cancel = b"\x04\xd2\x16\x2e\0\0\0\x07\x01\x02\x03\x04";
    [&startup[..], cancel, b"\x04\xd2\x16\x2f", b"\x04\xd2\x16\x30", b"\0\x02\0\0"].map(<[u8]>::to_vec).into()
}

fn first(bytes: &[u8]) {
    if let Ok(First::Startup(startup)) = First::read(bytes) {
        let options = startup.parameter("options").unwrap_or_default();
        let mut settings = server::settings::Settings::default();
        let given = [startup.parameters.clone(), server::settings::of_options(options)].concat();
        let refused = settings.start(&given);
        assert!(refused.len() <= given.len() && !settings.zone().name().is_empty());
    }
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[tag], &length[..], body].concat()
}

fn streams() -> Vec<Vec<u8>> {
    let text = |tag: u8, text: &str| message(tag, format!("{text}\0").as_bytes());
    let mut all = vec![
        text(b'Q', "BEGIN; INSERT INTO t (a, b) VALUES (1, 'x'), ($1, E'\\n') RETURNING a; COMMIT"),
        text(
            b'Q',
            "SELECT a, count(*) FROM t JOIN s USING (a) WHERE b LIKE '%x' GROUP BY 1 ORDER BY 2 LIMIT 3",
        ),
        text(b'Q', "SELECT '2024-10-27 02:30 Europe/Berlin'::timestamptz AT TIME ZONE 'PST'"),
        text(b'Q', "CREATE TABLE t (a serial PRIMARY KEY, b numeric(5,2) DEFAULT 0 CHECK (b > 0))"),
        text(b'Q', "SET TIME ZONE INTERVAL '+02:30' HOUR TO MINUTE"),
        text(b'Q', "COPY t (a, b) FROM STDIN WITH (FORMAT csv, HEADER, NULL 'x')"),
        message(b'P', b"s\0SELECT $1 + a FROM t WHERE a = ANY ($2)\0\0\x02\0\0\0\x17\0\0\x03\xef"),
        message(b'D', b"Ss\0"),
        message(b'C', b"Pp\0"),
        message(b'E', b"p\0\0\0\0\x05"),
        message(b'H', b""),
        message(b'S', b""),
        message(b'd', b"1\tx\n"),
        message(b'f', b"no\0"),
        message(b'p', b"SCRAM-SHA-256\0\0\0\0\x03n,,"),
        message(b'X', b""),
    ];
    let array = b"\0\0\0\x01\0\0\0\0\0\0\0\x17\0\0\0\x02\0\0\0\x01\0\0\0\x04\0\0\0\x05\xff\xff\xff\xff";
    for (form, value) in [
        (1, &b"\0\0\0\x07"[..]),
        (1, array),
        (0, b"{1,NULL,\"a b\"}"),
        (0, b"2024-07-01 12:00:00.5 America/New_York"),
        (0, b"-1.50e3"),
        (1, b"\0\x02\0\x01\0\0\0\x02\0\x0c\x0d\x80"),
        (0, b"{\"a\": [1, {\"b\": null}]}"),
        (1, b"\x01{\"a\": 1}"),
        (0, b"1 year 2 mons -3 days 04:05:06.7"),
    ] {
        let length = (value.len() as u32).to_be_bytes();
        let values = [&b"\0\x01"[..], &length, value].concat();
        all.push(message(b'B', &[&b"p\0s\0\0\x01\0"[..], &[form], &values, b"\0\x01\0\x01"].concat()));
    }
    let whole = all.concat();
    all.push(whole);
    all
}

fn messages(bytes: &[u8]) {
    let mut rest = bytes;
    while let [tag, a, b, c, d, behind @ ..] = rest {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let Some(length) = length.checked_sub(4) else { return };
        let (body, behind) = behind.split_at(length.min(behind.len()));
        rest = behind;
        let Ok(message) = Message::read(*tag, body) else { continue };
        match message {
            Message::Query(text) | Message::Parse { text, .. } => statements(text),
            Message::Bind(bind) => values(&bind),
            _ => {}
        }
    }
}

fn statements(text: &str) {
    if text.len() > MOST_TEXT {
        return;
    }
    let catalog = Catalog::default();
    for statement in compiler::parse(text).into_iter().flatten() {
        let _ = compiler::compile(&catalog, &statement, &[]);
    }
}

fn values(bind: &Bind<'_>) {
    for (at, bytes) in bind.values.iter().enumerate() {
        let (Some(bytes), form) = (bytes, Format::of(&bind.formats, at)) else { continue };
        for ty in TYPES {
            let _ = format::read_array(ty, bytes, form);
            if let Ok(value) = format::read(ty, bytes, form, &Zone::UTC) {
                is_read_again(ty, &value);
            }
        }
    }
}

/// A client gets back all that it may send.
fn is_read_again(ty: SqlType, value: &Datum) {
    let mut bytes = Vec::new();
    binary::write(&mut bytes, ty, value);
    let again = binary::read(ty, &bytes);
    let text = |value: &Datum| sql::text::to_string(ty, value);
    assert_eq!(again.as_ref().map(text), Ok(text(value)), "{ty:?}");
}

fn copies() -> Vec<Vec<u8>> {
    let binary = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x01x\xff\xff\xff\xff\xff\xff";
    let texts = [&b"1\tx\\n\n\\N\ty\n\\.\n"[..], b"a,b\n1,\"x\"\"\n,y\"\n,\n"];
    let of = |head: u8, data: &[u8]| [&[head, 3], data].concat();
    vec![of(0, texts[0]), of(1, texts[1]), of(5, texts[1]), of(2, binary)]
}

/// The form, the length of the pieces, the data.
fn copy(bytes: &[u8]) {
    let [head, piece, data @ ..] = bytes else { return };
    let format = [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary][usize::from(head % 4 % 3)];
    let (delimiter, null) = if format == CopyFormat::Csv { (',', "") } else { ('\t', "\\N") };
    let options = CopyOptions {
        format,
        delimiter,
        null: null.into(),
        header: head & 4 != 0,
        quote: '"',
        escape: if head & 8 == 0 { '"' } else { '\\' },
    };
    let mut reader = Reader::new(&options, 2);
    for piece in data.chunks(usize::from(*piece).max(1)) {
        reader.push(piece);
        while let Ok(Some(fields)) = reader.next() {
            assert_eq!(fields.len(), 2, "a row has the columns that were asked for");
        }
    }
    reader.end();
    while let Ok(Some(_)) = reader.next() {}
}
