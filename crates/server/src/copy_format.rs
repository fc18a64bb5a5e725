//! The forms of COPY's data: text, CSV, binary.
//!
//! Source: PostgreSQL's documentation, `COPY`, "File Formats". A [`Reader`] is fed pieces of any
//! size, and gives whole rows.

pub use compiler::compiled::{CopyFormat, CopyOptions};
use sql::{SqlError, SqlState};
use std::iter::Peekable;

/// One row: the bytes of each field, `None` for null.
pub type Fields = Vec<Option<Vec<u8>>>;

/// The longest row of COPY, in bytes: as much as a message with a statement's data.
pub const MOST_ROW_BYTES: usize = 100 << 20;

/// The first bytes of binary data.
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// The options of a COPY that has none.
pub fn text_options() -> CopyOptions {
    let (delimiter, null) = ('\t', "\\N".into());
    CopyOptions { format: CopyFormat::Text, delimiter, null, header: false, quote: '"', escape: '"' }
}

fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState(*b"22P04"), message)
}

/// From pieces of data to rows.
pub struct Reader<'o> {
    options: &'o CopyOptions,
    columns: usize,
    bytes: Vec<u8>,
    /// Where the next row begins.
    at: usize,
    /// Up to where the present row was searched for its end, and whether that is inside quotes.
    searched: (usize, bool),
    /// Up to where a tuple reaches at least, which is not read again before that.
    reaches: usize,
    ended: bool,
    /// Lines or tuples so far.
    row: u64,
    /// Past the head (CSV header, binary signature), and past the end mark.
    begun: bool,
    done: bool,
}

