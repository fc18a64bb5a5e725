//! The name, options and data size of TPC-B.

use super::{Padding, RemoteRow, Tpcb, TpcbOptions};
use crate::benchmark::{Benchmark, Common, Form, Labels, OwnOption, Shapes, Takes};
use crate::spec::{SpecError, WorkloadSpec};

/// Bytes for each account of a branch: the other rows of a branch take less than the rounding of
/// this number.
const ACCOUNT_BYTES: u64 = 110;
/// Bytes of a branch or teller row that fills a page.
const PADDED_BYTES: u64 = 6_000;
/// Space for one minute of 50,000 history rows of 80 bytes per second.
const GROWTH: u64 = 256 << 20;

const REMOTE: &[(&str, RemoteRow)] = &[("account", RemoteRow::Account), ("teller", RemoteRow::Teller)];
const PADDING: &[(&str, Padding)] = &[("none", Padding::None), ("page", Padding::Page)];

fn word<T: Copy + PartialEq>(words: &[(&str, T)], value: T) -> String {
    words.iter().find(|w| w.1 == value).map_or_else(String::new, |w| w.0.into())
}

impl Benchmark for Tpcb {
    const FORMS: &'static [Form] = &[Form {
        name: "tpcb",
        about: "TPC-B: deposits at a bank with branches, tellers, accounts and a history",
    }];
    const COMMON: &'static [Common] = &[Common::Multisite];
    const OPTIONS: &'static [OwnOption] = &[
        OwnOption {
            name: "accounts",
            about: "Accounts of a branch (tpcb) [default: 100000]",
            takes: Takes::Number(1, 10_000_000),
            shapes: Shapes::Data,
        },
        OwnOption {
            name: "tellers",
            about: "Tellers of a branch (tpcb) [default: 10]",
            takes: Takes::Number(1, 1_000),
            shapes: Shapes::Data,
        },
        OwnOption {
            name: "padding",
            about: "Whether a branch or teller row fills a page (tpcb) [default: none]",
            takes: Takes::Word(&["none", "page"]),
            shapes: Shapes::Data,
        },
        OwnOption {
            name: "remote",
            about: "Which row of a remote transaction is remote (tpcb) [default: account]",
            takes: Takes::Word(&["account", "teller"]),
            shapes: Shapes::Requests,
        },
    ];

    fn from_spec(spec: &WorkloadSpec) -> Result<Tpcb, SpecError> {
        let base = TpcbOptions::new(spec.scale());
        Tpcb::new(TpcbOptions {
            accounts: spec.number("accounts").unwrap_or(base.accounts),
            tellers: spec.number("tellers").unwrap_or(base.tellers),
            multisite: spec.multisite.unwrap_or(base.multisite),
            remote: spec.word("remote", REMOTE),
            padding: spec.word("padding", PADDING),
            ..base
        })
    }

    fn labels(&self) -> Labels {
        let o = self.options();
        let options = [
            ("accounts", o.accounts.to_string()),
            ("tellers", o.tellers.to_string()),
            ("padding", word(PADDING, o.padding)),
            ("remote", word(REMOTE, o.remote)),
        ];
        Labels {
            multisite: Some(o.multisite),
            scale: Some(o.branches.into()),
            options: options.map(|(name, value)| (name.into(), value)).into(),
            ..Labels::default()
        }
    }

    fn data_name(&self) -> String {
        let o = self.options();
        let padded = if o.padding == Padding::Page { ", rows padded to pages" } else { "" };
        format!(
            "tpcb with {} branches of {} accounts and {} tellers{padded}",
            o.branches, o.accounts, o.tellers
        )
    }

    fn row_bytes(&self) -> u64 {
        let o = self.options();
        let padded = match o.padding {
            Padding::None => 0,
            Padding::Page => (1 + u64::from(o.tellers)) * PADDED_BYTES,
        };
        u64::from(o.branches) * (u64::from(o.accounts) * ACCOUNT_BYTES + padded)
    }

    fn growth_bytes(&self) -> u64 {
        GROWTH
    }
}
