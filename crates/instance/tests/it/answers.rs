//! Aborts that a procedure decides on, of transactions over several instances: all rows that it
//! read must have been there at one moment.
//!
//! Two sites have the same rows, and each row has the same value at both sites at any moment, since
//! each transaction changes it at both. A transaction that finds two values for one row has seen a
//! state that never existed, and reports it by an abort. The third site has no rows: a transaction
//! with its home there reads only elsewhere.
//!
//! Half of the rows are claims: a transaction sets its own site's claim if the other site's is not
//! set. Both are never set.

use crate::support::{Deployment, Via, config, private_dir};
use base::{Key, SiteId, TableId};
use exec::DesignKind;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use txn::{
    Abort, Access, Column, Generator, Route, RowBuf, Schema, Step, StepId, TableDef, Transaction, Type,
    Verdict, Workload,
};
use wal::Durability;

const TWINS: TableId = TableId(1);
const SITES: u32 = 3;
/// Rows of a site: first twins, then as many claims.
const ROWS: i64 = 16;
const TWIN_ROWS: i64 = ROWS / 2;

fn table() -> TableDef {
    let columns = ["id", "value"].map(|name| Column::new(name, Type::I64)).into();
    TableDef::new(TWINS, "twins", columns, &[0], (i64::from(SITES) * ROWS) as u64)
}

