//! `CREATE PROCEDURE`, `CREATE FUNCTION`, and `DROP` of both.

use super::{Bodies, Changing, plain};
use crate::coerce::{How, Params};
use crate::error::{DEPENDENT_OBJECTS, WRONG_OBJECT_TYPE};
use crate::expressions::Compiler;
use crate::names::Scope;
use crate::procedure_text::{CreateRoutine, DropRoutine, ParamText, Returns, Routine};
use crate::procedures::{body_of, inputs, uses};
use crate::{Stop, types};
use sql::catalog::{Memo, Oid, Procedure, ProcedureKind, ProcedureParam};
use sql::{SqlError, SqlState, SqlType};
use std::collections::BTreeSet;

const INVALID_DEFINITION: SqlState = SqlState(*b"42P13");

impl Changing {
    pub fn create_routine(&mut self, create: &CreateRoutine) -> Result<&'static str, SqlError> {
        let tag = if create.routine == Routine::Procedure { "CREATE PROCEDURE" } else { "CREATE FUNCTION" };
        let params = create.params.iter().map(|param| self.param(param)).collect::<Result<Vec<_>, _>>()?;
        let kind = self.kind(create, &params)?;
        for (at, param) in params.iter().enumerate().filter(|(_, param)| !param.name.is_empty()) {
            if params[..at].iter().any(|known| known.name == param.name) {
                let message = format!("parameter name \"{}\" used more than once", param.name);
                return Err(SqlError::new(INVALID_DEFINITION, message));
            }
        }
        let known = self.change.catalog.procedure(&create.name).cloned();
        let mut procedure = Procedure {
            oid: Oid(0),
            name: create.name.clone(),
            kind,
            params,
            body: create.body.clone(),
            uses: BTreeSet::new(),
            compiled: Memo::default(),
        };
        procedure.oid = match known {
            Some(known) => replaced(&known, &procedure, create.replaces)?,
            None => self.oid(),
        };
        // The body is compiled, to find errors and what it uses.
        self.change.catalog.procedures.insert(procedure.oid, procedure.clone());
        procedure.uses = match body_of(&self.change.catalog, &procedure) {
            Ok(body) => uses(&body),
            Err(_) if self.bodies == Bodies::Taken => BTreeSet::new(),
            Err(stop) => return Err(in_body(stop)),
        };
        self.change.changed.insert(procedure.oid);
        self.change.catalog.procedures.insert(procedure.oid, procedure);
        Ok(tag)
    }

    fn param(&self, param: &ParamText) -> Result<ProcedureParam, SqlError> {
        let ty = types::resolve(&self.change.catalog, &param.ty)?;
        if ty == SqlType::Unknown {
            return Err(SqlError::new(
                INVALID_DEFINITION,
                "SQL functions cannot have arguments of type unknown",
            ));
        }
        let default = match &param.default {
            None => None,
            Some(expr) => {
                let mut compiler = Compiler::new(&self.change.catalog, Params::default());
                let value = compiler.expr(&Scope::default(), expr).map_err(plain)?;
                if !compiler.fills.is_empty() {
                    return Err(SqlError::unsupported("a default of this kind", Some("Use a constant.")));
                }
                let value = compiler.params.coerce(value, ty, How::Assigned)?;
                Some((value, expr.to_string()))
            }
        };
        Ok(ProcedureParam { name: param.name.clone(), ty, mode: param.mode, default })
    }

    fn kind(&self, create: &CreateRoutine, params: &[ProcedureParam]) -> Result<ProcedureKind, SqlError> {
        let outputs = params.iter().filter(|param| param.mode.is_output());
        let outputs: Vec<SqlType> = outputs.map(|param| param.ty).collect();
        let invalid = |message: String| Err(SqlError::new(INVALID_DEFINITION, message));
        let value = match &create.returns {
            Some(Returns::Value(ty)) => Some(types::resolve(&self.change.catalog, ty)?),
            _ => None,
        };
        match (create.routine, &create.returns, outputs.as_slice()) {
            (Routine::Procedure, None, _) => Ok(ProcedureKind::Procedure),
            (Routine::Procedure, Some(_), _) => {
                invalid("a procedure has no RETURNS: use OUT parameters".into())
            }
            (_, None, []) => invalid("function result type must be specified".into()),
            (_, Some(Returns::Void), []) => Ok(ProcedureKind::Function(None)),
            (_, Some(Returns::Record), []) => {
                Err(SqlError::unsupported("RETURNS record", Some("Declare OUT parameters.")))
            }
            (_, Some(Returns::Value(_)), []) => Ok(ProcedureKind::Function(value)),
            (_, None, [one]) => Ok(ProcedureKind::Function(Some(*one))),
            (_, Some(Returns::Value(_)), [one]) if value == Some(*one) => Ok(ProcedureKind::Function(value)),
            (_, None | Some(Returns::Record), [_, _, ..]) => Ok(ProcedureKind::Function(None)),
            (_, _, [one]) => invalid(format!(
                "function result type must be {} because of OUT parameters",
                types::name_of(*one)
            )),
            _ => invalid("function result type must be record because of OUT parameters".into()),
        }
    }

    pub fn drop_routines(&mut self, drop: &DropRoutine) -> Result<&'static str, SqlError> {
        for name in &drop.names {
            let found = self.change.catalog.procedure(name).map(|found| (found.oid, found.kind));
            let word = drop.routine.word();
            match found {
                None if drop.if_exists => {
                    self.change.notices.push(format!("{word} {name}() does not exist, skipping"));
                }
                None => {
                    let message = format!("could not find a {word} named \"{name}\"");
                    return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
                }
                Some((oid, kind)) => {
                    let is_procedure = kind == ProcedureKind::Procedure;
                    if drop.routine != Routine::Any && (drop.routine == Routine::Procedure) != is_procedure {
                        return Err(SqlError::new(WRONG_OBJECT_TYPE, format!("{name} is not a {word}")));
                    }
                    self.remove_procedure(oid);
                }
            }
        }
        Ok(match drop.routine {
            Routine::Procedure => "DROP PROCEDURE",
            Routine::Function => "DROP FUNCTION",
            Routine::Any => "DROP ROUTINE",
        })
    }

    pub(super) fn remove_procedure(&mut self, oid: Oid) {
        self.change.catalog.procedures.remove(&oid);
        self.change.removed.insert(oid);
    }

    /// Procedures keep what they use: they are dropped with it by `CASCADE`, or forbid the drop.
    pub fn drop_users(&mut self, what: &str, dropped: &[Oid], cascade: bool) -> Result<(), SqlError> {
        let users = self.change.catalog.procedures.values();
        let users = users.filter(|procedure| dropped.iter().any(|oid| procedure.uses.contains(oid)));
        let users: Vec<(Oid, String)> = users.map(|procedure| (procedure.oid, shown(procedure))).collect();
        for (oid, shown) in users {
            if !cascade {
                let message = format!("cannot drop {what} because other objects depend on it");
                return Err(SqlError::new(DEPENDENT_OBJECTS, message)
                    .with_detail(format!("{shown} depends on it."))
                    .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
            self.remove_procedure(oid);
            self.change.notices.push(format!("drop cascades to {shown}"));
        }
        Ok(())
    }

    /// A change of a table must leave the procedures that use it as they can run.
    pub fn check_procedures(&self) -> Result<(), SqlError> {
        let catalog = &self.change.catalog;
        let changed = &self.change.changed;
        for procedure in catalog.procedures.values() {
            if procedure.uses.is_disjoint(changed) || changed.contains(&procedure.oid) {
                continue;
            }
            let checked = if procedure.is_view() {
                crate::views::check(catalog, procedure).map(|_| ()).map_err(Stop::Error)
            } else {
                body_of(catalog, procedure).map(|_| ())
            };
            checked.map_err(|stop| {
                let message = format!("cannot change the table because {} depends on it", shown(procedure));
                SqlError::new(DEPENDENT_OBJECTS, message)
                    .with_detail(format!("Its text would fail: {}", plain(stop).message))
                    .with_hint("Drop or replace it first.")
            })?;
        }
        Ok(())
    }
}

/// The number of the one that is replaced.
fn replaced(known: &Procedure, new: &Procedure, replaces: bool) -> Result<Oid, SqlError> {
    let same_inputs = inputs(known).eq(inputs(new));
    if !replaces && same_inputs {
        let message = format!("function \"{}\" already exists with same argument types", known.name);
        return Err(SqlError::new(SqlState(*b"42723"), message));
    }
    if !same_inputs {
        let hint = "Drop the other one first, or choose another name.";
        return Err(SqlError::unsupported("a second procedure or function of one name", Some(hint)));
    }
    let is_procedure = |procedure: &Procedure| procedure.kind == ProcedureKind::Procedure;
    if is_procedure(known) != is_procedure(new) {
        return Err(SqlError::new(WRONG_OBJECT_TYPE, "cannot change routine kind")
            .with_detail(format!("\"{}\" is of the other kind.", known.name)));
    }
    if known.kind != new.kind {
        let message = "cannot change return type of existing function";
        return Err(SqlError::new(INVALID_DEFINITION, message)
            .with_hint(format!("Use DROP FUNCTION {} first.", known.name)));
    }
    Ok(known.oid)
}

/// In a body, what the direct path does not cover is not supported.
fn in_body(stop: crate::Stop) -> SqlError {
    match stop {
        crate::Stop::Error(error) => error,
        crate::Stop::General(reason) => {
            let hint = "A body has statements that find their rows by keys, indexes or one scan, and \
                        sub-queries that name no column of the statement around them.";
            SqlError::unsupported(&format!("{reason} in a body"), Some(hint))
        }
    }
}

/// The procedure with its parameters' types.
pub fn shown(procedure: &Procedure) -> String {
    if procedure.is_view() {
        return format!("view {}", procedure.name);
    }
    let types: Vec<String> = inputs(procedure).map(crate::types::name_of).collect();
    let word = if procedure.kind == ProcedureKind::Procedure { "procedure" } else { "function" };
    format!("{word} {}({})", procedure.name, types.join(", "))
}
