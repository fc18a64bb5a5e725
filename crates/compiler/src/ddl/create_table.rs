//! `CREATE TABLE`.

use super::{Changing, KeyKind};
use crate::coerce::{How, Params, Typed};
use crate::compiled::Fill;
use crate::error::{INVALID_TABLE_DEFINITION, no_column, syntax};
use crate::expressions::Compiler;
use crate::names::{Scope, folded, in_public, parts};
use crate::types::{self, is_serial};
use sql::SqlType::{Int2, Int4, Int8};
use sql::catalog::{Catalog, Column, ColumnDefault, Oid, Sequence, Slots, Store, Table};
use sql::{Datum, Expr, SqlError, SqlState, SqlType};
use sqlparser::ast::{
    self, ColumnDef, ColumnOption, CreateTable, CreateTableLikeKind, CreateTableOptions, SqlOption,
};

/// Successive integers that stay in one slot, where the statement declares no partitioning.
const RUN: u32 = 64;
/// The same, where it declares ranges without bounds.
const LONG_RUN: u32 = 4096;

/// Words that other servers' storage has, without a meaning here.
const IGNORED_OPTIONS: [&str; 4] =
    ["fillfactor", "autovacuum_enabled", "toast_tuple_target", "parallel_workers"];

impl Changing {
    pub fn create_table(&mut self, create: &CreateTable) -> Result<&'static str, SqlError> {
        const TAG: &str = "CREATE TABLE";
        refuse(create)?;
        let name = super::name(&create.name)?;
        if let Some(parent) = &create.partition_of {
            let parent = &self.table_named(&super::name(parent)?)?.name;
            let notice = format!(
                "partition \"{name}\" is no table of its own: the rows of \"{parent}\" are spread over its slots"
            );
            self.change.notices.push(notice);
            return Ok(TAG);
        }
        if self.is_taken(&name) {
            return match create.if_not_exists {
                true => {
                    self.change.notices.push(format!("relation \"{name}\" already exists, skipping"));
                    Ok(TAG)
                }
                false => Err(super::taken(&name)),
            };
        }
        self.refuse_type_name(&name)?;
        let oid = self.oid();
        let store = self.store()?;
        let mut table = Table {
            oid,
            name,
            columns: Vec::new(),
            key: Vec::new(),
            key_name: String::new(),
            store,
            slots: Slots::Runs { position: 0, run: RUN },
            indexes: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
        };
        if let Some(CreateTableLikeKind::Plain(like) | CreateTableLikeKind::Parenthesized(like)) =
            &create.like
        {
            self.copy_columns(&mut table, &in_public(&like.name).map_err(super::plain)?, like.defaults)?;
        }
        for definition in &create.columns {
            let column = column(&self.change.catalog, &table, definition)?;
            table.columns.push(column);
        }
        self.change.catalog.tables.insert(oid, table);
        self.change.changed.insert(oid);
        for definition in &create.columns {
            self.column_options(oid, definition)?;
        }
        let is_key =
            |constraint: &&ast::TableConstraint| matches!(constraint, ast::TableConstraint::PrimaryKey(_));
        for constraint in create.constraints.iter().filter(is_key) {
            self.add_constraint(oid, constraint, KeyKind::OfEmptyTable)?;
        }
        for constraint in create.constraints.iter().filter(|constraint| !is_key(constraint)) {
            self.add_constraint(oid, constraint, KeyKind::OfEmptyTable)?;
        }
        self.partition(oid, create)?;
        Ok(TAG)
    }

    fn copy_columns(
        &mut self,
        table: &mut Table,
        from: &str,
        defaults: Option<ast::CreateTableLikeDefaults>,
    ) -> Result<(), SqlError> {
        let other = self.table_named(from)?;
        let keeps_defaults = matches!(defaults, Some(ast::CreateTableLikeDefaults::Including));
        for (_, column) in other.visible() {
            let default = column.default.clone().filter(|_| keeps_defaults);
            table.columns.push(Column { default, missing: Datum::Null, ..column.clone() });
        }
        Ok(())
    }

    /// What the column's options add to the table.
    pub fn column_options(&mut self, oid: Oid, definition: &ColumnDef) -> Result<(), SqlError> {
        let name = folded(&definition.name);
        if is_serial(&definition.data_type) {
            self.own_sequence(oid, &name, None)?;
        }
        for option in &definition.options {
            let constraint_name = option.name.as_ref().map(folded);
            match &option.option {
                ColumnOption::Null | ColumnOption::Comment(_) | ColumnOption::Collation(_) => {}
                ColumnOption::NotNull => self.column_mut(oid, &name)?.nullable = false,
                ColumnOption::Default(expr) => self.set_default(oid, &name, expr)?,
                ColumnOption::PrimaryKey(_) => {
                    self.add_key(oid, std::slice::from_ref(&name), constraint_name, KeyKind::OfEmptyTable)?;
                }
                ColumnOption::Unique(_) => {
                    self.add_unique(
                        oid,
                        std::slice::from_ref(&name),
                        constraint_name,
                        KeyKind::OfEmptyTable,
                    )?;
                }
                ColumnOption::Check(check) => {
                    self.add_check(oid, constraint_name, &check.expr, KeyKind::OfEmptyTable)?;
                }
                ColumnOption::ForeignKey(key) => {
                    self.add_foreign_key(
                        oid,
                        constraint_name,
                        std::slice::from_ref(&name),
                        key,
                        KeyKind::OfEmptyTable,
                    )?;
                }
                ColumnOption::Generated { generation_expr: None, sequence_options, .. } => {
                    self.own_sequence(oid, &name, sequence_options.as_deref())?;
                }
                ColumnOption::Generated { .. } => {
                    return Err(SqlError::unsupported(
                        "a generated column",
                        Some("Compute it in the query."),
                    ));
                }
                other => return Err(SqlError::unsupported(&format!("the column option {other}"), None)),
            }
        }
        Ok(())
    }

    /// A sequence that gives a column its values.
    pub fn own_sequence(
        &mut self,
        table: Oid,
        column: &str,
        options: Option<&[ast::SequenceOptions]>,
    ) -> Result<(), SqlError> {
        let owner = self.table_at(table)?;
        let (position, found) = owner.column(column).ok_or_else(|| no_column(column))?;
        if !matches!(found.ty, Int2 | Int4 | Int8) {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER, message));
        }
        let ty = found.ty;
        let name = self.free_name(&format!("{}_{column}_seq", owner.name));
        let oid = self.oid();
        let mut sequence = super::sequence::fresh(oid, name, ty);
        super::sequence::configure(&mut sequence, options.unwrap_or_default())?;
        sequence.owned_by = Some((table, position));
        self.add_sequence(sequence);
        let column = self.column_mut(table, column)?;
        column.nullable = false;
        column.default = Some(ColumnDefault::Next(oid));
        Ok(())
    }

    fn add_sequence(&mut self, sequence: Sequence) {
        self.change.changed.insert(sequence.oid);
        self.change.catalog.sequences.insert(sequence.oid, sequence);
    }

    pub fn set_default(&mut self, table: Oid, column: &str, expr: &ast::Expr) -> Result<(), SqlError> {
        let ty = self.column_mut(table, column)?.ty;
        let default = default(&self.change.catalog, column, ty, expr)?;
        self.column_mut(table, column)?.default = default;
        Ok(())
    }

    /// The slots that the statement declares: `PARTITION BY`, or `WITH (partition_by = ..)`.
    fn partition(&mut self, oid: Oid, create: &CreateTable) -> Result<(), SqlError> {
        let mut declared = match &create.partition_by {
            None => None,
            Some(by) => Some(partition_clause(by)?),
        };
        let (mut bounds, mut run, mut colocated) = (Vec::new(), None, None);
        if let CreateTableOptions::With(options) | CreateTableOptions::Options(options) =
            &create.table_options
        {
            for option in options {
                match option_text(option)? {
                    (name, value) if name == "partition_by" => {
                        let columns = value.split(',').map(|c| c.trim().to_lowercase()).collect();
                        declared = Some((PartitionKind::Hash, columns));
                    }
                    (name, value) if name == "partition_bounds" => bounds = integers(&value)?,
                    (name, value) if name == "partition_run" => run = Some(run_of(&value)?),
                    (name, value) if name == "colocate_with" => colocated = Some(value.trim().to_lowercase()),
                    (name, _) if name == "replicated" => {
                        let hint =
                            "Each row lies in one slot. Place rows that are read together by colocate_with.";
                        return Err(SqlError::unsupported("a replicated table", Some(hint)));
                    }
                    (name, _) if IGNORED_OPTIONS.contains(&name.as_str()) => {}
                    (name, _) => {
                        let message = format!("unrecognized parameter \"{name}\"");
                        let hint = "Atoll has partition_by, partition_bounds, partition_run, colocate_with, fillfactor (ignored).";
                        return Err(SqlError::new(SqlState::INVALID_PARAMETER, message).with_hint(hint));
                    }
                }
            }
        }
        let slots = match (declared, colocated) {
            (None, None) => return Ok(()),
            (Some((kind, columns)), None) => {
                let kind = run.map_or(kind, PartitionKind::Runs);
                slots_of(self.table_at(oid)?, kind, &columns, bounds)?
            }
            (declared, Some(other)) => {
                let columns = declared.map_or(Vec::new(), |(_, columns)| columns);
                slots_like(self.table_at(oid)?, &columns, self.table_named(&other)?)?
            }
        };
        self.table_mut(oid)?.slots = slots;
        self.place_indexes(oid)
    }
}

