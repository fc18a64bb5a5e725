//! The names, options and data size of TPC-E.

use super::generator::Card;
use super::{Mix, Start, Tpce, TpceOptions};
use crate::benchmark::{Benchmark, Counted, Form, Labels, OwnOption, Shapes, Statistics, Takes};
use crate::spec::{SpecError, WorkloadSpec};
use std::collections::BTreeMap;

/// Bytes of page memory for each initial trade, with its settlement, history and holdings, and the
/// entries of all indexes.
const TRADE_BYTES: u64 = 1_050;
/// For each customer, without trades and market.
const CUSTOMER_BYTES: u64 = 6_500;
/// For a day of a security.
const DAY_BYTES: u64 = 90;
const GROWTH: u64 = 384 << 20;

const NAMES: [(&str, Mix); 13] = [
    ("tpce", Mix::Full),
    ("tpce-trading", Mix::Trading),
    ("tpce-brokervolume", Mix::Only(Card::BrokerVolume)),
    ("tpce-customerposition", Mix::Only(Card::CustomerPosition)),
    ("tpce-marketfeed", Mix::Only(Card::MarketFeed)),
    ("tpce-marketwatch", Mix::Only(Card::MarketWatch)),
    ("tpce-securitydetail", Mix::Only(Card::SecurityDetail)),
    ("tpce-tradelookup", Mix::Only(Card::TradeLookup)),
    ("tpce-tradeorder", Mix::Only(Card::TradeOrder)),
    ("tpce-traderesult", Mix::Results),
    ("tpce-tradestatus", Mix::Only(Card::TradeStatus)),
    ("tpce-tradeupdate", Mix::Only(Card::TradeUpdate)),
    ("tpce-datamaintenance", Mix::Only(Card::DataMaintenance)),
];

pub(super) fn name_of(mix: Mix) -> &'static str {
    NAMES.iter().find(|(_, named)| *named == mix).map_or("tpce", |(name, _)| name)
}

