//! Prints the time in nanoseconds of what a point read or update does with values. Run it with
//! `cargo run --release -p sql --example speed [ROUNDS]`.

use sql::expression::BinaryOp;
use sql::row::Layout;
use sql::{Columns, Context, Datum, Expr, SqlType, key};
use std::hint::black_box;
use std::time::Instant;

/// The least mean time of five runs.
fn time(name: &str, rounds: u32, mut work: impl FnMut()) {
    let run = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..rounds).for_each(|_| work());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(rounds)
    };
    let best = (0..5).map(|_| run(&mut work)).fold(f64::INFINITY, f64::min);
    println!("{name:45} {best:8.1} ns");
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let types =
        [SqlType::Int4, SqlType::Int4, SqlType::Int4, SqlType::Char(84), SqlType::Numeric(Some((12, 2)))];
    let layout = Layout::new(types.map(|ty| (ty, Datum::Null)));
    let number = sql::value::Numeric::parse("1234567.89").expect("a number");
    let values = [
        Datum::Int(4711),
        Datum::Int(3),
        Datum::Int(-1500),
        Datum::Text("x".repeat(40)),
        Datum::Numeric(number),
    ];
    let bytes = layout.encode(&values).expect("a row");
    let cx = Context {
        params: &[Datum::Int(77), Datum::Int(4711)],
        now: 0,
        zone: &sql::datetime::zone::Zone::UTC,
        random: &|| 0,
    };
    let (column, parameter) = (Box::new(Expr::Column(2)), Box::new(Expr::Param(0)));
    let sum = Expr::Binary { op: BinaryOp::Add, left: column, right: parameter, ty: SqlType::Int4 };
    let (column, parameter) = (Box::new(Expr::Column(0)), Box::new(Expr::Param(1)));
    let equal = Expr::Binary { op: BinaryOp::Equal, left: column, right: parameter, ty: SqlType::Bool };
    let row = layout.read(&bytes).expect("a row");
    time("open a row and read an integer", rounds, || {
        let row = layout.read(black_box(&bytes)).expect("a row");
        black_box(row.column(2).expect("a column"));
    });
    time("read an integer", rounds, || {
        black_box(black_box(&row).column(2).expect("a column"));
    });
    time("read a text of 40 bytes", rounds, || {
        black_box(black_box(&row).column(3).expect("a column"));
    });
    time("read a numeric", rounds, || {
        black_box(black_box(&row).column(4).expect("a column"));
    });
    time("abalance + $1", rounds, || {
        black_box(black_box(&sum).eval(&cx, &row).expect("a sum"));
    });
    time("aid = $2", rounds, || {
        black_box(black_box(&equal).is_true(&cx, &row).expect("a truth"));
    });
    time("encode a row of 5 columns", rounds, || {
        black_box(layout.encode(black_box(&values)).expect("a row"));
    });
    let mut out = Vec::with_capacity(32);
    time("append an integer to a key", rounds, || {
        out.clear();
        key::append(black_box(&mut out), black_box(&values[0]));
    });
    time("append a text of 40 bytes to a key", rounds, || {
        out.clear();
        key::append(black_box(&mut out), black_box(&values[3]));
    });
}
