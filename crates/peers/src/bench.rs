//! The workloads of a comparison, with their sizes.

use crate::fault::PeerFault;
use crate::peer::Intent;
use txn::Workload;
use workload::micro::{Micro, MicroOptions, MicroRequest, Op};
use workload::tpcb::{Tpcb, TpcbOptions, TpcbRequest};

/// A workload that a contestant is loaded with. It is run in a reading or in an updating form.
pub trait Bench: Clone + Send + Sync + 'static {
    type W: Workload;

    /// # Errors
    /// An option is out of its range.
    fn workload(&self, op: Op) -> Result<Self::W, PeerFault>;
    fn intent(&self, op: Op) -> Intent;
}

/// `micro`: transactions that read or update a number of rows, all of the home site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Table {
    /// Rows of the table.
    pub dataset: u64,
    /// Rows per transaction.
    pub rows: u32,
    /// Logical sites: the maximum number of instances.
    pub sites: u32,
}

impl Bench for Table {
    type W = Micro;

    fn workload(&self, op: Op) -> Result<Micro, PeerFault> {
        Ok(Micro::new(MicroOptions {
            dataset: self.dataset,
            rows: self.rows,
            op,
            ..MicroOptions::new(self.sites)
        })?)
    }

    fn intent(&self, op: Op) -> Intent {
        match op {
            Op::Read => Intent::Reads,
            Op::Update | Op::Mixed => Intent::Writes,
        }
    }
}

/// `tpcb`: the deposit of the specification. It has no reading form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bank {
    pub branches: u32,
    /// Accounts per branch.
    pub accounts: u32,
}

impl Bench for Bank {
    type W = Tpcb;

    fn workload(&self, _: Op) -> Result<Tpcb, PeerFault> {
        Ok(Tpcb::new(TpcbOptions { accounts: self.accounts, ..TpcbOptions::new(self.branches) })?)
    }

    fn intent(&self, _: Op) -> Intent {
        Intent::Writes
    }
}

/// The same benchmark inside a database server. Only these transactions are written twice, because
/// a server runs its own language. The functions `run_read` and `run_update` take the numbers of a
/// request.
pub trait Served: Bench {
    /// Statements that create and fill the tables, and create the functions.
    fn setup(&self) -> Vec<String>;
    fn numbers(&self, request: &<Self::W as Workload>::Request) -> Vec<i64>;
    /// A query with two results: the number of committed update transactions, and the number of
    /// violated consistency rules.
    fn check(&self) -> String;
}

fn function(name: &str, declare: &str, body: &str) -> String {
    format!(
        "CREATE FUNCTION {name}(n bigint[]) RETURNS bigint LANGUAGE plpgsql AS $$ \
         DECLARE sum bigint := 0; {declare} BEGIN {body} RETURN sum; END $$"
    )
}

impl Served for Table {
    fn setup(&self) -> Vec<String> {
        let (rows, payload) = (self.dataset, workload::micro::PAYLOAD_BYTES);
        let each = |body: &str| format!("FOREACH i IN ARRAY n LOOP {body} END LOOP;");
        let one = "i bigint; one bigint;";
        vec![
            "CREATE TABLE micro (id bigint PRIMARY KEY, counter bigint NOT NULL, payload char(216) NOT NULL) \
             WITH (fillfactor = 50)"
                .into(),
            format!(
                "INSERT INTO micro SELECT g, 0, repeat('x', {payload}) FROM generate_series(0, {rows} - 1) g"
            ),
            function(
                "run_read",
                one,
                &each("SELECT counter INTO STRICT one FROM micro WHERE id = i; sum := sum + one;"),
            ),
            function(
                "run_update",
                one,
                &each(
                    "UPDATE micro SET counter = counter + 1 WHERE id = i RETURNING counter INTO STRICT one; \
                     sum := sum + one;",
                ),
            ),
        ]
    }

    fn numbers(&self, request: &MicroRequest) -> Vec<i64> {
        request.ids.iter().map(|&id| id as i64).collect()
    }

    fn check(&self) -> String {
        let Table { dataset, rows, .. } = self;
        format!(
            "SELECT (sum(counter) / {rows})::bigint, \
             (CASE WHEN count(*) = {dataset} AND mod(sum(counter), {rows}) = 0 THEN 0 ELSE 1 END)::bigint FROM micro"
        )
    }
}

impl Served for Bank {
    fn setup(&self) -> Vec<String> {
        let branches = self.branches;
        let mut all: Vec<String> = Vec::new();
        for (table, each) in [("branch", 1), ("teller", 10), ("account", self.accounts)] {
            all.push(format!(
                "CREATE TABLE {table} (id bigint PRIMARY KEY, home bigint NOT NULL, balance bigint NOT NULL, \
                 filler char(76) NOT NULL) WITH (fillfactor = 50)"
            ));
            all.push(format!(
                "INSERT INTO {table} SELECT g, g / {each}, 0, '' FROM generate_series(0, {branches}::bigint * {each} - 1) g"
            ));
        }
        all.push("CREATE TABLE history (account bigint, teller bigint, branch bigint, delta bigint, filler char(18))".into());
        let body = "UPDATE account SET balance = balance + n[4] WHERE id = n[3] RETURNING balance INTO STRICT sum; \
                    INSERT INTO history VALUES (n[3], n[2], n[1], n[4], ''); \
                    UPDATE teller SET balance = balance + n[4] WHERE id = n[2]; \
                    UPDATE branch SET balance = balance + n[4] WHERE id = n[1];";
        all.push(function("run_read", "", body));
        all.push(function("run_update", "", body));
        all
    }

    fn numbers(&self, r: &TpcbRequest) -> Vec<i64> {
        vec![i64::from(r.branch), r.teller as i64, r.account as i64, r.delta]
    }

    fn check(&self) -> String {
        let sum = |table: &str| format!("(SELECT sum(balance) FROM {table})");
        let history = "(SELECT coalesce(sum(delta), 0) FROM history)";
        format!(
            "SELECT (SELECT count(*) FROM history), (({} <> {history})::int + ({} <> {history})::int + ({} <> {history})::int)::bigint",
            sum("branch"),
            sum("teller"),
            sum("account")
        )
    }
}
