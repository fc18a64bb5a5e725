//! Texts with random changes: the compiler answers with an error or a program, and never panics.

use compiler::ddl::Stores;
use compiler::{Compiled, compile, describe, parse};
use sql::catalog::{Catalog, Store};
use std::path::Path;

/// The statements of the golden files.
fn statements() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts = files.iter().map(|file| std::fs::read_to_string(file).unwrap());
    let lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    lines.filter_map(|line| line.strip_prefix("> ").map(str::to_owned)).collect()
}

/// Compiles a text, and applies its definitions.
fn run(catalog: &mut Catalog, stores: &mut Stores, text: &str) -> usize {
    let Ok(parsed) = parse(text) else { return 0 };
    let mut compiled = 0;
    for statement in parsed {
        // A tree of any query is a tree or an error, whether the query needs one or not.
        let _ = compiler::tree::tree(catalog, &statement, &[]);
        if statement.is_change() {
            let _ = compiler::tree::written(catalog, &statement, &[]);
        }
        match compile(catalog, &statement, &[]) {
            Ok(Compiled::Query(query)) => {
                compiled += 1;
                assert!(query.call.is_some() || !describe::describe(&query).is_empty());
                let given = query.call.as_ref().map_or(query.params.len(), |call| call.args.len());
                assert_eq!(query.program.params.len(), given + query.fills.len());
            }
            Ok(Compiled::Define(definition)) => {
                if let Ok(change) = definition.apply(catalog, stores) {
                    compiled += 1;
                    // Objects that are gone would make later texts wrong.
                    if change.removed.is_empty() {
                        *catalog = change.catalog;
                    }
                }
            }
            _ => {}
        }
    }
    compiled
}

/// One random change of a text: words swapped, dropped, doubled, taken from another text; letters
/// replaced.
fn mutate(random: &mut fastrand::Rng, text: &str, other: &str) -> String {
    let mut words: Vec<&str> = text.split_inclusive([' ', '(', ')', ',', '=']).collect();
    let others: Vec<&str> = other.split_inclusive([' ', '(', ')', ',', '=']).collect();
    if words.is_empty() || others.is_empty() {
        return other.to_owned();
    }
    let at = random.usize(..words.len());
    match random.u8(..6) {
        0 => drop(words.remove(at)),
        1 => words.insert(at, words[random.usize(..words.len())]),
        2 => words[at] = others[random.usize(..others.len())],
        3 => words.swap(at, random.usize(..at + 1)),
        4 => words.extend(&others[random.usize(..others.len())..]),
        _ => {
            let mut letters: Vec<char> = words.concat().chars().collect();
            let at = random.usize(..letters.len());
            const PIECES: &[char] =
                &['\'', '"', '(', ')', ';', '$', '0', '-', '.', ',', '*', 'é', '\0', ':', '|', '%'];
            letters[at] = PIECES[random.usize(..PIECES.len())];
            return letters.into_iter().collect();
        }
    }
    words.concat()
}

#[test]
fn mutated_texts_compile_or_fail() {
    let statements = statements();
    let mut compiled = 0;
    for seed in 0..12 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut catalog = Catalog::default();
        let mut stores = Stores { free: (1..2000).map(Store).collect() };
        for text in statements.iter().filter(|text| text.to_lowercase().starts_with("create")) {
            run(&mut catalog, &mut stores, text);
        }
        for _ in 0..1500 {
            let text = &statements[random.usize(..statements.len())];
            let other = &statements[random.usize(..statements.len())];
            let mut text = text.clone();
            for _ in 0..random.u8(..4) {
                text = mutate(&mut random, &text, other);
            }
            // Stores are not given back here.
            stores.free.extend((1..2000).map(Store));
            compiled += run(&mut catalog, &mut stores, &text);
        }
    }
    assert!(compiled > 2000, "only {compiled} texts were compiled");
}

#[test]
fn deep_and_long_texts_are_refused() {
    let mut catalog = Catalog::default();
    let mut stores = Stores::default();
    let state = |text: &str| parse(text).err().map(|error| error.state.as_str().to_owned());
    let nested = format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000));
    assert_eq!(state(&nested).as_deref(), Some("54001"));
    let unclosed = format!("SELECT {}", "(".repeat(10_000));
    assert_eq!(state(&unclosed).as_deref(), Some("54001"));
    for (head, part, tail) in [
        ("SELECT 1", " + 1", ""),
        ("SELECT 1 WHERE true", " AND NOT false", ""),
        ("SELECT ", "- ", "1"),
        ("SELECT ", "NOT ", "true"),
        ("SELECT 'a'", " || 'b'", ""),
        ("SELECT 1", "::int", ""),
        ("SELECT 1", " UNION SELECT 1", ""),
        ("", "EXPLAIN ", "SELECT 1"),
        ("", "PREPARE p AS ", "SELECT 1"),
        ("SELECT ", "CASE WHEN true THEN ", "1"),
        ("SELECT ", "abs(", "1"),
        ("SELECT 1", " IS NULL", ""),
        ("SELECT a.b", ".c", ""),
        ("SELECT ", "ARRAY[", "1"),
    ] {
        for count in [150, 3_000, 30_000] {
            run(&mut catalog, &mut stores, &format!("{head}{}{tail}", part.repeat(count)));
        }
        assert!(state(&format!("{head}{}{tail}", part.repeat(30_000))).is_some() || part == ".c", "{part}");
    }
    let large = format!("SELECT '{}'", "x".repeat(100 << 20));
    assert_eq!(state(&large).as_deref(), Some("54000"));
}

