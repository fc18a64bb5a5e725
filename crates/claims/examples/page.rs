use claims::{ClaimVerdict, Decision, How, Library, Row, page};
use std::collections::BTreeMap;
fn main() {
    let file = std::env::args().nth(1).unwrap();
    let library = Library::built_in().unwrap_or_else(|e| panic!("{e}"));
    let mut rows: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for line in std::fs::read_to_string(&file).unwrap().lines() {
        let row = Row::parse(line).unwrap();
        rows.entry(row.word("experiment").unwrap()).or_default().push(row);
    }
    let mut decisions = Vec::new();
    for c in library.ledger.claims.iter().filter(|c| c.how == How::TraceSim) {
        let Some(e) = library.evaluators.get(&c.id) else { continue };
        let missing = e.experiments.iter().find(|x| !rows.contains_key(*x));
        decisions.push(match missing {
            Some(x) => Decision {
                id: c.id.clone(),
                verdict: ClaimVerdict::NotDecidable(format!("{x} was not run")),
                values: vec![],
                part: None,
                anchor: None,
            },
            None => {
                let r: Vec<&Row> = e.experiments.iter().flat_map(|x| &rows[x]).collect();
                library.evaluators.decide(e, &r)
            }
        });
    }
    let origin = page::Origin {
        command: "atoll claims --how trace-sim --markdown".into(),
        version: "0.1.0".into(),
        ..page::Origin::default()
    };
    print!("{}", page::markdown(&library, &decisions, &origin));
    page::remarks(&library, &decisions).iter().for_each(|r| eprintln!("{r}"));
}
