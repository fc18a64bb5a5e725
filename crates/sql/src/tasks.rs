//! Work on the catalog and on whole tables: commands that change definitions, and sequences.

use crate::bound::Bound;
use crate::catalog::{Catalog, Oid, Sequence, Store};
use crate::catalog_rows::{CATALOG, catalog_in, catalog_place, sequence_place};
use crate::place::{self, Placed};
use crate::program::{Checked, Reference, Stored};
use crate::run::{Carrier, Stop, Work};
use crate::step::{Put, Putting};
use crate::{Datum, Expr, SqlError, SqlState};
use std::sync::Arc;

impl<T: Carrier + ?Sized> Work<'_, T> {
    pub(crate) async fn read_catalog(&mut self) -> Result<Catalog, Stop> {
        let row = self.read_raw(CATALOG, &catalog_place(0)).await?;
        Ok(catalog_in(0, row.as_deref())?)
    }

    /// Stores a new catalog in place of the one with version `from`.
    pub(crate) async fn define(&mut self, from: u64, catalog: &Catalog) -> Result<(), Stop> {
        let present = self.read_catalog().await?;
        if present.version != from {
            let message = "another client has changed the catalog meanwhile";
            return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, message).into());
        }
        let bytes = postcard::to_stdvec(catalog)
            .map_err(|_| SqlError::new(SqlState::PROGRAM_LIMIT, "the catalog is too large"))?;
        if bytes.len() > place::LONGEST_ROW as usize {
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT, "the catalog is too large").into());
        }
        let puts = (0..self.sites()).map(|slot| {
            let Placed { slot, key } = catalog_place(slot);
            Put { store: CATALOG, slot, key, how: Putting::Replace(bytes.clone()) }
        });
        self.put(puts.collect()).await?;
        Ok(())
    }

    pub(crate) async fn fill(&mut self, table: &Arc<Stored>, index: usize) -> Result<(), Stop> {
        for rows in self.all_rows(table).await?.chunks(FILLED) {
            let (mut puts, mut values) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
            for found in rows {
                let row = table.layout().decode_all(&found.row)?;
                puts.extend(self.entries(table, &row, &found.place)?.into_iter().nth(index));
                values.push(row);
            }
            let befores = self.put(puts).await?;
            if let Some(at) = befores.iter().position(Option::is_some) {
                return Err(table.duplicated(index, &values[at]).into());
            }
        }
        Ok(())
    }

    /// Stores the rows of one table in another. `values` are the new columns over the old row.
    pub(crate) async fn copy(
        &mut self,
        (from, to): (&Arc<Stored>, &Arc<Stored>),
        values: &[Expr],
        checks: &[Checked],
        bound: &Bound,
    ) -> Result<(), Stop> {
        for rows in self.all_rows(from).await?.chunks(FILLED) {
            let mut new = Vec::with_capacity(rows.len());
            for found in rows {
                let old = from.layout().decode_all(&found.row)?;
                let values = values.iter().map(|value| value.eval(&bound.context(), &old));
                let values = values.collect::<Result<Vec<Datum>, SqlError>>()?;
                to.check_stored(checks, bound, &values)?;
                new.push(self.new_row(to, values)?);
            }
            self.put_new(to, new).await?;
        }
        Ok(())
    }

    pub(crate) async fn purge(&mut self, store: Store, most: u64) -> Result<u64, Stop> {
        let rows = self.some_rows(&Arc::new(Stored::raw(store)), Some(most)).await?;
        let puts: Vec<Put> = rows
            .into_iter()
            .map(|found| {
                let Placed { slot, key } = found.place;
                Put { store, slot, key, how: Putting::Remove }
            })
            .collect();
        let count = puts.len() as u64;
        self.put(puts).await?;
        Ok(count)
    }

    pub(crate) async fn verify(
        &mut self,
        table: &Arc<Stored>,
        checks: &[Checked],
        references: &[Reference],
        bound: &Arc<Bound>,
    ) -> Result<(), Stop> {
        for found in self.all_rows(table).await? {
            let values = table.layout().decode_all(&found.row)?;
            table.check_stored(checks, bound, &values)?;
            self.check_references(references, bound, &values).await?;
        }
        Ok(())
    }

    /// Takes the next numbers of a sequence: the first one, and how many.
    pub(crate) async fn take_numbers(&mut self, sequence: &Sequence, most: u32) -> Result<(i64, u32), Stop> {
        let at = sequence_place(sequence.oid, self.sites());
        let (number, is_taken) = match self.read_raw(CATALOG, &at).await? {
            None => (sequence.start, false),
            Some(bytes) => postcard::from_bytes(&bytes).map_err(|_| unreadable("a sequence"))?,
        };
        let first = if is_taken { sequence.after(number)? } else { number };
        let (mut last, mut count) = (first, 1);
        while count < most.max(1)
            && let Some(next) = last.checked_add(sequence.increment)
            && (sequence.min..=sequence.max).contains(&next)
        {
            (last, count) = (next, count + 1);
        }
        self.set_number(sequence.oid, last, true).await?;
        Ok((first, count))
    }

    pub(crate) async fn set_number(
        &mut self,
        sequence: Oid,
        number: i64,
        is_taken: bool,
    ) -> Result<(), Stop> {
        let state = postcard::to_stdvec(&(number, is_taken)).map_err(|_| unreadable("a sequence"))?;
        let Placed { slot, key } = sequence_place(sequence, self.sites());
        self.put(vec![Put { store: CATALOG, slot, key, how: Putting::Replace(state) }]).await?;
        Ok(())
    }
}

/// Rows that are indexed or copied by one phase.
const FILLED: usize = 256;

impl Sequence {
    /// The number after one that was taken.
    fn after(&self, number: i64) -> Result<i64, SqlError> {
        let next = number.checked_add(self.increment).filter(|n| (self.min..=self.max).contains(n));
        match next {
            Some(next) => Ok(next),
            None if self.cycle => Ok(if self.increment > 0 { self.min } else { self.max }),
            None => {
                let (end, limit) =
                    if self.increment > 0 { ("maximum", self.max) } else { ("minimum", self.min) };
                let message = format!("nextval: reached {end} value of sequence \"{}\" ({limit})", self.name);
                Err(SqlError::new(SqlState(*b"2200H"), message))
            }
        }
    }
}

fn unreadable(what: &str) -> SqlError {
    let message = format!("{what} cannot be read: it was written by another version of Atoll, or is damaged");
    SqlError::new(SqlState(*b"XX001"), message)
}