impl<'o> Reader<'o> {
    pub fn new(options: &'o CopyOptions, columns: usize) -> Reader<'o> {
        Reader {
            options,
            columns,
            bytes: Vec::new(),
            at: 0,
            searched: (0, false),
            reaches: 0,
            ended: false,
            row: 0,
            begun: false,
            done: false,
        }
    }

    pub fn push(&mut self, data: &[u8]) {
        if self.at > 0 {
            self.bytes.drain(..self.at);
            self.searched.0 = self.searched.0.saturating_sub(self.at);
            self.reaches = self.reaches.saturating_sub(self.at);
            self.at = 0;
        }
        if !self.done {
            self.bytes.extend_from_slice(data);
        }
    }

    /// No more data comes.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// The next row, if it is there whole.
    ///
    /// # Errors
    /// 22P04 for data that is not of the form, or has another number of fields; 54000 for a row
    /// longer than [`MOST_ROW_BYTES`].
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Fields>, SqlError> {
        if self.done {
            return Ok(None);
        }
        let fields = match self.options.format {
            CopyFormat::Text => self.text_row()?,
            CopyFormat::Csv => self.csv_row()?,
            CopyFormat::Binary => self.tuple()?,
        };
        let Some(fields) = fields else {
            if self.bytes.len() - self.at > MOST_ROW_BYTES {
                let message = format!("row {} is longer than {MOST_ROW_BYTES} bytes", self.row + 1);
                return Err(SqlError::new(SqlState::PROGRAM_LIMIT, message));
            }
            return Ok(None);
        };
        if fields.len() != self.columns {
            let (found, wanted, row) = (fields.len(), self.columns, self.row);
            return Err(bad(format!("row {row} has {found} columns; expected {wanted}")));
        }
        Ok(Some(fields))
    }

    /// The bytes of the next line, without its end.
    fn line(&mut self, quote: Option<u8>) -> Option<(usize, usize)> {
        let (mut i, mut quoted) = self.searched;
        while i < self.bytes.len() {
            match self.bytes[i] {
                byte if Some(byte) == quote => quoted = !quoted,
                // A backslash keeps the line end after it in the text form.
                b'\\' if quote.is_none() => {
                    if i + 1 == self.bytes.len() && !self.ended {
                        self.searched = (i, quoted);
                        return None;
                    }
                    i += 1;
                }
                b'\n' if !quoted => {
                    let start = self.at;
                    self.at = i + 1;
                    self.searched = (self.at, false);
                    let end = if i > start && self.bytes[i - 1] == b'\r' { i - 1 } else { i };
                    return Some((start, end));
                }
                _ => {}
            }
            i += 1;
        }
        self.searched = (i, quoted);
        if self.ended && self.at < self.bytes.len() {
            let start = self.at;
            self.at = self.bytes.len();
            self.searched = (self.at, false);
            return Some((start, self.at));
        }
        None
    }

    fn text_row(&mut self) -> Result<Option<Fields>, SqlError> {
        loop {
            let Some((start, end)) = self.line(None) else { return Ok(None) };
            let line = &self.bytes[start..end];
            if line == b"\\." {
                self.done = true;
                return Ok(None);
            }
            if self.options.header && !self.begun {
                self.begun = true;
                continue;
            }
            self.row += 1;
            let delimiter = byte_of(self.options.delimiter);
            let mut fields = Vec::with_capacity(self.columns);
            let mut rest = Some(line);
            while let Some(line) = rest {
                let (field, after) = cut(line, delimiter);
                rest = after;
                fields.push(match field == self.options.null.as_bytes() {
                    true => None,
                    false => Some(unescape(field)),
                });
            }
            return Ok(Some(if self.columns == 0 && line.is_empty() { Vec::new() } else { fields }));
        }
    }

    fn csv_row(&mut self) -> Result<Option<Fields>, SqlError> {
        loop {
            let quote = byte_of(self.options.quote);
            let Some((start, end)) = self.line(Some(quote)) else { return Ok(None) };
            let line = &self.bytes[start..end];
            if line == b"\\." {
                self.done = true;
                return Ok(None);
            }
            if self.options.header && !self.begun {
                self.begun = true;
                continue;
            }
            self.row += 1;
            let row = self.row;
            return csv_fields(line, self.options)
                .map(Some)
                .ok_or_else(|| bad(format!("row {row}: unterminated CSV quoted field")));
        }
    }

    /// A tuple of binary data.
    fn tuple(&mut self) -> Result<Option<Fields>, SqlError> {
        if self.bytes.len() < self.reaches && !self.ended {
            return Ok(None);
        }
        let mut rest = &self.bytes[self.at..];
        if !self.begun {
            let head = SIGNATURE.len() + 8;
            if rest.len() < head {
                return if self.ended { Err(bad("COPY file signature not recognized")) } else { Ok(None) };
            }
            let extra = i32::from_be_bytes(rest[head - 4..head].try_into().unwrap_or_default());
            if !rest.starts_with(SIGNATURE) || extra != 0 {
                return Err(bad("COPY file signature not recognized"));
            }
            (self.begun, self.at) = (true, self.at + head);
            rest = &rest[head..];
        }
        let incomplete = |ended| if ended { Err(bad("unexpected EOF in COPY data")) } else { Ok(None) };
        let Some((count, mut rest)) = rest.split_first_chunk::<2>() else {
            // A client may leave the end mark out.
            return if self.ended && rest.is_empty() { Ok(None) } else { incomplete(self.ended) };
        };
        let count = i16::from_be_bytes(*count);
        if count == -1 {
            self.done = true;
            return Ok(None);
        }
        let mut fields = Vec::with_capacity(self.columns);
        for _ in 0..count {
            let Some((length, after)) = rest.split_first_chunk::<4>() else { return incomplete(self.ended) };
            rest = after;
            match i32::from_be_bytes(*length) {
                -1 => fields.push(None),
                length => {
                    let length = usize::try_from(length).map_err(|_| bad("invalid field size"))?;
                    let Some((field, after)) = rest.split_at_checked(length) else {
                        self.reaches = self.bytes.len() - rest.len() + length;
                        return incomplete(self.ended);
                    };
                    fields.push(Some(field.to_vec()));
                    rest = after;
                }
            }
        }
        self.row += 1;
        self.at = self.bytes.len() - rest.len();
        self.searched.0 = self.at;
        Ok(Some(fields))
    }
}

/// A character of the options; they are one byte long.
fn byte_of(character: char) -> u8 {
    u8::try_from(character).unwrap_or(b'\t')
}

/// The field before the next delimiter that has no backslash before it, and what follows.
fn cut(line: &[u8], delimiter: u8) -> (&[u8], Option<&[u8]>) {
    let mut i = 0;
    while i < line.len() {
        if line[i] == b'\\' {
            i += 1;
        } else if line[i] == delimiter {
            return (&line[..i], Some(&line[i + 1..]));
        }
        i += 1;
    }
    (line, None)
}

fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match rest.next() {
            None => out.push(b'\\'),
            Some(b'b') => out.push(8),
            Some(b'f') => out.push(12),
            Some(b'n') => out.push(b'\n'),
            Some(b'r') => out.push(b'\r'),
            Some(b't') => out.push(b'\t'),
            Some(b'v') => out.push(11),
            Some(digit @ b'0'..=b'7') => out.push(digits(&mut rest, u32::from(digit - b'0'), 8)),
            Some(b'x') if rest.peek().is_some_and(u8::is_ascii_hexdigit) => {
                out.push(digits(&mut rest, 0, 16))
            }
            Some(other) => out.push(other),
        }
    }
    out
}

