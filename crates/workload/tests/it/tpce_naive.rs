//! A second implementation of TPC-E's transactions, over all rows of a small database, without
//! keys, indexes, sites or steps: it judges the values that the transactions return.

use base::InstanceId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use txn::{Access, Direction, Flow, Generator, Range, Type, Workload};
use workload::oracle::{Oracle, at_once};
use workload::tpce::*;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Value {
    Null,
    Int(i64),
    Text(String),
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Record(BTreeMap<String, Value>);

impl Record {
    fn int(&self, column: &str) -> i64 {
        match &self.0[column] {
            Value::Int(n) => *n,
            other => panic!("{column} is {other:?}"),
        }
    }

    fn text(&self, column: &str) -> &str {
        match &self.0[column] {
            Value::Text(text) => text,
            other => panic!("{column} is {other:?}"),
        }
    }
}

/// All rows, by table.
struct Rows(BTreeMap<String, Vec<Record>>);

/// The tables that orders, results and feeds depend on.
const TRADING: [&str; 15] = [
    "BROKER",
    "CHARGE",
    "COMMISSION_RATE",
    "COMPANY",
    "CUSTOMER",
    "CUSTOMER_ACCOUNT",
    "CUSTOMER_TAXRATE",
    "HOLDING",
    "HOLDING_SUMMARY",
    "LAST_TRADE",
    "SECURITY",
    "TAXRATE",
    "TRADE",
    "TRADE_REQUEST",
    "TRADE_TYPE",
];

impl Rows {
    /// The rows of `tables`; of all if none is named.
    fn of(oracle: &mut Oracle<Tpce>, tpce: &Tpce, tables: &[&str]) -> Rows {
        let mut all = BTreeMap::new();
        let wanted = |name: &str| tables.is_empty() || tables.contains(&name);
        for table in tpce.schema().tables.into_iter().filter(|table| wanted(&table.name)) {
            let mut rows = Vec::new();
            let read = |_: &[u8], row: txn::Row<'_>| {
                let value = |(column, at): (&txn::Column, u16)| {
                    let value = match column.ty {
                        _ if row.is_null(at) => Value::Null,
                        Type::Char(_) => Value::Text(row.text(at).trim_end().to_owned()),
                        Type::Text(_) => Value::Text(row.text(at).to_owned()),
                        _ => Value::Int(row.int(at)),
                    };
                    (column.name.clone(), value)
                };
                rows.push(Record(table.columns.iter().zip(0..).map(value).collect()));
                Flow::More
            };
            let model = oracle.model(InstanceId(0));
            at_once(model.scan(table.id, Range::ALL, Direction::Forward, read)).unwrap();
            all.insert(table.name, rows);
        }
        Rows(all)
    }

    fn all(&self, table: &str) -> &[Record] {
        &self.0[table]
    }

    fn with(&self, table: &str, column: &str, value: i64) -> Vec<&Record> {
        self.all(table).iter().filter(|row| row.int(column) == value).collect()
    }

    fn named(&self, table: &str, column: &str, value: &str) -> Vec<&Record> {
        self.all(table).iter().filter(|row| row.text(column) == value).collect()
    }

    fn one(&self, table: &str, column: &str, value: i64) -> &Record {
        self.with(table, column, value).first().copied().unwrap_or_else(|| panic!("{table} {value}"))
    }

    fn the(&self, table: &str, column: &str, value: &str) -> &Record {
        self.named(table, column, value).first().copied().unwrap_or_else(|| panic!("{table} {value}"))
    }

    fn price(&self, symbol: &str) -> i64 {
        self.the("LAST_TRADE", "LT_S_SYMB", symbol).int("LT_PRICE")
    }

    fn worth(&self, ca: i64) -> i64 {
        let of = |row: &&Record| row.int("HS_QTY") * self.price(row.text("HS_S_SYMB"));
        self.with("HOLDING_SUMMARY", "HS_CA_ID", ca).iter().map(of).sum()
    }

    /// Trades that fit, by time, the oldest first.
    fn trades(&self, fits: impl Fn(&Record) -> bool) -> Vec<&Record> {
        let mut all: Vec<&Record> = self.all("TRADE").iter().filter(|row| fits(row)).collect();
        all.sort_by_key(|row| (row.int("T_DTS"), row.int("T_ID")));
        all
    }

    fn symbol(&self, security: u32) -> &str {
        let mut symbols: Vec<&str> = self.all("SECURITY").iter().map(|row| row.text("S_SYMB")).collect();
        symbols.sort_unstable();
        symbols[security as usize]
    }

    fn tax_rate(&self, c: i64) -> i64 {
        let rates = self.with("CUSTOMER_TAXRATE", "CX_C_ID", c);
        rates.iter().map(|row| self.the("TAXRATE", "TX_ID", row.text("CX_TX_ID")).int("TX_RATE")).sum()
    }

    fn commission(&self, tier: i64, trade_type: &str, exchange: &str, quantity: i64, price: i64) -> i64 {
        let fits = |row: &&Record| {
            row.int("CR_C_TIER") == tier
                && row.text("CR_TT_ID") == trade_type
                && row.text("CR_EX_ID") == exchange
                && (row.int("CR_FROM_QTY")..=row.int("CR_TO_QTY")).contains(&quantity)
        };
        let rate = self.all("COMMISSION_RATE").iter().find(fits).unwrap().int("CR_RATE");
        (rate as f64 / 10_000.0 * (quantity * price) as f64 + 0.5).floor() as i64
    }

    fn charge(&self, tier: i64, trade_type: &str) -> i64 {
        let fits = |row: &&Record| row.text("CH_TT_ID") == trade_type && row.int("CH_C_TIER") == tier;
        self.all("CHARGE").iter().find(fits).unwrap().int("CH_CHRG")
    }

    /// The holdings of an account in a symbol, in the order in which an order closes them.
    fn lots(&self, ca: i64, symbol: &str, lifo: bool) -> Vec<&Record> {
        let mut lots: Vec<&Record> = self.with("HOLDING", "H_CA_ID", ca);
        lots.retain(|row| row.text("H_S_SYMB") == symbol);
        lots.sort_by_key(|row| (row.int("H_DTS"), row.int("H_T_ID")));
        if lifo {
            lots.reverse();
        }
        lots
    }

    /// Values bought and sold by closing holdings at a price, and the quantity left over.
    fn close(&self, order: (i64, &str, bool), is_sell: bool, quantity: i64, price: i64) -> (i64, i64, i64) {
        let (mut buy, mut sell, mut left) = (0, 0, quantity);
        for lot in self.lots(order.0, order.1, order.2) {
            let held = lot.int("H_QTY");
            if left == 0 || (held > 0) != is_sell {
                break;
            }
            let part = held.abs().min(left);
            let (old, new) = (part * lot.int("H_PRICE"), part * price);
            (buy, sell) = if is_sell { (buy + old, sell + new) } else { (buy + new, sell + old) };
            left -= part;
        }
        (buy, sell, left)
    }
}

