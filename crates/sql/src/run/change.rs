//! Updates, deletes, and the rows elsewhere on which a change depends.

use super::carrier::{AfterChange, Few};
use super::find::Found;
use super::insert::columns;
use super::select::projected;
use super::{Carrier, Stop, Undo, Work};
use crate::bound::Bound;
use crate::catalog::Store;
use crate::measured::Did;
use crate::place::Placed;
use crate::program::{
    Assignment, Delete, Joined, Outcome, Path, Reference, ReferenceKind, RowLock, Source, Stored, Update,
};
use crate::step::{Change, Changed, Fetch, Outer, Put, Putting, Test, Wanted};
use crate::{Datum, Expr, SqlError};
use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;

/// A row that a statement changes.
struct Target {
    place: Placed,
    values: Vec<Datum>,
    /// The values of the table and of the sources joined to it.
    joined: Outer,
}

impl<T: Carrier + ?Sized> Work<'_, T> {
    pub(super) async fn update(&mut self, update: &Update, bound: &Arc<Bound>) -> Result<Outcome, Stop> {
        if is_in_place(update) {
            return pin!(self.update_in_place(update, bound)).await;
        }
        let table = &update.source.table;
        let targets = pin!(self.targets(&update.source, &update.from, bound)).await?;
        let (mut changed, count) = (Vec::new(), targets.len() as u64);
        for target in targets {
            let mut values = target.values.clone();
            for Assignment { column, value } in &*update.set {
                values[usize::from(*column)] = value.eval(&bound.context(), &*target.joined)?;
            }
            table.check(&update.checks, bound, &values)?;
            self.replace(table, &target.place, &target.values, &values).await?;
            changed.push((target, values));
        }
        let mut rows = Vec::new();
        for (target, values) in &changed {
            self.check_changed(&update.references, bound, &target.values, values).await?;
            if !update.returning.is_empty() {
                let joined = [&values[..], &target.joined[values.len()..]].concat();
                rows.push(projected(&update.returning, bound, &joined)?);
            }
        }
        Ok(Outcome { count, rows, rest: None })
    }

    /// Changes rows where they are, each by one step.
    async fn update_in_place(&mut self, update: &Update, bound: &Arc<Bound>) -> Result<Outcome, Stop> {
        let returns = !update.returning.is_empty() || self.undo.is_some();
        let mut steps = Few::new();
        self.changes(update, bound, (returns, &mut steps))?;
        let places: Vec<Placed> =
            steps.iter().map(|step| Placed { slot: step.slot, key: step.key.clone() }).collect();
        self.phases.add(Did::Change, || steps.iter().map(|step| step.slot));
        let outputs = pin!(self.txn.change(steps)).await?;
        self.phases.found(places.len());
        let note = |at: usize, before| {
            self.note(update.source.table.store, &places[at], returns.then_some(before));
        };
        Ok(changed(update, bound, outputs, note)?)
    }

    /// Appends the steps of an update in place. With `returns` they give the rows before and after.
    pub(super) fn changes(
        &self,
        update: &Update,
        bound: &Arc<Bound>,
        (returns, steps): (bool, &mut Few<Change>),
    ) -> Result<(), SqlError> {
        let (table, first) = (&update.source.table, steps.len());
        let Path::Keys(keys) = &update.source.path else { return Ok(()) };
        let none: Vec<Datum> = Vec::new();
        for key in keys {
            let values = Expr::eval_all(key, &bound.context(), &none)?;
            if values.iter().any(Datum::is_null) {
                continue;
            }
            let Placed { slot, key } = table.place(&values, self.sites);
            if steps[first..].iter().any(|step| step.key == key) {
                continue;
            }
            let condition = update.source.filter.clone();
            let test = condition.map(|condition| Test { condition, outer: Outer::default() });
            steps.push(Change {
                table: Arc::clone(table),
                bound: Arc::clone(bound),
                test,
                slot,
                key,
                set: Arc::clone(&update.set),
                checks: Arc::clone(&update.checks),
                returns,
            });
        }
        Ok(())
    }

    pub(super) async fn delete(&mut self, delete: &Delete, bound: &Arc<Bound>) -> Result<Outcome, Stop> {
        let table = &delete.source.table;
        let targets = self.targets(&delete.source, &delete.from, bound).await?;
        let mut puts = Vec::new();
        for target in &targets {
            puts.extend(self.removals(table, &target.values, &target.place));
        }
        self.put(puts).await?;
        let mut rows = Vec::new();
        for target in &targets {
            self.check_references(&delete.references, bound, &target.values).await?;
            if !delete.returning.is_empty() {
                rows.push(projected(&delete.returning, bound, &*target.joined)?);
            }
        }
        Ok(Outcome { count: targets.len() as u64, rows, rest: None })
    }

    /// The rows that a statement changes, locked, each once.
    async fn targets(
        &mut self,
        source: &Source,
        from: &[Joined],
        bound: &Arc<Bound>,
    ) -> Result<Vec<Target>, Stop> {
        let table = &source.table;
        let found = self.find(source, bound, &[Outer::default()], None).await?;
        let mut targets = Vec::new();
        for found in found.into_iter().flatten() {
            let values = table.values(&found.row)?;
            let joined = Arc::new(values.clone());
            targets.push(Target { place: found.place, values, joined });
        }
        if from.is_empty() {
            return Ok(targets);
        }
        let mut joined = Vec::new();
        for mut target in targets {
            let mut wide = vec![Arc::clone(&target.joined)];
            for source in from {
                wide = self.widen(source, bound, wide).await?;
            }
            // Which partner of several is meant is not defined: the first one.
            if let Some(first) = wide.into_iter().next() {
                target.joined = first;
                joined.push(target);
            }
        }
        Ok(joined)
    }

    /// Stores a row in place of another, with its index entries.
    pub(super) async fn replace(
        &mut self,
        table: &Stored,
        at: &Placed,
        old: &[Datum],
        new: &[Datum],
    ) -> Result<(), Stop> {
        let moves = !table.key.is_empty() && columns(old, &table.key) != columns(new, &table.key);
        let place = if moves { table.place(&columns(new, &table.key), self.sites) } else { at.clone() };
        let row = table.layout().encode(new)?;
        let (removed, added) = (self.removals(table, old, at), self.entries(table, new, &place)?);
        let kept: HashSet<(Store, Vec<u8>)> = if moves {
            HashSet::new()
        } else {
            let new: HashSet<_> = added.iter().map(|put| (put.store, put.key.clone())).collect();
            removed[1..].iter().map(|put| (put.store, put.key.clone())).filter(|e| new.contains(e)).collect()
        };
        let is_kept = |put: &Put| kept.contains(&(put.store, put.key.clone()));
        let mut puts: Vec<Put> = Vec::new();
        let how = if moves { Putting::New(row) } else { Putting::Replace(row) };
        puts.extend(removed.into_iter().skip(usize::from(!moves)).filter(|put| !is_kept(put)));
        puts.push(Put { store: table.store, slot: place.slot, key: place.key, how });
        puts.extend(added.into_iter().filter(|put| !is_kept(put)));
        let stores: Vec<(Store, bool)> =
            puts.iter().map(|put| (put.store, matches!(put.how, Putting::New(_)))).collect();
        let befores = self.put(puts).await?;
        for ((store, is_new), before) in stores.into_iter().zip(befores) {
            if is_new && before.is_some() {
                let index = table.indexes.iter().position(|index| index.store == store);
                return Err(table.duplicate(index, new).into());
            }
        }
        Ok(())
    }

    /// Removes a row and its index entries; the row first.
    fn removals(&self, table: &Stored, values: &[Datum], at: &Placed) -> Vec<Put> {
        let remove = |store, Placed { slot, key }| Put { store, slot, key, how: Putting::Remove };
        let entries = table.indexes.iter().map(|index| {
            remove(index.store, index.place(&columns(values, &index.columns), &at.key, self.sites))
        });
        std::iter::once(remove(table.store, at.clone())).chain(entries).collect()
    }

    /// Keeps a row as it was.
    fn note(&mut self, store: Store, place: &Placed, before: Option<Vec<u8>>) {
        if let (Some(undo), Some(before)) = (&mut self.undo, before) {
            let Placed { slot, key } = place.clone();
            undo.push(Undo { store, slot, key, before: Some(before) });
        }
    }

    /// The row at a place, locked.
    pub(super) async fn lock_row(
        &mut self,
        table: &Arc<Stored>,
        at: &Placed,
        bound: &Arc<Bound>,
    ) -> Result<Option<Vec<u8>>, Stop> {
        let what = Wanted::Keys(vec![at.key.clone()]);
        let (table, bound) = (Arc::clone(table), Arc::clone(bound));
        let fetch = Fetch { table, bound, test: None, slot: at.slot, what };
        self.phases.add(Did::Lock, || std::iter::once(at.slot));
        let row = self.one_row(fetch, RowLock::Update).await?;
        self.phases.found(usize::from(row.is_some()));
        Ok(row)
    }

    /// The bytes at a place, of a row or an index entry.
    pub(crate) async fn read_raw(&mut self, store: Store, at: &Placed) -> Result<Option<Vec<u8>>, Stop> {
        let table = Arc::new(Stored::raw(store));
        let what = Wanted::Keys(vec![at.key.clone()]);
        let fetch = Fetch { table, bound: Arc::default(), test: None, slot: at.slot, what };
        self.one_row(fetch, RowLock::None).await
    }

    async fn one_row(&mut self, fetch: Fetch, lock: RowLock) -> Result<Option<Vec<u8>>, Stop> {
        let hits = self.txn.fetch_one(fetch, lock).await??;
        Ok(hits.into_iter().next().and_then(|hit| hit.row))
    }

    /// Checks the references of a new row, or of one that was deleted, and carries out what
    /// follows.
    pub(crate) async fn check_references(
        &mut self,
        references: &[Reference],
        bound: &Arc<Bound>,
        values: &[Datum],
    ) -> Result<(), Stop> {
        for reference in references {
            Box::pin(self.check_reference(reference, bound, values, None)).await?;
        }
        Ok(())
    }

    /// As [`Work::check_references`], for a row that was changed: only if the columns were.
    async fn check_changed(
        &mut self,
        references: &[Reference],
        bound: &Arc<Bound>,
        old: &[Datum],
        new: &[Datum],
    ) -> Result<(), Stop> {
        for reference in references {
            if columns(old, &reference.columns) == columns(new, &reference.columns) {
                continue;
            }
            let values = if reference.kind == ReferenceKind::MustExist { new } else { old };
            Box::pin(self.check_reference(reference, bound, values, Some(new))).await?;
        }
        Ok(())
    }

    /// `values` is the row by which the other table's rows are found, `new` what it became.
    async fn check_reference(
        &mut self,
        reference: &Reference,
        bound: &Arc<Bound>,
        values: &[Datum],
        new: Option<&[Datum]>,
    ) -> Result<(), Stop> {
        if columns(values, &reference.columns).iter().any(Datum::is_null) {
            return Ok(());
        }
        let other = &reference.other;
        let outer = Arc::new(values.to_vec());
        let limit = matches!(reference.kind, ReferenceKind::MustExist | ReferenceKind::MustNot).then_some(1);
        let found = self.find(other, bound, &[outer], limit).await?.pop().unwrap_or_default();
        match reference.kind {
            ReferenceKind::MustExist | ReferenceKind::MustNot => {
                let holds = found.is_empty() == (reference.kind == ReferenceKind::MustNot);
                if holds { Ok(()) } else { Err(reference.broken(values, &bound.zone).into()) }
            }
            ReferenceKind::Cascade => self.cascade(reference, bound, found).await,
            ReferenceKind::SetNull | ReferenceKind::Follow => {
                for found in found {
                    let old = other.table.values(&found.row)?;
                    let mut after = old.clone();
                    for (&column, &from) in reference.other_columns.iter().zip(&reference.columns) {
                        let follows = new.filter(|_| reference.kind == ReferenceKind::Follow);
                        after[usize::from(column)] =
                            follows.map_or(Datum::Null, |new| new[usize::from(from)].clone());
                    }
                    other.table.check(&[], bound, &after)?;
                    self.replace(&other.table, &found.place, &old, &after).await?;
                    Box::pin(self.check_changed(&reference.further, bound, &old, &after)).await?;
                }
                Ok(())
            }
        }
    }

    /// Deletes the rows of another table that referred to one that is gone.
    async fn cascade(
        &mut self,
        reference: &Reference,
        bound: &Arc<Bound>,
        found: Vec<Found>,
    ) -> Result<(), Stop> {
        let table = &reference.other.table;
        let (mut puts, mut gone) = (Vec::new(), Vec::new());
        for found in found {
            let values = table.values(&found.row)?;
            puts.extend(self.removals(table, &values, &found.place));
            gone.push(values);
        }
        self.put(puts).await?;
        for values in gone {
            self.check_references(&reference.further, bound, &values).await?;
        }
        Ok(())
    }
}

