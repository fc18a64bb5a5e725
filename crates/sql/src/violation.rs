//! Constraints that rows break: what is looked at, and the errors in PostgreSQL's words. The
//! message names the constraint, the detail has the values.

use crate::bound::Bound;
use crate::datetime::zone::Zone;
use crate::program::{Checked, Reference, ReferenceKind, Stored};
use crate::row::StoredColumn;
use crate::{Datum, SqlError, SqlState, text};

/// The most bytes of a value in a detail that has a whole row.
const LONGEST: usize = 64;

/// What is wrong with a row by itself.
enum Violation<'a> {
    Null(&'a StoredColumn),
    Check(&'a Checked),
}

impl Stored {
    /// Whether a new row has a value where it must, and meets its conditions.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self, checks: &[Checked], bound: &Bound, values: &Vec<Datum>) -> Result<(), SqlError> {
        let Some(violation) = self.violation(checks, bound, values)? else { return Ok(()) };
        let error = match violation {
            Violation::Null(column) => self.null(
                column,
                format!(
                    "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                    column.name, self.name
                ),
            ),
            Violation::Check(check) => self.unmet(
                check,
                format!(
                    "new row for relation \"{}\" violates check constraint \"{}\"",
                    self.name, check.name
                ),
            ),
        };
        Err(error.with_detail(format!("Failing row contains ({}).", self.row_text(values, &bound.zone))))
    }

    /// As [`Stored::check`], for a row that was stored before the constraint came.
    ///
    /// # Errors
    /// The first violation.
    pub(crate) fn check_stored(
        &self,
        checks: &[Checked],
        bound: &Bound,
        values: &Vec<Datum>,
    ) -> Result<(), SqlError> {
        Err(match self.violation(checks, bound, values)? {
            None => return Ok(()),
            Some(Violation::Null(column)) => self.null(
                column,
                format!("column \"{}\" of relation \"{}\" contains null values", column.name, self.name),
            ),
            Some(Violation::Check(check)) => self.unmet(
                check,
                format!(
                    "check constraint \"{}\" of relation \"{}\" is violated by some row",
                    check.name, self.name
                ),
            ),
        })
    }

    fn violation<'a>(
        &'a self,
        checks: &'a [Checked],
        bound: &Bound,
        values: &Vec<Datum>,
    ) -> Result<Option<Violation<'a>>, SqlError> {
        let mut columns = self.columns.iter().zip(values);
        if let Some((column, _)) = columns.find(|(column, value)| value.is_null() && !column.nullable) {
            return Ok(Some(Violation::Null(column)));
        }
        for check in checks {
            if check.condition.eval(&bound.context(), values)? == Datum::Bool(false) {
                return Ok(Some(Violation::Check(check)));
            }
        }
        Ok(None)
    }

    fn null(&self, column: &StoredColumn, message: String) -> SqlError {
        let mut error = SqlError::new(SqlState::NOT_NULL_VIOLATION, message);
        (error.table, error.column) = (Some(self.name.clone()), Some(column.name.clone()));
        error
    }

    fn unmet(&self, check: &Checked, message: String) -> SqlError {
        SqlError::new(SqlState::CHECK_VIOLATION, message).on_constraint(&self.name, &check.name)
    }

    /// A key that is there already: of an index, or of the table.
    pub(crate) fn duplicate(&self, index: Option<usize>, values: &[Datum]) -> SqlError {
        let (name, positions) = match index {
            None => (&self.key_name, &self.key),
            Some(index) => (&self.indexes[index].name, &self.indexes[index].columns),
        };
        let message = format!("duplicate key value violates unique constraint \"{name}\"");
        SqlError::new(SqlState::UNIQUE_VIOLATION, message)
            .with_detail(format!("Key {} already exists.", self.key_text(positions, values, &Zone::UTC)))
            .on_constraint(&self.name, name)
    }

    /// Two stored rows with one key of an index that is to be unique.
    pub(crate) fn duplicated(&self, index: usize, values: &[Datum]) -> SqlError {
        let index = &self.indexes[index];
        let message = format!("could not create unique index \"{}\"", index.name);
        SqlError::new(SqlState::UNIQUE_VIOLATION, message)
            .with_detail(format!("Key {} is duplicated.", self.key_text(&index.columns, values, &Zone::UTC)))
            .on_constraint(&self.name, &index.name)
    }

    /// A row of which the foreign key has no row in the table `other`.
    pub fn refers_to_none(
        &self,
        name: &str,
        columns: &[u16],
        values: &[Datum],
        other: &str,
        zone: &Zone,
    ) -> SqlError {
        let message =
            format!("insert or update on table \"{}\" violates foreign key constraint \"{name}\"", self.name);
        SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message)
            .with_detail(format!(
                "Key {} is not present in table \"{other}\".",
                self.key_text(columns, values, zone)
            ))
            .on_constraint(&self.name, name)
    }

    /// Some columns of a row: `(a, b)=(1, x)`.
    fn key_text(&self, positions: &[u16], values: &[Datum], zone: &Zone) -> String {
        let column = |&position: &u16| &self.columns[usize::from(position)];
        let names: Vec<&str> = positions.iter().map(|position| column(position).name.as_str()).collect();
        let texts = positions
            .iter()
            .map(|position| text::to_string_in(column(position).ty, &values[usize::from(*position)], zone));
        format!("({})=({})", names.join(", "), texts.collect::<Vec<_>>().join(", "))
    }

    /// All columns of a row: `1, null, x`. Long values are cut.
    fn row_text(&self, values: &[Datum], zone: &Zone) -> String {
        let shown = self.columns.iter().zip(values).filter(|(column, _)| !column.dropped);
        let texts = shown.map(|(column, value)| {
            if value.is_null() {
                return "null".to_string();
            }
            let mut text = text::to_string_in(column.ty, value, zone);
            if text.len() > LONGEST {
                text.truncate(text.floor_char_boundary(LONGEST));
                text.push_str("...");
            }
            text
        });
        texts.collect::<Vec<_>>().join(", ")
    }
}

impl Reference {
    /// The foreign key does not hold for a row of the changed table. `values` is the row by which
    /// the other table's rows are found.
    pub(crate) fn broken(&self, values: &[Datum], zone: &Zone) -> SqlError {
        let Reference { name, other, changed, .. } = self;
        let other = &other.table.name;
        if self.kind == ReferenceKind::MustExist {
            return changed.refers_to_none(name, &self.columns, values, other, zone);
        }
        let message = format!(
            "update or delete on table \"{}\" violates foreign key constraint \"{name}\" on table \"{other}\"",
            changed.name
        );
        let key = changed.key_text(&self.columns, values, zone);
        SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message)
            .with_detail(format!("Key {key} is still referenced from table \"{other}\"."))
            .on_constraint(other, name)
    }
}
