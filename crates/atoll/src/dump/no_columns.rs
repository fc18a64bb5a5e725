//! Builds without the feature `parquet`: [`super`] says so, in place of reading or writing files.

use super::place::Open;
use crate::failure::Failure;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

const WHY: &str = "this build has no Parquet; build with `--features parquet`, or use CSV";

/// # Errors
/// Always.
pub fn require() -> Result<(), Failure> {
    Err(Failure::Usage(WHY.into()))
}

/// # Errors
/// Always.
pub fn write(_: &Open<'_>, _: &str, _: &str, _: BufWriter<File>) -> Result<BufWriter<File>, Failure> {
    Err(Failure::Usage(WHY.into()))
}

/// # Errors
/// Always.
pub fn names(_: &Path) -> Result<Vec<String>, Failure> {
    Err(Failure::Usage(WHY.into()))
}

/// # Errors
/// Always.
pub fn read(_: &Open<'_>, _: &str, _: &Path) -> Result<u64, Failure> {
    Err(Failure::Usage(WHY.into()))
}
