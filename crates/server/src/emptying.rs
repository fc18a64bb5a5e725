//! Physical tables of dropped and truncated tables, emptied in the background.
//!
//! The catalog remembers them, so no table gets one before it is empty, and a server that starts
//! goes on where an earlier one has ended.

use crate::engine::{Conversation, Engine, RunError, done, outcomes};
use crate::shared::{Shared, stopped};
use sql::catalog::{Catalog, Store};
use sql::database::Command;
use std::sync::Arc;
use std::time::Duration;

/// Rows that one transaction removes: it holds up others for some milliseconds.
const ROWS_AT_ONCE: u64 = 500;
/// After an error, which may pass.
const PAUSE: Duration = Duration::from_millis(200);

/// Empties all tables that are to be emptied. Several calls at a time take turns.
pub async fn empty<E: Engine>(shared: Arc<Shared<E>>) {
    let stops = stopped(shared.stopping.clone());
    tokio::pin!(stops);
    loop {
        let step = async {
            let _alone = shared.defining.lock().await;
            let catalog = shared.catalog();
            let Some(store) = catalog.emptying.first().copied() else { return true };
            if let Err(error) = some_rows(&shared, &catalog, store).await {
                tracing::debug!(store = store.0, "a dropped table is not emptied yet: {error}");
                tokio::time::sleep(PAUSE).await;
            }
            false
        };
        tokio::select! {
            is_done = step => if is_done { return },
            () = &mut stops => return,
        }
    }
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
