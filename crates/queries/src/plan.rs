//! The door of the server: a tree as a plan.

use crate::row::Row;
use crate::run::Run;
use compiler::Fill;
use compiler::general::{Answer, Column, Facts, Part, Plan, Rows, Scan, Started};
use compiler::tree::{Staged, Tree, Written};
use sql::bound::Bound;
use sql::catalog::Oid;
use sql::{Datum, SqlError, SqlState, SqlType};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;
use tokio::sync::{Semaphore, oneshot};

/// Stack of a query's thread: expressions and queries inside each other call themselves.
const STACK: usize = 64 << 20;

pub struct Planned {
    tree: Arc<Tree>,
    /// For a statement that writes: what is done with each row.
    each: Option<Arc<compiler::Query>>,
    /// Those of `WITH` that write.
    parts: Vec<Part>,
    columns: Vec<Column>,
    tables: Vec<Oid>,
    memory: usize,
}

impl Planned {
    pub fn new(tree: Tree, each: Option<compiler::Query>, memory: usize) -> Planned {
        let column = |field: &compiler::Field| Column { field: field.clone(), number: None };
        let fields = each.as_ref().map_or(&tree.fields, |each| &each.output);
        let columns = fields.iter().map(column).collect();
        let mut tables = tree.tables.clone();
        tables.extend(each.iter().flat_map(|each| each.reads.iter().chain(&each.writes)));
        tables.sort_unstable();
        tables.dedup();
        Planned { tree: Arc::new(tree), each: each.map(Arc::new), parts: Vec::new(), columns, tables, memory }
    }

    /// A statement in parts.
    pub fn staged(staged: Staged, memory: usize) -> Planned {
        let mut last = Planned::new(staged.tree, staged.each, memory);
        for Written { tree, each } in staged.parts {
            let part = Planned::new(tree, Some(each.clone()), memory);
            last.tables.extend(&part.tables);
            last.parts.push(Part { rows: Arc::new(part), each: Arc::new(each) });
        }
        last.tables.sort_unstable();
        last.tables.dedup();
        last
    }
}

impl Plan for Planned {
    fn params(&self) -> &[SqlType] {
        &self.tree.params
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn tables(&self) -> &[Oid] {
        &self.tables
    }

    fn each(&self) -> Option<&Arc<compiler::Query>> {
        self.each.as_ref()
    }

    fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn start(&self, facts: Facts, mut params: Vec<Datum>) -> Result<Box<dyn Started>, SqlError> {
        for fill in &self.tree.fills {
            params.push(filled(fill, &facts)?);
        }
        let scan = |scan: &compiler::tree::Scan| Scan {
            table: scan.table.clone(),
            program: Arc::clone(&scan.program),
            params: params.clone(),
            in_parts: scan.in_parts,
        };
        let scans = self.tree.scans.iter().map(scan).collect();
        let bound = Bound { params, now: facts.now, zone: facts.zone };
        let (tree, given) = (Arc::clone(&self.tree), Vec::new());
        Ok(Box::new(Begun { tree, bound, scans, given, memory: self.memory }))
    }

    fn describe(&self) -> Result<Vec<String>, SqlError> {
        let mut lines = Vec::new();
        for (part, number) in self.parts.iter().zip(1..) {
            lines.push(format!("Part {number} of WITH:"));
            lines.extend(part.rows.describe()?.iter().map(|line| format!("  {line}")));
        }
        lines.extend(crate::describe::lines(&self.tree));
        if let Some(each) = &self.each {
            lines.push("For each row:".into());
            lines.extend(compiler::describe::describe(each).iter().map(|line| format!("  {line}")));
        }
        Ok(lines)
    }
}

/// What the server knows.
fn filled(fill: &Fill, facts: &Facts) -> Result<Datum, SqlError> {
    Ok(match fill {
        Fill::User => Datum::Text(facts.user.clone()),
        Fill::Database => Datum::Text(facts.database.clone()),
        Fill::Backend => Datum::Int(i64::from(facts.backend)),
        Fill::Setting(name) => {
            let setting = facts.settings.iter().find(|(known, _)| known == name);
            let unknown = || {
                let message = format!("unrecognized configuration parameter \"{name}\"");
                SqlError::new(SqlState::UNDEFINED_OBJECT, message)
            };
            Datum::Text(setting.ok_or_else(unknown)?.1.clone())
        }
        Fill::StatementTime | Fill::ClockTime => Datum::Timestamp(clock()),
        Fill::Advisory(_) => {
            let hint = Some("Call it alone: SELECT pg_advisory_lock(1).");
            return Err(SqlError::unsupported("an advisory lock in a query with joins or sub-queries", hint));
        }
        _ => return Err(SqlError::unsupported("a sequence in a query with joins or sub-queries", None)),
    })
}

/// Microseconds since 2000-01-01.
fn clock() -> i64 {
    const FROM_1970: i64 = 946_684_800_000_000;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_micros()).unwrap_or(i64::MAX)) - FROM_1970
}

struct Begun {
    tree: Arc<Tree>,
    bound: Bound,
    scans: Vec<Scan>,
    given: Vec<Rows>,
    memory: usize,
}

/// Ends the work when it is dropped.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// As many queries run at once as there are processors.
fn turns() -> &'static Semaphore {
    static TURNS: OnceLock<Semaphore> = OnceLock::new();
    TURNS.get_or_init(|| Semaphore::new(std::thread::available_parallelism().map_or(2, usize::from)))
}

impl Started for Begun {
    fn scans(&self) -> &[Scan] {
        &self.scans
    }

    fn memory(&self) -> usize {
        self.memory
    }

    fn give(&mut self, parts: &[Rows]) {
        if self.tree.withs.iter().any(|with| with.given.is_some()) {
            self.given = parts.to_vec();
        }
    }

    fn finish(self: Box<Self>, rows: Vec<Rows>) -> Answer {
        Box::pin(async move {
            let ended = |why: &str| SqlError::new(SqlState::INTERNAL, format!("the query has ended: {why}"));
            let _turn = turns().acquire().await.map_err(|error| ended(&error.to_string()))?;
            let is_over = Arc::new(AtomicBool::new(false));
            let _over = Over(Arc::clone(&is_over));
            let (tell, told) = oneshot::channel();
            let work = move || {
                // A session that has gone wants no answer.
                let _ = tell.send(self.rows(rows, &is_over));
            };
            let thread = std::thread::Builder::new().name("query".into()).stack_size(STACK);
            thread.spawn(work).map_err(|error| {
                SqlError::new(SqlState(*b"53000"), format!("a query has no thread: {error}"))
                    .with_hint("Ask again when fewer queries run.")
            })?;
            told.await.map_err(|_| ended("its thread is gone"))?
        })
    }
}

impl Begun {
    fn rows(mut self, rows: Vec<Rows>, is_over: &AtomicBool) -> Result<Rows, SqlError> {
        let given = std::mem::take(&mut self.given);
        let run = Run::new(&self.tree, &self.bound, (is_over, self.memory), rows, given)?;
        let rows = run.query(&self.tree.query, None)?;
        Ok(rows.iter().map(|row: &Row| row.to_vec()).collect())
    }
}
