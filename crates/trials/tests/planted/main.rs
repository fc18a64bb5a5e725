//! The judges of histories against an engine with bugs: each planted bug must be found.
//! `cargo test -p trials --features planted --test planted` builds and runs them; the other tests
//! of the workspace run the engine without bugs.

#[path = "../shared/plans.rs"]
mod plans;

mod brokerage;
mod histories;
mod islands;

/// Bugs are planted in the whole process: tests that plant some run one after the other.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