fn broker_volume(rows: &Rows, r: &BrokerVolumeRequest) -> BrokerVolumeReply {
    let mut volumes: BTreeMap<String, i64> = BTreeMap::new();
    for request in rows.all("TRADE_REQUEST") {
        let broker = rows.one("BROKER", "B_ID", request.int("TR_B_ID")).text("B_NAME");
        let company = rows.the("SECURITY", "S_SYMB", request.text("TR_S_SYMB")).int("S_CO_ID");
        let industry = rows.one("COMPANY", "CO_ID", company).text("CO_IN_ID");
        let sector = rows.the("INDUSTRY", "IN_ID", industry).text("IN_SC_ID");
        let named = r.brokers.iter().any(|(_, name)| name == broker);
        if named && rows.the("SECTOR", "SC_ID", sector).text("SC_NAME") == r.sector {
            *volumes.entry(broker.into()).or_default() += request.int("TR_QTY") * request.int("TR_BID_PRICE");
        }
    }
    let mut all: BrokerVolumeReply = volumes.into_iter().collect();
    all.sort_by_key(|(name, volume)| (Reverse(*volume), name.clone()));
    all
}

fn customer_position(rows: &Rows, r: &CustomerPositionRequest) -> CustomerPositionReply {
    let customer = match &r.tax_id {
        Some(id) => rows.the("CUSTOMER", "C_TAX_ID", id),
        None => rows.one("CUSTOMER", "C_ID", r.c),
    };
    let c = customer.int("C_ID");
    let ids: Vec<i64> =
        rows.with("CUSTOMER_ACCOUNT", "CA_C_ID", c).iter().map(|row| row.int("CA_ID")).collect();
    let account = |ca: &i64| (*ca, rows.one("CUSTOMER_ACCOUNT", "CA_ID", *ca).int("CA_BAL"), rows.worth(*ca));
    let mut accounts: Vec<_> = ids.iter().map(account).collect();
    accounts.sort_by_key(|(ca, _, worth)| (*worth, *ca));
    let mut history = Vec::new();
    if let Some(n) = r.history {
        let ca = ids[n as usize];
        for trade in rows.trades(|row| row.int("T_CA_ID") == ca).iter().rev().take(10) {
            for step in rows.with("TRADE_HISTORY", "TH_T_ID", trade.int("T_ID")) {
                history.push(HistoryRow {
                    t: trade.int("T_ID"),
                    symbol: trade.text("T_S_SYMB").into(),
                    quantity: trade.int("T_QTY"),
                    status: rows.the("STATUS_TYPE", "ST_ID", step.text("TH_ST_ID")).text("ST_NAME").into(),
                    dts: step.int("TH_DTS"),
                });
            }
        }
    }
    history.sort_by_key(|row| (Reverse((row.dts, row.t)), row.status.clone()));
    let (tier, last_name) = (customer.int("C_TIER"), customer.text("C_L_NAME").into());
    CustomerPositionReply { c, tier, last_name, accounts, history }
}