#[derive(Clone, Copy)]
enum PartitionKind {
    Hash,
    /// By runs of so many integers.
    Runs(u32),
}

fn slots_of(
    table: &Table,
    kind: PartitionKind,
    columns: &[String],
    bounds: Vec<i64>,
) -> Result<Slots, SqlError> {
    let positions = key_positions(table, columns)?;
    let [position] = positions.as_slice() else {
        return Ok(if positions.is_empty() { table.slots.clone() } else { Slots::Hash(positions) });
    };
    let position = *position;
    let ty = table.columns[usize::from(table.key[usize::from(position)])].ty;
    Ok(match kind {
        _ if !matches!(ty, Int2 | Int4 | Int8) => Slots::Hash(vec![position]),
        _ if !bounds.is_empty() => Slots::Ranges { position, bounds },
        PartitionKind::Runs(run) => Slots::Runs { position, run },
        PartitionKind::Hash => Slots::Hash(vec![position]),
    })
}

/// The positions of columns in the primary key; none of a table without one, of which the rows are
/// spread by their hidden numbers.
fn key_positions(table: &Table, columns: &[String]) -> Result<Vec<u16>, SqlError> {
    let mut positions = Vec::with_capacity(columns.len());
    for name in columns {
        let (column, _) = table.column(name).ok_or_else(|| no_column(name))?;
        if table.key.is_empty() {
            continue;
        }
        let position = table.key.iter().position(|key| *key == column).ok_or_else(|| {
            let message = "unique constraint on partitioned table must include all partitioning columns";
            let detail =
                format!("PRIMARY KEY constraint on table \"{}\" lacks column \"{name}\".", table.name);
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_detail(detail)
        })?;
        positions.push(position as u16);
    }
    Ok(positions)
}

