use crate::{Datum, SqlType};
pub fn display(value: &Datum, _: SqlType) -> String {
    format!("{value:?}")
}
