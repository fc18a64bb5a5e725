//! The identity of this program: `-V` prints one line, `--version` all that distinguishes two
//! builds.

use driver::VERSION;

/// The folder of the build's results: `debug`, `release`, `quick`.
const PROFILE: &str = env!("ATOLL_PROFILE");
/// The target triple of the build.
const TARGET: &str = env!("ATOLL_TARGET");
/// The commit of this build, with `-dirty` if the sources had changes; "unknown" outside a
/// repository.
pub const COMMIT: &str = env!("ATOLL_COMMIT");

/// Libraries of this build beyond the standard one.
const FEATURES: &str = "mimalloc";

/// The text after the program's name.
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
