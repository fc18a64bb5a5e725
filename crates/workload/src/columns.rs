//! Tables written as lists of columns.

/// Declares each column of a table as a constant with its position, and the list of columns.
macro_rules! columns {
    ($module:ident: $($name:ident $ty:expr $(, $nullable:ident)?;)+) => {
        pub(crate) mod $module {
            #![allow(dead_code)]
            crate::columns::columns!(@number 0u16; $($name)+);
            pub(super) fn list() -> Vec<super::Column> {
                use super::Type::*;
                vec![$(crate::columns::columns!(@column $name $ty $(, $nullable)?)),+]
            }
        }
    };
    (@column $name:ident $ty:expr) => { super::Column::new(stringify!($name), $ty) };
    (@column $name:ident $ty:expr, nullable) => { super::Column::new(stringify!($name), $ty).nullable() };
    (@number $n:expr; $name:ident $($rest:ident)*) => { pub const $name: u16 = $n; crate::columns::columns!(@number $n + 1; $($rest)*); };
    (@number $n:expr;) => {};
}

pub(crate) use columns;
