//! The library as a program uses it: under every design, over several islands.

mod bad_input;
mod basics;
mod procedures;

use atoll::{Database, Design, Options};

/// Every design, with a number of islands that it can have on any machine.
const DESIGNS: [(Design, u16); 6] = [
    (Design::Conventional, 2),
    (Design::Logical, 1),
    (Design::PlpRegular, 2),
    (Design::PlpLeaf, 1),
    (Design::Serial, 2),
    (Design::Occ, 2),
];

fn in_memory(design: Design, islands: u16) -> Database {
    Options::new().design(design).islands(islands).workers(2).open_in_memory().unwrap()
}