fn id(site: u32, row: i64) -> i64 {
    i64::from(site) * ROWS + row
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Touch {
    Read(i64),
    Raise(i64),
    Clear(i64),
    /// Aborts if the row has another value.
    Expect(i64, i64),
}

impl Step for Touch {
    const ID: StepId = 1;
    const EFFECT: txn::Effect = txn::Effect::Writes;
    type Output = i64;

    fn route(&self) -> Route {
        let (Touch::Read(id) | Touch::Raise(id) | Touch::Clear(id) | Touch::Expect(id, _)) = self;
        Route { table: TWINS, key: *id as u64 }
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<i64, Abort> {
        let (Touch::Read(id) | Touch::Raise(id) | Touch::Clear(id) | Touch::Expect(id, _)) = self;
        let key = Key::new().i64(*id);
        if let Touch::Raise(_) | Touch::Clear(_) = self {
            let change = |row: &mut txn::RowMut<'_>| {
                let now = if let Touch::Raise(_) = self { row.int(1) + 1 } else { 0 };
                row.set_int(1, now);
                now
            };
            return access.update(TWINS, &key, change).await?.ok_or(Abort::BadRequest);
        }
        let value = access.read(TWINS, &key, |row| row.int(1)).await?.ok_or(Abort::BadRequest)?;
        match self {
            Touch::Expect(_, expected) if value != *expected => Err(Abort::User(1)),
            _ => Ok(value),
        }
    }
}

/// A step that is declared as a read.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct See(i64);

impl Step for See {
    const ID: StepId = 2;
    const EFFECT: txn::Effect = txn::Effect::Reads;
    type Output = i64;

    fn route(&self) -> Route {
        Route { table: TWINS, key: self.0 as u64 }
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<i64, Abort> {
        Touch::Read(self.0).run(access).await
    }
}

/// Steps that are declared as reads, but write, which must work all the same; or that always abort.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Sly {
    Raise(i64),
    Refuse(i64),
}

impl Step for Sly {
    const ID: StepId = 3;
    const EFFECT: txn::Effect = txn::Effect::Reads;
    type Output = i64;

    fn route(&self) -> Route {
        let (Sly::Raise(id) | Sly::Refuse(id)) = self;
        Route { table: TWINS, key: *id as u64 }
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<i64, Abort> {
        match *self {
            Sly::Raise(id) => Touch::Raise(id).run(access).await,
            Sly::Refuse(id) => Touch::Read(id).run(access).await.and(Err(Abort::User(5))),
        }
    }
}

/// One row, at both sites.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Ask {
    Raise(i64),
    /// The same, by a step that is not declared as a write.
    RaiseSlyly(i64),
    /// Would change it at the first site alone, since it ignores the abort at the other.
    Ignore(i64),
    /// Ignores the abort of a step at home.
    Shrug(i64),
    /// Reads at one site, then at the other, and aborts if it finds two values.
    Compare(i64, [u32; 2]),
    /// The same, but the step at the second site compares.
    Tell(i64, [u32; 2]),
    /// Sets the row at this site, unless it is set at the other.
    Claim(i64, u32),
    /// Clears it again.
    Free(i64, u32),
    /// Reads the row at both sites, and aborts if it is set at both.
    Watch(i64),
}

#[derive(Clone)]
struct Twins;

struct Draw(fastrand::Rng, Range<u32>);

impl Generator for Draw {
    type Request = Ask;

    /// Changes have their home at the first site, which asks the second after it: they never wait
    /// for each other in a circle.
    fn next(&mut self) -> Ask {
        let Draw(random, sites) = self;
        let (row, pair) = (random.i64(0..TWIN_ROWS), if random.bool() { [0, 1] } else { [1, 0] });
        match sites.start {
            site @ 0..2 if random.bool() => {
                let row = TWIN_ROWS + row;
                if random.bool() { Ask::Claim(row, site) } else { Ask::Free(row, site) }
            }
            0 => match random.u32(..6) {
                0 => Ask::Ignore(row),
                1 => Ask::RaiseSlyly(row),
                2 => Ask::Shrug(row),
                _ => Ask::Raise(row),
            },
            _ if random.bool() => Ask::Watch(TWIN_ROWS + row),
            _ if random.bool() => Ask::Compare(row, pair),
            _ => Ask::Tell(row, pair),
        }
    }
}

impl Workload for Twins {
    type Request = Ask;
    type Reply = ();
    type Generator = Draw;
    type Audit = Vec<i64>;

    fn name(&self) -> String {
        "twins".into()
    }

    fn schema(&self) -> Schema {
        Schema { tables: vec![table()] }
    }

    fn sites(&self) -> u32 {
        SITES
    }

    async fn run<T: Transaction>(&self, request: &Ask, txn: &mut T) -> Result<(), Abort> {
        match *request {
            Ask::Raise(row) => txn.last((Touch::Raise(id(0, row)), Touch::Raise(id(1, row)))).await.map(drop),
            Ask::RaiseSlyly(row) => {
                txn.last((Touch::Raise(id(0, row)), Sly::Raise(id(1, row)))).await.map(drop)
            }
            Ask::Ignore(row) => {
                let _ = txn.last((Touch::Raise(id(0, row)), Sly::Refuse(id(1, row)))).await;
                Ok(())
            }
            Ask::Shrug(row) => {
                let _ = txn.last(Touch::Expect(id(0, row), -1)).await;
                Ok(())
            }
            Ask::Claim(row, site) => {
                let (theirs, _) = txn.last((See(id(1 - site, row)), Touch::Raise(id(site, row)))).await?;
                if theirs == 0 { Ok(()) } else { Err(Abort::User(3)) }
            }
            Ask::Watch(row) => {
                let (one, two) = txn.last((See(id(0, row)), See(id(1, row)))).await?;
                if one == 0 || two == 0 { Ok(()) } else { Err(Abort::User(4)) }
            }
            Ask::Free(row, site) => txn.last(Touch::Clear(id(site, row))).await.map(drop),
            Ask::Compare(row, [one, two]) => {
                let first = txn.all(Touch::Read(id(one, row))).await?;
                let second = txn.all(Touch::Read(id(two, row))).await?;
                if first == second { Ok(()) } else { Err(Abort::User(2)) }
            }
            Ask::Tell(row, [one, two]) => {
                let value = txn.all(Touch::Read(id(one, row))).await?;
                // A step's abort ends the transaction, even if the procedure ignores it.
                let told = txn.all(Touch::Expect(id(two, row), value)).await;
                if row % 2 == 0 { Ok(()) } else { told.map(drop) }
            }
        }
    }

    async fn run_step<A: Access>(
        &self,
        id: StepId,
        args: &[u8],
        access: &mut A,
        out: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        txn::run_one_of!(id, args, access, out; Touch, See, Sly)
    }

    fn routes(&self, request: &Ask, visit: &mut dyn FnMut(Route)) {
        let mut at = |site, row| visit(Route { table: TWINS, key: id(site, row) as u64 });
        match *request {
            Ask::Raise(row) | Ask::RaiseSlyly(row) | Ask::Ignore(row) | Ask::Watch(row) => {
                [0, 1].into_iter().for_each(|site| at(site, row))
            }
            Ask::Claim(row, site) => [site, 1 - site].into_iter().for_each(|site| at(site, row)),
            Ask::Free(row, site) => at(site, row),
            Ask::Shrug(row) => at(0, row),
            Ask::Compare(row, sites) | Ask::Tell(row, sites) => {
                sites.into_iter().for_each(|site| at(site, row));
            }
        }
    }

    fn kind(&self, request: &Ask) -> &'static str {
        match request {
            Ask::Raise(_) => "raise",
            Ask::RaiseSlyly(_) => "raise_slyly",
            Ask::Ignore(_) => "ignore",
            Ask::Shrug(_) => "shrug",
            Ask::Compare(..) => "compare",
            Ask::Tell(..) => "tell",
            Ask::Claim(..) => "claim",
            Ask::Free(..) => "free",
            Ask::Watch(..) => "watch",
        }
    }

    fn clients(&self) -> txn::Clients {
        txn::Clients::Bound
    }

    fn generator(&self, seed: u64, sites: Range<u32>) -> Draw {
        Draw(fastrand::Rng::with_seed(seed), sites)
    }

    fn load_parts(&self, _: SiteId) -> u32 {
        1
    }

    async fn load<A: Access>(&self, site: SiteId, _: u32, access: &mut A) -> Result<(), Abort> {
        for row in 0..ROWS {
            let (mut buf, id) = (RowBuf::new(&table()), id(site.0, row));
            let mut bytes = buf.start();
            bytes.set_int(0, id);
            bytes.set_int(1, 0);
            access.insert(TWINS, &Key::new().i64(id), buf.bytes()).await?;
        }
        Ok(())
    }

    async fn audit<A: Access>(&self, sites: Range<u32>, access: &mut A) -> Result<Vec<i64>, Abort> {
        let mut found = Vec::new();
        for id in sites.flat_map(|site| (0..ROWS).map(move |row| id(site, row))) {
            found.push(Touch::Read(id).run(access).await?);
        }
        Ok(found)
    }

    fn judge(&self, audits: Vec<Vec<i64>>, _: Option<u64>) -> Verdict {
        let twins = TWIN_ROWS as usize;
        let agree = audits[0][..twins] == audits[1][..twins];
        let apart = audits[0][twins..].iter().zip(&audits[1][twins..]).all(|(one, two)| *one.min(two) == 0);
        Verdict { violations: if agree && apart { Vec::new() } else { vec![format!("{audits:?}")] } }
    }
}