/// The byte of up to two more digits.
fn digits(rest: &mut Peekable<impl Iterator<Item = u8>>, first: u32, radix: u32) -> u8 {
    let mut value = first;
    for _ in 0..2 {
        let Some(digit) = rest.peek().and_then(|byte| char::from(*byte).to_digit(radix)) else { break };
        value = value * radix + digit;
        rest.next();
    }
    value as u8
}

/// The fields of a CSV line; `None` if a quote does not end.
fn csv_fields(line: &[u8], options: &CopyOptions) -> Option<Fields> {
    let (delimiter, quote, escape) =
        (byte_of(options.delimiter), byte_of(options.quote), byte_of(options.escape));
    let mut fields = Vec::new();
    let mut i = 0;
    loop {
        let (mut field, mut was_quoted, mut quoted) = (Vec::new(), false, false);
        while i < line.len() {
            let byte = line[i];
            if quoted {
                if byte == escape && line.get(i + 1).is_some_and(|next| *next == quote || *next == escape) {
                    field.push(line[i + 1]);
                    i += 1;
                } else if byte == quote {
                    quoted = false;
                } else {
                    field.push(byte);
                }
            } else if byte == quote {
                (quoted, was_quoted) = (true, true);
            } else if byte == delimiter {
                break;
            } else {
                field.push(byte);
            }
            i += 1;
        }
        if quoted {
            return None;
        }
        let is_null = !was_quoted && field == options.null.as_bytes();
        fields.push(if is_null { None } else { Some(field) });
        if i >= line.len() {
            return Some(fields);
        }
        i += 1;
    }
}

/// From rows to data.
pub struct Writer<'o> {
    options: &'o CopyOptions,
}

