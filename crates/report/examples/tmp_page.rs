fn main() {
    let args: Vec<String> = std::env::args().collect();
    let mut rows = report::Rows::default();
    let mut machines = vec![];
    for f in &args[2..] {
        if f.ends_with(".jsonl") {
            rows.add(f, &std::fs::read(f).unwrap());
        } else if f.ends_with("machine.json") {
            machines.push(serde_json::from_slice(&std::fs::read(f).unwrap()).unwrap());
        } else {
            machines.push(topology::Machine::parse(f).unwrap());
        }
    }
    for c in &rows.complaints {
        eprintln!("{c}");
    }
    std::fs::write(&args[1], report::Report { rows: rows.rows, machines, notes: rows.remarks }.html())
        .unwrap();
}