fn market_watch(rows: &Rows, r: &MarketWatchRequest) -> MarketWatchReply {
    let symbols: Vec<&str> = match &r.watched {
        Watched::List(c) => {
            let list = rows.one("WATCH_LIST", "WL_C_ID", *c).int("WL_ID");
            rows.with("WATCH_ITEM", "WI_WL_ID", list).iter().map(|row| row.text("WI_S_SYMB")).collect()
        }
        Watched::Account(ca) => {
            rows.with("HOLDING_SUMMARY", "HS_CA_ID", *ca).iter().map(|row| row.text("HS_S_SYMB")).collect()
        }
        Watched::Industry(name, from, to) => {
            let industry = rows.the("INDUSTRY", "IN_NAME", name).text("IN_ID");
            let fits = |row: &&Record| {
                let company = row.int("S_CO_ID");
                (*from..*to).contains(&company)
                    && rows.one("COMPANY", "CO_ID", company).text("CO_IN_ID") == industry
            };
            rows.all("SECURITY").iter().filter(fits).map(|row| row.text("S_SYMB")).collect()
        }
    };
    let mut reply = MarketWatchReply { securities: symbols.len() as u32, then: 0, now: 0 };
    for symbol in symbols {
        let shares = rows.the("SECURITY", "S_SYMB", symbol).int("S_NUM_OUT");
        let days = rows.named("DAILY_MARKET", "DM_S_SYMB", symbol);
        let day = days.iter().find(|row| row.int("DM_DATE") == r.day).unwrap();
        reply.then += shares * day.int("DM_CLOSE");
        reply.now += shares * rows.price(symbol);
    }
    reply
}

fn address(rows: &Rows, id: i64) -> [String; 3] {
    let address = rows.one("ADDRESS", "AD_ID", id);
    let zip = rows.the("ZIP_CODE", "ZC_CODE", address.text("AD_ZC_CODE"));
    [address.text("AD_LINE1"), zip.text("ZC_TOWN"), zip.text("ZC_DIV")].map(String::from)
}

