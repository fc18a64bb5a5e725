//! Rust's types as values, and back.

use crate::{Datum, SqlError, SqlState};

macro_rules! integers {
    ($($ty:ty),+) => {$(
        impl From<$ty> for Datum {
            fn from(value: $ty) -> Datum {
                Datum::Int(value.into())
            }
        }

        impl FromDatum for $ty {
            const NAME: &'static str = stringify!($ty);
            fn read(value: &Datum) -> Option<$ty> {
                match value {
                    Datum::Int(value) => <$ty>::try_from(*value).ok(),
                    Datum::Numeric(value) => value.to_i64().and_then(|value| <$ty>::try_from(value).ok()),
                    _ => None,
                }
            }
        }
    )+};
}

integers!(i8, i16, i32, i64, u8, u16, u32);

macro_rules! plain {
    ($($ty:ty: $variant:ident),+) => {$(
        impl From<$ty> for Datum {
            fn from(value: $ty) -> Datum {
                Datum::$variant(value)
            }
        }

        impl FromDatum for $ty {
            const NAME: &'static str = stringify!($ty);
            fn read(value: &Datum) -> Option<$ty> {
                match value {
                    Datum::$variant(value) => Some(value.clone()),
                    _ => None,
                }
            }
        }
    )+};
}

plain!(bool: Bool, String: Text, Vec<u8>: Bytes, [u8; 16]: Uuid);

impl From<f64> for Datum {
    fn from(value: f64) -> Datum {
        Datum::Float(value)
    }
}

impl From<f32> for Datum {
    fn from(value: f32) -> Datum {
        Datum::Float(value.into())
    }
}

impl From<&str> for Datum {
    fn from(value: &str) -> Datum {
        Datum::Text(value.to_owned())
    }
}

impl From<&[u8]> for Datum {
    fn from(value: &[u8]) -> Datum {
        Datum::Bytes(value.to_vec())
    }
}

impl<T: Into<Datum>> From<Option<T>> for Datum {
    fn from(value: Option<T>) -> Datum {
        value.map_or(Datum::Null, Into::into)
    }
}

impl FromDatum for f64 {
    const NAME: &'static str = "f64";
    fn read(value: &Datum) -> Option<f64> {
        match value {
            Datum::Float(value) => Some(*value),
            Datum::Numeric(value) => Some(value.to_f64()),
            _ => None,
        }
    }
}

impl FromDatum for Datum {
    const NAME: &'static str = "Value";
    fn read(value: &Datum) -> Option<Datum> {
        Some(value.clone())
    }
}

impl<T: FromDatum> FromDatum for Option<T> {
    const NAME: &'static str = T::NAME;
    fn read(value: &Datum) -> Option<Option<T>> {
        if value.is_null() { Some(None) } else { T::read(value).map(Some) }
    }
}

/// A Rust type as which a value can be read. `Option` of one stands for a column with nulls.
pub trait FromDatum: Sized {
    /// For messages.
    const NAME: &'static str;

    /// `None` if the value is null, of another type, or beyond this one.
    fn read(value: &Datum) -> Option<Self>;
}

/// The value of a column as a Rust type.
///
/// # Errors
/// `42804`, with the column's name.
pub fn of_column<T: FromDatum>(value: &Datum, column: &str) -> Result<T, SqlError> {
    T::read(value).ok_or_else(|| {
        let message = format!("column \"{column}\" is {value:?}, expected {}", T::NAME);
        SqlError::new(SqlState::DATATYPE_MISMATCH, message)
    })
}

/// Several values in their order: a key, or the parameters of a statement. A single value, tuples
/// of up to eight, arrays, slices and vectors are such.
pub trait Values {
    fn into_values(self) -> Vec<Datum>;
}

impl<T: Into<Datum>, const N: usize> Values for [T; N] {
    fn into_values(self) -> Vec<Datum> {
        self.into_iter().map(Into::into).collect()
    }
}

impl<T: Into<Datum>> Values for Vec<T> {
    fn into_values(self) -> Vec<Datum> {
        self.into_iter().map(Into::into).collect()
    }
}

impl Values for &[Datum] {
    fn into_values(self) -> Vec<Datum> {
        self.to_vec()
    }
}

macro_rules! single {
    ($($ty:ty),+) => {$(
        impl Values for $ty {
            fn into_values(self) -> Vec<Datum> {
                vec![self.into()]
            }
        }
    )+};
}

single!(i8, i16, i32, i64, u8, u16, u32, f32, f64, bool, &str, String, Datum);

macro_rules! tuples {
    ($(($($name:ident),*)),+) => {$(
        impl<$($name: Into<Datum>),*> Values for ($($name,)*) {
            #[allow(non_snake_case, clippy::unused_unit)]
            fn into_values(self) -> Vec<Datum> {
                let ($($name,)*) = self;
                vec![$($name.into()),*]
            }
        }
    )+};
}

tuples!((), (A), (A, B), (A, B, C), (A, B, C, D), (A, B, C, D, E), (A, B, C, D, E, F));
tuples!((A, B, C, D, E, F, G), (A, B, C, D, E, F, G, H));
