//! The consistency conditions: every row exists exactly once and is undamaged, and the sum of the
//! counters equals the number of committed updates.
//!
//! Every updating transaction adds exactly N. So even when the number of commits is not known, the
//! sum must be a multiple of N: a transaction that was applied at one instance and lost at another
//! shows.

use super::{COUNTER, ID, MICRO, MicroOptions, Op, PAYLOAD, payload};
use crate::findings::{Findings, check_cover};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use txn::workload::Verdict;
use txn::{Abort, Access, Direction, Flow};

/// The findings of one instance.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MicroAudit {
    pub sites: Range<u32>,
    /// The sum of all counters.
    pub counters: i64,
    /// Rows that are missing, foreign or damaged, one per line.
    pub damage: Vec<String>,
}

pub(super) async fn audit<A: Access>(
    rows: Range<u64>,
    sites: Range<u32>,
    access: &mut A,
) -> Result<MicroAudit, Abort> {
    let (mut counters, mut next, mut damage) = (0i64, rows.start, Findings::default());
    access
        .scan(MICRO, txn::Range::ALL, Direction::Forward, |_, row| {
            let id = row.int(ID) as u64;
            if id != next {
                damage.add(|| format!("micro rows: expected id {next}, found {id}"));
            }
            if row.bytes(PAYLOAD) != payload(id) {
                damage
                    .add(|| format!("micro rows: the payload of row {id} is not the one it was loaded with"));
            }
            counters = counters.wrapping_add(row.int(COUNTER));
            next = id.wrapping_add(1);
            Flow::More
        })
        .await?;
    damage.expect("micro rows: end of the ids", rows.end, next);
    Ok(MicroAudit { sites, counters, damage: damage.into_lines() })
}

pub(super) fn judge(options: &MicroOptions, audits: &[MicroAudit], committed: Option<u64>) -> Verdict {
    let mut findings = Findings::default();
    check_cover(audits.iter().map(|a| a.sites.clone()), options.sites, &mut findings);
    audits.iter().flat_map(|a| &a.damage).for_each(|line| findings.add(|| line.clone()));
    let total: i128 = audits.iter().map(|a| i128::from(a.counters)).sum();
    let each = match options.op {
        Op::Read => 0,
        Op::Update => i128::from(options.rows),
        Op::Mixed => 1,
    };
    if let Some(n) = committed {
        findings.expect("micro counters: sum", each * i128::from(n), total);
    } else if each == 0 {
        findings.expect("micro counters: sum without updates", 0, total);
    } else if total % each != 0 {
        findings.add(|| format!("micro counters: expected a multiple of {each}, found {total}"));
    }
    findings.into_verdict()
}