fn security_detail(rows: &Rows, r: &SecurityDetailRequest) -> SecurityDetailReply {
    let security = rows.the("SECURITY", "S_SYMB", rows.symbol(r.security));
    let (symbol, company) = (security.text("S_SYMB"), security.int("S_CO_ID"));
    let of = rows.one("COMPANY", "CO_ID", company);
    let exchange = rows.the("EXCHANGE", "EX_ID", security.text("S_EX_ID"));
    let last = rows.the("LAST_TRADE", "LT_S_SYMB", symbol);
    let competitor = |row: &&Record| {
        let name = rows.one("COMPANY", "CO_ID", row.int("CP_COMP_CO_ID")).text("CO_NAME");
        (name.to_owned(), rows.the("INDUSTRY", "IN_ID", row.text("CP_IN_ID")).text("IN_NAME").to_owned())
    };
    let numbers = |row: &&Record, columns: [&str; 4]| columns.map(|column| row.int(column));
    let quarter = |row: &&Record| numbers(row, ["FI_YEAR", "FI_QTR", "FI_REVENUE", "FI_NET_EARN"]);
    let mut days = rows.named("DAILY_MARKET", "DM_S_SYMB", symbol);
    days.retain(|row| row.int("DM_DATE") >= r.start);
    days.sort_by_key(|row| row.int("DM_DATE"));
    let day =
        |row: &&Record| ["DM_DATE", "DM_CLOSE", "DM_HIGH", "DM_LOW", "DM_VOL"].map(|column| row.int(column));
    let news = |row: &&Record| {
        let item = rows.one("NEWS_ITEM", "NI_ID", row.int("NX_NI_ID"));
        match r.whole_news {
            true => item.text("NI_ITEM").trim_end().to_owned(),
            false => format!("{}\n{}", item.text("NI_HEADLINE"), item.text("NI_SUMMARY")),
        }
    };
    SecurityDetailReply {
        name: security.text("S_NAME").into(),
        company: of.text("CO_NAME").into(),
        ceo: of.text("CO_CEO").trim_end().into(),
        rating: of.text("CO_SP_RATE").into(),
        addresses: [address(rows, of.int("CO_AD_ID")), address(rows, exchange.int("EX_AD_ID"))],
        exchange: exchange.text("EX_NAME").into(),
        num_out: security.int("S_NUM_OUT"),
        last: ["LT_PRICE", "LT_OPEN_PRICE", "LT_VOL"].map(|column| last.int(column)),
        competitors: rows.with("COMPANY_COMPETITOR", "CP_CO_ID", company).iter().map(competitor).collect(),
        financials: rows.with("FINANCIAL", "FI_CO_ID", company).iter().map(quarter).collect(),
        days: days.iter().take(r.days as usize).map(day).collect(),
        news: rows.with("NEWS_XREF", "NX_CO_ID", company).iter().map(news).collect(),
    }
}

fn detail(rows: &Rows, trade: &Record) -> TradeDetail {
    let t = trade.int("T_ID");
    let kind = rows.the("TRADE_TYPE", "TT_ID", trade.text("T_TT_ID"));
    let settlement = rows
        .with("SETTLEMENT", "SE_T_ID", t)
        .first()
        .map(|row| (row.text("SE_CASH_TYPE").to_owned(), row.int("SE_CASH_DUE_DATE"), row.int("SE_AMT")));
    let cash = rows.with("CASH_TRANSACTION", "CT_T_ID", t);
    let cash = cash.first().map(|row| (row.int("CT_DTS"), row.int("CT_AMT"), row.text("CT_NAME").to_owned()));
    let mut history: Vec<(i64, String)> = rows
        .with("TRADE_HISTORY", "TH_T_ID", t)
        .iter()
        .map(|row| (row.int("TH_DTS"), row.text("TH_ST_ID").to_owned()))
        .collect();
    history.sort();
    TradeDetail {
        t,
        ca: trade.int("T_CA_ID"),
        dts: trade.int("T_DTS"),
        trade_type: trade.text("T_TT_ID").into(),
        is_cash: trade.int("T_IS_CASH") == 1,
        is_market: kind.int("TT_IS_MRKT") == 1,
        symbol: trade.text("T_S_SYMB").into(),
        quantity: trade.int("T_QTY"),
        bid: trade.int("T_BID_PRICE"),
        executor: trade.text("T_EXEC_NAME").into(),
        price: match trade.0["T_TRADE_PRICE"] {
            Value::Int(price) => Some(price),
            _ => None,
        },
        settlement,
        cash,
        history,
    }
}

