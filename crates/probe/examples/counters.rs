//! Prints the tables of docs/measuring.md: everything that is timed and counted.

fn main() {
    print!("{}", probe::table::markdown());
}
