//! The relations of `WITH` before a part of a statement.

use crate::Stop;
use crate::compiled::Field;
use crate::expressions::Compiler;
use crate::parse::writes;
use sqlparser::ast;

/// The relations of `WITH` that a part may name.
#[derive(Clone, Default)]
pub struct Before<'b> {
    pub tables: &'b [ast::Cte],
    pub recursive: bool,
    /// The columns of those that write, in their order: none without `RETURNING`.
    pub given: Vec<Vec<Field>>,
}

impl Before<'_> {
    /// Makes the names known.
    pub fn reach(&self, compiler: &mut Compiler<'_>) -> Result<(), Stop> {
        let mut given = self.given.iter().enumerate();
        for table in self.tables {
            if writes(&table.query.body) {
                let (part, fields) = given.next().ok_or(Stop::General("WITH"))?;
                compiler.given_table(table, fields, part)?;
            } else {
                compiler.with_table(table, self.recursive)?;
            }
        }
        Ok(())
    }
}
