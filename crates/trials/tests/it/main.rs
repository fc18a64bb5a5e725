//! The trials, small.

mod anomalies;
mod crash;
mod faults;
mod flips;
mod found;
mod full;
mod histories;
mod islands;

/// Bugs are planted in the whole process: tests that plant some run one after the other.
#[cfg(feature = "planted")]
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
