//! `EXPLAIN`: what a statement would do; with `ANALYZE`, what it did.

use super::block::Kind;
use super::carry::{Product, RowsTag};
use super::{Failure, Session, Stream};
use crate::engine::{Conversation, Engine, RunError, refusal};
use crate::language::Ready;
use crate::shared::now;
use compiler::compiled::{Compiled, Query};
use sql::database::{Answer, Command};
use sql::measured::{Did, Phase};
use sql::{Datum, SqlError};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl<S: Stream, E: Engine> Session<S, E> {
    pub(super) async fn explain(
        &mut self,
        ready: &Ready,
        (inner, analyze): (&Compiled, bool),
        params: Vec<Datum>,
    ) -> Result<Product, Failure> {
        let mut lines = match (inner, &ready.plan) {
            (Compiled::Query(query), _) => compiler::describe::describe(query),
            (_, Some(plan)) => plan.describe()?,
            _ => return Err(SqlError::unsupported("EXPLAIN of this statement", None).into()),
        };
        if analyze {
            let begun = Instant::now();
            let more = match inner {
                Compiled::Query(query) => self.analyze(query, params).await?,
                _ => self.analyze_plan(ready, params).await?,
            };
            lines.extend(more);
            lines.push(format!("Time: {}", milliseconds(begun.elapsed())));
        }
        let rows = lines.into_iter().map(|line| vec![Datum::Text(line)]).collect();
        Ok(Product::Rows { rows, tag: RowsTag::Whole("EXPLAIN".into()) })
    }

    /// Runs the program, with its effects, and tells what it did.
    async fn analyze(&mut self, query: &Query, mut params: Vec<Datum>) -> Result<Vec<String>, Failure> {
        if self.block.read_only && !query.writes.is_empty() {
            let message = "cannot execute EXPLAIN ANALYZE of a change in a read-only transaction";
            return Err(SqlError::new(sql::SqlState(*b"25006"), message).into());
        }
        self.called(query, &mut params).await?;
        self.fill(&query.fills, &mut params).await?;
        let program = Arc::clone(&query.program);
        let (answer, commit) = match self.block.kind {
            Kind::None => {
                let call = self.call_of(program, params, now());
                let mut conversation = self.shared.engine.begin();
                let answer =
                    conversation.command(Command::Analyze(call)).await.map_err(RunError::into_sql)?;
                let commit = Instant::now();
                match &answer {
                    Answer::Analyzed(..) => conversation.commit().await.map_err(RunError::into_sql)?,
                    _ => conversation.rollback().await,
                }
                (answer, Some(commit.elapsed()))
            }
            Kind::Implicit | Kind::Explicit => {
                let call = self.call_of(program, params, self.block.now);
                (self.command(Command::Analyze(call)).await?, None)
            }
        };
        let Answer::Analyzed(outcomes, phases) = answer else {
            return Err(refusal(answer).into_sql().into());
        };
        let mut lines = self.phases(&phases);
        let count: u64 = outcomes.iter().map(|outcome| outcome.count).sum();
        lines.push(format!("Rows: {count}"));
        if let Some(commit) = commit {
            lines.push(format!("Commit: {}", milliseconds(commit)));
        }
        Ok(lines)
    }

    /// The phases in words: a phase is one round of messages to the islands of its slots.
    fn phases(&self, phases: &[Phase]) -> Vec<String> {
        let mut lines = Vec::with_capacity(phases.len() + 3);
        let mut all = BTreeSet::new();
        let (mut everywhere, mut locked) = (false, 0);
        let island = |slot: &u32| self.shared.engine.island_of(*slot).unwrap_or(0);
        let home = phases.iter().flat_map(|phase| &phase.slots).next().map(island);
        let mut messages = 0;
        for (phase, number) in phases.iter().zip(1..) {
            let islands: BTreeSet<u32> = phase.slots.iter().map(island).collect();
            let what = match phase.did {
                Did::Read => "reads",
                Did::Lock => "locks",
                Did::Change => "changes",
                Did::Put => "puts",
            };
            if matches!(phase.did, Did::Lock | Did::Change | Did::Put) {
                locked += phase.rows;
            }
            let whereto = match islands.is_empty() {
                true => "each owner of slots, all islands".to_owned(),
                false => {
                    let names: Vec<String> = islands.iter().map(u32::to_string).collect();
                    format!("{} slots, islands {}", phase.slots.len(), names.join(", "))
                }
            };
            everywhere |= islands.is_empty();
            messages += 2 * islands.iter().filter(|island| Some(**island) != home).count();
            let steps = if phase.steps == 0 { String::new() } else { format!("{} steps, ", phase.steps) };
            lines.push(format!(
                "Phase {number} {what}: {steps}{whereto}, {} row{}",
                phase.rows,
                if phase.rows == 1 { "" } else { "s" }
            ));
            all.extend(islands);
        }
        let islands = if everywhere { "all".to_owned() } else { all.len().to_string() };
        let more = if everywhere { ", and two for each island that a scan asks" } else { "" };
        lines.push(format!("Islands: {islands}"));
        lines.push(format!("Messages between islands for steps: {messages}{more}"));
        lines.push(format!("Rows and entries locked for a change: {locked}"));
        lines
    }

    async fn analyze_plan(&mut self, ready: &Ready, params: Vec<Datum>) -> Result<Vec<String>, Failure> {
        let rows = match self.general(ready, params).await? {
            Product::Rows { rows, .. } => rows.len(),
            Product::Done(_) => 0,
        };
        Ok(vec![format!("Rows: {rows}")])
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}
