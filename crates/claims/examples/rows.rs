use claims::Library;
fn main(){
  let mut a=std::env::args().skip(1); let id=a.next().unwrap(); let cols: Vec<String>=a.collect();
  let l=Library::built_in().unwrap();
  let t=std::time::Instant::now();
  for r in l.experiment(&id).unwrap().simulated_rows(None).unwrap() {
    if cols.is_empty() { println!("{}", r.line()); continue }
    let s: Vec<String>=cols.iter().map(|c| r.number(c).map(|x| format!("{x:.4}")).or(r.word(c)).unwrap_or("-".into())).collect();
    println!("{}", s.join("\t"));
  }
  eprintln!("{:?}", t.elapsed());
}
