//! The server's functions return what the workload's own procedures return.

use peers::brokerage::functions::{self, Asked};
use peers::brokerage::{COMPARED, Loaded};
use txn::{Generator, Workload};
use workload::oracle::Oracle;
use workload::tpce::{Mix, Tpce, TpceOptions, TpceReply};

#[test]
fn the_server_returns_what_the_procedures_return() {
    let options =
        TpceOptions { unit: 200, sf: 5_000, market_days: 300, news_bytes: 300, ..TpceOptions::new(1) };
    let dir = tempfile::tempdir().unwrap();
    let served = match Loaded::load(&options, dir.path()) {
        Ok(served) => served,
        Err(why) => return assert!(why.to_string().contains("not installed"), "{why}"),
    };
    let mut client = served.connect().unwrap();
    let calls = functions::prepare(&mut client).unwrap();
    for (card, name) in COMPARED {
        let tpce = Tpce::new(TpceOptions { mix: Mix::Only(card), ..options.clone() }).unwrap();
        let mut oracle = Oracle::new(tpce.clone(), 1);
        oracle.load().unwrap();
        let mut requests = tpce.generator(1, 0..tpce.sites());
        for _ in 0..200 {
            let request = requests.next();
            let rows = functions::call(&mut client, &calls, &Asked::of(&request).unwrap()).unwrap();
            match oracle.submit(&request).unwrap() {
                TpceReply::TradeStatus(reply) => {
                    let found: Vec<(i64, i64, String, String, String)> = rows
                        .iter()
                        .map(|row| (row.get(0), row.get(1), row.get(2), row.get(8), row.get(12)))
                        .collect();
                    let of = |t: &workload::tpce::StatusRow| {
                        (t.t, t.dts, t.status.clone(), t.security_name.clone(), reply.broker.clone())
                    };
                    assert_eq!(found, reply.trades.iter().map(of).collect::<Vec<_>>(), "{request:?}");
                }
                TpceReply::CustomerPosition(reply) => {
                    let found: Vec<(i64, i64, i64)> =
                        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
                    let (accounts, history) = found.split_at(reply.accounts.len());
                    assert_eq!(accounts, reply.accounts, "{request:?}");
                    let of = |row: &workload::tpce::HistoryRow| (row.t, row.dts, row.quantity);
                    assert_eq!(history, reply.history.iter().map(of).collect::<Vec<_>>(), "{request:?}");
                }
                TpceReply::MarketWatch(reply) => {
                    let found: (i64, i64, i64) = (rows[0].get(0), rows[0].get(1), rows[0].get(2));
                    let securities = reply.securities as i64;
                    assert_eq!(found, (securities, reply.then, reply.now), "{request:?}");
                }
                reply => panic!("{name}: {reply:?}"),
            }
        }
    }
}
