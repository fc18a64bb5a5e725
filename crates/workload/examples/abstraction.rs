//! The cost of the transaction language: TPC-B as a procedure of steps, and the same deposit
//! written by hand with plain function calls, both on storage that does nothing.
//!
//! ```text
//! cargo run --release -p workload --example abstraction
//! ```
//!
//! Prints nanoseconds per transaction of each form, the median of several rounds in which the forms
//! take turns.

use std::future::Future;
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use txn::step::run_encoded;
use txn::{Abort, Generator, Workload};
use workload::null::{NullStorage, NullTransaction};
use workload::tpcb::{
    ACCOUNT, BRANCH, HISTORY, HomePart, TELLER, Tpcb, TpcbOptions, TpcbReply, TpcbRequest, history_row,
};

/// The balance column in all three tables.
const BALANCE: u16 = 2;

fn main() {
    let setup = Setup::new(4_096);
    let rounds = 31;
    let per_round = 200_000;
    let [by_hand, steps, boxed, encoded] = setup.measure(rounds, per_round);
    println!(
        "ns per TPC-B transaction on storage that does nothing (median of {rounds} rounds of {per_round})"
    );
    println!("  by hand                         {by_hand:7.1}");
    println!("  procedure and steps             {steps:7.1}   {:+.1}", steps - by_hand);
    println!("  the same, its future on the heap{boxed:7.1}   {:+.1}", boxed - by_hand);
    println!("  home step through its bytes     {encoded:7.1}   {:+.1}", encoded - by_hand);
    println!("bytes of the transaction's future {:5}", setup.future_bytes());
}

/// The deposit without the language.
pub fn by_hand(storage: &mut NullStorage, r: &TpcbRequest) -> Result<TpcbReply, Abort> {
    fn add(storage: &mut NullStorage, table: base::TableId, id: u64, delta: i64) -> Result<i64, Abort> {
        let balance = storage.update(table, &base::Key::new().i64(id as i64), |row| {
            let balance = row.int(BALANCE).wrapping_add(delta);
            row.set_int(BALANCE, balance);
            balance
        });
        balance.ok_or(Abort::BadRequest)
    }
    let account_balance = add(storage, ACCOUNT, r.account, r.delta)?;
    storage.append(HISTORY, &history_row(r));
    add(storage, TELLER, r.teller, r.delta)?;
    add(storage, BRANCH, u64::from(r.branch), r.delta)?;
    Ok(TpcbReply { account_balance })
}

fn ready<F: Future>(future: Pin<&mut F>) -> F::Output {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("the storage never waits"),
    }
}

/// The procedure, polled in place.
pub fn by_steps(tpcb: &Tpcb, storage: &mut NullStorage, r: &TpcbRequest) -> Result<TpcbReply, Abort> {
    ready(pin!(tpcb.run(r, &mut NullTransaction(storage))))
}

/// The procedure on the heap, as an engine keeps it if it may have to park it.
pub fn by_boxed_steps(tpcb: &Tpcb, storage: &mut NullStorage, r: &TpcbRequest) -> Result<TpcbReply, Abort> {
    ready(Box::pin(tpcb.run(r, &mut NullTransaction(storage))).as_mut())
}

/// The home step as another instance runs it: decoded, run, its output encoded.
pub fn by_bytes(storage: &mut NullStorage, r: &TpcbRequest, buffers: &mut [Vec<u8>; 2]) -> Result<(), Abort> {
    let [args, out] = buffers;
    args.clear();
    out.clear();
    txn::Steps::encode(&HomePart { request: *r, remote: None }, 0, args);
    ready(pin!(run_encoded::<HomePart, _>(args, storage, out)))
}

pub struct Setup {
    tpcb: Tpcb,
    requests: Vec<TpcbRequest>,
}

impl Setup {
    /// Local deposits only, the most common transaction in every deployment.
    pub fn new(requests: usize) -> Setup {
        let tpcb =
            Tpcb::new(TpcbOptions { multisite: 0.0, ..TpcbOptions::new(4) }).expect("options in range");
        let mut generator = tpcb.generator(1, 0..4);
        Setup { requests: (0..requests).map(|_| generator.next()).collect(), tpcb }
    }

    pub fn storage(&self) -> NullStorage {
        NullStorage::new(&self.tpcb.schema())
    }

    pub fn tpcb(&self) -> &Tpcb {
        &self.tpcb
    }

    pub fn requests(&self) -> &[TpcbRequest] {
        &self.requests
    }

    pub fn future_bytes(&self) -> usize {
        let mut storage = self.storage();
        let mut txn = NullTransaction(&mut storage);
        size_of_val(&self.tpcb.run(&self.requests[0], &mut txn))
    }

    /// Median nanoseconds per transaction: by hand, by steps, by steps on the heap, the home step
    /// by bytes.
    pub fn measure(&self, rounds: usize, per_round: usize) -> [f64; 4] {
        let mut storage = self.storage();
        let mut buffers = [vec![], vec![]];
        let mut times = [const { Vec::new() }; 4];
        for _ in 0..rounds {
            times[0].push(self.time(per_round, |r| by_hand(&mut storage, r)));
            times[1].push(self.time(per_round, |r| by_steps(&self.tpcb, &mut storage, r)));
            times[2].push(self.time(per_round, |r| by_boxed_steps(&self.tpcb, &mut storage, r)));
            times[3].push(self.time(per_round, |r| by_bytes(&mut storage, r, &mut buffers)));
        }
        times.map(|mut t: Vec<f64>| {
            t.sort_by(f64::total_cmp);
            t[t.len() / 2]
        })
    }

    fn time<R>(&self, transactions: usize, mut run: impl FnMut(&TpcbRequest) -> R) -> f64 {
        let start = Instant::now();
        for i in 0..transactions {
            black_box(run(black_box(&self.requests[i % self.requests.len()])));
        }
        start.elapsed().as_nanos() as f64 / transactions as f64
    }
}
