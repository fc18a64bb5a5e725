//! Physical tables of dropped and truncated tables, emptied in the background.
//!
//! The catalog remembers them, so no table gets one before it is empty, and a server that starts
//! goes on where an earlier one has ended.

use crate::engine::{Conversation, Engine, RunError, done, outcomes};
use crate::shared::{Shared, stopped};
use sql::catalog::{Catalog, Store};
use sql::database::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Rows that one transaction removes: it holds up others for some milliseconds.
const ROWS_AT_ONCE: u64 = 500;
/// While clients run statements, each transaction is followed by a pause of this many times its
/// length: nothing waits for a table to be empty, and statements do.
const PAUSES: u32 = 3;
/// Without a pause if fewer physical tables than this are free: the next tables need them.
const FEW: usize = 32;
/// After an error, which may pass.
const PAUSE: Duration = Duration::from_millis(200);

/// Empties all tables that are to be emptied. Several calls at a time take turns; a turn ends with
/// its pause.
pub async fn empty<E: Engine>(shared: Arc<Shared<E>>) {
    let stops = stopped(shared.stopping.clone());
    tokio::pin!(stops);
    loop {
        let step = async {
            let _turn = shared.emptying.lock().await;
            let alone = shared.defining.lock().await;
            let (begun, statements) = (Instant::now(), shared.counters.statements.load(Ordering::Relaxed));
            let catalog = shared.catalog();
            let Some(store) = catalog.emptying.first().copied() else { return true };
            if let Err(error) = some_rows(&shared, &catalog, store).await {
                tracing::debug!(store = store.0, "a dropped table is not emptied yet: {error}");
                tokio::time::sleep(PAUSE).await;
            }
            drop(alone);
            let is_busy = shared.counters.statements.load(Ordering::Relaxed) != statements;
            let free = usize::from(shared.stores).saturating_sub(catalog.stores().len());
            if let Some(pause) = pause(begun.elapsed(), is_busy, free) {
                tokio::time::sleep(pause).await;
            }
            false
        };
        tokio::select! {
            is_done = step => if is_done { return },
            () = &mut stops => return,
        }
    }
}

/// The pause after a transaction that took some time, if there is one.
fn pause(took: Duration, is_busy: bool, free: usize) -> Option<Duration> {
    (is_busy && free >= FEW).then(|| took * PAUSES)
}

/// Removes rows; with the last of them the table is free.
async fn some_rows<E: Engine>(
    shared: &Shared<E>,
    catalog: &Arc<Catalog>,
    store: Store,
) -> Result<(), RunError> {
    let mut conversation = shared.engine.begin();
    let purge = Command::Purge { store, most: ROWS_AT_ONCE };
    let purged: u64 = outcomes(conversation.command(purge).await?)?.iter().map(|outcome| outcome.count).sum();
    if purged >= ROWS_AT_ONCE {
        return conversation.commit().await;
    }
    let mut after = Catalog::clone(catalog);
    after.emptying.remove(&store);
    after.version += 1;
    let define = Command::Define { from: catalog.version, catalog: Box::new(after.clone()) };
    done(conversation.command(define).await?)?;
    conversation.commit().await?;
    shared.publish(Arc::new(after));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_come_first_unless_tables_run_short() {
        let took = Duration::from_millis(2);
        assert_eq!(pause(took, true, FEW), Some(Duration::from_millis(6)));
        assert_eq!(pause(took, true, FEW - 1), None);
        assert_eq!(pause(took, false, FEW), None);
    }
}
