//! `COPY`: rows of the client into a table, or rows of a table or a query to the client.

use super::block::Kind;
use super::carry::Product;
use super::defining::quoted;
use super::general::in_parts;
use super::{Failure, Session, Stream};
use crate::copy_format::{Reader, Writer};
use crate::engine::{Engine, RunError, outcomes};
use crate::format;
use crate::incoming::{Format, Message, violation};
use crate::language::{Ready, copied, copy_format};
use crate::transport::{Frame, Lost};
use compiler::compiled::{Compiled, Copied, Copy, Direction, Query};
use sql::catalog::{Catalog, Oid};
use sql::database::Command;
use sql::program::{InsertRows, Program, Statement};
use sql::{Datum, Expr, SqlError, SqlState, SqlType};
use std::sync::Arc;

/// Rows, and bytes of their values, that one program stores: much more than a round trip costs, and
/// far below the longest message.
const ROWS_AT_ONCE: usize = 500;
const BYTES_AT_ONCE: usize = 1 << 20;

impl<S: Stream, E: Engine> Session<S, E> {
    pub(super) async fn copy(&mut self, ready: &Ready, copy: &Copy) -> Result<Product, Failure> {
        if let (Copied::General(..), Some(plan)) = (&copy.what, &ready.plan) {
            let rows = self.answer(plan, Vec::new()).await?;
            let names: Vec<String> = plan.columns().iter().map(|column| column.field.name.clone()).collect();
            return self.send_rows(ready, copy, &names, &rows).await;
        }
        let Some(query) = copied(copy) else {
            return Err(SqlError::unsupported("this form of COPY", None).into());
        };
        match (copy.direction, &copy.what) {
            (Direction::FromClient, Copied::Table { columns, .. }) => {
                if self.block.read_only {
                    let message = "cannot execute COPY FROM in a read-only transaction";
                    return Err(SqlError::new(SqlState(*b"25006"), message).into());
                }
                self.transport.out.copy_in(copy_format(copy), columns.len());
                self.transport.flush().await?;
                self.take_rows(copy, query, columns.len()).await
            }
            (Direction::ToClient, Copied::Query(_)) => self.send_query(ready, copy, query).await,
            (Direction::ToClient, Copied::Table { table, columns, .. }) => {
                let catalog = self.catalog();
                let parsed = compiler::parse(&of_table(&catalog, *table, columns)?)?.pop();
                let ready = parsed.map(|parsed| Ready::of(&parsed, &[], &catalog)).transpose()?;
                match ready.as_ref().map(|ready| (ready, &ready.compiled)) {
                    Some((ready, Compiled::Query(query))) => self.send_query(ready, copy, query).await,
                    _ => Err(SqlError::unsupported("this form of COPY", None).into()),
                }
            }
            (_, Copied::General(..)) => Err(SqlError::unsupported("this form of COPY", None).into()),
            (Direction::FromClient, Copied::Query(_)) => {
                Err(SqlError::new(SqlState::SYNTAX_ERROR, "COPY query FROM is not possible").into())
            }
        }
    }

    async fn take_rows(&mut self, copy: &Copy, query: &Query, columns: usize) -> Result<Product, Failure> {
        let mut reader = Reader::new(&copy.options, columns);
        let mut load = Load { rows: Vec::new(), bytes: 0, count: 0 };
        loop {
            let Frame::Message { tag, body } = self.transport.frame().await? else {
                return Err(violation("a message of COPY is too long").into());
            };
            let ended = match Message::read(tag, &body)? {
                Message::CopyData(data) => {
                    reader.push(data);
                    false
                }
                Message::CopyDone => {
                    reader.end();
                    true
                }
                Message::CopyFail(why) => {
                    let message = format!("COPY from stdin failed: {why}");
                    return Err(SqlError::new(SqlState(*b"57014"), message).into());
                }
                Message::Flush | Message::Sync => false,
                Message::Terminate => return Err(Lost::Gone.into()),
                _ => return Err(violation("unexpected message type during COPY from stdin").into()),
            };
            while let Some(fields) = reader.next()? {
                let types = &query.program.params[..columns.min(query.program.params.len())];
                load.push(self.row(types, query, &fields, copy).await?, &fields);
                if load.is_full() {
                    self.store(query, &mut load).await?;
                }
            }
            if ended {
                self.store(query, &mut load).await?;
                return Ok(Product::Done(format!("COPY {}", load.count)));
            }
        }
    }

