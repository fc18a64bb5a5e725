//! The extended protocol: statements are parsed, bound to values in portals, described, executed.
//!
//! All that a client sends before a Sync is one transaction. Usually it is one statement, so before
//! an Execute the session looks at the next message, which a client that wants an answer must have
//! sent: if it is the Sync, the statement is a transaction by itself, and costs one round trip to
//! the engine.

use super::block::Kind;
use super::carry::{Product, Reach, RowsTag};
use super::general::bytes_of;
use super::{Failure, Session, Stream};
use crate::engine::Engine;
use crate::format;
use crate::incoming::{Bind, Format, Formats, Target, violation};
use crate::language::{Prepared, Ready};
use crate::outgoing::{Field, Severity};
use crate::pgtype;
use crate::transport::Lost;
use compiler::compiled::{Compiled, Session as About};
use sql::catalog::Catalog;
use sql::{Datum, SqlError, SqlState, SqlType};
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;

/// The columns of rows, and their types.
type Shape = (Vec<Field>, Vec<SqlType>);

/// A statement with its values, and what is left of its result.
pub(super) struct Portal {
    prepared: Arc<Prepared>,
    /// As compiled when it was bound; `None` for an empty text.
    ready: Option<Arc<Ready>>,
    params: Vec<Datum>,
    formats: Formats,
    /// The memory of its values, or of the rows that it had when it was first suspended.
    bytes: usize,
    state: State,
}

enum State {
    Bound,
    Rows { rows: std::vec::IntoIter<Vec<Datum>>, types: Vec<SqlType>, tag: RowsTag },
    Done,
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new(SqlState(*b"34000"), format!("portal \"{name}\" does not exist"))
}

/// The parameters that lists stand in place of, where the client says that some are arrays.
fn places_of_arrays(catalog: &Catalog, text: &str, types: &[u32]) -> Vec<usize> {
    if !types.iter().any(|number| pgtype::of_elements(catalog, *number).is_some()) {
        return Vec::new();
    }
    let parsed = compiler::parse(text).unwrap_or_default();
    parsed.first().map_or(Vec::new(), |statement| statement.arrays().to_vec())
}

/// The most statements, and the most portals, of one session.
pub(super) const MOST_NAMES: usize = 10_000;
/// The most bytes of the texts of a session's statements with names. A statement takes up to a
/// hundred times the memory of its text.
const MOST_TEXTS: usize = 32 << 20;
/// The most bytes of what the portals and cursors of a session keep: values and rows.
const MOST_KEPT: usize = 512 << 20;

impl<S: Stream, E: Engine> Session<S, E> {
    pub(super) fn parse(&mut self, name: &str, text: &str, types: &[u32]) -> Result<(), Failure> {
        let catalog = self.catalog();
        let arrays = places_of_arrays(&catalog, text, types);
        // An array that a list stands in place of has the type of its elements.
        let types =
            types.iter().enumerate().map(|(at, number)| match pgtype::of_elements(&catalog, *number) {
                Some(element) if arrays.contains(&at) => Ok(Some(element)),
                _ => pgtype::of_number(&catalog, *number),
            });
        let types = types.collect::<Result<Vec<_>, _>>().map_err(|number| {
            SqlError::unsupported(&format!("the type with number {number}"), Some("Send the value as text."))
        })?;
        if name.is_empty() {
            self.statements.remove("");
        }
        let prepared = match self.block.changing {
            None => self.shared.cache.prepare(text, types, &catalog),
            Some(_) => Prepared::new(text, types, &catalog).map(Arc::new),
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(_) if self.block.failed => return Err(super::block::in_failed().into()),
            Err(error) => return Err(error.into()),
        };
        if self.block.failed
            && let Ok(Some(ready)) = prepared.ready(&catalog, self.block.changing.is_none())
            && !ready.ends_failure()
        {
            return Err(super::block::in_failed().into());
        }
        self.keep(name, prepared)?;
        self.transport.out.parse_complete();
        Ok(())
    }

