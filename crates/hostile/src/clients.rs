//! What clients of PostgreSQL's protocol send: packets and messages, values, data of COPY.

use crate::{Pace, Target};
use compiler::compiled::{CopyFormat, CopyOptions};
use server::copy_format::Reader;
use server::format;
use server::incoming::{First, Format, Message};
use server::scram::{Exchange, Verifier};
use server::settings::of_options;
use sql::SqlType;

/// First packets, and messages after them: the first byte is the message's tag.
pub const MESSAGE: Target =
    Target { name: "client-message", seeds: messages, run: message, pace: Pace::Brisk };
/// Values in text and in binary; the first byte chooses the type.
pub const VALUE: Target = Target { name: "client-value", seeds: values, run: value, pace: Pace::Brisk };
/// Data of COPY; the first byte chooses the form and the size of the pieces.
pub const COPY: Target = Target { name: "client-copy", seeds: copies, run: copy, pace: Pace::Brisk };

fn messages() -> Vec<Vec<u8>> {
    let long = |code: u32, rest: &[u8]| [&code.to_be_bytes()[..], rest].concat();
    let mut seeds = vec![
        long(80_877_103, b""),
        long(80_877_104, b""),
        long(80_877_102, &[0, 0, 0, 7, 1, 2, 3, 4]),
        long(3 << 16, b"user\0atoll\0database\0test\0options\0-c a=b --c=d\0\0"),
        long(3 << 16 | 2, b"user\0a\0_pq_.x\0y\0\0"),
        b"n,,n=,r=abcdefgh".to_vec(),
    ];
    let tagged = |tag: u8, body: &[u8]| [&[tag][..], body].concat();
    seeds.extend([
        tagged(b'Q', b"SELECT 1\0"),
        tagged(b'P', b"s\0SELECT $1\0\0\x02\0\0\0\x17\0\0\0\0"),
        tagged(b'B', b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x04\0\0\0\x01\xff\xff\xff\xff\0\x01\0\x01"),
        tagged(b'D', b"Ss\0"),
        tagged(b'D', b"P\0"),
        tagged(b'C', b"Ss\0"),
        tagged(b'E', b"p\0\0\0\0\x05"),
        tagged(b'd', b"1\tx\n"),
        tagged(b'f', b"no\0"),
        tagged(b'p', b"SCRAM-SHA-256\0\0\0\0\x10n,,n=,r=abcdefgh"),
        b"S".to_vec(),
        b"H".to_vec(),
        b"c".to_vec(),
        b"X".to_vec(),
    ]);
    seeds
}

fn message(bytes: &[u8]) {
    if let Ok(First::Startup(startup)) = First::read(bytes) {
        startup.parameters.iter().for_each(|(_, value)| drop(of_options(value)));
    }
    if let Some((tag, body)) = bytes.split_first()
        && let Ok(Message::Bind(bind)) = Message::read(*tag, body)
    {
        for column in 0..bind.values.len() + 2 {
            let _ = (Format::of(&bind.formats, column), Format::of(&bind.results, column));
        }
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = Verifier::from_text(text);
    // The iterations of a password take long, so a verifier is given.
    let known = "SCRAM-SHA-256$4096:c2FsdHNhbHRzYWx0$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:\
                 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let verifier = Verifier::from_text(known).expect("a verifier's text");
    let (first, last) = text.split_once('\n').unwrap_or((text, text));
    if let Some((exchange, _)) = Exchange::begin(&verifier, first, b"nonce") {
        assert_eq!(exchange.end(last), None, "a proof of no password holds");
    }
}

const TYPES: &[SqlType] = &[
    SqlType::Bool,
    SqlType::Int2,
    SqlType::Int4,
    SqlType::Int8,
    SqlType::Float4,
    SqlType::Float8,
    SqlType::Numeric(None),
    SqlType::Numeric(Some((12, 3))),
    SqlType::Char(5),
    SqlType::Varchar(Some(5)),
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

fn values() -> Vec<Vec<u8>> {
    let texts = [
        "t",
        "-2",
        "2147483647",
        "9223372036854775807",
        "1.5e30",
        "-0.25",
        "-12345.678901",
        "1e-5",
        "abc  ",
        "short",
        "text",
        "\\x00ff",
        "2024-02-29",
        "23:59:59.999999",
        "2024-02-29 01:02:03.000004",
        "infinity",
        "1 year 2 mons -3 days 04:05:06",
        "12345678-1234-5678-1234-567812345678",
        "{\"a\": [1]}",
        "[null, 1e2]",
    ];
    let mut seeds = Vec::new();
    for (n, ty) in TYPES.iter().enumerate() {
        for text in texts {
            seeds.push([&[n as u8][..], text.as_bytes()].concat());
            if let Ok(value) = format::read(*ty, text.as_bytes(), Format::Text) {
                let mut binary = vec![n as u8];
                format::write(*ty, &value, Format::Binary, &mut binary);
                seeds.push(binary);
            }
        }
    }
    seeds
}

/// What was read is written, and read again as the same value.
fn value(bytes: &[u8]) {
    let Some((n, bytes)) = bytes.split_first() else { return };
    let ty = TYPES[usize::from(*n) % TYPES.len()];
    for form in [Format::Text, Format::Binary] {
        let Ok(value) = format::read(ty, bytes, form) else { continue };
        for other in [Format::Text, Format::Binary] {
            let mut written = Vec::new();
            assert!(format::write(ty, &value, other, &mut written), "{ty:?}: a value has no bytes");
            let again = format::read(ty, &written, other);
            // Floats may be no numbers, which differ from themselves.
            assert_eq!(format!("{again:?}"), format!("Ok({value:?})"), "{ty:?} as {other:?}: {written:?}");
        }
    }
}

fn options(form: u8) -> CopyOptions {
    let format = [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary][usize::from(form) % 3];
    let is_csv = format == CopyFormat::Csv;
    CopyOptions {
        format,
        delimiter: if is_csv { ',' } else { '\t' },
        null: if is_csv { String::new() } else { "\\N".into() },
        header: is_csv && form & 64 != 0,
        quote: '"',
        escape: if form & 128 != 0 { '\\' } else { '"' },
    }
}

fn copies() -> Vec<Vec<u8>> {
    let binary = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x01x\xff\xff\xff\xff\xff\xff";
    let data: [(u8, &[u8]); 4] = [
        (0, b"1\tx\\ty\n2\t\\N\r\n\\.\n"),
        (1, b"1,\"a \"\"b\"\", c\"\n2,\n"),
        (64 + 1, b"id,name\r\n1,x\r\n"),
        (2, binary),
    ];
    data.iter().map(|(form, data)| [&[*form][..], data].concat()).collect()
}

fn copy(bytes: &[u8]) {
    let Some((form, bytes)) = bytes.split_first() else { return };
    let options = options(*form);
    let whole = rows(&options, bytes, bytes.len().max(1));
    // The size of the pieces does not matter.
    assert_eq!(whole, rows(&options, bytes, 1 + usize::from(*form / 3 % 7)));
}

/// The rows of two columns up to the first error, and whether there was one.
fn rows(options: &CopyOptions, bytes: &[u8], piece: usize) -> (Vec<Vec<Option<Vec<u8>>>>, bool) {
    let mut reader = Reader::new(options, 2);
    let mut found = Vec::new();
    let pieces = bytes.chunks(piece).map(Some).chain([None]);
    for piece in pieces {
        match piece {
            Some(piece) => reader.push(piece),
            None => reader.end(),
        }
        loop {
            match reader.next() {
                Ok(Some(row)) => found.push(row),
                Ok(None) => break,
                Err(_) => return (found, true),
            }
        }
    }
    (found, false)
}