    /// The parameters of the program that stores one row.
    async fn row(
        &mut self,
        types: &[SqlType],
        query: &Query,
        fields: &[Option<Vec<u8>>],
        copy: &Copy,
    ) -> Result<Vec<Datum>, Failure> {
        let (form, zone) = (copy_format(copy), self.settings.zone());
        let mut values = Vec::with_capacity(fields.len() + query.fills.len());
        for (field, ty) in fields.iter().zip(types) {
            values.push(match field {
                None => Datum::Null,
                Some(bytes) => format::read(*ty, bytes, form, &zone)?,
            });
        }
        self.fill(&query.fills, &mut values).await?;
        Ok(values)
    }

    /// Stores the rows that were read.
    async fn store(&mut self, query: &Query, load: &mut Load) -> Result<(), Failure> {
        if load.rows.is_empty() {
            return Ok(());
        }
        debug_assert!(self.block.kind != Kind::None, "a COPY is in a transaction");
        let rows = std::mem::take(&mut load.rows);
        load.bytes = 0;
        let program = Arc::new(of_rows(&query.program, &rows)?);
        let call = self.call_of(program, Vec::new(), self.block.now);
        let answer = self.command(Command::Run(call)).await?;
        let outcomes = outcomes(answer).map_err(RunError::into_sql)?;
        load.count += outcomes.iter().map(|outcome| outcome.count).sum::<u64>();
        Ok(())
    }

    /// Sends the rows of a program: those of a whole table in parts, as they come.
    async fn send_query(&mut self, ready: &Ready, copy: &Copy, query: &Query) -> Result<Product, Failure> {
        let mut params = Vec::new();
        self.fill(&query.fills, &mut params).await?;
        let names: Vec<String> = query.output.iter().map(|field| field.name.clone()).collect();
        let Some(program) = in_parts(&query.program) else {
            let rows = self.run_program(ready, params).await?.pop().unwrap_or_default().rows;
            return self.send_rows(ready, copy, &names, &rows).await;
        };
        let program = Arc::new(program);
        let (mut place, mut sending) = (Some(Vec::new()), None);
        while let Some(begin) = place.take() {
            let mut params = params.clone();
            params.push(Datum::Bytes(begin));
            let call = self.call_of(Arc::clone(&program), params, self.block.now);
            let answer = self.command(Command::Run(call)).await?;
            let part = outcomes(answer).map_err(RunError::into_sql)?.pop().unwrap_or_default();
            let sending = sending.get_or_insert_with(|| self.begin_rows(ready, copy, &names));
            self.send_part(ready, sending, &part.rows).await?;
            place = part.rest;
        }
        match sending {
            Some(sending) => Ok(self.end_rows(sending)),
            None => self.send_rows(ready, copy, &names, &[]).await,
        }
    }

    async fn send_rows(
        &mut self,
        ready: &Ready,
        copy: &Copy,
        names: &[String],
        rows: &[Vec<Datum>],
    ) -> Result<Product, Failure> {
        let mut sending = self.begin_rows(ready, copy, names);
        self.send_part(ready, &mut sending, rows).await?;
        Ok(self.end_rows(sending))
    }

