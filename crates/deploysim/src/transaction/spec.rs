//! The transactions of a workload as its options describe it.

use super::{Mix, Place, Transactions, tatp, tpcb, tpcc_mix, tpcc_new_order, tpcc_payment};
use crate::error::ModelError;
use txn::{Clients, Workload};
use workload::{AnyWorkload, WorkloadSpec};

impl Transactions {
    /// The transactions that a workload's generator draws, as far as they are recorded.
    ///
    /// # Errors
    /// A wrong option; a workload without recorded steps.
    pub fn of(spec: &WorkloadSpec) -> Result<Transactions, ModelError> {
        let wrong = |problem: String| ModelError::NoSteps { workload: spec.name.clone(), problem };
        let built = spec.build().map_err(|e| wrong(e.to_string()))?;
        let (sites, clients) = (built.sites(), built.clients());
        if let AnyWorkload::Micro(micro) = built {
            return Ok(Transactions::Micro(Box::new(micro)));
        }
        if let AnyWorkload::Replay(replay) = built {
            return Ok(Transactions::Replay(Box::new(replay)));
        }
        let mut mix = match spec.name.replace('-', "").as_str() {
            "tpcb" => tpcb(sites, 0.15),
            "tpcc" => tpcc_mix(sites),
            "tpccpayment" => tpcc_payment(sites, 0.15),
            "tpccneworder" => tpcc_new_order(sites, 0.1),
            "tatp" => tatp(sites),
            _ => {
                return Err(wrong(
                    "the steps of its transactions are not recorded, so nothing can be predicted; expected micro, tpcb, \
                     tpcc, tpcc-payment, tpcc-neworder or tatp, or replay with a recording of it (atoll record)"
                        .to_owned(),
                ));
            }
        };
        mix.is_routed = clients == Clients::Routed;
        if let Some(multisite) = spec.multisite {
            remote(&mut mix, multisite / 100.0);
        }
        Transactions::mix(mix)
    }

    /// The transactions of a measured cell: those of `spec` without skew, at a share of distributed
    /// ones in per cent where the workload has one, and over so many rows if it is another number.
    ///
    /// # Errors
    /// As [`Transactions::of`].
    pub fn of_cell(
        spec: &WorkloadSpec,
        multisite: f64,
        dataset: Option<u64>,
    ) -> Result<Transactions, ModelError> {
        Transactions::of(&WorkloadSpec {
            skew: None,
            hot: None,
            multisite: takes_share(spec).then_some(multisite),
            dataset: dataset.or(spec.dataset),
            ..spec.clone()
        })
    }
}

/// Whether the workload has a share of distributed transactions that can be set.
pub fn takes_share(spec: &WorkloadSpec) -> bool {
    WorkloadSpec { multisite: Some(50.0), ..spec.clone() }.build().is_ok()
}

/// Sets the probability of a place elsewhere.
fn remote(mix: &mut Mix, share: f64) {
    let groups = mix.kinds.iter_mut().flat_map(|k| &mut k.phases).flat_map(|p| &mut p.groups);
    for group in groups {
        if let Place::Remote { probability, .. } = &mut group.place {
            *probability = share;
        }
    }
}
