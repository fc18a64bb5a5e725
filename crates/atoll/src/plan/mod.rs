//! `atoll plan`: which deployment fits a machine and a workload, why, and how surely.
//!
//! [`question`] turns the options into a machine, transactions and the deployments that they allow.
//! `advisor` ranks these by the model. On the live machine short measured [`trials`] then decide
//! between the best few. [`answer`] adds the points at which the choice changes, and makes the
//! plan, a map, a comparison of two deployments, or settings for another server. [`page`] draws a
//! plan or a map. [`adopt`] puts a
//! plan file into the options of `bench` and `load`.

mod adopt;
mod answer;
mod calibration;
mod page;
mod probes;
mod question;
mod terms;
mod trials;
mod window;

use crate::cli::PlanArgs;
pub use adopt::{adopt_bench, adopt_load};

use crate::failure::Failure;
use crate::output::print;
use advisor::AdviceError;
use deploy::Interrupt;
use question::Question;
use world::tell;

pub fn run(args: &PlanArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let mut question = Question::read(args, interrupt)?;
    calibration::adopt(&mut question, interrupt)?;
    question.remarks.iter().for_each(|remark| tell(format_args!("atoll: warning: {remark}")));
    if !args.map.is_empty() {
        let map = answer::map(&question)?;
        if let Some(path) = &args.page {
            page::write(path, &page::of_map(&map))?;
        }
        return match args.json {
            true => print(&serde_json::to_string(&map).map_err(Failure::run)?),
            false => print(&map.to_string()),
        };
    }
    let found = question.search().map_err(refused)?;
    if let [first, second] = args.explain.as_slice() {
        let told = answer::explain(&question, &found, first, second)?;
        return match args.json {
            true => print(&serde_json::to_string(&told).map_err(Failure::run)?),
            false => print(&told.to_string()),
        };
    }
    let mut plan = answer::plan(&question, found)?;
    if question.is_tried() {
        trials::decide(&question, &mut plan, interrupt)?;
    }
    plan.break_even = answer::break_even(&question, &plan);
    if let Some(path) = &args.out {
        let text = plan.to_toml().map_err(Failure::run)?;
        std::fs::write(path, text)
            .map_err(|e| Failure::Run(format!("cannot write {}: {e}", path.display())))?;
        tell(format_args!("plan: {}", path.display()));
    }
    if let Some(path) = &args.page {
        page::write(path, &page::of_plan(&plan))?;
    }
    match args.settings {
        Some(server) => print(answer::settings(&question, &plan, server)?.trim_end()),
        None if args.json => print(&answer::json(&plan)?),
        None => print(&plan.to_string()),
    }
}

/// Everything that `advisor` refuses is a question that cannot be answered as it was put.
fn refused(error: AdviceError) -> Failure {
    Failure::usage(error)
}

#[cfg(test)]
mod tests;