fn trade_lookup(rows: &Rows, r: &TradeLookupRequest) -> TradeLookupReply {
    let mut reply = TradeLookupReply::default();
    let trades: Vec<&Record> = match &r.sought {
        Sought::Trades(ids) => {
            ids.iter().filter_map(|t| rows.with("TRADE", "T_ID", *t).first().copied()).collect()
        }
        Sought::OfAccount { ca, from, to } => {
            rows.trades(|row| row.int("T_CA_ID") == *ca && (*from..=*to).contains(&row.int("T_DTS")))
        }
        Sought::OfSecurity { security, from, to } => {
            let symbol = rows.symbol(*security);
            rows.trades(|row| row.text("T_S_SYMB") == symbol && (*from..=*to).contains(&row.int("T_DTS")))
        }
        Sought::Holdings { ca, from } => {
            let trades = rows.trades(|row| row.int("T_CA_ID") == *ca && row.int("T_DTS") >= *from);
            if let Some(first) = trades.first() {
                let t = first.int("T_ID");
                let changed = rows.with("HOLDING_HISTORY", "HH_T_ID", t);
                let holdings: BTreeSet<i64> = changed.iter().map(|row| row.int("HH_H_T_ID")).collect();
                let of = |row: &Record| {
                    ["HH_H_T_ID", "HH_T_ID", "HH_BEFORE_QTY", "HH_AFTER_QTY"].map(|column| row.int(column))
                };
                reply.holdings = vec![[t, 0, 0, 0]];
                for holding in holdings {
                    reply
                        .holdings
                        .extend(rows.with("HOLDING_HISTORY", "HH_H_T_ID", holding).into_iter().map(of));
                }
                reply.holdings.truncate(21);
            }
            return reply;
        }
    };
    reply.trades = trades.into_iter().take(20).map(|trade| detail(rows, trade)).collect();
    reply
}

fn trade_status(rows: &Rows, r: &TradeStatusRequest) -> TradeStatusReply {
    let account = rows.one("CUSTOMER_ACCOUNT", "CA_ID", r.ca);
    let customer = rows.one("CUSTOMER", "C_ID", account.int("CA_C_ID"));
    let symbols: BTreeSet<&str> = rows.all("SECURITY").iter().map(|row| row.text("S_SYMB")).collect();
    let row = |trade: &&Record| {
        let security = rows.the("SECURITY", "S_SYMB", trade.text("T_S_SYMB"));
        StatusRow {
            t: trade.int("T_ID"),
            dts: trade.int("T_DTS"),
            status: rows.the("STATUS_TYPE", "ST_ID", trade.text("T_ST_ID")).text("ST_NAME").into(),
            trade_type: rows.the("TRADE_TYPE", "TT_ID", trade.text("T_TT_ID")).text("TT_NAME").into(),
            security: symbols.iter().position(|s| *s == security.text("S_SYMB")).unwrap() as u32,
            quantity: trade.int("T_QTY"),
            executor: trade.text("T_EXEC_NAME").into(),
            charge: trade.int("T_CHRG"),
            security_name: security.text("S_NAME").into(),
            exchange: rows.the("EXCHANGE", "EX_ID", security.text("S_EX_ID")).text("EX_NAME").into(),
        }
    };
    TradeStatusReply {
        trades: rows.trades(|trade| trade.int("T_CA_ID") == r.ca).iter().rev().take(50).map(row).collect(),
        customer: (customer.text("C_L_NAME").into(), customer.text("C_F_NAME").into()),
        broker: rows.one("BROKER", "B_ID", account.int("CA_B_ID")).text("B_NAME").into(),
    }
}

/// The reply but for the id of the trade.
fn trade_order(rows: &Rows, r: &TradeOrderRequest) -> TradeOrderReply {
    let symbol = rows.symbol(r.security);
    let security = rows.the("SECURITY", "S_SYMB", symbol);
    let account = rows.one("CUSTOMER_ACCOUNT", "CA_ID", r.ca);
    let customer = rows.one("CUSTOMER", "C_ID", account.int("CA_C_ID"));
    let tier = customer.int("C_TIER");
    let id = std::str::from_utf8(&r.trade_type).unwrap();
    let kind = rows.the("TRADE_TYPE", "TT_ID", id);
    let market = kind.int("TT_IS_MRKT") == 1;
    let price = if market { rows.price(symbol) } else { r.price };
    let (buy_value, sell_value, _) =
        rows.close((r.ca, symbol, r.lifo), kind.int("TT_IS_SELL") == 1, r.quantity, price);
    let gain = (sell_value - buy_value).max(0);
    let rate = if account.int("CA_TAX_ST") == 0 { 0 } else { rows.tax_rate(customer.int("C_ID")) };
    TradeOrderReply {
        t: 0,
        price,
        buy_value,
        sell_value,
        tax: (gain as f64 * rate as f64 / 100_000.0 + 0.5).floor() as i64,
        commission: rows.commission(tier, id, security.text("S_EX_ID"), r.quantity, price),
        charge: rows.charge(tier, id),
        assets: r.on_margin.then(|| account.int("CA_BAL") + rows.worth(r.ca)),
        status: if market { "SBMT" } else { "PNDG" }.into(),
        broker: rows.one("BROKER", "B_ID", account.int("CA_B_ID")).text("B_NAME").into(),
        company: rows.one("COMPANY", "CO_ID", security.int("S_CO_ID")).text("CO_NAME").into(),
        security: security.text("S_NAME").into(),
    }
}

