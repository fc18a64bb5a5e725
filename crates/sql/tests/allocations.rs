//! What a point read or update does with numbers must not allocate.

use sql::expression::BinaryOp;
use sql::row::Layout;
use sql::{Columns, Context, Datum, Expr, SqlType, key};
use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: all is passed on to the system's allocator; the counter neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(memory) }
    }

    unsafe fn dealloc(&self, place: *mut u8, memory: Memory) {
        // SAFETY: the caller keeps the contract of `dealloc`, and `alloc` gave `place`.
        unsafe { System.dealloc(place, memory) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn counted(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn numbers_are_read_computed_and_compared_without_allocation() {
    let layout = Layout::new([SqlType::Int4, SqlType::Int8, SqlType::Text].map(|ty| (ty, Datum::Null)));
    let bytes = layout.encode(&[Datum::Int(1), Datum::Int(2), Datum::Text("x".into())]).unwrap();
    let params = [Datum::Int(5)];
    let cx = Context { params: &params, now: 0, zone: &sql::datetime::zone::Zone::UTC, random: &|| 0 };
    let binary = |op, ty| {
        let (left, right) = (Box::new(Expr::Column(1)), Box::new(Expr::Param(0)));
        Expr::Binary { op, left, right, ty }
    };
    let sum = binary(BinaryOp::Add, SqlType::Int8);
    let less = binary(BinaryOp::Less, SqlType::Bool);
    let row = layout.read(&bytes).unwrap();
    let mut out = Vec::with_capacity(16);
    let count = counted(|| {
        assert_eq!(row.column(0).unwrap(), Datum::Int(1));
        assert_eq!(sum.eval(&cx, &row).unwrap(), Datum::Int(7));
        assert!(less.is_true(&cx, &row).unwrap());
        key::append(&mut out, &Datum::Int(4711));
    });
    assert_eq!(count, 0);
    assert_eq!(counted(|| drop(row.column(2).unwrap())), 1, "a text is owned");
}
