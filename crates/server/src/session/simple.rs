//! The simple protocol: a text of statements, each with its result, all of them one transaction.

use super::block::Kind;
use super::carry::{Product, Reach, RowsTag};
use super::{Failure, Session, Stream};
use crate::engine::Engine;
use crate::format;
use crate::incoming::Format;
use crate::language::{Prepared, Ready};
use crate::password;
use crate::transport::Lost;
use compiler::Parsed;
use compiler::compiled::Compiled;
use sql::{Datum, SqlError, SqlState};
use std::sync::Arc;

impl<S: Stream, E: Engine> Session<S, E> {
    pub(super) async fn query(&mut self, text: &str) -> Result<(), Lost> {
        self.statements.remove("");
        if let Some(change) = password::change(text) {
            return self.change_password(change).await;
        }
        let outcome = match compiler::parse(text) {
            Ok(statements) if statements.is_empty() => {
                self.transport.out.empty_query();
                Ok(())
            }
            Ok(statements) => self.statements_of(statements).await,
            Err(_) if self.block.failed => Err(super::block::in_failed().into()),
            Err(error) => Err(error.into()),
        };
        match outcome {
            Ok(()) => {}
            Err(Failure::Statement(error)) => self.failed(&error).await,
            Err(Failure::Over(lost)) => return Err(lost),
        }
        self.end_implicit().await;
        self.ready().await
    }

    async fn change_password(&mut self, change: Result<Option<String>, SqlError>) -> Result<(), Lost> {
        let changed = change.and_then(|password| {
            let cannot =
                |why| SqlError::new(SqlState(*b"58030"), format!("the password is not stored: {why}"));
            self.shared.access.set_password(password.as_deref()).map_err(cannot)
        });
        match changed {
            Ok(()) => self.transport.out.command_complete("ALTER ROLE"),
            Err(error) => self.failed(&error).await,
        }
        self.ready().await
    }

    async fn statements_of(&mut self, statements: Vec<Parsed>) -> Result<(), Failure> {
        let reach = if statements.len() > 1 { Reach::WithOthers } else { Reach::Alone };
        for parsed in statements {
            self.one(parsed, reach).await?;
        }
        if self.block.kind == Kind::Implicit {
            self.commit().await?;
        }
        Ok(())
    }

    async fn one(&mut self, parsed: Parsed, reach: Reach) -> Result<(), Failure> {
        let prepared = match Prepared::of(Some(parsed), Vec::new(), &self.catalog()) {
            Ok(prepared) => prepared,
            Err(_) if self.block.failed => return Err(super::block::in_failed().into()),
            Err(error) => return Err(error.into()),
        };
        let (prepared, params) = self.named(Arc::new(prepared))?;
        let Some((ready, product)) = self.carry(&prepared, params, reach).await? else { return Ok(()) };
        self.give_whole(&ready, product).await?;
        Ok(())
    }

    /// The statement to carry out, with its parameters: for `EXECUTE` the prepared one that it
    /// names, else the statement itself.
    pub(super) fn named(&self, prepared: Arc<Prepared>) -> Result<(Arc<Prepared>, Vec<Datum>), SqlError> {
        let ready = self.ready_of(&prepared)?;
        if let Some(Compiled::Execute { name, args }) = ready.as_ref().map(|ready| &ready.compiled) {
            let named = self.statements.get(name).ok_or_else(|| super::no_statement(name))?;
            if !named.arrays().is_empty() {
                let hint = "Bind the parameters by the protocol, or write the arrays into the statement.";
                return Err(SqlError::unsupported("EXECUTE with arrays", Some(hint)));
            }
            let wanted = self.ready_of(named)?;
            let params = wanted.as_ref().map_or(&[][..], |ready| &ready.params);
            return Ok((
                Arc::clone(named),
                super::filling::arguments(name, args, params, &self.settings.zone())?,
            ));
        }
        match ready {
            Some(ready) if !ready.params.is_empty() => {
                Err(SqlError::new(SqlState(*b"42P02"), "there is no parameter $1"))
            }
            _ => Ok((prepared, Vec::new())),
        }
    }

    /// Sends a result in text form.
    async fn give_whole(&mut self, ready: &Ready, product: Product) -> Result<(), Failure> {
        let (rows, tag) = match product {
            Product::Done(tag) => {
                self.transport.out.command_complete(&tag);
                return Ok(());
            }
            Product::Rows { rows, tag } => (rows, tag),
        };
        let named = self.named_shape(ready)?;
        let (fields, types) = match &named {
            Some((fields, types)) => (&fields[..], &types[..]),
            None => (ready.fields.as_deref().unwrap_or(&[]), &ready.types[..]),
        };
        self.transport.out.row_description(fields, &[]);
        for row in &rows {
            self.give_row(types, row, &[]).await?;
        }
        match tag {
            RowsTag::Counted(word) => self.transport.out.command_counted(word, rows.len() as u64),
            RowsTag::Whole(tag) => self.transport.out.command_complete(&tag),
        }
        Ok(())
    }

    pub(super) async fn give_row(
        &mut self,
        types: &[sql::SqlType],
        row: &[Datum],
        formats: &[Format],
    ) -> Result<(), Lost> {
        let zone = self.settings.zone();
        self.transport.out.data_row(types.len().min(row.len()), |i, out| {
            format::write(types[i], &row[i], Format::of(formats, i), &zone, out)
        });
        self.transport.relieve().await
    }
}