/// The outcome of an update in place from the outputs of its steps. `note` gets the number of each
/// step that has changed a row, and the row as it was, if the step returns it.
pub(super) fn changed(
    update: &Update,
    bound: &Bound,
    outputs: impl IntoIterator<Item = AfterChange>,
    mut note: impl FnMut(usize, Vec<u8>),
) -> Result<Outcome, SqlError> {
    let (mut count, mut rows, mut wrong) = (0, Vec::new(), None);
    for (at, output) in outputs.into_iter().enumerate() {
        match output {
            Ok(None) => {}
            Ok(Some(Changed { before, after })) => {
                count += 1;
                note(at, before);
                if !update.returning.is_empty() {
                    let values = update.source.table.values(&after)?;
                    rows.push(projected(&update.returning, bound, &values)?);
                }
            }
            Err(error) => wrong = Some(error),
        }
    }
    wrong.map_or(Ok(Outcome { count, rows, rest: None }), Err)
}

/// Whether the rows of an update are found by their keys and change neither key nor index.
pub(super) fn is_in_place(update: &Update) -> bool {
    let table = &update.source.table;
    let sets = |columns: &[u16]| update.set.iter().any(|a| columns.contains(&a.column));
    matches!(update.source.path, Path::Keys(_))
        && update.from.is_empty()
        && !sets(&table.key)
        && !table.indexes.iter().any(|index| sets(&index.columns))
        && !update.references.iter().any(|reference| sets(&reference.columns))
}
