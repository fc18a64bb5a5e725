//! The consistency condition: every row is at its site, and whole.

use super::steps::check;
use super::{CHECK, COUNTER, ID, Replay, id_of};
use crate::findings::{Findings, check_cover};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use txn::workload::{Verdict, Workload};
use txn::{Abort, Access, Direction, Flow};

/// The findings of one instance.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReplayAudit {
    pub sites: Range<u32>,
    /// Rows of each table.
    pub rows: Vec<u64>,
    /// Rows that are foreign or torn, one per line.
    pub damage: Vec<String>,
}

pub(super) async fn audit<A: Access>(
    replay: &Replay,
    sites: Range<u32>,
    access: &mut A,
) -> Result<ReplayAudit, Abort> {
    let (mut rows, mut damage) = (vec![0; replay.tables()], Findings::default());
    for (table, span) in replay.of.spans.iter().enumerate() {
        let own =
            if span.is_replicated { 0..span.space() } else { span.first(sites.start)..span.first(sites.end) };
        let visit = |_: &[u8], row: txn::Row<'_>| {
            let (id, counter) = (row.int(ID) as u64, row.int(COUNTER));
            if !own.contains(&id) {
                damage.add(|| format!("table {}: row {id} is not of sites {sites:?}", table + 1));
            }
            if row.int(CHECK) != check(id, counter) {
                damage.add(|| format!("table {}: row {id} with counter {counter} is torn", table + 1));
            }
            rows[table] += 1;
            Flow::More
        };
        access.scan(id_of(table), txn::Range::ALL, Direction::Forward, visit).await?;
    }
    Ok(ReplayAudit { sites, rows, damage: damage.into_lines() })
}

pub(super) fn judge(replay: &Replay, audits: &[ReplayAudit]) -> Verdict {
    let mut findings = Findings::default();
    check_cover(audits.iter().map(|audit| audit.sites.clone()), replay.sites(), &mut findings);
    audits.iter().flat_map(|audit| &audit.damage).for_each(|line| findings.add(|| line.clone()));
    let copies = replay.of.spans.iter().enumerate().filter(|(_, span)| span.is_replicated);
    for (table, span) in copies {
        for audit in audits {
            let found = audit.rows.get(table).copied().unwrap_or(0);
            findings.expect(&format!("table {}: rows of a copy", table + 1), span.rows, found);
        }
    }
    findings.into_verdict()
}