/// The reply, and the quantities of the account's holdings in the security afterwards, by age.
fn trade_result(rows: &Rows, r: &TradeResultRequest) -> (TradeResultReply, Vec<i64>) {
    let trade = rows.one("TRADE", "T_ID", r.t);
    let (ca, id, quantity) = (trade.int("T_CA_ID"), trade.text("T_TT_ID"), trade.int("T_QTY"));
    let (symbol, lifo) = (trade.text("T_S_SYMB"), trade.int("T_LIFO") == 1);
    let is_sell = rows.the("TRADE_TYPE", "TT_ID", id).int("TT_IS_SELL") == 1;
    let account = rows.one("CUSTOMER_ACCOUNT", "CA_ID", ca);
    let customer = rows.one("CUSTOMER", "C_ID", account.int("CA_C_ID"));
    let (buy, sell, left) = rows.close((ca, symbol, lifo), is_sell, quantity, r.price);
    let status = account.int("CA_TAX_ST");
    let rate = if status == 0 { 0 } else { rows.tax_rate(customer.int("C_ID")) };
    let tax = ((sell - buy).max(0) as f64 * rate as f64 / 100_000.0 + 0.5).floor() as i64;
    let exchange = rows.the("SECURITY", "S_SYMB", symbol).text("S_EX_ID");
    let commission = rows.commission(customer.int("C_TIER"), id, exchange, quantity, r.price);
    let fees = trade.int("T_CHRG") + commission;
    let value = quantity * r.price;
    let amount = if is_sell { value - fees } else { -value - fees } - if status == 1 { tax } else { 0 };
    let is_cash = trade.int("T_IS_CASH") == 1;
    let balance = account.int("CA_BAL") + if is_cash { amount } else { 0 };
    let mut lots: Vec<i64> = rows.lots(ca, symbol, lifo).iter().map(|lot| lot.int("H_QTY")).collect();
    let mut closed = quantity - left;
    for lot in &mut lots {
        let part = lot.abs().min(closed);
        closed -= part;
        *lot -= lot.signum() * part;
    }
    if lifo {
        lots.reverse();
    }
    lots.retain(|lot| *lot != 0);
    lots.extend((left > 0).then_some(if is_sell { -left } else { left }));
    (TradeResultReply::Done { ca, balance, tax, commission, amount }, lots)
}

fn market_feed(rows: &Rows, r: &MarketFeedRequest) -> BTreeSet<i64> {
    let mut triggered = BTreeSet::new();
    for entry in &r.entries {
        let symbol = rows.symbol(entry.security);
        for request in rows.named("TRADE_REQUEST", "TR_S_SYMB", symbol) {
            let (limit, price) = (request.int("TR_BID_PRICE"), entry.price);
            let hit = match request.text("TR_TT_ID") {
                "TLS" => limit <= price,
                _ => limit >= price,
            };
            triggered.extend(hit.then(|| request.int("TR_T_ID")));
        }
    }
    triggered
}

fn small(mix: Mix, sf: u32) -> Tpce {
    let base = TpceOptions::new(1);
    Tpce::new(TpceOptions { mix, unit: 200, sf, market_days: 50, news_bytes: 300, ..base }).unwrap()
}

/// Orders and results run first, so that orders are open and prices have changed.
fn traded(sf: u32) -> Oracle<Tpce> {
    let tpce = small(Mix::Trading, sf);
    let mut oracle = Oracle::new(tpce.clone(), 1);
    oracle.load().unwrap();
    let mut requests = tpce.generator(11, 0..tpce.sites());
    for _ in 0..600 {
        let request = requests.next();
        if let Ok(reply) = oracle.submit(&request) {
            tpce.committed(&request, &reply);
        }
    }
    oracle
}