    fn begin_rows<'o>(&mut self, ready: &Ready, copy: &'o Copy, names: &[String]) -> Sending<'o> {
        let writer = Writer::new(&copy.options);
        let form = copy_format(copy);
        self.transport.out.copy_out(form, ready.types.len());
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut beginning = Vec::new();
        writer.begin(&names, &mut beginning);
        if form == Format::Text && !beginning.is_empty() {
            self.transport.out.copy_data(|out| out.append(&mut beginning));
        }
        Sending { writer, form, beginning, count: 0 }
    }

    async fn send_part(
        &mut self,
        ready: &Ready,
        sending: &mut Sending<'_>,
        rows: &[Vec<Datum>],
    ) -> Result<(), Failure> {
        let mut text = Vec::new();
        let (form, zone) = (sending.form, self.settings.zone());
        for row in rows {
            self.transport.out.copy_data(|out| {
                // Clients expect the signature of the binary format in the first row's message.
                out.append(&mut sending.beginning);
                sending.writer.row(ready.types.len(), out, |i, out| {
                    text.clear();
                    let is_there = format::write(ready.types[i], &row[i], form, &zone, &mut text);
                    is_there.then(|| out.extend_from_slice(&text)).is_some()
                });
            });
            self.transport.relieve().await?;
        }
        sending.count += rows.len();
        Ok(())
    }

    fn end_rows(&mut self, mut sending: Sending<'_>) -> Product {
        if sending.form == Format::Binary {
            self.transport.out.copy_data(|out| {
                out.append(&mut sending.beginning);
                out.extend_from_slice(&[0xff, 0xff]);
            });
        }
        self.transport.out.copy_done();
        Product::Done(format!("COPY {}", sending.count))
    }
}

/// A COPY to the client under way.
struct Sending<'o> {
    writer: Writer<'o>,
    form: Format,
    /// What precedes the first row.
    beginning: Vec<u8>,
    count: usize,
}

/// The query of all rows of a table.
fn of_table(catalog: &Catalog, table: Oid, columns: &[u16]) -> Result<String, SqlError> {
    let missing = || SqlError::new(SqlState::UNDEFINED_TABLE, "the table does not exist any more");
    let table = catalog.tables.get(&table).ok_or_else(missing)?;
    let names: Vec<String> =
        columns.iter().map(|column| quoted(&table.columns[usize::from(*column)].name)).collect();
    Ok(format!("SELECT {} FROM {}", names.join(", "), quoted(&table.name)))
}

/// Rows on their way into a table.
struct Load {
    /// A value for each parameter of the program that stores one row.
    rows: Vec<Vec<Datum>>,
    bytes: usize,
    count: u64,
}

impl Load {
    fn push(&mut self, row: Vec<Datum>, fields: &[Option<Vec<u8>>]) {
        self.bytes += fields.iter().flatten().map(Vec::len).sum::<usize>();
        self.rows.push(row);
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= ROWS_AT_ONCE || self.bytes >= BYTES_AT_ONCE
    }
}

/// The program that stores all `rows`, from the one that stores a row.
fn of_rows(program: &Program, rows: &[Vec<Datum>]) -> Result<Program, SqlError> {
    let shape = || SqlError::new(SqlState::INTERNAL, "the program of a COPY stores one row");
    let [Statement::Insert(insert)] = &program.statements[..] else { return Err(shape()) };
    let InsertRows::Values(one) = &insert.rows else { return Err(shape()) };
    let [columns] = &one[..] else { return Err(shape()) };
    let all = rows.iter().map(|row| columns.iter().map(|expr| with(expr, row)).collect()).collect();
    let mut insert = insert.clone();
    insert.rows = InsertRows::Values(all);
    Ok(Program {
        statements: vec![Statement::Insert(insert)],
        params: Vec::new(),
        only_reads: program.only_reads,
        flow: None,
    })
}

/// The expression with the parameters' values in it. A value of a column is its parameter, perhaps
/// in a cast; a default has none but the fills.
fn with(expr: &Expr, params: &[Datum]) -> Expr {
    match expr {
        Expr::Param(i) => Expr::Const(params.get(usize::from(*i)).cloned().unwrap_or(Datum::Null)),
        Expr::Cast { expr, from, to, explicit } => {
            Expr::Cast { expr: Box::new(with(expr, params)), from: *from, to: *to, explicit: *explicit }
        }
        other => other.clone(),
    }
}
