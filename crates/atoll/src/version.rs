//! Which program this is: `-V` in a line, `--version` with all that tells two builds apart.

use driver::{COMMIT, PROFILE, TARGET, VERSION};

/// What this build was made with beyond the standard library.
const FEATURES: &str = "mimalloc";

/// After the program's name.
pub fn short() -> String {
    format!("{VERSION} ({COMMIT})")
}

pub fn long() -> String {
    let checks = if cfg!(debug_assertions) { "on: this build is slower than a release" } else { "off" };
    let about = [
        ("commit", COMMIT),
        ("profile", PROFILE),
        ("target", TARGET),
        ("assertions", checks),
        ("features", FEATURES),
    ];
    let lines = about.map(|(name, value)| format!("\n{name:<10}  {value}"));
    format!("{VERSION}{}", lines.concat())
}