/// Clients once got such aborts before the participants had confirmed them.
#[test]
fn an_abort_over_instances_is_decided_on_what_was_there_at_one_moment() {
    // Lock conflicts are so frequent here that a run may end before each kind of request has been
    // drawn.
    let mut ended = [0; 3];
    for design in [DesignKind::Occ, DesignKind::Conventional] {
        let dir = private_dir();
        let of = |i| config(&Twins, dir.path(), design, Durability::Memory, (i, 3), 1, Via::Ring);
        let deployment = Deployment::start(Twins, (0..3).map(of).collect());
        deployment.load();
        let measured = deployment.run(4, 400);
        eprintln!("{design}: {} committed, aborted {:?}", measured.committed_total(), measured.aborted);
        assert!(measured.committed_total() > 0, "{measured:?}");
        let told = |kind: &str| measured.user_aborted.get(kind).copied().unwrap_or(0);
        assert_eq!(
            [told("compare"), told("tell"), told("watch")],
            [0; 3],
            "{design}: {:?}",
            measured.user_aborted
        );
        let committed = |kind: &str| measured.committed.get(kind).copied().unwrap_or(0);
        for kind in ["ignore", "shrug"] {
            assert_eq!(committed(kind), 0, "{design}: an abort that a procedure made nothing of");
        }
        for (sum, n) in ended.iter_mut().zip([committed("raise_slyly"), told("ignore"), told("shrug")]) {
            *sum += n;
        }
        assert!(!measured.aborted.contains_key("bad_request"), "{design}: {:?}", measured.aborted);
        let verdict = Twins.judge(deployment.audits(), None);
        assert!(verdict.holds(), "{design}: {verdict:?}");
        deployment.stop();
    }
    assert!(ended.iter().all(|n| *n > 0), "{ended:?}");
}
