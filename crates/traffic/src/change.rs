//! A change of a load while it runs: one type from the script to the worker.
//!
//! ```text
//!   script --> deployment --> instance --> worker         requests      at_ns counts from
//!   LoadChange<WorkloadSpec>                               a spec        the first of the changes
//!              LoadChange<(WorkloadSpec, u64)>             and a seed    the machine's clock
//!                             LoadChange<(W, u64)>         a workload    the machine's clock
//! ```

use crate::rate::Rate;
use serde::{Deserialize, Serialize};

/// A change of a load. `R` says which requests follow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LoadChange<R> {
    /// When it applies, in ns of its holder's clock; at once if that time has passed.
    pub at_ns: u64,
    /// Another rate, of the whole deployment, for an open loop.
    pub rate: Option<Rate>,
    /// Other requests over the same data.
    pub requests: Option<R>,
}

impl<R> LoadChange<R> {
    /// The same change `by_ns` later, with its requests in another form.
    ///
    /// # Errors
    /// The error of `form`.
    pub fn in_form<Q, E>(self, by_ns: u64, form: impl FnOnce(R) -> Result<Q, E>) -> Result<LoadChange<Q>, E> {
        let requests = self.requests.map(form).transpose()?;
        Ok(LoadChange { at_ns: self.at_ns.saturating_add(by_ns), rate: self.rate, requests })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_keeps_its_rate_and_moves_with_the_clock() {
        let rate = Some(Rate::constant(5.0).unwrap());
        let change = LoadChange { at_ns: 7, rate, requests: Some("3") };
        let parsed = change.clone().in_form(100, str::parse::<u32>).unwrap();
        assert_eq!(parsed, LoadChange { at_ns: 107, rate, requests: Some(3) });
        let calm = LoadChange { requests: None, ..change.clone() };
        assert!(calm.in_form(0, str::parse::<u32>).is_ok_and(|calm| calm.requests.is_none()));
        assert!(LoadChange { requests: Some("x"), ..change }.in_form(0, str::parse::<u32>).is_err());
    }
}