impl<'o> Writer<'o> {
    pub fn new(options: &'o CopyOptions) -> Writer<'o> {
        Writer { options }
    }

    /// What comes before the rows.
    pub fn begin(&self, names: &[&str], out: &mut Vec<u8>) {
        match self.options.format {
            CopyFormat::Binary => {
                out.extend_from_slice(SIGNATURE);
                out.extend_from_slice(&[0; 8]);
            }
            CopyFormat::Text | CopyFormat::Csv if self.options.header => {
                self.row(names.len(), out, |i, out| {
                    out.extend_from_slice(names[i].as_bytes());
                    true
                });
            }
            CopyFormat::Text | CopyFormat::Csv => {}
        }
    }

    /// One row. `value` appends the bytes of field `i` and returns true, or returns false for null.
    pub fn row(&self, columns: usize, out: &mut Vec<u8>, mut value: impl FnMut(usize, &mut Vec<u8>) -> bool) {
        if self.options.format == CopyFormat::Binary {
            out.extend_from_slice(&(columns as u16).to_be_bytes());
            for i in 0..columns {
                let start = out.len();
                out.extend_from_slice(&[0xff; 4]);
                if value(i, out) {
                    let length = (out.len() - start - 4) as u32;
                    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
                }
            }
            return;
        }
        let mut field = Vec::new();
        for i in 0..columns {
            if i > 0 {
                out.push(byte_of(self.options.delimiter));
            }
            field.clear();
            match value(i, &mut field) {
                false => out.extend_from_slice(self.options.null.as_bytes()),
                true if self.options.format == CopyFormat::Csv => self.quote(&field, columns, out),
                true => escape(&field, byte_of(self.options.delimiter), out),
            }
        }
        out.push(b'\n');
    }

    fn quote(&self, field: &[u8], columns: usize, out: &mut Vec<u8>) {
        let (delimiter, quote, escape) =
            (byte_of(self.options.delimiter), byte_of(self.options.quote), byte_of(self.options.escape));
        let special = |byte: &u8| [delimiter, quote, b'\n', b'\r'].contains(byte);
        let looks_special = field == self.options.null.as_bytes() || (columns == 1 && field == b"\\.");
        if !looks_special && !field.iter().any(special) {
            out.extend_from_slice(field);
            return;
        }
        out.push(quote);
        for byte in field {
            if *byte == quote || *byte == escape {
                out.push(escape);
            }
            out.push(*byte);
        }
        out.push(quote);
    }
}

fn escape(field: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    for byte in field {
        match *byte {
            8 => out.extend_from_slice(b"\\b"),
            9 => out.extend_from_slice(b"\\t"),
            10 => out.extend_from_slice(b"\\n"),
            11 => out.extend_from_slice(b"\\v"),
            12 => out.extend_from_slice(b"\\f"),
            13 => out.extend_from_slice(b"\\r"),
            b'\\' => out.extend_from_slice(b"\\\\"),
            byte if byte == delimiter => out.extend_from_slice(&[b'\\', byte]),
            byte => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(format: CopyFormat) -> CopyOptions {
        let is_csv = format == CopyFormat::Csv;
        CopyOptions {
            format,
            delimiter: if is_csv { ',' } else { '\t' },
            null: if is_csv { "" } else { "\\N" }.into(),
            header: false,
            quote: '"',
            escape: '"',
        }
    }

    /// A client that never ends a row must not fill the server's memory.
    #[test]
    fn a_row_without_an_end_is_refused() {
        let piece = vec![b'x'; MOST_ROW_BYTES / 8];
        for format in [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary] {
            let options = options(format);
            let mut reader = Reader::new(&options, 1);
            if format == CopyFormat::Binary {
                reader.push(&[SIGNATURE, &[0; 8], &[0, 1], &i32::MAX.to_be_bytes()].concat());
            }
            let mut pushed = 0;
            let refused = loop {
                reader.push(&piece);
                pushed += 1;
                assert!(pushed < 10, "{format:?}: the row grows without end");
                match reader.next() {
                    Ok(row) => assert_eq!(row, None),
                    Err(error) => break error,
                }
            };
            assert_eq!(refused.state, SqlState::PROGRAM_LIMIT, "{format:?}: {refused}");
            assert!(pushed >= 8, "{format:?}: it is refused after {pushed} pieces");
        }
    }

    /// Fed byte by byte, so that every cut is tried.
    fn read(options: &CopyOptions, columns: usize, data: &[u8]) -> Result<Vec<Fields>, SqlError> {
        let mut reader = Reader::new(options, columns);
        let mut rows = Vec::new();
        for byte in data {
            reader.push(&[*byte]);
            while let Some(row) = reader.next()? {
                rows.push(row);
            }
        }
        reader.end();
        while let Some(row) = reader.next()? {
            rows.push(row);
        }
        Ok(rows)
    }

    fn field(text: &str) -> Option<Vec<u8>> {
        Some(text.as_bytes().to_vec())
    }

    #[test]
    fn what_is_written_is_read_again() {
        let rows: Vec<Fields> = vec![
            vec![field("1"), field("plain"), None],
            vec![field(""), field("tab\tnew\nline\\back\rquote\",comma"), field("\\N")],
            vec![field("\\."), field("\u{b}\u{c}\u{8}é"), field("\\x41\\101")],
        ];
        for format in [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary] {
            let options = options(format);
            let (writer, mut data) = (Writer::new(&options), Vec::new());
            writer.begin(&["a", "b", "c"], &mut data);
            for row in &rows {
                writer
                    .row(3, &mut data, |i, out| row[i].as_ref().map(|f| out.extend_from_slice(f)).is_some());
            }
            assert_eq!(read(&options, 3, &data).unwrap(), rows, "{format:?}");
        }
    }

    #[test]
    fn forms_that_clients_send() {
        let text = options(CopyFormat::Text);
        let rows = read(&text, 2, b"1\t\r\n2\t\\x41\\102\n\\.\nignored\n").unwrap();
        assert_eq!(rows, [vec![field("1"), field("")], vec![field("2"), field("AB")]]);
        assert!(read(&text, 3, b"1\t2\n").is_err());
        let csv = options(CopyFormat::Csv);
        let rows = read(&csv, 2, b"\"a,\"\"b\"\"\nc\",\n,\"\"").unwrap();
        assert_eq!(rows, [vec![field("a,\"b\"\nc"), None], vec![None, field("")]]);
        assert!(read(&csv, 1, b"\"open").is_err());
        assert!(read(&options(CopyFormat::Binary), 1, b"PGCOPY\n\xff\r\n").is_err());
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let data: Vec<u8> = (0..random.usize(..40))
                .map(|_| random.choice(b"\\\"\n\r\t,.xN0a\x00\xff").copied().unwrap_or(0))
                .collect();
            for format in [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary] {
                let mut with_head = SIGNATURE.to_vec();
                with_head.extend_from_slice(&[0; 8]);
                with_head.extend_from_slice(&data);
                let _ =
                    read(&options(format), 2, if format == CopyFormat::Binary { &with_head } else { &data });
            }
        }
    }
}
