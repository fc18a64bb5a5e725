//! The names, options and data size of TPC-C.

use super::{Mix, Tpcc, TpccOptions};
use crate::benchmark::{
    Benchmark, Common, Counted, Form, Labels, OwnOption, Shapes, Statistics, Takes, Terminals,
};
use crate::spec::{SpecError, WorkloadSpec};
use std::collections::BTreeMap;

/// Bytes for each item of a warehouse.
const STOCK_BYTES: u64 = 340;
/// Bytes for each customer: its row, its history, and one order with its lines.
const CUSTOMER_BYTES: u64 = 1_560;
/// Space for rows that a run adds. A minute with 20,000 orders of 700 bytes per second needs more:
/// the value covers the start of a run.
const GROWTH: u64 = 512 << 20;

impl Mix {
    pub(super) const NAMES: [(&'static str, Mix); 4] = [
        ("tpcc", Mix::Full),
        ("tpcc-payment", Mix::Payment),
        ("tpcc-neworder", Mix::NewOrder),
        ("tpcc-prime", Mix::Prime),
    ];
}

impl Benchmark for Tpcc {
    const FORMS: &'static [Form] = &[
        Form { name: "tpcc", about: "TPC-C: a wholesale supplier; five transactions on nine tables" },
        Form { name: "tpcc-payment", about: "TPC-C's Payment alone" },
        Form { name: "tpcc-neworder", about: "TPC-C's NewOrder alone" },
        Form { name: "tpcc-prime", about: "TPC-C's NewOrder and Payment, half each" },
    ];
    const COMMON: &'static [Common] = &[Common::Multisite];
    /// Clause 4.2.2 and the comment of clause 4.2.1: ten terminals produce at most 12.86 NewOrders
    /// per minute.
    const TERMINALS: Option<Terminals> =
        Some(Terminals { per_site: 10, counted: "new_order", ceiling: 12.86 });
    const OPTIONS: &'static [OwnOption] = &[
        OwnOption {
            name: "items",
            about: "Items, and stock rows of a warehouse (tpcc) [default: 100000]",
            takes: Takes::Number(1, 100_000),
            shapes: Shapes::Data,
        },
        OwnOption {
            name: "customers",
            about: "Customers of a district (tpcc) [default: 3000]",
            takes: Takes::Number(1, 3_000),
            shapes: Shapes::Data,
        },
    ];

    fn from_spec(spec: &WorkloadSpec) -> Result<Tpcc, SpecError> {
        let base = TpccOptions::new(spec.scale());
        let mix = Mix::NAMES.iter().find(|m| m.0 == spec.name).map_or(Mix::Full, |m| m.1);
        Tpcc::new(TpccOptions {
            mix,
            multisite: spec.multisite,
            items: spec.number("items").unwrap_or(base.items),
            customers: spec.number("customers").unwrap_or(base.customers),
            ..base
        })
    }

    fn labels(&self) -> Labels {
        let o = self.options();
        let options = [("items", o.items), ("customers", o.customers)];
        Labels {
            multisite: o.multisite,
            scale: Some(o.warehouses.into()),
            options: options.map(|(name, value)| (name.into(), value.to_string())).into(),
            ..Labels::default()
        }
    }

    fn data_name(&self) -> String {
        let o = self.options();
        format!(
            "tpcc with {} warehouses, {} items, {} customers a district",
            o.warehouses, o.items, o.customers
        )
    }

    fn row_bytes(&self) -> u64 {
        let o = self.options();
        let (items, customers) = (u64::from(o.items), u64::from(o.customers));
        u64::from(o.warehouses) * (items * STOCK_BYTES + 10 * customers * CUSTOMER_BYTES)
    }

    fn growth_bytes(&self) -> u64 {
        GROWTH
    }

    fn statistics(&self, counted: Counted<'_>) -> Statistics {
        super::statistics::statistics(self, counted)
    }

    /// The number of NewOrders and Payments.
    fn effects(&self, committed: &BTreeMap<String, u64>) -> Option<u64> {
        let of = |kind| committed.get(kind).copied().unwrap_or(0);
        Some(of("new_order") + of("payment"))
    }
}
