//! Programs of SQL on the naive model, in several numbers of instances.

use sql::catalog::{Slots, Store};
use sql::database::{Answer, Call, Command, Request};
use sql::expression::{BinaryOp, Expr};
use sql::program::*;
use sql::{Database, Datum, SqlState, SqlType};
use std::sync::{Arc, OnceLock};
use workload::oracle::{Oracle, at_once};

const SLOTS: u32 = 8;

fn database() -> Database {
    Database { sites: SLOTS, stores: 8 }
}

/// `accounts (id int primary key, branch int, balance int)`, with an index on `branch`, and a
/// unique one on (`branch`, `balance`).
fn accounts() -> Arc<Stored> {
    let column = |name: &str| StoredColumn {
        name: name.into(),
        ty: SqlType::Int4,
        nullable: name == "branch",
        missing: Datum::Null,
        dropped: false,
    };
    let index = |name: &str, store, columns: &[u16], unique| StoredIndex {
        name: name.into(),
        store: Store(store),
        columns: columns.into(),
        unique,
        slots: Slots::Runs { position: 0, run: 1 },
    };
    Arc::new(Stored {
        name: "accounts".into(),
        store: Store(1),
        columns: ["id", "branch", "balance"].map(column).into(),
        key: vec![0],
        key_name: "accounts_pkey".into(),
        slots: Slots::Runs { position: 0, run: 4 },
        indexes: vec![index("by_branch", 2, &[1], false), index("once", 3, &[1, 2], true)],
        layout: OnceLock::new(),
    })
}

fn int(value: i64) -> Expr {
    Expr::Const(Datum::Int(value))
}

fn outputs(columns: &[u16]) -> Vec<Output> {
    let output = |&c: &u16| Output { name: format!("c{c}"), expr: Expr::Column(c), ty: SqlType::Int4 };
    columns.iter().map(output).collect()
}

fn select(path: Path, lock: RowLock) -> Select {
    let source = Source { table: accounts(), path, filter: None, lock };
    Select {
        sources: vec![Joined { source, is_outer: false }],
        grouping: None,
        having: None,
        output: outputs(&[0, 1, 2]),
        distinct: false,
        order: Vec::new(),
        is_ordered: true,
        limit: None,
        offset: None,
        hidden: 0,
    }
}

fn range(index: Option<u16>, equal: Vec<Expr>, low: Option<i64>, high: Option<i64>, order: Order) -> Path {
    let end = |value: Option<i64>| value.map(|value| (int(value), true));
    let ranges = vec![KeyRange { equal, low: end(low), high: end(high) }];
    Path::Ranges { index, ranges, direction: Some(order) }
}

fn insert(rows: &[(i64, i64, i64)]) -> Statement {
    let row = |&(id, branch, balance): &(i64, i64, i64)| vec![int(id), int(branch), int(balance)];
    Statement::Insert(Insert {
        table: accounts(),
        rows: InsertRows::Values(rows.iter().map(row).collect()),
        checks: Vec::new(),
        references: Vec::new(),
        conflict: None,
        returning: Vec::new(),
    })
}

fn set(id: i64, column: u16, value: Expr) -> Statement {
    let source = Source {
        table: accounts(),
        path: Path::Keys(vec![vec![int(id)]]),
        filter: None,
        lock: RowLock::Update,
    };
    Statement::Update(Update {
        source,
        from: Vec::new(),
        set: vec![Assignment { column, value }].into(),
        checks: Vec::new().into(),
        references: Vec::new(),
        returning: outputs(&[0, 1, 2]),
    })
}

fn delete(path: Path) -> Statement {
    let source = Source { table: accounts(), path, filter: None, lock: RowLock::Update };
    Statement::Delete(Delete { source, from: Vec::new(), references: Vec::new(), returning: Vec::new() })
}

fn call(statements: Vec<Statement>) -> Call {
    let program = Arc::new(Program { statements, params: Vec::new(), only_reads: false, flow: None });
    Call { program, bound: Arc::default(), statement: 1 }
}

struct Bench(Oracle<Database>);

impl Bench {
    fn new(instances: u16) -> Bench {
        let mut oracle = Oracle::new(database(), instances);
        oracle.load().unwrap();
        Bench(oracle)
    }

