//! The instances of one deployment on this machine.

use crate::protocol::InstanceStatus;
use base::InstanceId;
use deploy::{Keeper, Scratch};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// See the head of this file.
pub(crate) struct Deployed {
    pub database: Option<String>,
    /// Where the instances' directories are.
    pub data: PathBuf,
    /// Links within the machine.
    pub sockets: Scratch,
    pub keepers: BTreeMap<InstanceId, Arc<Keeper>>,
}

impl Deployed {
    pub fn is_alive(&self) -> bool {
        self.keepers.values().any(|keeper| !keeper.is_over())
    }

    fn live(&self) -> impl Iterator<Item = &Arc<Keeper>> {
        self.keepers.values().filter(|keeper| !keeper.is_over())
    }

    pub fn instances(&self) -> Vec<InstanceStatus> {
        let state = |keeper: &Arc<Keeper>| {
            let kept = keeper.state();
            InstanceStatus { instance: kept.instance, pid: kept.pid, restarts: kept.restarts }
        };
        self.live().map(state).collect()
    }

    /// The islands of a kept database, with the entries of their logs that a quorum has; without
    /// those of which nothing is known.
    pub fn counted(&self) -> Vec<(String, InstanceId, u64)> {
        let Some(database) = &self.database else { return Vec::new() };
        let of = |keeper: &Arc<Keeper>| (database.clone(), keeper.state().instance, keeper.counted());
        self.live().map(of).filter(|(.., counted)| *counted > 0).collect()
    }

    /// Ends its instances, and removes the data of a temporary one.
    pub fn end(self) {
        let Deployed { database, data, keepers, .. } = self;
        keepers.values().for_each(|keeper| keeper.end());
        while keepers.values().any(|keeper| !keeper.is_over()) {
            std::thread::sleep(Duration::from_millis(5));
        }
        if database.is_none() {
            let _ = fs::remove_dir_all(data); // the next agent tries again
        }
    }
}
