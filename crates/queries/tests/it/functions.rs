//! Random calls of functions and operators of documents, texts, numbers, spans and enumerations,
//! here and on PostgreSQL: the answers have to be equal, errors by their codes.

use crate::atoll::Atoll;
use crate::postgres::Server;
use fastrand::Rng;

const KEYS: [&str; 7] = ["a", "b", "cc", "x y", "é", "1", ""];
const TEXTS: [&str; 14] = [
    "",
    "a",
    "ab",
    "aXbXc",
    "  pad ",
    "Hello World",
    "日本",
    "12",
    "-3.50",
    "%_\\",
    "it''s",
    "a,b,,c",
    "0x1F",
    "zz top",
];
const FORMATS: [&str; 14] = [
    "999",
    "000",
    "9,999.99",
    "FM999.990",
    "S999",
    "999MI",
    "SG99.9",
    "L999D99",
    "9G999",
    "99PR",
    "PL99",
    "99th",
    "9 9 9",
    "FM0009",
];
const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "12.5",
    "-0.05",
    "1234.567",
    "99",
    "100",
    "-12",
    "3.14159",
    "1e3",
    "0.995",
    "-999.5",
    "2147483647",
];
const SHOWN: [&str; 14] = [
    "12", "-12", "+7", "1,234.50", "<5>", "5-", "  42", "1 2 3", "$12.50", "42nd", ".5", "12.", "x1",
    "9.99.9",
];
const SPANS: [&str; 9] = [
    "1 mon -1 day",
    "-35 days 25 hours",
    "100 days",
    "26:30:00",
    "-1 mon 45 days -30:00",
    "1 year 2 mons",
    "0",
    "-26 hours",
    "29 days 23:59:59.5",
];
const DATES: [&str; 6] = ["2024-01-31", "2024-02-29", "2023-12-31", "2024-02-01", "2024-01-01", "2024-03-15"];
const MOODS: [&str; 4] = ["sad", "so so", "ok", "happy"];

struct Draw(Rng);