/// Slots in which rows lie beside those of another table that have the same values in the columns
/// by which it is placed. `columns` are this table's, or the first ones of its key.
fn slots_like(table: &Table, columns: &[String], other: &Table) -> Result<Slots, SqlError> {
    let refuse = |why: String| {
        let message = format!("\"{}\" cannot be colocated with \"{}\"", table.name, other.name);
        SqlError::new(INVALID_TABLE_DEFINITION, message).with_detail(why)
    };
    if table.key.is_empty() || other.key.is_empty() {
        return Err(refuse("Both tables need a primary key.".into()));
    }
    let theirs: Vec<u16> = match &other.slots {
        Slots::Hash(positions) => positions.clone(),
        Slots::Runs { position, .. } | Slots::Ranges { position, .. } => vec![*position],
    };
    let ours = match columns {
        [] => (0..theirs.len() as u16).collect(),
        columns => key_positions(table, columns)?,
    };
    let type_at = |table: &Table, position: &u16| {
        table.key.get(usize::from(*position)).map(|column| table.columns[usize::from(*column)].ty)
    };
    let is_alike = |(ours, theirs): (&u16, &u16)| match (type_at(table, ours), type_at(other, theirs)) {
        (Some(ours), Some(theirs)) => {
            types::same_kind(ours, theirs) || types::is_integer(ours) && types::is_integer(theirs)
        }
        _ => false,
    };
    if ours.len() != theirs.len() || !ours.iter().zip(&theirs).all(is_alike) {
        let names: Vec<&str> = theirs
            .iter()
            .filter_map(|at| other.key.get(usize::from(*at)))
            .map(|column| other.columns[usize::from(*column)].name.as_str())
            .collect();
        let why = format!(
            "\"{}\" is placed by ({}); name as many columns of the primary key, of the same types, in partition_by.",
            other.name,
            names.join(", ")
        );
        return Err(refuse(why));
    }
    Ok(match &other.slots {
        Slots::Hash(_) => Slots::Hash(ours),
        Slots::Runs { run, .. } => Slots::Runs { position: ours[0], run: *run },
        Slots::Ranges { bounds, .. } => Slots::Ranges { position: ours[0], bounds: bounds.clone() },
    })
}

