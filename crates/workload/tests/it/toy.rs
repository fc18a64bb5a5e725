//! The toy of docs/adding-a-workload.md: a transaction adds one to a row.
use ::txn::step::{Route, Step, StepId, run_encoded};
use ::workload::benchmark::{Benchmark, Form};
use ::workload::{SpecError, WorkloadSpec, random::Random};
use base::{Key, SiteId, TableId};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use txn::*;

const TALLY: TableId = TableId(1);
#[derive(Clone, Debug)]
pub struct Tally(u32); // sites, of one row each
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Count(u32); // the request, and its only step: one more in this row
pub struct Draw(Random, Range<u32>);

type Done = Result<(), Abort>;

impl Step for Count {
    const ID: StepId = 1;
    type Output = i64;
    fn route(&self) -> Route {
        Route { table: TALLY, key: self.0.into() }
    }
    async fn run<A: Access>(&self, access: &mut A) -> Result<i64, Abort> {
        let add = |row: &mut txn::RowMut<'_>| (row.int(1), row.set_int(1, row.int(1) + 1)).0;
        access.update(TALLY, &Key::new().i64(self.0.into()), add).await?.ok_or(Abort::BadRequest)
    }
}
impl Generator for Draw {
    type Request = Count;
    fn next(&mut self) -> Count {
        Count(self.0.within(self.1.start.into()..self.1.end.into()) as u32)
    }
}
impl Workload for Tally {
    type Request = Count;
    type Reply = i64;
    type Generator = Draw;
    type Audit = i64;
    fn name(&self) -> String {
        "tally".into()
    }
    fn schema(&self) -> Schema {
        let columns = ["ID", "COUNT"].map(|name| Column::new(name, Type::I64)).to_vec();
        Schema { tables: vec![TableDef::new(TALLY, "TALLY", columns, &[0], self.0.into())] }
    }
    fn sites(&self) -> u32 {
        self.0
    }
    async fn run<T: Transaction>(&self, request: &Count, txn: &mut T) -> Result<i64, Abort> {
        txn.last(*request).await
    }
    async fn run_step<A: Access>(&self, id: StepId, args: &[u8], a: &mut A, out: &mut Vec<u8>) -> Done {
        if id == Count::ID { run_encoded::<Count, A>(args, a, out).await } else { Err(Abort::BadRequest) }
    }
    fn routes(&self, request: &Count, visit: &mut dyn FnMut(Route)) {
        visit(Step::route(request))
    }
    fn kind(&self, _: &Count) -> &'static str {
        "count"
    }
    fn generator(&self, seed: u64, sites: Range<u32>) -> Draw {
        Draw(Random::new(seed), sites)
    }
    fn load_parts(&self, _: SiteId) -> u32 {
        1
    }
    async fn load<A: Access>(&self, site: SiteId, _: u32, access: &mut A) -> Done {
        let mut row = RowBuf::new(&self.schema().tables[0]);
        row.start().set_int(0, site.0.into());
        access.insert(TALLY, &Key::new().i64(site.0.into()), row.bytes()).await.map(drop)
    }
    async fn audit<A: Access>(&self, _: Range<u32>, access: &mut A) -> Result<i64, Abort> {
        let mut sum = 0;
        let each = |_: &[u8], row: txn::Row<'_>| (sum += row.int(1), Flow::More).1;
        access.scan(TALLY, txn::Range::ALL, Direction::Forward, each).await.map(|()| sum)
    }
    fn judge(&self, audits: Vec<i64>, committed: Option<u64>) -> Verdict {
        let found = audits.iter().sum::<i64>() as u64;
        let wrong = committed.filter(|n| *n != found);
        Verdict { violations: wrong.iter().map(|n| format!("counts: expected {n}, found {found}")).collect() }
    }
}
impl Benchmark for Tally {
    const FORMS: &'static [Form] = &[Form { name: "tally", about: "One more in a row" }];
    fn from_spec(spec: &WorkloadSpec) -> Result<Tally, SpecError> {
        Ok(Tally(spec.scale()))
    }
    fn data_name(&self) -> String {
        format!("tally of {} rows", self.0)
    }
    fn row_bytes(&self) -> u64 {
        u64::from(self.0) * 16
    }
}
