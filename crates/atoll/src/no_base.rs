//! `atoll base` and `serve --base` in a build without object storage.

use crate::cli::BaseArgs;
use crate::failure::Failure;
use deploy::Interrupt;
use std::path::Path;

const WHY: &str = "this build has no base copies; build with `--features copies`, or `--features cluster`";

pub fn run(_args: &BaseArgs, _interrupt: &Interrupt) -> Result<(), Failure> {
    Err(Failure::Usage(WHY.into()))
}

pub fn begin_with(_place: &str, _name: &str, _data: &Path, _interrupt: &Interrupt) -> Result<(), Failure> {
    Err(Failure::Usage(format!("--base: {WHY}")))
}