/// The slots of a table that declares none.
pub fn slots_by_default(table: &Table) -> Slots {
    let types = table.key.iter().filter_map(|at| table.columns.get(usize::from(*at)).map(|column| column.ty));
    slots_of_key(&types.collect::<Vec<_>>())
}

/// Slots where the statement declares none: integers in runs, everything else by a hash.
pub fn slots_of_key(types: &[SqlType]) -> Slots {
    match types {
        [Int2 | Int4 | Int8] | [] => Slots::Runs { position: 0, run: RUN },
        [Int2 | Int4 | Int8, ..] => Slots::Runs { position: 0, run: 1 },
        _ => Slots::Hash(vec![0]),
    }
}

fn refuse(create: &CreateTable) -> Result<(), SqlError> {
    if create.temporary {
        return Err(SqlError::unsupported("a temporary table", Some("Use a table, and drop it at the end.")));
    }
    if create.query.is_some() {
        return Err(SqlError::unsupported(
            "CREATE TABLE AS",
            Some("Create the table, then INSERT ... SELECT."),
        ));
    }
    if create.inherits.is_some() {
        return Err(SqlError::unsupported("INHERITS", None));
    }
    Ok(())
}

/// A column by its definition, its options aside.
pub fn column(catalog: &Catalog, table: &Table, definition: &ColumnDef) -> Result<Column, SqlError> {
    let name = folded(&definition.name);
    if table.column(&name).is_some() {
        let message = format!("column \"{name}\" specified more than once");
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
    }
    // Columns with the names of PostgreSQL's system columns would hide them.
    if ["tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"].contains(&name.as_str()) {
        let message = format!("column name \"{name}\" conflicts with a system column name");
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
    }
    if table.columns.len() >= 1600 {
        return Err(SqlError::new(SqlState(*b"54011"), "tables can have at most 1600 columns"));
    }
    let ty = types::resolve(catalog, &definition.data_type)?;
    if ty == SqlType::Unknown {
        let message = format!("column \"{name}\" has pseudo-type unknown");
        return Err(SqlError::new(INVALID_TABLE_DEFINITION, message));
    }
    Ok(Column { name, ty, nullable: true, default: None, missing: Datum::Null, dropped: false })
}