#[test]
fn a_long_list_and_many_rows_are_fine() {
    let mut catalog = Catalog::default();
    let mut stores = Stores { free: (1..9).map(Store).collect() };
    assert_eq!(run(&mut catalog, &mut stores, "CREATE TABLE t (a int PRIMARY KEY, b serial, c text)"), 1);
    let list: Vec<String> = (0..5_000).map(|n| n.to_string()).collect();
    assert_eq!(
        run(&mut catalog, &mut stores, &format!("SELECT c FROM t WHERE a IN ({})", list.join(", "))),
        1
    );
    let arms: Vec<String> = (0..3_000).map(|n| format!("a = {n}")).collect();
    assert_eq!(run(&mut catalog, &mut stores, &format!("SELECT c FROM t WHERE {}", arms.join(" OR "))), 1);
    let rows: Vec<String> = (0..20_000).map(|n| format!("({n}, 'row {n}')")).collect();
    let insert = format!("INSERT INTO t (a, c) VALUES {}", rows.join(", "));
    assert_eq!(run(&mut catalog, &mut stores, &insert), 1);
}

#[test]
fn each_statement_has_its_own_text_and_errors_have_their_place() {
    let parsed = parse("SELECT 'é;' ; -- x ; y\n  UPDATE t\nSET a = $2;").unwrap();
    assert_eq!(parsed[0].text(), "SELECT 'é;'");
    assert_eq!(parsed[1].text(), "UPDATE t\nSET a = $2");
    assert_eq!((parsed.len(), parsed[1].params()), (2, 2));
    let error = parse("SELECT 'é';\nSELECT a FROM WHERE x )").unwrap_err();
    assert_eq!((error.state.as_str(), error.position), ("42601", Some(35)));
}

#[test]
fn foreign_keys_in_a_circle_end() {
    let mut catalog = Catalog::default();
    let mut stores = Stores { free: (1..9).map(Store).collect() };
    let keys: Vec<String> =
        (0..8).map(|n| format!("k{n} int REFERENCES t ON DELETE CASCADE ON UPDATE CASCADE")).collect();
    let create = format!("CREATE TABLE t (a int PRIMARY KEY, {})", keys.join(", "));
    assert_eq!(run(&mut catalog, &mut stores, &create), 1);
    assert_eq!(run(&mut catalog, &mut stores, "DELETE FROM t WHERE a = 1; UPDATE t SET a = 2"), 2);
}