    fn run(&mut self, statement: Statement) -> Result<Outcome, sql::SqlError> {
        match self.0.submit(&Request::Once(call(vec![statement]))).unwrap() {
            Answer::Outcomes(mut outcomes) => Ok(outcomes.remove(0)),
            Answer::Failed(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    fn rows(&mut self, path: Path) -> Vec<(i64, i64, i64)> {
        let outcome = self.run(Statement::Select(select(path, RowLock::None))).unwrap();
        let number = |datum: &Datum| match datum {
            Datum::Int(value) => *value,
            other => panic!("{other:?}"),
        };
        outcome.rows.iter().map(|row| (number(&row[0]), number(&row[1]), number(&row[2]))).collect()
    }

    fn all(&mut self) -> Vec<(i64, i64, i64)> {
        let mut rows = self.rows(Path::All);
        rows.sort_unstable();
        rows
    }
}

/// Forty accounts of five branches.
fn loaded(instances: u16) -> Bench {
    let mut bench = Bench::new(instances);
    let rows: Vec<_> = (0..40).map(|id| (id, id % 5, 1000 + id)).collect();
    assert_eq!(bench.run(insert(&rows)).unwrap().count, 40);
    bench
}

#[test]
fn rows_are_found_by_key_range_and_index_in_order() {
    for instances in [1, 2, 4] {
        let mut bench = loaded(instances);
        assert_eq!(bench.all().len(), 40);
        assert_eq!(
            bench.rows(Path::Keys(vec![vec![int(7)], vec![int(99)], vec![int(31)], vec![int(7)]])),
            [(7, 2, 1007), (31, 1, 1031)]
        );
        let ids = |rows: Vec<(i64, i64, i64)>| rows.into_iter().map(|row| row.0).collect::<Vec<_>>();
        for (low, high) in
            [(Some(5), Some(11)), (None, Some(6)), (Some(30), None), (None, None), (Some(9), Some(3))]
        {
            let expected: Vec<i64> =
                (low.unwrap_or(0)..=high.unwrap_or(39)).filter(|id| (0..40).contains(id)).collect();
            let forward = range(None, vec![], low, high, Order::Forward);
            assert_eq!(ids(bench.rows(forward)), expected, "{low:?} {high:?}");
            let backward = range(None, vec![], low, high, Order::Backward);
            assert_eq!(ids(bench.rows(backward)), expected.into_iter().rev().collect::<Vec<_>>());
        }
        let of_branch = range(Some(0), vec![int(3)], None, None, Order::Forward);
        assert_eq!(ids(bench.rows(of_branch)), [3, 8, 13, 18, 23, 28, 33, 38]);
        let by_balance = range(Some(1), vec![int(3)], Some(1010), Some(1030), Order::Backward);
        assert_eq!(ids(bench.rows(by_balance)), [28, 23, 18, 13]);
        if instances > 1 {
            assert!(bench.0.distributed > 0);
        }
    }
}

#[test]
fn a_limit_cuts_ordered_rows() {
    for instances in [1, 4] {
        let mut bench = loaded(instances);
        let mut newest = select(range(None, vec![], None, Some(30), Order::Backward), RowLock::None);
        (newest.limit, newest.offset) = (Some(int(3)), Some(int(2)));
        let rows = bench.run(Statement::Select(newest)).unwrap().rows;
        let ids: Vec<&Datum> = rows.iter().map(|row| &row[0]).collect();
        assert_eq!(ids, [&Datum::Int(28), &Datum::Int(27), &Datum::Int(26)]);
    }
}

#[test]
fn changes_keep_the_indexes_true() {
    for instances in [1, 2, 4] {
        let mut bench = loaded(instances);
        let plus = Expr::Binary {
            op: BinaryOp::Add,
            left: Box::new(Expr::Column(2)),
            right: Box::new(int(500)),
            ty: SqlType::Int4,
        };
        // The balance is a column of an index, so the entry moves.
        let outcome = bench.run(set(3, 2, plus)).unwrap();
        assert_eq!(outcome.rows, [[Datum::Int(3), Datum::Int(3), Datum::Int(1503)]]);
        assert_eq!(bench.run(set(4, 1, int(0))).unwrap().count, 1);
        // The row gets another key, and so another slot.
        assert_eq!(bench.run(set(5, 0, int(77))).unwrap().count, 1);
        assert_eq!(bench.run(set(999, 2, int(0))).unwrap().count, 0);
        assert_eq!(bench.run(delete(Path::Keys(vec![vec![int(6)], vec![int(7)]]))).unwrap().count, 2);
        let of_zero = bench.rows(range(Some(0), vec![int(0)], None, None, Order::Forward));
        let ids: Vec<i64> = of_zero.iter().map(|row| row.0).collect();
        assert_eq!(ids, [0, 4, 10, 15, 20, 25, 30, 35, 77]);
        assert_eq!(bench.all().len(), 38);
    }
}

#[test]
fn a_duplicate_key_has_no_effect() {
    for instances in [1, 2, 4] {
        let mut bench = loaded(instances);
        let before = bench.all();
        for (statement, constraint) in [
            (insert(&[(50, 0, 0), (12, 0, 0)]), "accounts_pkey"),
            (insert(&[(51, 0, 1), (52, 3, 1013)]), "once"),
            (insert(&[(53, 0, 0), (54, 0, 0)]), "once"),
            (set(8, 0, int(9)), "accounts_pkey"),
            (set(8, 2, int(1013)), "once"),
        ] {
            let error = bench.run(statement).unwrap_err();
            assert_eq!(error.state, SqlState::UNIQUE_VIOLATION, "{error}");
            assert_eq!(error.constraint.as_deref(), Some(constraint));
            assert_eq!(bench.all(), before);
        }
        let wrong = insert(&[(60, 0, 0)]);
        let Statement::Insert(mut wrong) = wrong else { unreachable!() };
        wrong.rows = InsertRows::Values(vec![vec![int(60), int(1), Expr::Const(Datum::Null)]]);
        let error = bench.run(Statement::Insert(wrong)).unwrap_err();
        assert_eq!((error.state, error.column.as_deref()), (SqlState::NOT_NULL_VIOLATION, Some("balance")));
    }
}

#[test]
fn a_row_that_conflicts_twice_in_one_statement_is_refused() {
    for instances in [1, 4] {
        let mut bench = loaded(instances);
        let upsert = |rows: &[(i64, i64, i64)]| {
            let Statement::Insert(mut insert) = insert(rows) else { unreachable!() };
            // The columns of the row that was to be inserted follow those of the one that is there.
            let set = vec![Assignment { column: 2, value: Expr::Column(5) }];
            insert.conflict = Some(Conflict { index: None, update: Some((set, None)) });
            Statement::Insert(insert)
        };
        assert_eq!(bench.run(upsert(&[(3, 3, 7), (70, 0, 1)])).unwrap().count, 2);
        assert_eq!(bench.rows(Path::Keys(vec![vec![int(3)], vec![int(70)]])), [(3, 3, 7), (70, 0, 1)]);
        let before = bench.all();
        for rows in [[(4, 4, 8), (4, 4, 9)], [(71, 0, 2), (71, 0, 3)]] {
            assert_eq!(bench.run(upsert(&rows)).unwrap_err().state, SqlState::CARDINALITY);
            assert_eq!(bench.all(), before);
        }
    }
}

#[test]
fn a_conversation_undoes_to_its_savepoint() {
    for instances in [1, 2, 4] {
        let mut bench = loaded(instances);
        let before = bench.all();
        let commands = [
            Command::Savepoint,
            Command::Run(call(vec![
                insert(&[(80, 1, 1)]),
                set(3, 2, int(7)),
                delete(Path::Keys(vec![vec![int(9)]])),
            ])),
            Command::Run(call(vec![insert(&[(81, 1, 1), (3, 0, 0)])])),
            Command::UndoTo(1_000_000),
            Command::UndoTo(0),
            Command::Run(call(vec![insert(&[(82, 2, 2)])])),
            Command::Commit,
        ];
        let first = Command::Run(call(vec![insert(&[(79, 4, 4)])]));
        bench.0.says = commands.iter().map(|command| postcard::to_stdvec(command).unwrap()).collect();
        assert_eq!(bench.0.submit(&Request::Converse(first)).unwrap(), Answer::Done);
        let heard: Vec<Answer> =
            bench.0.hears.drain(..).map(|said| postcard::from_bytes(&said).unwrap()).collect();
        assert!(matches!(&heard[3], Answer::Failed(error) if error.state == SqlState::UNIQUE_VIOLATION));
        assert_eq!(heard[1], Answer::Point(0));
        let mut expected = before.clone();
        expected.extend([(79, 4, 4), (82, 2, 2)]);
        assert_eq!(bench.all(), expected);
        // A rollback has no effect, and its answer comes.
        bench.0.says = [Command::Rollback].iter().map(|c| postcard::to_stdvec(c).unwrap()).collect();
        let first = Command::Run(call(vec![insert(&[(90, 4, 90)])]));
        assert_eq!(bench.0.submit(&Request::Converse(first)).unwrap(), Answer::Done);
        assert_eq!(bench.all(), expected);
    }
}

#[test]
fn tables_without_a_key_keep_equal_rows() {
    for instances in [1, 3] {
        let mut bench = Bench::new(instances);
        let mut table = Stored::clone(&accounts());
        (table.key, table.indexes) = (Vec::new(), Vec::new());
        let table = Arc::new(table);
        let Statement::Insert(mut insert) = insert(&[(1, 1, 1), (1, 1, 1), (2, 2, 2)]) else {
            unreachable!()
        };
        insert.table = Arc::clone(&table);
        assert_eq!(bench.run(Statement::Insert(insert)).unwrap().count, 3);
        let mut all = select(Path::All, RowLock::None);
        all.sources[0].source.table = Arc::clone(&table);
        assert_eq!(bench.run(Statement::Select(all.clone())).unwrap().count, 3);
        let Statement::Delete(mut delete) = delete(Path::All) else { unreachable!() };
        delete.source.table = table;
        let is_one = Expr::Binary {
            op: BinaryOp::Equal,
            left: Box::new(Expr::Column(0)),
            right: Box::new(int(1)),
            ty: SqlType::Bool,
        };
        delete.source.filter = Some(Arc::new(is_one));
        assert_eq!(bench.run(Statement::Delete(delete)).unwrap().count, 2);
        assert_eq!(bench.run(Statement::Select(all)).unwrap().count, 1);
    }
}

#[test]
fn the_audit_finds_a_lost_entry() {
    use txn::Access;
    let mut bench = loaded(2);
    assert!(bench.0.judge(None).unwrap().holds(), "no index is in the catalog yet");
    let mut catalog = sql::catalog::Catalog { version: 1, ..Default::default() };
    let stored = accounts();
    let column = |c: &StoredColumn| sql::catalog::Column {
        name: c.name.clone(),
        ty: c.ty,
        nullable: c.nullable,
        default: None,
        missing: Datum::Null,
        dropped: false,
    };
    let index = |(oid, i): (u32, &StoredIndex)| sql::catalog::Index {
        oid: sql::catalog::Oid(oid),
        name: i.name.clone(),
        columns: i.columns.clone(),
        unique: i.unique,
        is_constraint: false,
        store: i.store,
        slots: i.slots.clone(),
    };
    let table = sql::catalog::Table {
        oid: sql::catalog::Oid(1),
        name: stored.name.clone(),
        columns: stored.columns.iter().map(column).collect(),
        key: stored.key.clone(),
        key_name: stored.key_name.clone(),
        store: stored.store,
        slots: stored.slots.clone(),
        indexes: (2..).zip(&stored.indexes).map(index).collect(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
    };
    catalog.tables.insert(table.oid, table);
    bench.0.says = [Command::Commit].iter().map(|c| postcard::to_stdvec(c).unwrap()).collect();
    let define = Command::Define { from: 0, catalog: Box::new(catalog.clone()) };
    assert_eq!(bench.0.submit(&Request::Converse(define)).unwrap(), Answer::Done);
    assert_eq!(bench.0.submit(&Request::ReadCatalog).unwrap(), Answer::Catalog(Box::new(catalog)));
    assert_eq!(bench.0.judge(None).unwrap().violations, Vec::<String>::new());
    // Row 12 loses its entry.
    let index = &stored.indexes[0];
    let row = stored.place(&[Datum::Int(12)], SLOTS);
    let at = index.place(&[Datum::Int(2)], &row.key, SLOTS);
    let table = sql::place::table_id(index.store);
    let owner = bench.0.owner(sql::place::route(index.store, at.slot));
    let key = sql::place::physical_key(at.slot, &at.key);
    assert!(at_once(bench.0.model(owner).delete(table, &key)).unwrap());
    bench.0.model(owner).end(true);
    let violations = bench.0.judge(None).unwrap().violations;
    assert!(
        violations[0].starts_with("index by_branch: the rows of its table need 40 entries, found 39"),
        "{violations:?}"
    );
}

#[test]
fn a_catalog_that_cannot_be_read_is_refused_and_not_empty() {
    use txn::Access;
    let (table, key) = (sql::place::table_id(sql::database::CATALOG), sql::place::physical_key(0, &[]));
    for bytes in [None, Some(&[0xff; 9][..]), Some(&[0; 9])] {
        let mut bench = loaded(2);
        let owner = bench.0.owner(sql::place::route(sql::database::CATALOG, 0));
        assert!(at_once(bench.0.model(owner).delete(table, &key)).unwrap());
        if let Some(bytes) = bytes {
            let row = sql::place::physical_row(0, &[], bytes);
            at_once(bench.0.model(owner).insert(table, &key, &row)).unwrap();
        }
        bench.0.model(owner).end(true);
        let refused = |answer: Answer| match answer {
            Answer::Failed(error) => error.to_string(),
            other => panic!("{other:?}"),
        };
        let read = refused(bench.0.submit(&Request::ReadCatalog).unwrap());
        assert!(read.starts_with("the catalog at slot 0: ") && read.contains("restore a backup"), "{read}");
        // No definition takes its place either.
        let catalog = sql::catalog::Catalog { version: 1, ..Default::default() };
        let define = Command::Define { from: 0, catalog: Box::new(catalog) };
        bench.0.says = [Command::Commit].iter().map(|c| postcard::to_stdvec(c).unwrap()).collect();
        bench.0.submit(&Request::Converse(define)).unwrap();
        assert_eq!(refused(bench.0.submit(&Request::ReadCatalog).unwrap()), read);
        assert_eq!(bench.0.judge(None).unwrap().violations[0], read);
    }
}
