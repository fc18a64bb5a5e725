//! Procedures and functions, and their definitions as text.

use super::{OWNER, PUBLIC, Rows, World, number_of, quoted, type_text};
use crate::value::Value;
use sql::catalog::{ParamMode, Procedure, ProcedureKind, ProcedureParam};

/// The number of the language SQL, of a record and of no value.
const SQL: i64 = 14;
const RECORD: i64 = 2249;
const VOID: i64 = 2278;

/// `pg_proc`.
pub fn fill(world: &World<'_>, rows: &mut Rows<'_>) {
    for routine in world.catalog.procedures.values().filter(|routine| !routine.is_view()) {
        let inputs: Vec<&ProcedureParam> = inputs(routine).collect();
        let types = inputs.iter().map(|param| Value::Int(number_of(param.ty).0.into()));
        let mut values = vec![
            ("oid", Value::Int(routine.oid.0.into())),
            ("proname", Value::text(&routine.name)),
            ("pronamespace", Value::Int(PUBLIC)),
            ("proowner", Value::Int(OWNER)),
            ("prolang", Value::Int(SQL)),
            ("procost", Value::Float(100.0)),
            ("prokind", Value::text(if is_procedure(routine) { "p" } else { "f" })),
            ("provolatile", Value::text("v")),
            ("proparallel", Value::text("u")),
            ("pronargs", Value::Int(inputs.len() as i64)),
            (
                "pronargdefaults",
                Value::Int(inputs.iter().filter(|param| param.default.is_some()).count() as i64),
            ),
            ("prorettype", Value::Int(result_type(routine))),
            ("proargtypes", Value::Array(types.collect())),
            ("prosrc", Value::text(&routine.body)),
        ];
        if routine.params.iter().any(|param| !param.name.is_empty()) {
            let names = routine.params.iter().map(|param| Value::text(&param.name));
            values.push(("proargnames", Value::Array(names.collect())));
        }
        if routine.params.iter().any(|param| param.mode != ParamMode::In) {
            let types = routine.params.iter().map(|param| Value::Int(number_of(param.ty).0.into()));
            values.push(("proallargtypes", Value::Array(types.collect())));
            let modes = routine.params.iter().map(|param| Value::text(letter(param.mode)));
            values.push(("proargmodes", Value::Array(modes.collect())));
        }
        rows.add(&values);
    }
}

fn is_procedure(routine: &Procedure) -> bool {
    routine.kind == ProcedureKind::Procedure
}

fn inputs(routine: &Procedure) -> impl Iterator<Item = &ProcedureParam> {
    routine.params.iter().filter(|param| param.mode.is_input())
}

fn outputs(routine: &Procedure) -> impl Iterator<Item = &ProcedureParam> {
    routine.params.iter().filter(|param| param.mode.is_output())
}

fn letter(mode: ParamMode) -> &'static str {
    match mode {
        ParamMode::In => "i",
        ParamMode::Out => "o",
        ParamMode::InOut => "b",
    }
}

fn result_type(routine: &Procedure) -> i64 {
    match routine.kind {
        ProcedureKind::Function(Some(ty)) => number_of(ty).0.into(),
        _ if outputs(routine).next().is_some() => RECORD,
        _ => VOID,
    }
}

/// The parameters, as `CREATE` has them.
pub fn arguments(routine: &Procedure) -> String {
    listed(routine.params.iter(), is_procedure(routine), Defaults::Written)
}

/// The parameters, as `ALTER` and `DROP` have them.
pub fn identity_arguments(routine: &Procedure) -> String {
    let all = routine.params.iter().filter(|param| is_procedure(routine) || param.mode.is_input());
    listed(all, is_procedure(routine), Defaults::LeftOut)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Defaults {
    Written,
    LeftOut,
}

fn listed<'a>(params: impl Iterator<Item = &'a ProcedureParam>, says_in: bool, defaults: Defaults) -> String {
    let one = |param: &ProcedureParam| {
        let mode = match param.mode {
            ParamMode::In if says_in => "IN ",
            ParamMode::In => "",
            ParamMode::Out => "OUT ",
            ParamMode::InOut => "INOUT ",
        };
        let name = if param.name.is_empty() { String::new() } else { format!("{} ", quoted(&param.name)) };
        let default = param.default.as_ref().filter(|_| defaults == Defaults::Written);
        let default = default.map_or_else(String::new, |(_, text)| format!(" DEFAULT {text}"));
        format!("{mode}{name}{}{default}", type_text(param.ty))
    };
    params.map(one).collect::<Vec<_>>().join(", ")
}

/// What a function returns; `None` of a procedure.
pub fn result(routine: &Procedure) -> Option<String> {
    match routine.kind {
        ProcedureKind::Procedure | ProcedureKind::View => None,
        ProcedureKind::Function(Some(ty)) => Some(type_text(ty)),
        ProcedureKind::Function(None) if outputs(routine).next().is_some() => Some("record".into()),
        ProcedureKind::Function(None) => Some("void".into()),
    }
}

/// The statement that creates it.
pub fn definition(routine: &Procedure) -> String {
    let word = if is_procedure(routine) { "PROCEDURE" } else { "FUNCTION" };
    let returns = result(routine).map_or_else(String::new, |ty| format!(" RETURNS {ty}\n"));
    let mut tag = format!("${}$", word.to_lowercase());
    while routine.body.contains(&tag) {
        tag.insert(1, 'x');
    }
    format!(
        "CREATE OR REPLACE {word} public.{}({})\n{returns} LANGUAGE sql\nAS {tag}{}{tag}\n",
        quoted(&routine.name),
        arguments(routine),
        routine.body
    )
}
