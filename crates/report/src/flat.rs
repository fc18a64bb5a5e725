//! Rows as CSV: a line for each row, a column for each number or text in any row; a nested value
//! gets a name like `latency_us.p99`.
//!
//! Lists (`series`, `repetitions`, the histogram) do not fit a table and are left out; lists of
//! texts are joined.

use serde_json::Value;

/// Rows given as JSON objects, with a header. Columns are in the order of first appearance.
pub fn csv_of<'a>(rows: impl Iterator<Item = &'a Value>) -> String {
    let lines: Vec<Vec<(String, String)>> = rows
        .map(|row| {
            let mut cells = Vec::new();
            flatten("", row, &mut cells);
            cells
        })
        .collect();
    let mut head: Vec<&str> = Vec::new();
    for (name, _) in lines.iter().flatten() {
        if !head.contains(&name.as_str()) {
            head.push(name);
        }
    }
    let mut out = csv::Writer::from_writer(Vec::new());
    // Writing to memory does not fail, and each record has as many cells as the header.
    let mut write = |record: &[&str]| drop(out.write_record(record));
    if !head.is_empty() {
        write(&head);
    }
    for line in &lines {
        let cell =
            |name: &&str| line.iter().find(|(known, _)| known == name).map_or("", |(_, text)| text.as_str());
        write(&head.iter().map(cell).collect::<Vec<_>>());
    }
    out.into_inner().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn flatten(name: &str, value: &Value, cells: &mut Vec<(String, String)>) {
    match value {
        Value::Object(all) => {
            for (key, value) in all {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(&name, value, cells);
            }
        }
        Value::Array(all) => {
            let texts: Vec<&str> = all.iter().filter_map(Value::as_str).collect();
            if !texts.is_empty() && texts.len() == all.len() {
                cells.push((name.into(), texts.join("; ")));
            }
        }
        Value::String(text) => cells.push((name.into(), text.clone())),
        Value::Null => cells.push((name.into(), String::new())),
        other => cells.push((name.into(), other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_number_has_a_column_and_texts_survive() {
        let rows = [
            json!({"workload": "tpcb", "tps": 1.5, "aborted": {"user": 3}, "series": [{"at": 0}], "note": null}),
            json!({"workload": "a \"quoted\", long\nname", "latency_us": {"p99": 7}, "violations": ["x", "y"]}),
        ];
        let text = csv_of(rows.iter());
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let head: Vec<String> = reader.headers().unwrap().iter().map(str::to_string).collect();
        let lines: Vec<csv::StringRecord> = reader.records().map(|r| r.unwrap()).collect();
        let at = |line: usize, name: &str| {
            lines[line].get(head.iter().position(|h| h == name).unwrap()).unwrap().to_string()
        };
        assert_eq!(
            (at(0, "tps").as_str(), at(0, "aborted.user").as_str(), at(0, "latency_us.p99").as_str()),
            ("1.5", "3", "")
        );
        assert_eq!(
            (at(1, "workload").as_str(), at(1, "violations").as_str()),
            ("a \"quoted\", long\nname", "x; y")
        );
        assert_eq!((at(1, "latency_us.p99").as_str(), at(1, "tps").as_str()), ("7", ""));
        assert!(!head.iter().any(|name| name.starts_with("series")), "{head:?}");
        assert_eq!(csv_of([].iter()), "");
    }
}
