//! `EXPLAIN CALL`: the flow graph of a procedure in words.

use crate::compiled::Called;
use crate::describe;
use crate::procedures::{Body, Edge, body_of};
use sql::SqlError;
use sql::catalog::{Catalog, Procedure};
use sql::program::{FlowResult, Program, Statement};

/// The slot of a row that a statement surely reaches, and its island, if they are known.
pub type Reached = (u32, Option<u32>);

/// The lines of `EXPLAIN CALL`. `reached` has what each statement of the program reaches with the
/// call's arguments.
///
/// # Errors
/// Those of the body, if the catalog is another one than the call was compiled for.
pub fn explain_call(
    catalog: &Catalog,
    called: &Called,
    reached: &dyn Fn(&Program, usize) -> Vec<Reached>,
) -> Result<Vec<String>, SqlError> {
    let gone = || SqlError::new(sql::SqlState::UNDEFINED_FUNCTION, "the procedure does not exist any more");
    let procedure = catalog.procedures.get(&called.procedure).ok_or_else(gone)?;
    let body = body_of(catalog, procedure).map_err(crate::plainly)?;
    let program = &*body.program;
    let Some(flow) = &program.flow else { return Ok(Vec::new()) };
    let count = |number: usize, word: &str| format!("{number} {word}{}", if number == 1 { "" } else { "s" });
    let mut lines = vec![format!(
        "Call {}({}): {}, {}, one round trip",
        procedure.name,
        params(procedure),
        count(program.statements.len(), "statement"),
        count(flow.phases.len(), "phase"),
    )];
    for (number, phase) in (1..).zip(&flow.phases) {
        lines.push(match phase.len() {
            1 => format!("Phase {number}"),
            together => format!("Phase {number}: {together} statements together"),
        });
        for &at in phase {
            statement_lines(catalog, &body, at, reached, &mut lines);
        }
    }
    lines.extend(result(&body, &flow.result));
    Ok(lines)
}

fn statement_lines(
    catalog: &Catalog,
    body: &Body,
    at: u16,
    reached: &dyn Fn(&Program, usize) -> Vec<Reached>,
    lines: &mut Vec<String>,
) {
    let at_wide = usize::from(at);
    let Some(statement) = body.program.statements.get(at_wide) else { return };
    let text = body.texts.get(at_wide).map_or("", String::as_str);
    lines.push(format!("  [{}] {text}", at + 1));
    for edge in body.edges.iter().filter(|edge| edge.to == at) {
        lines.push(format!("      after [{}] {}", edge.from + 1, why(catalog, edge)));
    }
    let gives = body.program.flow.iter().flat_map(|flow| &flow.given);
    for given in gives.filter(|given| given.statement == at) {
        let takers = body.edges.iter().filter(|edge| edge.from == at && edge.values.contains(&given.param));
        let takers: Vec<String> = takers.map(|edge| format!("[{}]", edge.to + 1)).collect();
        let takers = if takers.is_empty() { "the result".to_owned() } else { takers.join(", ") };
        lines.push(format!("      gives ${} to {takers}", given.param + 1));
    }
    let one = Program { statements: vec![statement.clone()], flow: None, ..Program::clone(&body.program) };
    lines.extend(describe::program(&one).into_iter().map(|line| format!("      {line}")));
    let slots = reached(&body.program, at_wide);
    if !slots.is_empty() {
        let slot = |(slot, island): &Reached| match island {
            Some(island) => format!("slot {slot} on island {island}"),
            None => format!("slot {slot}"),
        };
        let slots: Vec<String> = slots.iter().map(slot).collect();
        lines.push(format!("      Reaches {}", slots.join(", ")));
    }
}

fn why(catalog: &Catalog, edge: &Edge) -> String {
    let mut parts = Vec::new();
    if !edge.values.is_empty() {
        let values: Vec<String> = edge.values.iter().map(|param| format!("${}", param + 1)).collect();
        parts.push(format!("for {}", values.join(", ")));
    }
    if !edge.tables.is_empty() {
        let name = |oid| catalog.tables.get(oid).map_or("?", |table| table.name.as_str());
        let tables: Vec<&str> = edge.tables.iter().map(name).collect();
        parts.push(format!("because of {}", tables.join(", ")));
    }
    parts.join(" and ")
}

fn params(procedure: &Procedure) -> String {
    let mut number = 0;
    let one = |param: &sql::catalog::ProcedureParam| {
        if param.mode.is_input() {
            number += 1;
            format!("{} = ${number}", if param.name.is_empty() { "?" } else { &param.name })
        } else {
            format!("out {}", param.name)
        }
    };
    procedure.params.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn result(body: &Body, result: &FlowResult) -> Option<String> {
    let FlowResult::Row(values) = result else { return None };
    let pairs = body.output.iter().zip(values);
    let shown: Vec<String> =
        pairs.map(|(field, value)| format!("{} = {}", field.name, describe::text(value, &[]))).collect();
    Some(format!("Result: {}", shown.join(", ")))
}

/// The part of a program that is one of its statements, to be asked where it goes.
#[must_use]
pub fn alone(program: &Program, at: usize) -> Program {
    let statements: Vec<Statement> = program.statements.get(at).cloned().into_iter().collect();
    Program { statements, flow: None, ..program.clone() }
}
