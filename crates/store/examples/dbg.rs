use base::*; use txn::{Column,RowBuf,Schema,TableDef,Type}; 
fn main(){
 let dir=std::env::temp_dir().join(format!("dbg{}",std::process::id()));
 let (s,_)=store::Store::open(world::real(),&dir,store::StoreOptions::new(wal::Durability::Memory,4096)).unwrap();
 let t=TableDef{id:TableId(1),name:"m".into(),columns:vec![Column::new("id",Type::I64),Column::new("c",Type::I64),Column::new("p",Type::Char(216))],key:vec![0],indexes:vec![],domain:1};
 s.create(&Schema{tables:vec![t.clone()]}).unwrap();
 let table=s.table(TableId(1)).unwrap(); let mut b=RowBuf::new(&t); let mut x=store::Txn::default();
 for i in 0..2000i64 { if i%1000==0 { if i>0 {s.commit(&mut x,None).unwrap();} s.begin(&mut x,0);} let mut r=b.start(); r.set_int(0,i); 
  let k=Key::new().i64(i); loop { match s.insert::<latch::Owned>(&mut x,table,&k,b.bytes(),access::Expect::Any){ Ok(o)=>{assert_eq!(o,store::InsertOutcome::Done);break}, Err(pages::Stop::Page(p))=>{println!("{i} page {p:?}"); s.load_page(p).unwrap()}, Err(e)=>{println!("row {i}: {e:?}");return} } } }
 println!("ok");
}
