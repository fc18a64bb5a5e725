//! A workload of any kind as one type, and what belongs to it: requests, replies, streams, audits.
//!
//! An engine is compiled once for each type of workload that it runs. For [`AnyWorkload`] it is
//! compiled once in all; each request then finds its own procedure by its kind:
//!
//! ```text
//!   AnyRequest::Tpcb(r)  --run-->  AnyWorkload::Tpcb(w)  --w.run(r)-->  AnyReply::Tpcb
//! ```
//!
//! The procedures themselves are compiled into the engine as ever: nothing is called through a
//! table. A request of another kind than the workload comes from no generator, but may come over a
//! link: it ends with [`Abort::BadRequest`].

use crate::benchmark::{Benchmark, Counted, Labels, Statistics, Terminals};
use crate::recording::{self, Noting};
use base::{SiteId, TableId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use txn::erased::{AnyAccess, AnyTransaction, ErasedAccess, ErasedTransaction, Local};
use txn::step::{decode, encode};
use txn::workload::{Clients, Pauses};
use txn::{Abort, Access, Generator, Route, Schema, StepId, Transaction, Verdict, Workload};

/// The kind under which a request that does not fit the workload is counted.
pub(crate) const FOREIGN: &str = "foreign";

/// Declares [`AnyWorkload`] and its kin from the list of workloads.
macro_rules! any_workload {
    ($($kind:ident: $ty:ty),+ $(,)?) => {
        /// A workload of any kind, ready to run.
        #[derive(Clone, Debug)]
        pub enum AnyWorkload { $($kind($ty)),+ }

        /// A request of a workload of any kind.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        pub enum AnyRequest { $($kind(<$ty as Workload>::Request)),+ }

        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        pub enum AnyReply { $($kind(<$ty as Workload>::Reply)),+ }

        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        pub enum AnyAudit { $($kind(<$ty as Workload>::Audit)),+ }

        /// A stream of requests of a workload of any kind.
        pub enum AnyGenerator { $($kind(<$ty as Workload>::Generator)),+ }

        /// Evaluates an expression on the workload itself.
        macro_rules! each {
            ($any:expr, $w:ident => $call:expr) => {
                match $any { $(AnyWorkload::$kind($w) => $call),+ }
            };
        }

        /// As `each!`, with the request of the same kind; `$other` for a request of another kind.
        macro_rules! pair {
            ($any:expr, $request:expr, ($w:ident, $r:ident) => $call:expr, $other:expr) => {
                match ($any, $request) {
                    $((AnyWorkload::$kind($w), AnyRequest::$kind($r)) => $call,)+
                    _ => $other,
                }
            };
        }

        $(impl From<$ty> for AnyWorkload {
            fn from(workload: $ty) -> AnyWorkload {
                AnyWorkload::$kind(workload)
            }
        })+

        impl Generator for AnyGenerator {
            type Request = AnyRequest;

            #[inline]
            fn next(&mut self) -> AnyRequest {
                match self { $(AnyGenerator::$kind(g) => AnyRequest::$kind(g.next())),+ }
            }

            #[inline]
            fn next_at(&mut self, site: u32, number: u32) -> AnyRequest {
                match self { $(AnyGenerator::$kind(g) => AnyRequest::$kind(g.next_at(site, number))),+ }
            }
        }

        impl AnyWorkload {
            /// Its terminals with human users, if its definition has any.
            pub fn terminals(&self) -> Option<&'static Terminals> {
                match self { $(AnyWorkload::$kind(_) => const { <$ty as Benchmark>::TERMINALS.as_ref() }),+ }
            }

            async fn carry_out<T: Transaction>(
                &self,
                request: &AnyRequest,
                txn: &mut T,
            ) -> Result<AnyReply, Abort> {
                match (self, request) {
                    $((AnyWorkload::$kind(w), AnyRequest::$kind(r)) => {
                        pin!(w.run(r, txn)).await.map(AnyReply::$kind)
                    })+
                    _ => Err(Abort::BadRequest),
                }
            }

            /// See [`Benchmark::for_any_mix`].
            #[must_use]
            pub fn for_any_mix(&self) -> AnyWorkload {
                match self { $(AnyWorkload::$kind(w) => AnyWorkload::$kind(w.for_any_mix())),+ }
            }
        }

        impl Workload for AnyWorkload {
            type Request = AnyRequest;
            type Reply = AnyReply;
            type Generator = AnyGenerator;
            type Audit = AnyAudit;

            fn name(&self) -> String {
                each!(self, w => w.name())
            }

            fn schema(&self) -> Schema {
                each!(self, w => w.schema())
            }

            fn sites(&self) -> u32 {
                each!(self, w => w.sites())
            }

            #[inline]
            async fn run<T: Transaction>(&self, request: &AnyRequest, txn: &mut T) -> Result<AnyReply, Abort> {
                if recording::is_on() {
                    return self.run_noted(request, txn).await;
                }
                pin!(self.carry_out(request, txn)).await
            }

            async fn run_step<A: Access>(
                &self,
                id: StepId,
                args: &[u8],
                access: &mut A,
                out: &mut Vec<u8>,
            ) -> Result<(), Abort> {
                each!(self, w => pin!(w.run_step(id, args, access, out)).await)
            }

            fn routes(&self, request: &AnyRequest, visit: &mut dyn FnMut(Route)) {
                pair!(self, request, (w, r) => w.routes(r, visit), ())
            }

            #[inline]
            fn wants(&self, request: &AnyRequest, visit: &mut impl FnMut(TableId, &[u8])) {
                pair!(self, request, (w, r) => w.wants(r, visit), ())
            }

            fn only_reads(&self, request: &AnyRequest) -> bool {
                pair!(self, request, (w, r) => w.only_reads(r), false)
            }

            fn converses(&self, request: &AnyRequest) -> bool {
                pair!(self, request, (w, r) => w.converses(r), false)
            }

            fn kind(&self, request: &AnyRequest) -> &'static str {
                pair!(self, request, (w, r) => w.kind(r), FOREIGN)
            }

            #[inline]
            fn observe(
                &self,
                request: &AnyRequest,
                reply: Option<&AnyReply>,
                add: &mut dyn FnMut(&'static str, u64),
            ) {
                match (self, request, reply) {
                    $((AnyWorkload::$kind(w), AnyRequest::$kind(r), Some(AnyReply::$kind(reply))) => {
                        w.observe(r, Some(reply), add)
                    }
                    (AnyWorkload::$kind(w), AnyRequest::$kind(r), None) => w.observe(r, None, add),)+
                    _ => {}
                }
            }

            #[inline]
            fn committed(&self, request: &AnyRequest, reply: &AnyReply) {
                match (self, request, reply) {
                    $((AnyWorkload::$kind(w), AnyRequest::$kind(r), AnyReply::$kind(reply)) => {
                        w.committed(r, reply)
                    })+
                    _ => {}
                }
            }

            #[inline(never)]
            fn encode_request(request: &AnyRequest, out: &mut Vec<u8>) {
                encode(request, out);
            }

            #[inline(never)]
            fn decode_request(bytes: &[u8]) -> Result<AnyRequest, Abort> {
                decode(bytes)
            }

            #[inline(never)]
            fn encode_reply(reply: &AnyReply, out: &mut Vec<u8>) {
                encode(reply, out);
            }

            #[inline(never)]
            fn decode_reply(bytes: &[u8]) -> Result<AnyReply, Abort> {
                decode(bytes)
            }

            fn clients(&self) -> Clients {
                each!(self, w => w.clients())
            }

            fn pauses(&self, request: &AnyRequest) -> Option<Pauses> {
                pair!(self, request, (w, r) => w.pauses(r), None)
            }

            fn generator(&self, seed: u64, sites: Range<u32>) -> AnyGenerator {
                match self { $(AnyWorkload::$kind(w) => AnyGenerator::$kind(w.generator(seed, sites))),+ }
            }

            fn load_parts(&self, site: SiteId) -> u32 {
                each!(self, w => w.load_parts(site))
            }

            fn lock_columns(&self, table: TableId) -> u8 {
                each!(self, w => w.lock_columns(table))
            }

            async fn load<A: Access>(&self, site: SiteId, part: u32, access: &mut A) -> Result<(), Abort> {
                self.load_erased(site, part, access).await
            }

            async fn load_replicated<A: Access>(&self, access: &mut A) -> Result<(), Abort> {
                self.load_replicated_erased(access).await
            }

            async fn audit<A: Access>(&self, sites: Range<u32>, access: &mut A) -> Result<AnyAudit, Abort> {
                self.audit_erased(sites, access).await
            }

            fn judge(&self, audits: Vec<AnyAudit>, committed: Option<u64>) -> Verdict {
                match self {
                    $(AnyWorkload::$kind(w) => {
                        let own = |audit| match audit { AnyAudit::$kind(own) => Some(own), _ => None };
                        match audits.into_iter().map(own).collect() {
                            Some(own) => w.judge(own, committed),
                            None => strange(),
                        }
                    })+
                }
            }

            fn ledger_id(&self, request: &AnyRequest) -> Option<u64> {
                pair!(self, request, (w, r) => w.ledger_id(r), None)
            }

            fn judge_ledger(&self, audits: &[AnyAudit], acknowledged: &[u64], unknown: &[u64]) -> Verdict {
                match self {
                    $(AnyWorkload::$kind(w) => {
                        let own = |audit: &AnyAudit| match audit {
                            AnyAudit::$kind(own) => Some(own.clone()),
                            _ => None,
                        };
                        match audits.iter().map(own).collect::<Option<Vec<_>>>() {
                            Some(own) => w.judge_ledger(&own, acknowledged, unknown),
                            None => strange(),
                        }
                    })+
                }
            }
        }

        /// Loading and auditing, compiled once: a pointer to the access costs little beside a scan.
        impl AnyWorkload {
            fn load_erased<'a>(
                &'a self,
                site: SiteId,
                part: u32,
                access: &'a mut dyn AnyAccess,
            ) -> Local<'a, Result<(), Abort>> {
                Box::pin(async move {
                    let access = &mut ErasedAccess(access);
                    each!(self, w => pin!(w.load(site, part, access)).await)
                })
            }

            fn load_replicated_erased<'a>(
                &'a self,
                access: &'a mut dyn AnyAccess,
            ) -> Local<'a, Result<(), Abort>> {
                Box::pin(async move {
                    let access = &mut ErasedAccess(access);
                    each!(self, w => pin!(w.load_replicated(access)).await)
                })
            }

            fn audit_erased<'a>(
                &'a self,
                sites: Range<u32>,
                access: &'a mut dyn AnyAccess,
            ) -> Local<'a, Result<AnyAudit, Abort>> {
                Box::pin(async move {
                    let access = &mut ErasedAccess(access);
                    match self {
                        $(AnyWorkload::$kind(w) => pin!(w.audit(sites, access)).await.map(AnyAudit::$kind)),+
                    }
                })
            }
        }

        impl AnyWorkload {
            /// As `carry_out`, with a note of the transaction. It is compiled here, not once for
            /// each engine.
            fn run_noted<'a>(
                &'a self,
                request: &'a AnyRequest,
                txn: &'a mut dyn AnyTransaction,
            ) -> Local<'a, Result<AnyReply, Abort>> {
                Box::pin(async move {
                    let Some(note) = recording::note(self, request) else {
                        return self.carry_out(request, &mut ErasedTransaction(txn)).await;
                    };
                    let reply = self.carry_out(request, &mut Noting::new(txn, Rc::clone(&note))).await?;
                    recording::keep(note);
                    Ok(reply)
                })
            }
        }

        /// As in [`Benchmark`].
        impl AnyWorkload {
            pub fn labels(&self) -> Labels {
                each!(self, w => w.labels())
            }

            pub fn data_name(&self) -> String {
                each!(self, w => w.data_name())
            }

            pub fn row_bytes(&self) -> u64 {
                each!(self, w => w.row_bytes())
            }

            pub fn site_group(&self) -> u32 {
                each!(self, w => w.site_group())
            }

            pub fn growth_bytes(&self) -> u64 {
                each!(self, w => w.growth_bytes())
            }

            pub fn effects(&self, committed: &BTreeMap<String, u64>) -> Option<u64> {
                each!(self, w => w.effects(committed))
            }

            pub fn statistics(&self, counted: Counted<'_>) -> Statistics {
                each!(self, w => w.statistics(counted))
            }
        }
    };
}

/// The verdict on audits of another workload.
fn strange() -> Verdict {
    Verdict { violations: vec!["the audits: expected those of this workload, found another's".into()] }
}

crate::spec::workloads!(any_workload);
