//! The compared transactions as functions of the server, and their calls.

use crate::fault::PeerFault;
use crate::postgres::refused;
use postgres::{Client, Row, Statement};
use workload::tpce::{TpceRequest, Watched};

/// Each function reads what the transaction reads and returns what it returns. Limits stand inside,
/// so that no plan joins more than the newest rows.
pub const FUNCTIONS: &str = "
CREATE FUNCTION trade_status(account bigint) RETURNS TABLE (t bigint, dts bigint, status text, trade_type text, symbol text,
    quantity integer, executor text, charge bigint, security text, exchange_name text, last_name text, first_name text, broker text)
LANGUAGE plpgsql STABLE AS $$
DECLARE owner bigint; by_broker bigint; last text; first text; name text;
BEGIN
    SELECT ca_c_id, ca_b_id INTO STRICT owner, by_broker FROM customer_account WHERE ca_id = account;
    SELECT c_l_name, c_f_name INTO STRICT last, first FROM customer WHERE c_id = owner;
    SELECT b_name INTO STRICT name FROM broker WHERE b_id = by_broker;
    RETURN QUERY SELECT n.t_id, n.t_dts, st_name, tt_name, n.t_s_symb, n.t_qty, n.t_exec_name, n.t_chrg, s_name, ex_name, last, first, name
    FROM (SELECT * FROM trade WHERE t_ca_id = account ORDER BY t_dts DESC, t_id DESC LIMIT 50) n
    JOIN status_type ON st_id = n.t_st_id JOIN trade_type ON tt_id = n.t_tt_id
    JOIN security ON s_symb = n.t_s_symb JOIN exchange ON ex_id = s_ex_id ORDER BY n.t_dts DESC, n.t_id DESC;
END $$;

CREATE FUNCTION customer_position(customer_id bigint, tax_id text, wanted integer) RETURNS TABLE (a bigint, b bigint, worth bigint, symbol text, status text)
LANGUAGE plpgsql STABLE AS $$
DECLARE owner bigint := customer_id; account bigint; tier integer; last text;
BEGIN
    IF tax_id IS NOT NULL THEN SELECT c_id INTO STRICT owner FROM customer WHERE c_tax_id = tax_id; END IF;
    SELECT c_tier, c_l_name INTO STRICT tier, last FROM customer WHERE c_id = owner;
    RETURN QUERY SELECT ca_id, ca_bal, coalesce(sum(hs_qty * lt_price), 0)::bigint AS total, last, tier::text
    FROM customer_account LEFT JOIN holding_summary ON hs_ca_id = ca_id LEFT JOIN last_trade ON lt_s_symb = hs_s_symb
    WHERE ca_c_id = owner GROUP BY ca_id, ca_bal ORDER BY total, ca_id LIMIT 10;
    IF wanted IS NOT NULL THEN
        SELECT ca_id INTO STRICT account FROM customer_account WHERE ca_c_id = owner ORDER BY ca_id OFFSET wanted LIMIT 1;
        RETURN QUERY SELECT n.t_id, th_dts, n.t_qty::bigint, n.t_s_symb, st_name
        FROM (SELECT * FROM trade WHERE t_ca_id = account ORDER BY t_dts DESC, t_id DESC LIMIT 10) n
        JOIN trade_history ON th_t_id = n.t_id JOIN status_type ON st_id = th_st_id
        ORDER BY th_dts DESC, n.t_id DESC LIMIT 30;
    END IF;
END $$;

CREATE FUNCTION market_watch(kind integer, id bigint, industry_name text, low bigint, high bigint, day integer)
RETURNS TABLE (securities bigint, old bigint, new bigint) LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF kind = 0 THEN
        RETURN QUERY SELECT count(*), coalesce(sum(s_num_out * dm_close), 0)::bigint, coalesce(sum(s_num_out * lt_price), 0)::bigint
        FROM watch_list JOIN watch_item ON wi_wl_id = wl_id JOIN security ON s_symb = wi_s_symb
        JOIN last_trade ON lt_s_symb = s_symb JOIN daily_market ON dm_s_symb = s_symb AND dm_date = day WHERE wl_c_id = id;
    ELSIF kind = 1 THEN
        RETURN QUERY SELECT count(*), coalesce(sum(s_num_out * dm_close), 0)::bigint, coalesce(sum(s_num_out * lt_price), 0)::bigint
        FROM holding_summary JOIN security ON s_symb = hs_s_symb
        JOIN last_trade ON lt_s_symb = s_symb JOIN daily_market ON dm_s_symb = s_symb AND dm_date = day WHERE hs_ca_id = id;
    ELSE
        RETURN QUERY SELECT count(*), coalesce(sum(s_num_out * dm_close), 0)::bigint, coalesce(sum(s_num_out * lt_price), 0)::bigint
        FROM industry JOIN company ON co_in_id = in_id AND co_id >= low AND co_id < high JOIN security ON s_co_id = co_id
        JOIN last_trade ON lt_s_symb = s_symb JOIN daily_market ON dm_s_symb = s_symb AND dm_date = day WHERE in_name = industry_name;
    END IF;
END $$;
";

/// A call of one of the functions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    TradeStatus { account: i64 },
    CustomerPosition { customer: i64, tax_id: Option<String>, history: Option<i32> },
    MarketWatch { kind: i32, id: i64, industry: Option<String>, companies: (i64, i64), day: i32 },
}

impl Asked {
    /// The call for a request; `None` for another transaction.
    pub fn of(request: &TpceRequest) -> Option<Asked> {
        match request {
            TpceRequest::TradeStatus(r) => Some(Asked::TradeStatus { account: r.ca }),
            TpceRequest::CustomerPosition(r) => Some(Asked::CustomerPosition {
                customer: r.c,
                tax_id: r.tax_id.clone(),
                history: r.history.map(|n| n as i32),
            }),
            TpceRequest::MarketWatch(r) => {
                let day = r.day as i32;
                let (kind, id, industry, companies) = match &r.watched {
                    Watched::List(c) => (0, *c, None, (0, 0)),
                    Watched::Account(ca) => (1, *ca, None, (0, 0)),
                    Watched::Industry(name, from, to) => (2, 0, Some(name.clone()), (*from, *to)),
                };
                Some(Asked::MarketWatch { kind, id, industry, companies, day })
            }
            _ => None,
        }
    }
}

/// The calls, in the order of [`Asked`].
///
/// # Errors
/// The server has no such function.
pub fn prepare(client: &mut Client) -> Result<[Statement; 3], PeerFault> {
    let mut of = |call: &str| client.prepare(call).map_err(refused);
    Ok([
        of("SELECT * FROM trade_status($1)")?,
        of("SELECT * FROM customer_position($1, $2, $3)")?,
        of("SELECT * FROM market_watch($1, $2, $3, $4, $5, $6)")?,
    ])
}

/// # Errors
/// The server refuses the call.
pub fn call(client: &mut Client, calls: &[Statement; 3], asked: &Asked) -> Result<Vec<Row>, PeerFault> {
    match asked {
        Asked::TradeStatus { account } => client.query(&calls[0], &[account]),
        Asked::CustomerPosition { customer, tax_id, history } => {
            client.query(&calls[1], &[customer, tax_id, history])
        }
        Asked::MarketWatch { kind, id, industry, companies: (low, high), day } => {
            client.query(&calls[2], &[kind, id, industry, low, high, day])
        }
    }
    .map_err(refused)
}
