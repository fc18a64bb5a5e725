//! Names as a statement writes them.

use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};

/// The most bytes of a name; PostgreSQL cuts longer ones.
const MAX_NAME: usize = 63;

/// An identifier: in lower case if it is not quoted, and cut to 63 bytes.
pub fn folded(ident: &Ident) -> String {
    let mut name = match ident.quote_style {
        None => ident.value.to_lowercase(),
        Some(_) => ident.value.clone(),
    };
    while name.len() > MAX_NAME {
        name.pop();
    }
    name
}

/// The parts of a name with points.
pub fn parts(name: &ObjectName) -> Vec<String> {
    let part = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(ident) => folded(ident),
        ObjectNamePart::Function(function) => folded(&function.name),
    };
    name.0.iter().map(part).collect()
}