#[test]
fn deep_texts_in_other_statements_are_refused_too() {
    let mut catalog = Catalog::default();
    let mut stores = Stores { free: (1..999).map(Store).collect() };
    assert_eq!(run(&mut catalog, &mut stores, "CREATE TABLE t (a int PRIMARY KEY, b int, c text)"), 1);
    run(&mut catalog, &mut stores, "CREATE FUNCTION one(x int) RETURNS int LANGUAGE SQL AS 'SELECT $1'");
    run(&mut catalog, &mut stores, "CREATE PROCEDURE two(x int) LANGUAGE SQL AS 'UPDATE t SET b = x'");
    for (head, part, tail) in [
        ("CREATE FUNCTION f() RETURNS int LANGUAGE SQL AS $$ SELECT 1", " + 1", "$$"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE SQL AS $$ SELECT ", "- ", "1 $$"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE SQL AS $$ SELECT ", "(", "1 $$"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE SQL AS $$ SELECT ", "abs(", "1 $$"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE SQL AS $$ SELECT 1", " UNION SELECT 1", "$$"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE SQL RETURN 1", " + 1", ""),
        ("CREATE PROCEDURE f() LANGUAGE SQL BEGIN ATOMIC SELECT 1", " + 1", "; END"),
        ("CREATE PROCEDURE f() LANGUAGE SQL AS $$ DELETE FROM t WHERE true", " AND NOT false", "$$"),
        ("CREATE FUNCTION f(x int DEFAULT 1", " + 1", ") RETURNS int LANGUAGE SQL AS 'SELECT 1'"),
        ("CREATE VIEW v AS SELECT 1", " + 1", ""),
        ("CREATE VIEW v AS SELECT a FROM t WHERE true", " AND a > 1", ""),
        ("CREATE VIEW v AS SELECT 1", " UNION SELECT 1", ""),
        ("CREATE TABLE u (a int DEFAULT 1", " + 1", ")"),
        ("CREATE TABLE u (a int CHECK (a > 1", " + 1", "))"),
        ("CREATE TABLE u (a int CHECK (a > 1", " AND a > 1", "))"),
        ("ALTER TABLE t ADD CHECK (a > 1", " OR a > 1", ")"),
        ("ALTER TABLE t ALTER COLUMN b TYPE text USING b", " + 1", ""),
        ("CREATE TABLE u AS SELECT 1", " + 1", ""),
        ("SELECT one(1", " + 1", ")"),
        ("SELECT * FROM one(1", " + 1", ")"),
        ("CALL two(1", " + 1", ")"),
        ("EXECUTE p(1", " + 1", ")"),
        ("DECLARE c CURSOR FOR SELECT 1", " + 1", ""),
        ("COPY (SELECT 1", " + 1", ") TO STDOUT"),
        ("INSERT INTO t VALUES (1", " + 1", ")"),
        ("INSERT INTO t SELECT 1", " + 1", ""),
        ("UPDATE t SET b = b", " + 1", ""),
        ("UPDATE t SET b = (SELECT 1", " + 1", ")"),
        ("WITH w AS (SELECT 1", " + 1", ") SELECT * FROM w"),
        ("SELECT 1 FROM t", " JOIN t USING (a)", ""),
        ("SELECT 1 ORDER BY 1", " + 1", ""),
        ("SELECT sum(a", " + 1", ") OVER () FROM t"),
        ("SELECT a", "[1]", " FROM t"),
        ("SELECT '{}'::jsonb", " -> 'a'", ""),
        ("SELECT 1 = ANY (ARRAY[1", " + 1", "])"),
        ("SELECT '1'", "::text::int", ""),
        ("SELECT 1::int", "[]", ""),
        ("SELECT a", " NOTNULL", " FROM t"),
        ("SELECT 1", " OPERATOR(pg_catalog.+) 1", ""),
        ("SELECT 1, 1", " UNION SELECT 1, 1", ""),
        ("SELECT 1, 1", " EXCEPT ALL SELECT 1, 1", ""),
        ("SELECT 1", " = ANY (ARRAY[1])", ""),
        ("SELECT f", "(1)", ""),
        ("SELECT 1 FROM t", " PIVOT (sum(a) FOR b IN (1))", ""),
        ("VALUES (1", " + 1", ")"),
        ("GRANT ALL ON t TO a", ", a", ""),
        ("SET x = 1", ", 1", ""),
        ("SELECT interval '1' ", "year ", ""),
    ] {
        for count in [150, 3_000, 11_000, 300_000] {
            run(&mut catalog, &mut stores, &format!("{head}{}{tail}", part.repeat(count)));
        }
    }
}

/// In these, work for each pair of tokens would take days.
#[test]
fn long_texts_take_no_work_for_each_pair_of_tokens() {
    let mut catalog = Catalog::default();
    let mut stores = Stores { free: (1..99).map(Store).collect() };
    let many = 1_000_000;
    for (head, part, tail) in [
        ("CREATE TABLE i (a int GENERATED ALWAYS AS IDENTITY", " ", ")"),
        ("CREATE SEQUENCE s INCREMENT", " ", "1"),
        ("SELECT 1 WHERE 1 = ANY", " ", "(ARRAY[1])"),
        ("SELECT", " ", "1"),
        ("SELECT 1 WHERE 1 IN (1", ",1", ")"),
        ("SELECT 1,", "1 BETWEEN SYMMETRIC 1,()", ""),
        ("SELECT 1", ",1 = ANY", ""),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE SQL AS $$", ";SELECT 1", "$$"),
        ("CREATE FUNCTION f(", "a int,", "b int) RETURNS int LANGUAGE SQL AS 'SELECT 1'"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE SQL AS $$", "SELECT 1;", "$$"),
        ("FETCH BACKWARD ", "-9223372036854775808", " FROM c"),
        ("PREPARE p(int", ",int", ") AS SELECT 1"),
        ("CREATE TYPE e AS ENUM ('a'", ",'a'", ")"),
    ] {
        for count in [1, 50_000, many / part.len()] {
            run(&mut catalog, &mut stores, &format!("{head}{}{tail}", part.repeat(count)));
        }
    }
}