impl Draw {
    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.0.usize(..of.len())]
    }

    fn small(&mut self) -> i32 {
        self.0.i32(-4..7)
    }

    fn text(&mut self) -> String {
        if self.0.u8(..12) == 0 { "NULL".into() } else { format!("'{}'", self.pick(&TEXTS)) }
    }

    fn scalar(&mut self) -> String {
        match self.0.u8(..8) {
            0 => "null".into(),
            1 => "true".into(),
            2 => self.small().to_string(),
            3 => format!("{}.{}0", self.small(), self.0.u8(..10)),
            4 => format!("{}e{}", self.0.u8(1..10), self.0.i8(-3..4)),
            5 => "\"\\u00e9\\n\"".into(),
            _ => format!("\"{}\"", self.pick(&KEYS)),
        }
    }

    fn document(&mut self, depth: u32) -> String {
        if depth == 0 || self.0.u8(..4) == 0 {
            return self.scalar();
        }
        let count = self.0.usize(..4);
        if self.0.bool() {
            let items: Vec<String> = (0..count).map(|_| self.document(depth - 1)).collect();
            return format!("[{}]", items.join(", "));
        }
        let member = |draw: &mut Draw| format!("\"{}\" : {}", draw.pick(&KEYS), draw.document(depth - 1));
        let members: Vec<String> = (0..count).map(|_| member(self)).collect();
        format!("{{{}}}", members.join(","))
    }

    fn jsonb(&mut self) -> String {
        if self.0.u8(..20) == 0 { "NULL::jsonb".into() } else { format!("'{}'::jsonb", self.document(3)) }
    }

    fn json(&mut self) -> String {
        format!("'{}'::json", self.document(3))
    }

    fn path(&mut self) -> String {
        let step = |draw: &mut Draw| match draw.0.u8(..8) {
            0 => "NULL".to_owned(),
            1..4 => format!("'{}'", draw.small()),
            _ => format!("'{}'", draw.pick(&KEYS)),
        };
        let steps: Vec<String> = (0..self.0.usize(..4)).map(|_| step(self)).collect();
        format!("ARRAY[{}]::text[]", steps.join(", "))
    }

    fn key(&mut self) -> String {
        format!("'{}'", self.pick(&KEYS))
    }

    fn of_documents(&mut self) -> String {
        let (a, b, path, key) = (self.jsonb(), self.jsonb(), self.path(), self.key());
        let (json, number, flag) = (self.json(), self.small(), self.0.bool());
        match self.0.u8(..34) {
            0 => format!("{a} @> {b}"),
            1 => format!("{a} <@ {b}"),
            2 => format!("{a} ? {key}"),
            3 => format!("{a} ?| {path}"),
            4 => format!("{a} ?& {path}"),
            5 => format!("{a} #> {path}"),
            6 => format!("{a} #>> {path}"),
            7 => format!("{json} #> {path}"),
            8 => format!("{json} #>> {path}"),
            9 => format!("{a} || {b}"),
            10 => format!("{a} - {key}"),
            11 => format!("{a} - {number}"),
            12 => format!("{a} - {path}"),
            13 => format!("{a} #- {path}"),
            14 => format!("({a})[{key}]"),
            15 => format!("({a})[{number}][{key}]"),
            16 => format!("jsonb_set({a}, {path}, {b})"),
            17 => format!("jsonb_set({a}, {path}, {b}, {flag})"),
            18 => format!("jsonb_insert({a}, {path}, {b})"),
            19 => format!("jsonb_insert({a}, {path}, {b}, {flag})"),
            20 => format!("jsonb_strip_nulls({a})"),
            21 => format!("json_strip_nulls({json})"),
            22 => format!("replace(jsonb_pretty({a}), E'\\n', '~')"),
            23 => format!("jsonb_typeof({a}) || json_typeof({json})"),
            24 => format!("jsonb_array_length({a})"),
            25 => format!("json_array_length({json})"),
            26 => format!("jsonb_extract_path({a}, {key}, '{number}')"),
            27 => format!("json_extract_path_text({json}, '{number}', {key})"),
            28 => format!("{a} -> {key}"),
            29 => format!("{json} ->> {number}"),
            30 => format!("to_jsonb({key}::text) || {a}"),
            31 => format!("({a} -> {key}) @> ({b} -> {key})"),
            32 => format!("jsonb_build_object({key}, {a}, 'z', {b})"),
            _ => format!("{a}::text"),
        }
    }

    fn rows_of_documents(&mut self) -> String {
        let is_plain = self.0.bool();
        let document = if is_plain { self.json() } else { self.jsonb() };
        let prefix = if is_plain { "json" } else { "jsonb" };
        let function =
            self.pick(&["each", "each_text", "array_elements", "array_elements_text", "object_keys"]);
        format!("SELECT * FROM {prefix}_{function}({document})")
    }

    fn of_texts(&mut self) -> String {
        let (a, b, c) = (self.text(), self.text(), self.text());
        let (n, m) = (self.small(), self.small());
        match self.0.u8(..22) {
            0 => format!("split_part({a}, {b}, {n})"),
            1 => format!("lpad({a}, {n}, {b}) || '|'"),
            2 => format!("rpad({a}, {n}) || '|'"),
            3 => format!("substring({a} FROM {n} FOR {m})"),
            4 => format!("overlay({a} PLACING {b} FROM {n} FOR {m})"),
            5 => format!("translate({a}, {b}, {c})"),
            6 => format!("replace({a}, {b}, {c})"),
            7 => format!("left({a}, {n}) || '|' || right({a}, {m})"),
            8 => format!("position({a} IN {b})"),
            9 => format!("btrim({a}, {b}) || '|'"),
            10 => format!("initcap({a}) || upper({b}) || lower({c})"),
            11 => format!("format('%s %L', {a}, {b})"),
            12 => format!("concat_ws({a}, {b}, {c}, {n})"),
            13 => format!("string_to_array({a}, {b})"),
            14 => format!("reverse({a}) || repeat({b}, {n})"),
            15 => format!("{a} LIKE {b} OR {a} LIKE '%' || {c}"),
            16 => format!("quote_ident({a}) || quote_literal({b})"),
            17 => format!("encode({a}::bytea, 'base64')"),
            18 => format!("decode({a}, 'escape')"),
            19 => format!("length({a}) + octet_length({b}) + ascii({c})"),
            20 => format!("md5({a})"),
            _ => format!("starts_with({a}, {b})"),
        }
    }

    fn of_numbers(&mut self) -> String {
        let (number, format, shown) = (self.pick(&NUMBERS), self.pick(&FORMATS), self.pick(&SHOWN));
        let (span, other) = (self.pick(&SPANS), self.pick(&SPANS));
        let dates: Vec<String> = (0..4).map(|_| format!("date '{}'", self.pick(&DATES))).collect();
        let (n, m, x) = (self.small(), self.small(), self.small());
        match self.0.u8(..10) {
            0..2 => format!("'|' || to_char({number}::numeric, '{format}') || '|'"),
            2..5 => format!("to_number('{shown}', '{format}')"),
            5 => format!("justify_interval(interval '{span}')"),
            6 => format!("justify_interval(interval '{span}' - interval '{other}')"),
            7 => format!("({}, {}) OVERLAPS ({}, {})", dates[0], dates[1], dates[2], dates[3]),
            8 => format!("({}, interval '{span}') OVERLAPS ({}, {})", dates[0], dates[2], dates[3]),
            _ => format!("{x} BETWEEN SYMMETRIC {n} AND {m}, {x} NOT BETWEEN SYMMETRIC {n} AND {m}"),
        }
    }

    fn of_moods(&mut self) -> String {
        let of = |draw: &mut Draw| match draw.0.u8(..12) {
            0 => "NULL::mood".to_owned(),
            1 => "'none'::mood".to_owned(),
            _ => format!("'{}'::mood", draw.pick(&MOODS)),
        };
        let (a, b, c) = (of(self), of(self), of(self));
        let op = self.pick(&["<", "<=", "=", "<>", ">", ">=", "IS DISTINCT FROM"]);
        match self.0.u8(..6) {
            0 => format!("{a} {op} {b}"),
            1 => format!("greatest({a}, {b}, {c}), least({a}, {b}, {c})"),
            2 => format!("{a} BETWEEN {b} AND {c}"),
            3 => format!("{a} = ANY (ARRAY[{b}, {c}]), ARRAY[{a}] || {b}"),
            4 => format!("enum_range({a}, {b})"),
            _ => format!("{a}::text || 'x', to_json({b}), coalesce({a}, {c})"),
        }
    }

    fn statement(&mut self) -> String {
        match self.0.u8(..10) {
            0..4 => format!("SELECT {}", self.of_documents()),
            4 => self.rows_of_documents(),
            5..7 => format!("SELECT {}", self.of_texts()),
            7..9 => format!("SELECT {}", self.of_numbers()),
            _ => format!("SELECT {}", self.of_moods()),
        }
    }
}