#[test]
fn reading_transactions_return_what_the_rows_say() {
    let mut oracle = traded(10_000);
    let tpce = small(Mix::Full, 10_000);
    let rows = Rows::of(&mut oracle, &tpce, &[]);
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    use Card::*;
    for card in [BrokerVolume, CustomerPosition, MarketWatch, SecurityDetail, TradeLookup, TradeStatus] {
        let mut requests = small(Mix::Only(card), 10_000).generator(12, 0..tpce.sites());
        for _ in 0..40 {
            let request = requests.next();
            let mut reply = oracle.submit(&request).unwrap();
            if let TpceReply::CustomerPosition(reply) = &mut reply {
                reply.history.sort_by_key(|row| (Reverse((row.dts, row.t)), row.status.clone()));
            }
            let expected = match &request {
                TpceRequest::BrokerVolume(r) => TpceReply::BrokerVolume(broker_volume(&rows, r)),
                TpceRequest::CustomerPosition(r) => {
                    TpceReply::CustomerPosition(Box::new(customer_position(&rows, r)))
                }
                TpceRequest::MarketWatch(r) => TpceReply::MarketWatch(market_watch(&rows, r)),
                TpceRequest::SecurityDetail(r) => {
                    TpceReply::SecurityDetail(Box::new(security_detail(&rows, r)))
                }
                TpceRequest::TradeLookup(r) => TpceReply::TradeLookup(Box::new(trade_lookup(&rows, r))),
                TpceRequest::TradeStatus(r) => TpceReply::TradeStatus(Box::new(trade_status(&rows, r))),
                other => panic!("{other:?}"),
            };
            assert_eq!(reply, expected, "{request:?}");
            let full = match &reply {
                TpceReply::BrokerVolume(volumes) => !volumes.is_empty(),
                TpceReply::TradeLookup(reply) => !reply.trades.is_empty() || !reply.holdings.is_empty(),
                _ => true,
            };
            *counts.entry(tpce.kind(&request)).or_default() += u32::from(full);
        }
    }
    assert!(counts.len() == 6 && counts.values().all(|n| *n > 5), "with rows: {counts:?}");
}

#[test]
fn writing_transactions_return_and_leave_what_the_rows_say() {
    let mut oracle = traded(40_000);
    let tpce = small(Mix::Trading, 40_000);
    let mut requests = tpce.generator(13, 0..tpce.sites());
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for number in 0..900 {
        let request = requests.next();
        // A feed comes after twenty entries of a site's ticker, so only after many orders.
        let is_judged = match request {
            TpceRequest::MarketFeed(_) => true,
            TpceRequest::TradeOrder(_) | TpceRequest::TradeResult(_) => number < 100,
            _ => false,
        };
        let rows = Rows::of(&mut oracle, &tpce, if is_judged { &TRADING[..] } else { &["CHARGE"] });
        let Ok(reply) = oracle.submit(&request) else { continue };
        tpce.committed(&request, &reply);
        if !is_judged {
            continue;
        }
        *seen.entry(tpce.kind(&request)).or_default() += 1;
        match (&request, &reply) {
            (TpceRequest::TradeOrder(r), TpceReply::TradeOrder(reply)) => {
                let mut reply = (**reply).clone();
                assert!(rows.with("TRADE", "T_ID", std::mem::take(&mut reply.t)).is_empty());
                assert_eq!(reply, trade_order(&rows, r), "{r:?}");
            }
            (TpceRequest::TradeResult(r), TpceReply::TradeResult(reply)) => {
                let (expected, lots) = trade_result(&rows, r);
                assert_eq!(*reply, expected, "{r:?}");
                let TradeResultReply::Done { ca, .. } = expected else { continue };
                let after = Rows::of(&mut oracle, &tpce, &["HOLDING", "SECURITY"]);
                let left = after.lots(ca, after.symbol(r.security), false);
                assert_eq!(left.iter().map(|lot| lot.int("H_QTY")).collect::<Vec<_>>(), lots, "{r:?}");
            }
            (TpceRequest::MarketFeed(r), TpceReply::MarketFeed(reply)) => {
                let found: BTreeSet<i64> = reply.triggered.iter().map(|order| order.t).collect();
                assert_eq!(found, market_feed(&rows, r), "{r:?}");
            }
            _ => {}
        }
    }
    for kind in ["trade_order", "trade_result", "market_feed"] {
        assert!(seen.get(kind).is_some_and(|n| *n > 2), "{seen:?}");
    }
}