impl Benchmark for Tpce {
    const FORMS: &'static [Form] = &[
        Form {
            name: "tpce",
            about: "TPC-E: a brokerage; twelve transactions on 33 tables, an exchange in process",
        },
        Form {
            name: "tpce-trading",
            about: "TPC-E's Trade-Order, and the Trade-Results and Market-Feeds it causes",
        },
        Form { name: "tpce-brokervolume", about: "TPC-E's Broker-Volume alone" },
        Form { name: "tpce-customerposition", about: "TPC-E's Customer-Position alone" },
        Form { name: "tpce-marketfeed", about: "TPC-E's Market-Feed alone" },
        Form { name: "tpce-marketwatch", about: "TPC-E's Market-Watch alone" },
        Form { name: "tpce-securitydetail", about: "TPC-E's Security-Detail alone" },
        Form { name: "tpce-tradelookup", about: "TPC-E's Trade-Lookup alone" },
        Form { name: "tpce-tradeorder", about: "TPC-E's Trade-Order alone" },
        Form {
            name: "tpce-traderesult",
            about: "TPC-E's Trade-Result, and the market order that each one needs",
        },
        Form { name: "tpce-tradestatus", about: "TPC-E's Trade-Status alone" },
        Form { name: "tpce-tradeupdate", about: "TPC-E's Trade-Update alone" },
        Form { name: "tpce-datamaintenance", about: "TPC-E's Data-Maintenance alone" },
    ];
    const OPTIONS: &'static [OwnOption] = &[
        OwnOption {
            name: "days",
            about: "Days of initial trades (tpce) [default: 20]",
            takes: Takes::Number(5, 300),
            shapes: Shapes::Data,
        },
        OwnOption {
            name: "unit",
            about: "Customers of a load unit, a multiple of 200 (tpce) [default: 1000]",
            takes: Takes::Number(200, 1_000),
            shapes: Shapes::Data,
        },
        OwnOption {
            name: "sf",
            about: "Customers for one trade a second: more make fewer initial trades (tpce) [default: 500]",
            takes: Takes::Number(1, 1_000_000),
            shapes: Shapes::Data,
        },
        OwnOption {
            name: "market-days",
            about: "Days of prices of each security (tpce) [default: 1305]",
            takes: Takes::Number(50, 1_305),
            shapes: Shapes::Data,
        },
        OwnOption {
            name: "news-bytes",
            about: "Bytes of an item of news (tpce) [default: 10000]",
            takes: Takes::Number(255, 100_000),
            shapes: Shapes::Data,
        },
        OwnOption {
            name: "market",
            about: "A copy of the market for each load unit, or one over all sites (tpce) [default: replicated]",
            takes: Takes::Word(&["replicated", "partitioned"]),
            shapes: Shapes::Data,
        },
        OwnOption {
            name: "newest",
            about: "How the newest rows are found: by scans backward, or by reading all (tpce) [default: backward]",
            takes: Takes::Word(&["backward", "forward"]),
            shapes: Shapes::Requests,
        },
        OwnOption {
            name: "open-orders",
            about: "Orders that are open when a run begins: back to the exchange, or cancelled (tpce) [default: rebuild]",
            takes: Takes::Word(&["rebuild", "cleanup"]),
            shapes: Shapes::Requests,
        },
    ];

    fn from_spec(spec: &WorkloadSpec) -> Result<Tpce, SpecError> {
        let base = TpceOptions::new(spec.scale());
        let number = |name, default| spec.number(name).unwrap_or(default);
        Tpce::new(TpceOptions {
            mix: NAMES.iter().find(|(name, _)| *name == spec.name).map_or(Mix::Full, |(_, mix)| *mix),
            unit: number("unit", base.unit),
            days: number("days", base.days),
            sf: number("sf", base.sf),
            market_days: number("market-days", base.market_days),
            news_bytes: number("news-bytes", base.news_bytes),
            market_copies: spec.word("market", &[("replicated", true), ("partitioned", false)]),
            backward: spec.word("newest", &[("backward", true), ("forward", false)]),
            start: spec.word("open-orders", &[("rebuild", Start::Rebuild), ("cleanup", Start::Cleanup)]),
            ..base
        })
    }

    fn labels(&self) -> Labels {
        let o = self.options();
        let market = if o.market_copies { "replicated" } else { "partitioned" };
        let newest = if o.backward { "backward" } else { "forward" };
        let start = if o.start == Start::Rebuild { "rebuild" } else { "cleanup" };
        let numbers = [
            ("days", o.days),
            ("unit", o.unit),
            ("sf", o.sf),
            ("market-days", o.market_days),
            ("news-bytes", o.news_bytes),
        ];
        let mut options: BTreeMap<String, String> =
            numbers.map(|(name, value)| (name.into(), value.to_string())).into();
        for (name, value) in [("market", market), ("newest", newest), ("open-orders", start)] {
            options.insert(name.into(), value.into());
        }
        Labels { scale: Some(o.units.into()), options, ..Labels::default() }
    }

    fn data_name(&self) -> String {
        let o = self.options();
        format!(
            "tpce with {} load units of {} customers, {} days at {} customers a trade a second, {} market days, {} bytes of \
             news, market {}",
            o.units,
            o.unit,
            o.days,
            o.sf,
            o.market_days,
            o.news_bytes,
            if o.market_copies { "replicated" } else { "partitioned" },
        )
    }

    fn row_bytes(&self) -> u64 {
        let (o, g) = (self.options(), self.geometry());
        let copies = u64::from(g.groups());
        let trades = g.initial as u64 * u64::from(g.sites());
        let days = u64::from(g.securities()) * u64::from(o.market_days) * copies;
        let news = u64::from(g.companies()) * 2 * u64::from(o.news_bytes + 600) * copies;
        trades * TRADE_BYTES + u64::from(g.customers()) * CUSTOMER_BYTES + days * DAY_BYTES + news
    }

    /// A load unit. A part of one would meet its broker and its market elsewhere in most
    /// transactions.
    fn site_group(&self) -> u32 {
        super::geometry::UNIT_SITES
    }

    fn growth_bytes(&self) -> u64 {
        GROWTH
    }

    fn statistics(&self, counted: Counted<'_>) -> Statistics {
        super::statistics::statistics(self, counted)
    }

    /// The number of Trade-Orders.
    fn effects(&self, committed: &BTreeMap<String, u64>) -> Option<u64> {
        Some(committed.get("trade_order").copied().unwrap_or(0))
    }
}