#[test]
fn random_calls_have_postgresqls_answers() {
    let Some(server) = Server::find() else {
        return eprintln!("PostgreSQL 15 cannot be started here, so this test is skipped");
    };
    let number = |name: &str, default| {
        std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(default)
    };
    let count = number("ATOLL_DIFFER_STATEMENTS", 3000);
    let mut draw = Draw(Rng::with_seed(number("ATOLL_DIFFER_SEED", 1)));
    let (mut other, mut atoll) = (server.renew("atoll_functions"), Atoll::new());
    for text in
        ["CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')", "ALTER TYPE mood ADD VALUE 'so so' BEFORE 'ok'"]
    {
        atoll.run(text).expect(text);
        other.run(text).expect(text);
    }
    let (mut differ, mut errors, mut refused) = (Vec::new(), 0, 0);
    for _ in 0..count {
        let text = draw.statement();
        let (here, there) = (atoll.run(&text), other.run(&text));
        errors += u64::from(there.is_err());
        match (&here, &there) {
            (Err(code), Ok(_)) if code == "0A000" => refused += 1,
            _ if here != there => differ.push(format!("{text}\n  here  {here:?}\n  there {there:?}")),
            _ => {}
        }
        if differ.len() >= 40 {
            break;
        }
    }
    eprintln!("{count} calls: {errors} are errors in PostgreSQL, {refused} are refused here");
    assert!(differ.is_empty(), "{} answers differ:\n{}", differ.len(), differ.join("\n"));
}