    /// Keeps a statement under a name.
    pub(super) fn keep(&mut self, name: &str, prepared: Arc<Prepared>) -> Result<(), SqlError> {
        if !name.is_empty() && self.statements.contains(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(SqlState(*b"42P05"), message));
        }
        if self.statements.len() >= MOST_NAMES {
            let message = format!("a session has at most {MOST_NAMES} prepared statements");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT, message).with_hint("DEALLOCATE some of them."));
        }
        let texts = || self.statements.values().map(|known| known.text_bytes()).sum::<usize>();
        if !name.is_empty() && texts() + prepared.text_bytes() > MOST_TEXTS {
            let message = format!("the prepared statements of a session are longer than {MOST_TEXTS} bytes");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT, message).with_hint("DEALLOCATE some of them."));
        }
        self.statements.insert(name, prepared);
        Ok(())
    }

    /// Whether the session's portals and cursors may keep this many bytes more.
    pub(super) fn may_keep(&self, bytes: usize) -> Result<(), SqlError> {
        let kept = self.portals.values().map(|portal| portal.bytes).sum::<usize>() + self.bytes_of_cursors();
        if kept + bytes <= MOST_KEPT {
            return Ok(());
        }
        let message = format!("the portals and cursors of a session keep more than {} MiB", MOST_KEPT >> 20);
        Err(SqlError::new(SqlState(*b"53200"), message).with_hint("Close some of them."))
    }

    fn statement(&self, name: &str) -> Result<&Arc<Prepared>, SqlError> {
        self.statements.get(name).ok_or_else(|| super::no_statement(name))
    }

    pub(super) fn bind(&mut self, bind: &Bind<'_>) -> Result<(), Failure> {
        let prepared = Arc::clone(self.statement(bind.statement)?);
        let ready = self.ready_of(&prepared)?;
        if self.block.failed && !ready.as_ref().is_none_or(|ready| ready.ends_failure()) {
            return Err(super::block::in_failed().into());
        }
        let types = ready.as_ref().map_or(&[][..], |ready| &ready.params);
        if types.len() != bind.values.len() {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
                bind.values.len(),
                bind.statement,
                types.len()
            );
            return Err(violation(message).into());
        }
        let named = ready.as_ref().map(|ready| self.named_shape(ready)).transpose()?.flatten();
        let own = ready.as_ref().and_then(|ready| ready.fields.as_ref());
        let columns = named.as_ref().map(|(fields, _)| fields).or(own).map_or(0, Vec::len);
        if bind.results.len() > 1 && bind.results.len() != columns {
            let message = format!(
                "bind message has {} result formats but query has {columns} columns",
                bind.results.len()
            );
            return Err(violation(message).into());
        }
        let zone = self.settings.zone();
        let is_array = |at: usize| prepared.arrays().contains(&at);
        let mut params = Vec::with_capacity(bind.values.len());
        for (i, value) in bind.values.iter().enumerate() {
            params.push(match value {
                None => Datum::Null,
                Some(_) if is_array(i) => Datum::Null,
                Some(bytes) => format::read(types[i], bytes, Format::of(&bind.formats, i), &zone)?,
            });
        }
        if !bind.portal.is_empty() && self.portals.contains(bind.portal) {
            let message = format!("portal \"{}\" already exists", bind.portal);
            return Err(SqlError::new(SqlState(*b"42P03"), message).into());
        }
        if self.portals.len() >= MOST_NAMES {
            let message = format!("a transaction has at most {MOST_NAMES} portals");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT, message).into());
        }
        let filled = match &ready {
            Some(ready) if !prepared.arrays().is_empty() => Some(self.with_arrays(&prepared, ready, bind)?),
            _ => None,
        };
        let (prepared, ready) = filled.unwrap_or((prepared, ready));
        let mut bytes = 0;
        if !bind.portal.is_empty() {
            bytes = bind.values.iter().flatten().map(|value| value.len()).sum();
            self.may_keep(bytes)?;
        }
        let (formats, state) = (bind.results.clone(), State::Bound);
        let portal = Portal { prepared, ready, params, formats, bytes, state };
        self.portals.insert(bind.portal, portal);
        self.transport.out.bind_complete();
        Ok(())
    }

    /// The statement compiled for the arrays that the client binds.
    fn with_arrays(
        &self,
        prepared: &Prepared,
        ready: &Ready,
        bind: &Bind<'_>,
    ) -> Result<(Arc<Prepared>, Option<Arc<Ready>>), SqlError> {
        let mut arrays = HashMap::new();
        for at in prepared.arrays() {
            let bytes = bind.values.get(*at).copied().flatten();
            let read = |bytes| format::read_array(ready.params[*at], bytes, Format::of(&bind.formats, *at));
            arrays.insert(*at, bytes.map(read).transpose()?);
        }
        let of = |at: usize| (arrays.get(&at).cloned().flatten(), ready.params[at]);
        let filled = Arc::new(prepared.with_arrays(ready, &of, &self.catalog())?);
        let ready = self.ready_of(&filled)?;
        Ok((filled, ready))
    }

    pub(super) fn describe(&mut self, target: Target, name: &str) -> Result<(), Failure> {
        match target {
            Target::Statement => {
                let prepared = Arc::clone(self.statement(name)?);
                let ready = self.ready_of(&prepared)?;
                let params = ready.as_ref().map_or(&[][..], |ready| &ready.params);
                let number = |(at, ty): (usize, &SqlType)| match prepared.arrays().contains(&at) {
                    true => pgtype::array_number(*ty),
                    false => pgtype::number(*ty),
                };
                self.transport.out.parameter_description(params.iter().enumerate().map(number));
                self.describe_rows(ready.as_deref(), &[])?;
            }
            Target::Portal => {
                let Some(portal) = self.portals.get(name) else {
                    // A cursor that SQL has declared is a portal of its name.
                    let cursor = self.cursor(name).map_err(|_| no_portal(name))?;
                    let fields = cursor.fields.clone();
                    self.transport.out.row_description(&fields, &[]);
                    return Ok(());
                };
                let (ready, formats) = (portal.ready.clone(), portal.formats.clone());
                self.describe_rows(ready.as_deref(), &formats)?;
            }
        }
        Ok(())
    }

    fn describe_rows(&mut self, ready: Option<&Ready>, formats: &[Format]) -> Result<(), SqlError> {
        let Some(ready) = ready.filter(|ready| !ready.is_copy()) else {
            self.transport.out.no_data();
            return Ok(());
        };
        let named = self.named_shape(ready)?;
        match named.as_ref().map(|(fields, _)| fields).or(ready.fields.as_ref()) {
            Some(fields) if named.is_none() && formats.iter().all(|format| *format == Format::Text) => {
                self.transport.out.bytes.extend_from_slice(ready.described(fields));
            }
            Some(fields) => self.transport.out.row_description(fields, formats),
            None => self.transport.out.no_data(),
        }
        Ok(())
    }

    /// The columns of the cursor or of the prepared statement that a statement names, and their
    /// types; `None` for other statements, and where it has no rows.
    ///
    /// # Errors
    /// If there is no such cursor or statement.
    pub(super) fn named_shape(&self, ready: &Ready) -> Result<Option<Shape>, SqlError> {
        match &ready.compiled {
            Compiled::Session(About::Fetch(fetch)) if !fetch.moves => {
                let cursor = self.cursor(&fetch.cursor)?;
                Ok(Some((cursor.fields.clone(), cursor.types.clone())))
            }
            Compiled::Execute { name, .. } => {
                let named = self.ready_of(self.statement(name)?)?;
                Ok(named.and_then(|named| Some((named.fields.clone()?, named.types.clone()))))
            }
            _ => Ok(None),
        }
    }

    /// Closing what is not there is no error.
    pub(super) fn close(&mut self, target: Target, name: &str) -> Result<(), Failure> {
        match target {
            Target::Statement => drop(self.statements.remove(name)),
            Target::Portal => drop(self.portals.remove(name)),
        }
        self.transport.out.close_complete();
        Ok(())
    }

    pub(super) async fn execute(&mut self, name: &str, most: u32) -> Result<(), Failure> {
        let mut portal = self.portals.remove(name).ok_or_else(|| no_portal(name))?;
        if matches!(portal.state, State::Bound) {
            if !pin!(self.start(&mut portal)).await? {
                return Ok(());
            }
            if let State::Rows { rows, .. } = &portal.state
                && most > 0
            {
                portal.bytes = bytes_of(rows.as_slice());
                self.may_keep(portal.bytes)?;
            }
        }
        let State::Rows { rows, types, tag } = &mut portal.state else {
            let message = format!("portal \"{name}\" cannot be run");
            return Err(SqlError::new(SqlState(*b"55000"), message).into());
        };
        let mut count = 0;
        while most == 0 || count < most {
            let Some(row) = rows.next() else { break };
            pin!(self.give_row(types, &row, &portal.formats)).await?;
            count += 1;
        }
        if most > 0 && count == most {
            // Whether there are more is found by the next Execute, as in PostgreSQL.
            self.transport.out.portal_suspended();
        } else {
            match tag {
                RowsTag::Counted(word) => self.transport.out.command_counted(word, count.into()),
                RowsTag::Whole(tag) => self.transport.out.command_complete(tag),
            }
            if rows.len() == 0 && matches!(tag, RowsTag::Whole(_)) {
                portal.state = State::Done;
            }
        }
        self.portals.insert(name, portal);
        Ok(())
    }

    /// Carries the portal's statement out. Returns whether it has rows; else all is answered.
    async fn start(&mut self, portal: &mut Portal) -> Result<bool, Failure> {
        let is_copy = portal.ready.as_ref().is_some_and(|ready| ready.is_copy());
        let reach = match self.block.kind {
            // The client of a COPY waits for the server before it goes on.
            Kind::None if is_copy || self.transport.next_tag().await? == b'S' => Reach::Alone,
            _ => Reach::WithOthers,
        };
        let mut params = std::mem::take(&mut portal.params);
        let mut prepared = Arc::clone(&portal.prepared);
        if portal.ready.as_ref().is_some_and(|ready| matches!(ready.compiled, Compiled::Execute { .. })) {
            (prepared, params) = self.named(prepared)?;
        }
        let carried = pin!(self.carry(&prepared, params, reach)).await?;
        portal.state = State::Done;
        match carried {
            None => self.transport.out.empty_query(),
            Some((_, Product::Done(tag))) => self.transport.out.command_complete(&tag),
            Some((ready, Product::Rows { rows, tag })) => {
                let named = self.named_shape(&ready)?;
                let types = named.map_or_else(|| ready.types.clone(), |(_, types)| types);
                portal.state = State::Rows { rows: rows.into_iter(), types, tag };
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) async fn sync(&mut self) -> Result<(), Lost> {
        self.skips = false;
        if self.block.kind == Kind::Implicit
            && let Err(error) = Box::pin(self.commit()).await
        {
            self.transport.out.error(Severity::Error, &error);
        }
        if self.block.kind == Kind::None {
            self.portals.clear();
        }
        pin!(self.ready()).await
    }
}
