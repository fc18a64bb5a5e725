//! Prints the tables of results/counters.md: everything that is timed and counted.

fn main() {
    print!("{}", probe::table::markdown());
}
