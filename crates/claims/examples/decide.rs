use claims::{Library, Row, ClaimVerdict};
use std::collections::BTreeMap;
fn main(){
  let ids: Vec<String> = std::env::args().skip(1).collect();
  let l = Library::built_in().unwrap();
  let mut rows: BTreeMap<String, Result<Vec<Row>,String>> = BTreeMap::new();
  let (mut y,mut n,mut a,mut u)=(0,0,0,0);
  for e in &l.simulated.all {
    if !ids.is_empty() && !ids.iter().any(|i| e.id.starts_with(i.as_str())) { continue }
    let mut all=vec![]; let mut bad=None;
    for x in &e.experiments {
      let r = rows.entry(x.clone()).or_insert_with(|| l.experiment(x).unwrap().simulated_rows(None).map_err(|e|e.to_string()));
      match r { Ok(r)=>all.extend(r.iter().cloned()), Err(e)=>bad=Some(e.clone()) }
    }
    if let Some(b)=bad { println!("{} ERR {b}", e.id); continue }
    let d = l.simulated.decide(e,&all.iter().collect::<Vec<_>>());
    let w = match (&d.verdict,&d.anchor){(ClaimVerdict::NotDecidable(_),_)=>{u+=1;"undecided"},(_,Some(_))=>{a+=1;"anchor"},(ClaimVerdict::Reproduced,_)=>{y+=1;"yes"},(_,_)=>{n+=1;"NO"}};
    println!("{:9} {w:9} {:?}", e.id, d.verdict);
    for (k,v) in &d.values { let s: Vec<String> = v.iter().take(16).map(|x| format!("{:.4}",x)).collect(); println!("      {k} = {}", s.join(" ")); }
  }
  println!("{y} yes {n} no {a} anchors {u} undecided");
}