/// A default: an expression without columns, or the next number of a sequence.
fn default(
    catalog: &Catalog,
    column: &str,
    ty: SqlType,
    expr: &ast::Expr,
) -> Result<Option<ColumnDefault>, SqlError> {
    let mut compiler = Compiler::new(catalog, Params::default());
    let value = compiler.expr(&Scope::default(), expr).map_err(super::plain)?;
    match (&value.expr, compiler.fills.as_slice()) {
        (Expr::Const(Datum::Null), []) => return Ok(None),
        (_, []) => {}
        (Expr::Param(0), [Fill::Next(sequence)]) => return Ok(Some(ColumnDefault::Next(*sequence))),
        _ => {
            return Err(SqlError::unsupported(
                "a default of this kind",
                Some("Use nextval('sequence') alone."),
            ));
        }
    }
    let Typed { ty: from, .. } = value;
    let expr_value = compiler.params.coerce(value, ty, How::Assigned).map_err(|error| match error.state {
        SqlState::DATATYPE_MISMATCH => {
            let (ty, from) = (types::name_of(ty), types::name_of(from));
            let message =
                format!("column \"{column}\" is of type {ty} but default expression is of type {from}");
            SqlError::new(SqlState::DATATYPE_MISMATCH, message)
        }
        _ => error,
    })?;
    Ok(Some(ColumnDefault::Expr(expr_value, expr.to_string())))
}

/// `RANGE (a)`, `HASH (a, b)`.
fn partition_clause(by: &ast::Expr) -> Result<(PartitionKind, Vec<String>), SqlError> {
    let wrong = || syntax("PARTITION BY is followed by RANGE or HASH and columns in parentheses");
    let ast::Expr::Function(function) = by else { return Err(wrong()) };
    let ast::FunctionArguments::List(list) = &function.args else { return Err(wrong()) };
    let kind = match parts(&function.name).pop().as_deref() {
        Some("range") => PartitionKind::Runs(LONG_RUN),
        Some("hash") => PartitionKind::Hash,
        Some("list") => return Err(SqlError::unsupported("PARTITION BY LIST", Some("Use HASH."))),
        _ => return Err(wrong()),
    };
    let column = |arg: &ast::FunctionArg| match arg {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Identifier(ident))) => {
            Ok(folded(ident))
        }
        _ => Err(SqlError::unsupported("partitioning by an expression", Some("Name a column."))),
    };
    Ok((kind, list.args.iter().map(column).collect::<Result<_, _>>()?))
}

/// The name and the value of an option in `WITH`, as text.
fn option_text(option: &SqlOption) -> Result<(String, String), SqlError> {
    match option {
        SqlOption::Ident(name) => Ok((folded(name), "true".into())),
        SqlOption::KeyValue { key, value } => {
            let value = match value {
                ast::Expr::Value(value) => match &value.value {
                    ast::Value::SingleQuotedString(text) => text.clone(),
                    other => other.to_string(),
                },
                other => other.to_string(),
            };
            Ok((folded(key), value))
        }
        other => Err(SqlError::unsupported(&format!("the table option {other}"), None)),
    }
}

fn integers(text: &str) -> Result<Vec<i64>, SqlError> {
    let bounds: Result<Vec<i64>, _> = text.split(',').map(|bound| bound.trim().parse()).collect();
    match bounds {
        Ok(bounds) if bounds.is_sorted_by(|left, right| left < right) => Ok(bounds),
        _ => {
            let message =
                format!("partition_bounds are ascending integers, separated by commas; not \"{text}\"");
            Err(SqlError::new(SqlState::INVALID_PARAMETER, message))
        }
    }
}

fn run_of(text: &str) -> Result<u32, SqlError> {
    text.trim().parse().ok().filter(|run| *run > 0).ok_or_else(|| {
        let message = format!("partition_run is a number of successive integers from 1; not \"{text}\"");
        SqlError::new(SqlState::INVALID_PARAMETER, message)
    })
}

/// The store that a table or index leaves.
pub fn emptied(store: Store) -> super::Task {
    super::Task::Empty { store }
}
