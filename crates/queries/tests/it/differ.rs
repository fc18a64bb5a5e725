//! Random queries, here and on PostgreSQL: the answers have to be equal.
//!
//! The rows of a query without an order are compared as a set. Errors are compared by their codes,
//! as far as they do not depend on which row is looked at first. So are numbers of which a query
//! leaves one of several equal ones.

use crate::atoll::Atoll;
use crate::postgres::Server;
use crate::random::Random;

const TABLES: &[&str] = &[
    "CREATE TABLE t (id int PRIMARY KEY, a int, b bigint, c numeric(8,2), d text, e date, f bool)",
    "CREATE TABLE u (k int, j int, x numeric(6,3), s varchar(8), w timestamp, PRIMARY KEY (k, j))",
    "CREATE TABLE v (id int PRIMARY KEY, t_id int, r float8, g char(3), y interval)",
    "CREATE INDEX t_a ON t (a)",
    "CREATE INDEX v_t ON v (t_id)",
];

/// Rows with few different values, so that joins find partners and groups have members.
fn rows(random: &mut Random) -> Vec<String> {
    let mut all = Vec::new();
    for id in 1..=25 {
        let [a, b] = [random.below(6), random.below(9)];
        let values = [
            random.or_null(a.to_string()),
            random.or_null((b * 1_000_000_007).to_string()),
            random.or_null(format!("{}.{:02}", random.below(20), random.below(4) * 25)),
            random.or_null(format!("'{}'", random.pick(&["ant", "bee", "cat", "", "Dog", "eel_1"]))),
            random.or_null(format!("'2024-0{}-1{}'", random.below(3) + 1, random.below(4))),
            random.or_null(random.pick(&["true", "false"]).to_string()),
        ];
        all.push(format!("INSERT INTO t VALUES ({id}, {})", values.join(", ")));
    }
    for k in 1..=8 {
        for j in 1..=random.below(4) {
            let values = [
                random.or_null(format!("{}.{:03}", random.below(9), random.below(8) * 125)),
                random.or_null(format!("'{}'", random.pick(&["ant", "bee", "cat", "fox"]))),
                random.or_null(format!("'2024-01-1{} 0{}:30:00'", random.below(4), random.below(6))),
            ];
            all.push(format!("INSERT INTO u VALUES ({k}, {j}, {})", values.join(", ")));
        }
    }
    for id in 1..=15 {
        let values = [
            random.or_null((random.below(30)).to_string()),
            random.or_null(format!("{}.5", random.below(5))),
            random.or_null(format!("'{}'", random.pick(&["x", "xy", "xyz"]))),
            random.or_null(format!("'{} days {} hours'", random.below(3), random.below(30))),
        ];
        all.push(format!("INSERT INTO v VALUES ({id}, {})", values.join(", ")));
    }
    all
}

/// Whether a query leaves one of several equal values. Of numbers that differ in zeros behind the
/// point PostgreSQL leaves the first that its plan comes to, and Atoll the first that its own does.
fn keeps_one_of_equals(query: &str) -> bool {
    ["DISTINCT", "UNION", "INTERSECT", "EXCEPT", "GROUP BY"].iter().any(|word| query.contains(word))
}

/// Rows with numbers without the zeros at their ends; sorted, unless they have an order.
fn without_zeros(rows: &[String], is_ordered: bool) -> Vec<String> {
    let word = |word: &str| {
        let is_number = word.contains('.') && word.parse::<f64>().is_ok();
        if is_number { word.trim_end_matches('0').trim_end_matches('.') } else { word }.to_owned()
    };
    let row = |row: &String| row.split(' ').map(word).collect::<Vec<_>>().join(" ");
    let mut rows: Vec<String> = rows.iter().map(row).collect();
    if !is_ordered {
        rows.sort();
    }
    rows
}

#[test]
fn random_queries_have_postgresqls_answers() {
    let Some(server) = Server::find() else {
        return eprintln!("PostgreSQL 15 cannot be started here, so this test is skipped");
    };
    let number = |name: &str, default| {
        std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(default)
    };
    let count = number("ATOLL_DIFFER_STATEMENTS", 3000);
    let mut random = Random::new(number("ATOLL_DIFFER_SEED", 1));
    let mut other = server.renew("atoll_differ");
    let mut atoll = Atoll::new();
    let filled: Vec<String> = TABLES.iter().map(|text| (*text).to_owned()).chain(rows(&mut random)).collect();
    for text in &filled {
        atoll.run(text).expect(text);
        other.run(text).expect(text);
    }
    let (mut differ, mut errors, mut explained) = (Vec::new(), 0, 0);
    for _ in 0..count {
        let query = random.query();
        let (here, there) = (atoll.run(&query.text), other.run(&query.text));
        errors += u64::from(there.is_err());
        let is_same = match (here.clone(), there.clone()) {
            (Ok(mut here), Ok(mut there)) => {
                if !query.is_ordered {
                    here.sort();
                    there.sort();
                }
                let is_same = here == there;
                let plain = |rows| without_zeros(rows, query.is_ordered);
                if !is_same && keeps_one_of_equals(&query.text) && plain(&here) == plain(&there) {
                    explained += 1;
                    continue;
                }
                is_same
            }
            (Err(here), Err(there)) => here == there,
            // Which rows are looked at, and in which order, is not laid down.
            (Ok(_), Err(code)) | (Err(code), Ok(_)) => matches!(code.as_str(), "22012" | "22003"),
        };
        if !is_same {
            differ.push(format!("{}\n  here  {here:?}\n  there {there:?}", query.text));
            if differ.len() >= 20 {
                break;
            }
        }
    }
    eprintln!(
        "{count} queries: {errors} are errors in PostgreSQL; {explained} keep another one of equal numbers"
    );
    assert!(differ.is_empty(), "{} answers differ:\n{}", differ.len(), differ.join("\n"));
}
